//! A whole server in this process: files in, verdicts out, changes followed.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use polity_admission::{ClusterChoice, StandaloneError, StandaloneOptions};
use polity_runtime::Shutdown;
use polity_runtime::args::ClientArgs;

use crate::browser::Browser;
use crate::support::{METADATA, answering, server_options, write_guest};

fn options(folder: &Path) -> StandaloneOptions {
    StandaloneOptions {
        server: server_options(folder.join("store")),
        policies: folder.join("policies.yml"),
        cluster: ClusterChoice {
            client: ClientArgs {
                kubeconfig: Some(folder.join("none")),
                ..ClientArgs::default()
            },
            may_be_missing: false,
        },
        continue_on_errors: false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_changed_file_is_served_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let yes = write_guest(
        folder.path(),
        "yes.wasm",
        METADATA,
        &answering(r#"{"accepted":true}"#),
    );
    let no = write_guest(
        folder.path(),
        "no.wasm",
        METADATA,
        &answering(r#"{"accepted":false}"#),
    );
    let file = folder.path().join("policies.yml");
    let write = |text: String| fs::write(&file, text).unwrap();
    write(format!("p: {{module: '{yes}'}}"));

    let server = options(folder.path()).start().await.unwrap();
    let (address, admin) = (server.address(), server.readiness_address());
    let shutdown = Shutdown::new();
    let running = tokio::spawn(server.run_until(shutdown.clone()));
    let browser = Browser::new();
    assert_eq!(browser.allowed(address, "p").await, (200, Some(true)));
    assert_eq!(
        browser.send(admin, "/readiness", "").await,
        (200, String::new())
    );
    assert_eq!(browser.send(admin, "/ready", "").await.0, 200);

    write(format!("p: {{module: '{no}'}}\nq: {{module: '{yes}'}}"));
    browser.until(address, "q", (200, Some(true))).await;
    assert_eq!(browser.allowed(address, "p").await, (200, Some(false)));

    // Not YAML, a module that is not there, then a good one again.
    write("{{".to_owned());
    until_metric(
        &browser,
        admin,
        "polity_policy_reloads_total{outcome=\"refused\"} 1",
    )
    .await;
    write("p: {module: 'file:///no/such.wasm'}".to_owned());
    until_metric(
        &browser,
        admin,
        "polity_policy_reloads_total{outcome=\"refused\"} 2",
    )
    .await;
    assert_eq!(browser.allowed(address, "q").await, (200, Some(true)));
    write(format!("p: {{module: '{yes}'}}"));
    browser.until(address, "q", (404, None)).await;
    assert_eq!(browser.allowed(address, "p").await, (200, Some(true)));

    shutdown.trigger();
    running.await.unwrap().unwrap();
}

async fn until_metric(browser: &Browser, admin: SocketAddr, line: &str) {
    let seen = async {
        loop {
            let (_, text) = browser.send(admin, "/metrics", "").await;
            if text.lines().any(|found| found == line) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), seen)
        .await
        .unwrap_or_else(|_| panic!("{line} never came"));
}

#[tokio::test]
async fn a_failed_start_reports_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let start = async |text: &str| {
        fs::write(folder.path().join("policies.yml"), text).unwrap();
        let error = options(folder.path()).start().await.unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        (error, cause.unwrap_or_default())
    };
    let (_, cause) = start("a: {module: 'file:///no/a.wasm'}\nb: {module: 'ftp://b'}").await;
    assert!(
        cause.starts_with("2 policies are not ready: a: Error while downloading policy 'a' from file:///no/a.wasm: ")
            && cause.contains("; b: Error while downloading policy 'b' from ftp://b: "),
        "{cause}"
    );
    let (_, cause) = start("a: {settings: {}}").await;
    assert!(cause.starts_with("policy a: needs either"), "{cause}");
    let (error, _) = start(
        "a: {module: 'file:///no/a.wasm', contextAwareResources: [{apiVersion: v1, kind: Pod}]}",
    )
    .await;
    assert!(matches!(error, StandaloneError::NoCluster(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_continue_on_errors_the_rest_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let yes = write_guest(
        folder.path(),
        "yes.wasm",
        METADATA,
        &answering(r#"{"accepted":true}"#),
    );
    let text = format!("p: {{module: '{yes}'}}\nbroken: {{module: 'file:///no/such.wasm'}}");
    fs::write(folder.path().join("policies.yml"), text).unwrap();
    let options = StandaloneOptions {
        continue_on_errors: true,
        ..options(folder.path())
    };
    let server = options.start().await.unwrap();
    let (address, admin) = (server.address(), server.readiness_address());
    let browser = Browser::new();
    assert_eq!(browser.allowed(address, "p").await, (200, Some(true)));
    assert_eq!(browser.allowed(address, "broken").await, (200, Some(false)));
    let (_, metrics) = browser.send(admin, "/metrics", "").await;
    for part in [
        r#"policy_name="broken""#,
        "initialization_error=\"Error while downloading policy 'broken' from file:///no/such.wasm: ",
        "polity_loaded_policies{state=\"failed\"} 1",
        "polity_module_cache_total{result=\"not_there\"} 1",
    ] {
        assert!(metrics.contains(part), "{part}\nis not in\n{metrics}");
    }
    let shutdown = Shutdown::new();
    shutdown.trigger();
    server.run_until(shutdown).await.unwrap();
}
