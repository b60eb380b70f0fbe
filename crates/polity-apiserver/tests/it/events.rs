//! Events: two kinds on one store, and an hour to live (docs/spec/apiserver.md#19).

use std::time::Duration;

use polity_testing::{Clock, TestServer, eventually};
use serde_json::json;

use super::*;

const CORE: &str = "/api/v1/namespaces/default/events";
const NEWER: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn core(name: &str) -> Value {
    json!({
        "metadata": {"name": name}, "reason": "Tested", "message": "it was tested", "type": "Normal", "count": 1,
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "m", "apiVersion": "v1"},
        "source": {"component": "it"}, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
    })
}

#[tokio::test]
async fn written_through_one_read_through_both() {
    let (_server, http) = start().await;
    let stored = create(&http, CORE, &core("e")).await;
    let newer = http.get(&one(NEWER, "e")).await.expect(200);
    assert_eq!(
        (&newer["apiVersion"], &newer["note"], &newer["regarding"]),
        (
            &json!("events.k8s.io/v1"),
            &stored["message"],
            &stored["involvedObject"]
        )
    );
    assert_eq!(
        (&newer["deprecatedSource"], &newer["deprecatedCount"]),
        (&stored["source"], &stored["count"])
    );
    assert_eq!(
        (&newer["metadata"]["uid"], version(&newer)),
        (&stored["metadata"]["uid"], version(&stored))
    );
    assert!(newer["message"].is_null() && newer["involvedObject"].is_null());
    let list = http
        .get(&format!(
            "{CORE}?fieldSelector=involvedObject.name%3Dm,involvedObject.kind%3DConfigMap&limit=500"
        ))
        .await
        .expect(200);
    assert_eq!(names(&list), ["e"]);
    let list = http
        .get(&format!("{NEWER}?fieldSelector=regarding.name%3Dother"))
        .await
        .expect(200);
    assert!(names(&list).is_empty());
}

#[tokio::test]
async fn events_live_where_their_object_does() {
    let (_server, http) = start().await;
    create(&http, NAMESPACES, &named("other")).await;
    let answer = http
        .post("/api/v1/namespaces/other/events", &core("e"))
        .await;
    assert_eq!(answer.refusal(), (422, "Invalid"));
    let newer = json!({"metadata": {"name": "n"}, "regarding": {"kind": "ConfigMap", "namespace": "default", "name": "m"}, "reason": "Tested", "type": "Normal", "action": "Test", "reportingController": "it", "reportingInstance": "it-0", "eventTime": "2026-01-01T00:00:00.000000Z"});
    for key in [
        "eventTime",
        "reason",
        "type",
        "action",
        "reportingController",
        "reportingInstance",
    ] {
        let mut part = newer.clone();
        part.as_object_mut().unwrap().remove(key);
        assert_eq!(
            http.post(NEWER, &part).await.refusal(),
            (422, "Invalid"),
            "{key}"
        );
    }
    create(&http, NEWER, &newer).await;
    // How kube-rs repeats an event.
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}});
    assert_eq!(
        http.merge(&one(NEWER, "n"), &series).await.expect(200)["series"]["count"],
        2
    );
}

#[tokio::test]
async fn events_vanish_an_hour_after_their_last_write() {
    let clock = Clock::manual(Clock::system().now());
    let server = TestServer::builder().clock(clock.clone()).start().await;
    let http = server.http().await;
    let undated = |name: &str| {
        let mut event = core(name);
        event.as_object_mut().unwrap().remove("lastTimestamp");
        event
    };
    create(&http, CORE, &undated("old")).await;
    create(&http, CORE, &undated("rewritten")).await;
    let left = || async { names(&http.get(CORE).await.expect(200)).join(" ") };
    // The collector looks every half minute; it must see the events before the time is moved on.
    clock.wait_for_sleepers(1).await;
    for _ in 0..2 {
        clock.advance(Duration::from_mins(20));
        clock.wait_for_sleepers(1).await;
    }
    http.merge(&one(CORE, "rewritten"), &json!({"count": 2}))
        .await
        .expect(200);
    create(&http, CORE, &undated("young")).await;
    clock.advance(Duration::from_mins(21));
    eventually("the old event is gone", || async {
        left().await == "rewritten young"
    })
    .await;
    clock.advance(Duration::from_mins(61));
    eventually("all are gone", || async { left().await.is_empty() }).await;
}
