//! What a writer sends, and what it makes of the answers.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::Body;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};

use super::*;

/// A server with prepared answers that writes down what it is sent.
#[derive(Clone, Default)]
struct Server {
    answers: Arc<Mutex<VecDeque<(u16, Value)>>>,
    sent: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Server {
    fn answering(answers: impl IntoIterator<Item = (u16, Value)>) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            ..Self::default()
        }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let line = format!("{} {}", request.method(), request.uri());
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                server.sent.lock().unwrap().push((line, body));
                let (code, answer) = server
                    .answers
                    .lock()
                    .unwrap()
                    .pop_front()
                    .expect("an answer is prepared");
                let response = Response::builder()
                    .status(code)
                    .body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        Client::new(service, "default")
    }

    fn writer(&self) -> Writer<ConfigMap> {
        Writer::new(Api::default_namespaced(self.client()), (), "polity/test")
    }

    /// The lines and bodies that were sent.
    fn sent(&self) -> Vec<(String, Value)> {
        self.sent.lock().unwrap().clone()
    }
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason,
    });
    (code, body)
}

fn config_map() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "1" },
        "metadata": { "name": "one", "uid": "u1", "resourceVersion": "7", "managedFields": [] },
    })
}

fn object() -> ConfigMap {
    serde_json::from_value(config_map()).unwrap()
}

#[tokio::test]
async fn apply_is_forced_and_names_its_manager() {
    let server = Server::answering([(200, config_map())]);
    server.writer().apply(&object()).await.unwrap();
    let [(line, body)] = &server.sent()[..] else {
        panic!("one request")
    };
    assert!(
        line.starts_with("PATCH /api/v1/namespaces/default/configmaps/one?"),
        "{line}"
    );
    assert!(
        line.contains("force=true") && line.contains("fieldManager=polity%2Ftest"),
        "{line}"
    );
    assert_eq!(
        *body,
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "1" }, "metadata": { "name": "one", "uid": "u1" } })
    );
}

#[tokio::test]
async fn updates_carry_the_version_they_replace() {
    let server = Server::answering([
        (200, config_map()),
        status(409, "Conflict"),
        status(404, "NotFound"),
    ]);
    let writer = server.writer();
    writer.update(&object()).await.unwrap();
    let (line, body) = &server.sent()[0];
    assert!(
        line.starts_with("PUT ") && line.contains("fieldManager=polity%2Ftest"),
        "{line}"
    );
    assert_eq!(body["metadata"]["resourceVersion"], "7");

    assert!(
        matches!(writer.update(&object()).await, Err(WriteError::Conflict { name }) if name == "one")
    );
    assert!(matches!(
        writer.update(&object()).await,
        Err(WriteError::NotFound { .. })
    ));
    let mut unversioned = object();
    unversioned.metadata.resource_version = None;
    assert!(matches!(
        writer.update(&unversioned).await,
        Err(WriteError::NoResourceVersion { .. })
    ));
    assert!(matches!(
        writer.update(&ConfigMap::default()).await,
        Err(WriteError::NoName)
    ));
    assert_eq!(server.sent().len(), 3, "the last two were never sent");
}

#[tokio::test]
async fn a_status_is_written_only_on_change() {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("polity.dev", "v1", "Thing"));
    let mut thing = DynamicObject::new("one", &kind);
    thing.data = json!({ "spec": { "x": 1 }, "status": { "observedGeneration": 1 } });
    let answer = serde_json::to_value(&thing).unwrap();
    let server = Server::answering([(200, answer)]);
    let api = Api::default_namespaced_with(server.client(), &kind);
    let writer = Writer::new(api, kind, "polity/test");

    let same = writer
        .apply_status(&thing, &json!({ "observedGeneration": 1 }))
        .await
        .unwrap();
    assert!(matches!(same, StatusWrite::Unchanged));
    let other = writer
        .apply_status(&thing, &json!({ "observedGeneration": 2 }))
        .await
        .unwrap();
    assert!(matches!(other, StatusWrite::Written(_)));
    let [(line, body)] = &server.sent()[..] else {
        panic!("one request")
    };
    assert!(
        line.starts_with("PATCH /apis/polity.dev/v1/namespaces/default/things/one/status?"),
        "{line}"
    );
    let expected = json!({
        "apiVersion": "polity.dev/v1", "kind": "Thing", "metadata": { "name": "one" },
        "status": { "observedGeneration": 2 },
    });
    assert_eq!(*body, expected);
}

#[tokio::test]
async fn deletes_are_of_the_very_object() {
    for (answer, expected) in [
        ((200, config_map()), Deletion::Deleted),
        (status(404, "NotFound"), Deletion::AlreadyGone),
        (status(409, "Conflict"), Deletion::AlreadyGone),
    ] {
        let server = Server::answering([answer]);
        assert_eq!(server.writer().delete(&object()).await.unwrap(), expected);
        let body = &server.sent()[0].1;
        assert_eq!(body["preconditions"], json!({ "uid": "u1" }));
        assert_eq!(body["propagationPolicy"], "Background");
    }
    let server = Server::answering([status(403, "Forbidden")]);
    assert!(matches!(
        server.writer().delete(&object()).await,
        Err(WriteError::Api { .. })
    ));
}

#[tokio::test]
async fn a_delete_of_the_unchanged_tells_changed_from_gone() {
    let changed = Server::answering([status(409, "Conflict"), (200, config_map())]);
    assert!(matches!(
        changed.writer().delete_unchanged(&object()).await,
        Err(WriteError::Conflict { .. })
    ));
    assert_eq!(
        changed.sent()[0].1["preconditions"],
        json!({ "uid": "u1", "resourceVersion": "7" })
    );

    let mut successor = config_map();
    successor["metadata"]["uid"] = json!("u2");
    for found in [(200, successor), status(404, "NotFound")] {
        let gone = Server::answering([status(409, "Conflict"), found]);
        assert_eq!(
            gone.writer().delete_unchanged(&object()).await.unwrap(),
            Deletion::AlreadyGone
        );
    }
}

#[tokio::test]
async fn what_is_not_kept_is_pruned() {
    let item = |name: &str, deleted: bool| {
        let mut item = json!({ "metadata": { "name": name, "uid": name } });
        if deleted {
            item["metadata"]["deletionTimestamp"] = json!("2026-11-15T12:00:00Z");
        }
        item
    };
    let list = json!({
        "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {},
        "items": [item("keep", false), item("old", false), item("going", true), item("gone", false)],
    });
    let server = Server::answering([(200, list), (200, config_map()), status(404, "NotFound")]);
    let keep = BTreeSet::from(["keep".to_owned()]);
    let selector = format!("{MANAGED_BY}=polity");
    assert_eq!(
        server.writer().prune(&selector, &keep).await.unwrap(),
        ["old"]
    );
    let lines: Vec<String> = server.sent().into_iter().map(|(line, _)| line).collect();
    assert!(
        lines[0].contains("labelSelector=app.kubernetes.io%2Fmanaged-by%3Dpolity"),
        "{}",
        lines[0]
    );
    assert_eq!(lines.len(), 3);
}

#[tokio::test]
async fn conflicts_are_tried_again_a_few_times() {
    let conflict = || {
        Err(WriteError::Conflict {
            name: "one".to_owned(),
        })
    };
    let clock = Clock::system();
    for (n_conflicts, expected, expected_attempts) in [(0, true, 1), (4, true, 5), (5, false, 5)] {
        let mut n_attempts = 0;
        let outcome = retry_on_conflict(&clock, || {
            n_attempts += 1;
            let outcome = if n_attempts > n_conflicts {
                Ok(())
            } else {
                conflict()
            };
            async { outcome }
        });
        assert_eq!(outcome.await.is_ok(), expected);
        assert_eq!(n_attempts, expected_attempts);
    }
    let mut n_attempts = 0;
    let outcome = retry_on_conflict(&clock, || {
        n_attempts += 1;
        async { Err::<(), _>(WriteError::NoName) }
    });
    assert!(outcome.await.is_err());
    assert_eq!(n_attempts, 1, "other errors are not");
}
