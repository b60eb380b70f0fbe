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
        Writer::new(&self.client(), "polity/test")
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
        "metadata": {
            "name": "one", "namespace": "default", "uid": "u1", "resourceVersion": "7", "managedFields": [],
        },
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
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "1" },
            "metadata": { "name": "one", "namespace": "default", "uid": "u1" },
        })
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
        matches!(writer.update(&object()).await, Err(WriteError::Conflict { object }) if object == "ConfigMap default/one")
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
        Err(WriteError::NoName { .. })
    ));
    assert_eq!(server.sent().len(), 3, "the last two were never sent");
}

#[tokio::test]
async fn a_status_is_written_only_on_change() {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("polity.dev", "v1", "Thing"));
    let mut thing = DynamicObject::new("one", &kind).within("default");
    thing.data = json!({ "spec": { "x": 1 }, "status": { "observedGeneration": 1 } });
    let answer = serde_json::to_value(&thing).unwrap();
    let server = Server::answering([(200, answer)]);
    let writer = Writer::of_kind(&server.client(), kind, "polity/test");

    let same = writer
        .apply_status(&thing, &json!({ "observedGeneration": 1 }))
        .await
        .unwrap();
    assert!(matches!(same, WriteOutcome::Unchanged));
    let other = writer
        .apply_status(&thing, &json!({ "observedGeneration": 2 }))
        .await
        .unwrap();
    assert!(matches!(other, WriteOutcome::Written(_)));
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
async fn a_delete_is_for_one_uid() {
    for (answer, expected) in [
        ((200, config_map()), Deletion::Deleted),
        (status(404, "NotFound"), Deletion::AlreadyGone),
        (status(409, "Conflict"), Deletion::AlreadyGone),
    ] {
        let server = Server::answering([answer]);
        assert_eq!(
            server.writer().delete(&object().metadata).await.unwrap(),
            expected
        );
        let body = &server.sent()[0].1;
        assert_eq!(body["preconditions"], json!({ "uid": "u1" }));
        assert_eq!(body["propagationPolicy"], "Background");
    }
    let server = Server::answering([status(403, "Forbidden")]);
    assert!(matches!(
        server.writer().delete(&object().metadata).await,
        Err(WriteError::Refused { .. })
    ));
    let unread = ObjectMeta {
        uid: None,
        ..object().metadata
    };
    assert!(matches!(
        server.writer().delete(&unread).await,
        Err(WriteError::NoUid { .. })
    ));
}

#[tokio::test]
async fn a_delete_of_an_unchanged_object_distinguishes_changed_from_gone() {
    let changed = Server::answering([status(409, "Conflict"), (200, config_map())]);
    assert!(matches!(
        changed.writer().delete_unchanged(&object().metadata).await,
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
            gone.writer()
                .delete_unchanged(&object().metadata)
                .await
                .unwrap(),
            Deletion::AlreadyGone
        );
    }
}

#[tokio::test]
async fn objects_that_are_not_planned_are_pruned() {
    let item = |name: &str, deleted: bool| {
        let mut item = json!({ "metadata": { "name": name, "namespace": "default", "uid": name } });
        if deleted {
            item["metadata"]["deletionTimestamp"] = json!("2026-11-15T12:00:00Z");
        }
        item
    };
    let list = json!({
        "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {},
        "items": [item("planned", false), item("old", false), item("going", true), item("gone", false)],
    });
    let server = Server::answering([(200, list), (200, config_map()), status(404, "NotFound")]);
    let planned = BTreeSet::from([ObjectKey::namespaced("default", "planned")]);
    let selector = "app.kubernetes.io/managed-by=polity";
    let pruned = server.writer().prune(selector, &planned).await.unwrap();
    assert_eq!(pruned, [ObjectKey::namespaced("default", "old")]);
    let lines: Vec<String> = server.sent().into_iter().map(|(line, _)| line).collect();
    assert!(
        lines[0].contains("labelSelector=app.kubernetes.io%2Fmanaged-by%3Dpolity"),
        "{}",
        lines[0]
    );
    assert_eq!(lines.len(), 3);
}

fn thing(version: &str, uid: &str, n: u64) -> Value {
    json!({
        "apiVersion": "polity.dev/v1", "kind": "Thing",
        "metadata": { "name": "one", "uid": uid, "resourceVersion": version }, "status": { "n": n },
    })
}

/// Counts up to six.
async fn increase(server: &Server, seen: Value) -> Result<WriteOutcome<DynamicObject>, WriteError> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("polity.dev", "v1", "Thing"));
    let writer = Writer::of_kind(&server.client(), kind, "polity/test");
    let increased = |thing: &DynamicObject| {
        let n = thing.data["status"]["n"].as_u64().unwrap();
        (n < 6).then(|| json!({ "n": n + 1 }))
    };
    let seen: DynamicObject = serde_json::from_value(seen).unwrap();
    writer
        .change_status(&Clock::system(), &seen, increased)
        .await
}

#[tokio::test]
async fn a_shared_status_is_read_and_changed_again_after_a_conflict() {
    let server = Server::answering([
        status(409, "Conflict"),
        (200, thing("2", "u1", 5)),
        (200, thing("3", "u1", 6)),
    ]);
    let written = increase(&server, thing("1", "u1", 1)).await.unwrap();
    assert!(matches!(written, WriteOutcome::Written(_)));
    let sent = server.sent();
    assert_eq!(sent.len(), 3, "the object that was seen is tried first");
    assert_eq!(sent[0].1["status"], json!({ "n": 2 }));
    let (line, body) = &sent[2];
    assert!(
        line.starts_with("PUT ") && line.contains("/things/one/status"),
        "{line}"
    );
    assert_eq!(body["status"], json!({ "n": 6 }));
    assert_eq!(body["metadata"]["resourceVersion"], "2");

    let again = increase(&server, thing("3", "u1", 6)).await.unwrap();
    assert_eq!(again, WriteOutcome::Unchanged);
    assert_eq!(server.sent().len(), 3);
}

#[tokio::test]
async fn the_status_of_another_object_of_the_same_name_is_not_changed() {
    for found in [(200, thing("9", "u2", 1)), status(404, "NotFound")] {
        let server = Server::answering([status(409, "Conflict"), found]);
        let gone = increase(&server, thing("1", "u1", 1)).await;
        assert!(matches!(gone, Err(WriteError::NotFound { .. })), "{gone:?}");
    }
}

#[tokio::test]
async fn a_status_is_tried_a_few_times() {
    let conflicts =
        (0..STATUS_ATTEMPTS).flat_map(|_| [status(409, "Conflict"), (200, thing("2", "u1", 5))]);
    let server = Server::answering(conflicts);
    let failed = increase(&server, thing("1", "u1", 1)).await;
    assert!(
        matches!(failed, Err(WriteError::Conflict { .. })),
        "{failed:?}"
    );
    assert_eq!(server.sent().len(), 2 * STATUS_ATTEMPTS - 1);

    let server = Server::answering([status(500, "InternalError")]);
    let failed = increase(&server, thing("1", "u1", 1)).await;
    assert!(
        matches!(failed, Err(WriteError::Api { .. })),
        "other failures are not retried"
    );
}

#[tokio::test]
async fn metadata_is_patched_in_the_version_that_was_read() {
    let server = Server::answering([(200, config_map()), status(409, "Conflict")]);
    let (writer, read) = (server.writer(), object().metadata);
    let changes = json!({ "annotations": { "a": "b" } });
    let patched = writer.patch_metadata(&read, changes.clone()).await.unwrap();
    assert_eq!(patched.uid, read.uid);
    let (line, body) = &server.sent()[0];
    assert!(line.starts_with("PATCH "), "{line}");
    let expected = json!({ "metadata": { "annotations": { "a": "b" }, "resourceVersion": "7" } });
    assert_eq!(*body, expected);
    let conflict = writer.patch_metadata(&read, changes).await;
    assert!(matches!(conflict, Err(WriteError::Conflict { .. })));
}

#[tokio::test]
async fn an_apply_without_force_names_the_fields_of_others() {
    let (code, mut answer) = status(409, "Conflict");
    answer["details"] = json!({ "causes": [
        { "reason": "FieldManagerConflict", "field": ".data.a", "message": "conflict with \"other\"" },
    ]});
    let server = Server::answering([(code, answer)]);
    let conflict = server.writer().apply_without_force(&object()).await;
    let Err(WriteError::FieldConflicts { conflicts, .. }) = conflict else {
        panic!("{conflict:?}")
    };
    let expected = FieldConflict {
        field: ".data.a".to_owned(),
        message: "conflict with \"other\"".to_owned(),
    };
    assert_eq!(conflicts, [expected]);
    assert!(!server.sent()[0].0.contains("force=true"));
}

#[tokio::test]
async fn an_object_is_applied_only_when_something_wanted_differs() {
    let server = Server::answering([(200, config_map()), (200, config_map())]);
    let (writer, wanted) = (server.writer(), object());
    let first = writer.apply_if_changed(None, &wanted).await.unwrap();
    assert!(matches!(first, WriteOutcome::Written(_)));
    let (_, body) = server.sent().remove(0);
    let mut stored: ConfigMap = serde_json::from_value(body).unwrap();
    stored.metadata.resource_version = wanted.metadata.resource_version.clone();
    stored
        .data
        .as_mut()
        .unwrap()
        .insert("of-others".into(), "2".into());
    let same = writer.apply_if_changed(Some(&stored), &wanted).await;
    assert_eq!(same.unwrap(), WriteOutcome::Unchanged);
    let mut less = wanted.clone();
    less.data = None;
    let less = writer.apply_if_changed(Some(&stored), &less).await;
    assert!(
        matches!(less.unwrap(), WriteOutcome::Written(_)),
        "a field is no longer wanted"
    );
    assert_eq!(server.sent().len(), 2);
}

#[tokio::test]
async fn errors_have_a_variant_for_each_kind_of_answer() {
    let server = Server::answering([
        status(422, "Invalid"),
        status(500, "InternalError"),
        status(409, "AlreadyExists"),
    ]);
    let writer = server.writer();
    let refused = writer.create(&object()).await;
    assert!(matches!(&refused, Err(WriteError::Refused { message, .. }) if message == "Invalid"));
    let failed = writer.create(&object()).await;
    assert!(matches!(failed, Err(WriteError::Api { .. })));
    let exists = writer.create(&object()).await;
    assert!(matches!(exists, Err(WriteError::AlreadyExists { .. })));
}
