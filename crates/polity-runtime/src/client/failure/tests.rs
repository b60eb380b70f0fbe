//! The description of failed requests, from errors of the client and from servers that fail.

use std::net::TcpListener;
use std::path::PathBuf;

use kube::core::response::StatusDetails;

use super::*;
use crate::args::ClientArgs;
use crate::client::connect_command;

fn status(code: u16, message: &str, name: &str) -> Status {
    let details = StatusDetails {
        name: name.to_owned(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    };
    Status::failure(message, "")
        .with_code(code)
        .with_details(details)
}

#[test]
fn a_refusal_is_one_line_with_a_hint() {
    for (code, message, name, expected, hint) in [
        (
            403,
            "pods is forbidden: User \"dev\" cannot list resource \"pods\"",
            "",
            "the server refused the request: pods is forbidden: User \"dev\" cannot list resource \"pods\"",
            Some("--as"),
        ),
        (
            401,
            "Unauthorized",
            "",
            "the server does not accept the credentials: Unauthorized",
            Some("kubeconfig"),
        ),
        (
            404,
            "policyservers \"x\" not found",
            "x",
            "the server does not have it: policyservers \"x\" not found",
            Some("namespace"),
        ),
        (
            404,
            "404 page not found",
            "",
            "the server does not serve it: 404 page not found",
            Some("polity install"),
        ),
        (
            409,
            "the object has been modified",
            "x",
            "the server reported a conflict: the object has been modified",
            Some("run the command again"),
        ),
        (
            504,
            "timeout",
            "",
            "the server did not answer in time: timeout",
            Some("again"),
        ),
        (
            422,
            "spec.x:\n  Required value",
            "x",
            "the server rejected the request: spec.x: Required value",
            None,
        ),
        (500, "", "", "the server failed (HTTP 500)", Some("log")),
    ] {
        let error = kube::Error::Api(Box::new(status(code, message, name)));
        let failure = describe(&error);
        assert_eq!(failure.message, expected, "{code}");
        match (failure.hint, hint) {
            (Some(given), Some(part)) => assert!(given.contains(part), "{code}: {given}"),
            (given, expected) => assert_eq!(given, expected, "{code}"),
        }
    }
}

#[test]
fn an_object_that_exists_is_not_a_lost_race() {
    for (reason, expected, hint) in [
        (
            "AlreadyExists",
            "the server has an object of this name already: x",
            "another name",
        ),
        (
            "Conflict",
            "the server reported a conflict: x",
            "run the command again",
        ),
        (
            "",
            "the server reported a conflict: x",
            "run the command again",
        ),
    ] {
        let status = Status::failure("x", reason).with_code(409);
        let failure = describe_status(&status);
        assert_eq!(failure.message, expected, "{reason}");
        assert!(
            failure.hint.is_some_and(|given| given.contains(hint)),
            "{failure:?}"
        );
    }
}

#[test]
fn control_characters_of_a_server_do_not_reach_the_terminal() {
    let status = status(400, "denied\u{1b}[2J\u{7}by\r\n\u{9b}31m us", "");
    let failure = describe(&kube::Error::Api(Box::new(status)));
    assert_eq!(
        failure.message,
        "the server rejected the request: denied [2J by 31m us"
    );
}

fn kubeconfig(folder: &tempfile::TempDir, server: &str) -> PathBuf {
    let path = folder.path().join("config");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
         clusters: [{{name: x, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: x, user: {{token: secret}}}}]\n\
         contexts: [{{name: x, context: {{cluster: x, user: x}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// The failure of a first request to `server`.
async fn failure(server: &str) -> Failure {
    let folder = tempfile::tempdir().unwrap();
    let args = ClientArgs {
        kubeconfig: Some(kubeconfig(&folder, server)),
        ..ClientArgs::default()
    };
    let connection = connect_command(&args, || None).await.unwrap();
    let asked = connection.client.apiserver_version().await;
    describe(&asked.expect_err("nothing there is an API server"))
}

#[tokio::test]
async fn a_server_that_refuses_connections_is_named() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let failure = failure(&format!("https://127.0.0.1:{port}")).await;
    assert_eq!(
        failure.message,
        format!("cannot reach the Kubernetes API at https://127.0.0.1:{port}: connection refused")
    );
    assert_eq!(failure.hint, Some(IS_IT_RUNNING));
}

/// Responds to every connection with the same bytes.
async fn server(answer: &'static [u8]) -> u16 {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut beginning = [0; 1];
            stream.read_exact(&mut beginning).await.ok();
            stream.write_all(answer).await.ok();
            stream.shutdown().await.ok();
        }
    });
    port
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_named() {
    let port = server(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let failure = failure(&format!("https://127.0.0.1:{port}")).await;
    let expected =
        format!("cannot reach the Kubernetes API at https://127.0.0.1:{port}: TLS failed:");
    assert!(
        failure.message.starts_with(&expected),
        "{}",
        failure.message
    );
}

#[tokio::test]
async fn a_refusal_names_the_server_whatever_form_it_has() {
    for (answer, expected) in [
        (
            &b"HTTP/1.1 403 Forbidden\r\ncontent-length: 69\r\n\r\n{\"kind\":\"Status\",\"code\":403,\"reason\":\"Forbidden\",\"message\":\"not you\"}"[..],
            "refused the request: not you",
        ),
        (
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 18\r\n\r\n404 page not found",
            "does not serve it: 404 page not found",
        ),
    ] {
        let port = server(answer).await;
        let failure = failure(&format!("http://127.0.0.1:{port}")).await;
        assert_eq!(
            failure.message,
            format!("the server at http://127.0.0.1:{port} {expected}")
        );
    }
}
