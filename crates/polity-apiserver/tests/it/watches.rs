//! Watches: order, completeness, selectors, bookmarks, ends (docs/spec/apiserver.md#9).

use std::time::Duration;

use polity_runtime::serve::Limits;
use polity_testing::TestServer;
use polity_testing::http::{Lines, short};
use serde_json::{Value, json};

use super::*;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

async fn newest(http: &Http) -> u64 {
    version(&http.get(SECRETS).await.expect(200))
}

async fn watch(http: &Http, query: &str) -> Lines {
    http.watch(&format!("{SECRETS}?watch=true&{query}")).await
}

async fn label(http: &Http, name: &str, value: &Value) -> Value {
    http.merge(
        &one(SECRETS, name),
        &json!({"metadata": {"labels": {"l": value}}}),
    )
    .await
    .expect(200)
}

async fn shorts<const N: usize>(lines: &mut Lines) -> [String; N] {
    let mut all = [const { String::new() }; N];
    for line in &mut all {
        *line = lines.short().await;
    }
    all
}

#[tokio::test]
async fn every_later_change_once_and_in_order() {
    let (_server, http) = start().await;
    let from = newest(&http).await;
    let mut live = watch(&http, &format!("resourceVersion={from}")).await;
    create(&http, SECRETS, &named("a")).await;
    create(&http, MAPS, &named("not-a-secret")).await;
    let labelled = label(&http, "a", &json!("1")).await;
    http.delete(&one(SECRETS, "a")).await.expect(200);
    create(&http, SECRETS, &named("a")).await;
    let mut past = watch(&http, &format!("resourceVersion={from}")).await;
    let mut rest = watch(&http, &format!("resourceVersion={}", version(&labelled))).await;
    let expected = ["ADDED a", "MODIFIED a", "DELETED a", "ADDED a"];
    let mut seen = Vec::new();
    for _ in expected {
        let (live, past) = (live.event().await, past.event().await);
        assert_eq!(live, past);
        seen.push(live);
    }
    assert_eq!(seen.iter().map(short).collect::<Vec<_>>(), expected);
    assert!(seen.is_sorted_by_key(|event| version(&event["object"])));
    assert_eq!(seen[1]["object"], labelled);
    assert_eq!(shorts(&mut rest).await, ["DELETED a", "ADDED a"]);
}

#[tokio::test]
async fn a_version_from_the_future_is_waited_for() {
    let (_server, http) = start().await;
    let future = newest(&http).await + 2;
    let mut lines = watch(&http, &format!("resourceVersion={future}")).await;
    for name in ["a", "b", "c"] {
        create(&http, SECRETS, &named(name)).await;
    }
    let event = lines.event().await;
    assert!(version(&event["object"]) > future, "{event}");
}

#[tokio::test]
async fn without_a_version_it_begins_with_existing_objects() {
    let (_server, http) = start().await;
    create(&http, SECRETS, &named("b")).await;
    create(&http, SECRETS, &named("a")).await;
    label(&http, "b", &json!("1")).await;
    for query in [
        "",
        "resourceVersion=0",
        "resourceVersion=0&allowWatchBookmarks=true",
    ] {
        let mut lines = watch(&http, query).await;
        assert_eq!(shorts(&mut lines).await, ["ADDED a", "ADDED b"], "{query}");
        if query.contains("Bookmarks") {
            let mark = lines.event().await;
            assert_eq!(
                mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true",
                "{query}"
            );
        }
        label(&http, "b", &json!(query.len().to_string())).await;
        assert_eq!(lines.short().await, "MODIFIED b", "{query}");
    }
}

#[tokio::test]
async fn a_streaming_list_is_one_snapshot_with_a_mark_at_its_end() {
    let (_server, http) = start().await;
    create(&http, SECRETS, &named("a")).await;
    create(&http, SECRETS, &named("b")).await;
    http.delete(&one(SECRETS, "b")).await.expect(200);
    let snapshot = newest(&http).await;
    let streaming = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut lines = watch(
        &http,
        &format!("{streaming}&allowWatchBookmarks=true&resourceVersion={snapshot}"),
    )
    .await;
    assert_eq!(lines.short().await, "ADDED a");
    let mark = lines.event().await;
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(
        (&mark["object"]["kind"], &mark["object"]["apiVersion"]),
        (&json!("Secret"), &json!("v1"))
    );
    assert_eq!(
        mark["object"]["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
    assert_eq!(version(&mark["object"]), snapshot);
    create(&http, SECRETS, &named("c")).await;
    let live = lines.event().await;
    assert_eq!(short(&live), "ADDED c");
    assert!(version(&live["object"]) > snapshot);

    // Without bookmarks there is no marker. `false` only sends future events.
    let mut unmarked = watch(&http, streaming).await;
    let mut later = watch(
        &http,
        "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
    )
    .await;
    assert_eq!(shorts(&mut unmarked).await, ["ADDED a", "ADDED c"]);
    create(&http, SECRETS, &named("d")).await;
    assert_eq!(
        [unmarked.short().await, later.short().await],
        ["ADDED d", "ADDED d"]
    );

    // An empty collection still ends its initial phase.
    let mut empty = http
        .watch(&format!(
            "/api/v1/podtemplates?watch=true&{streaming}&allowWatchBookmarks=true"
        ))
        .await;
    assert_eq!(empty.event().await["object"]["kind"], "PodTemplate");
}

#[tokio::test]
async fn parameters_that_do_not_go_together() {
    let (_server, http) = start().await;
    for query in [
        "sendInitialEvents=true",
        "sendInitialEvents=false",
        "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
        "resourceVersionMatch=NotOlderThan",
        "resourceVersionMatch=NotOlderThan&resourceVersion=1",
    ] {
        assert_eq!(
            http.get(&format!("{SECRETS}?watch=true&{query}"))
                .await
                .refusal(),
            (422, "Invalid"),
            "{query}"
        );
    }
    for query in ["timeoutSeconds=abc", "labelSelector=%3D%3D"] {
        assert_eq!(
            http.get(&format!("{SECRETS}?watch=true&{query}"))
                .await
                .refusal(),
            (400, "BadRequest"),
            "{query}"
        );
    }
    // Real servers have no reason for this one.
    assert_eq!(
        http.get(&format!("{SECRETS}?watch=true&resourceVersion=abc"))
            .await
            .code,
        500
    );
}

#[tokio::test]
async fn a_bookmark_comes_before_the_end_and_the_end_in_time() {
    let (_server, http) = start().await;
    let from = newest(&http).await;
    let mut silent = watch(&http, &format!("resourceVersion={from}&timeoutSeconds=1")).await;
    let mut marked = watch(
        &http,
        &format!("resourceVersion={from}&timeoutSeconds=3&allowWatchBookmarks=true"),
    )
    .await;
    let last = version(&create(&http, MAPS, &named("elsewhere")).await);
    assert_eq!(silent.rest().await, [] as [Value; 0]);
    let rest = marked.rest().await;
    assert!(
        !rest.is_empty() && rest.iter().all(|event| event["type"] == "BOOKMARK"),
        "{rest:?}"
    );
    let mark = &rest[rest.len() - 1]["object"];
    assert!(
        version(mark) >= last,
        "it has seen everything, of other kinds too"
    );
    assert_eq!(
        (&mark["kind"], &mark["metadata"]["annotations"]),
        (&json!("Secret"), &Value::Null)
    );
}

#[tokio::test]
async fn selectors_turn_changes_into_comings_and_goings() {
    let (_server, http) = start().await;
    let from = newest(&http).await;
    let mut lines = watch(
        &http,
        &format!("resourceVersion={from}&labelSelector=l%3D1"),
    )
    .await;
    create(&http, SECRETS, &named("a")).await;
    label(&http, "a", &json!("1")).await;
    let matched = http
        .merge(&one(SECRETS, "a"), &json!({"stringData": {"k": "v"}}))
        .await
        .expect(200);
    let unmatched = label(&http, "a", &json!("2")).await;
    label(&http, "a", &json!("1")).await;
    http.delete(&one(SECRETS, "a")).await.expect(200);
    let mut seen = Vec::new();
    for expected in ["ADDED a", "MODIFIED a", "DELETED a", "ADDED a", "DELETED a"] {
        let event = lines.event().await;
        assert_eq!(short(&event), expected);
        seen.push(event["object"].clone());
    }
    assert!(seen.is_sorted_by_key(version));
    assert_eq!(
        seen[2]["metadata"]["labels"],
        json!({"l": "1"}),
        "the last matching state"
    );
    assert_eq!(seen[2]["data"], matched["data"]);
    assert_eq!(
        version(&seen[2]),
        version(&unmatched),
        "with the change's own version"
    );
    assert_eq!(
        version(&seen[4]),
        newest(&http).await,
        "with the deletion's own version"
    );
}

#[tokio::test]
async fn field_selectors_and_single_objects() {
    let (_server, http) = start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let from = newest(&http).await;
    let by_phase =
        format!("{pods}?watch=true&resourceVersion={from}&fieldSelector=status.phase%3DRunning");
    let by_name =
        format!("{pods}?watch=true&resourceVersion={from}&fieldSelector=metadata.name%3Db");
    let (mut running, mut named_b) = (http.watch(&by_phase).await, http.watch(&by_name).await);
    for name in ["a", "b"] {
        create(&http, pods, &json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})).await;
    }
    for phase in ["Running", "Failed"] {
        http.merge(
            &format!("{pods}/b/status"),
            &json!({"status": {"phase": phase}}),
        )
        .await
        .expect(200);
    }
    assert_eq!(shorts(&mut running).await, ["ADDED b", "DELETED b"]);
    assert_eq!(
        shorts(&mut named_b).await,
        ["ADDED b", "MODIFIED b", "MODIFIED b"]
    );
    // A GET of one object is not a watch.
    let object = http.get(&format!("{pods}/b?watch=true")).await.expect(200);
    assert_eq!(object["kind"], "Pod");
}

#[tokio::test]
async fn a_deletion_that_waits_is_a_modification() {
    let (_server, http) = start().await;
    let from = newest(&http).await;
    let mut lines = watch(&http, &format!("resourceVersion={from}")).await;
    create(
        &http,
        SECRETS,
        &json!({"metadata": {"name": "a", "finalizers": ["it.polity.dev/hold"]}}),
    )
    .await;
    http.delete(&one(SECRETS, "a")).await.expect(200);
    http.delete(&one(SECRETS, "a")).await.expect(200);
    http.merge(
        &one(SECRETS, "a"),
        &json!({"metadata": {"finalizers": null}}),
    )
    .await
    .expect(200);
    assert_eq!(lines.short().await, "ADDED a");
    let waiting = lines.event().await;
    assert_eq!(short(&waiting), "MODIFIED a");
    assert!(waiting["object"]["metadata"]["deletionTimestamp"].is_string());
    let gone = lines.event().await;
    assert_eq!(short(&gone), "DELETED a", "deleting again changed nothing");
    assert_eq!(version(&gone["object"]), newest(&http).await);
}

#[tokio::test]
async fn writes_that_change_nothing_are_no_events() {
    let (_server, http) = start().await;
    let stored = create(
        &http,
        SECRETS,
        &json!({"metadata": {"name": "a"}, "stringData": {"k": "v"}}),
    )
    .await;
    let mut lines = watch(&http, &format!("resourceVersion={}", version(&stored))).await;
    for _ in 0..2 {
        let same = http.put(&one(SECRETS, "a"), &stored).await.expect(200);
        assert_eq!(version(&same), version(&stored));
        let same = http
            .merge(&one(SECRETS, "a"), &json!({"data": stored["data"]}))
            .await
            .expect(200);
        assert_eq!(version(&same), version(&stored));
    }
    http.merge(
        &format!("{SECRETS}/a?dryRun=All"),
        &json!({"stringData": {"k": "other"}}),
    )
    .await
    .expect(200);
    create(&http, SECRETS, &named("next")).await;
    assert_eq!(lines.short().await, "ADDED next");
}

#[tokio::test]
async fn an_expired_version_is_an_error_event_and_the_end() {
    let (server, http) = start().await;
    let from = newest(&http).await;
    create(&http, SECRETS, &named("a")).await;
    create(&http, SECRETS, &named("b")).await;
    server.compact().await;
    let mut lines = watch(&http, &format!("resourceVersion={from}")).await;
    let error = lines.event().await;
    assert_eq!(error["type"], "ERROR");
    let status = &error["object"];
    assert_eq!(
        (&status["kind"], &status["code"], &status["reason"]),
        (&json!("Status"), &json!(410), &json!("Expired"))
    );
    assert_eq!(lines.next().await, None);
    // The newest version is still good.
    let mut lines = watch(
        &http,
        &format!("resourceVersion={}&timeoutSeconds=1", newest(&http).await),
    )
    .await;
    assert_eq!(lines.rest().await, [] as [Value; 0]);
}

/// The reader does not read, the writers do not notice, and the reader can go on from where it was.
#[tokio::test]
async fn a_reader_that_does_not_read_is_cut_off() {
    let limits = Limits {
        write_timeout: Duration::from_millis(500),
        ..Limits::default()
    };
    let server = TestServer::builder().limits(limits).start().await;
    let http = server.http().await;
    let from = newest(&http).await;
    let mut stalled = watch(&http, &format!("resourceVersion={from}")).await;
    // More than any buffer between the two holds.
    let filler = "x".repeat(900_000);
    let n_writes = 24;
    for n in 0..n_writes {
        create(
            &http,
            SECRETS,
            &json!({"metadata": {"name": format!("s{n:02}")}, "stringData": {"k": filler}}),
        )
        .await;
    }
    // Events in flight arrive. Then the stream breaks or ends, long before the last event.
    let mut seen = Vec::new();
    let ended = loop {
        match stalled.try_next().await {
            Ok(Some(event)) => seen.push(event),
            Ok(None) => break "ended".to_owned(),
            Err(error) => break error,
        }
    };
    assert!(seen.len() < n_writes, "{ended} after everything");
    let last = seen.last().map_or(from, |event| version(&event["object"]));
    let mut rest = watch(&http, &format!("resourceVersion={last}")).await;
    for n in seen.len()..n_writes {
        assert_eq!(rest.short().await, format!("ADDED s{n:02}"));
    }
}

#[tokio::test]
async fn a_watch_goes_on_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let server = TestServer::builder()
        .data_dir(directory.path())
        .start()
        .await;
    let http = server.http().await;
    let from = newest(&http).await;
    let mut before = watch(&http, &format!("resourceVersion={from}")).await;
    create(&http, SECRETS, &named("a")).await;
    let first = before.event().await;
    create(&http, SECRETS, &named("b")).await;
    let server = server.restart().await;
    let last = before.rest().await.last().unwrap_or(&first).clone();
    let mut after = watch(
        &http,
        &format!("resourceVersion={}", version(&first["object"])),
    )
    .await;
    create(&http, SECRETS, &named("c")).await;
    assert_eq!(shorts(&mut after).await, ["ADDED b", "ADDED c"]);
    assert!(["ADDED a", "ADDED b"].contains(&short(&last).as_str()));
    drop(server);
}

#[tokio::test]
async fn only_the_first_table_of_a_watch_names_its_columns() {
    let (_server, http) = start().await;
    create(&http, SECRETS, &named("a")).await;
    let mut lines = http
        .watch_as(&format!("{SECRETS}?watch=true&resourceVersion=0"), TABLE)
        .await;
    let first = lines.event().await;
    assert_eq!(
        (&first["type"], &first["object"]["kind"]),
        (&json!("ADDED"), &json!("Table"))
    );
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(first["object"]["rows"].as_array().unwrap().len(), 1);
    http.delete(&one(SECRETS, "a")).await.expect(200);
    let second = lines.event().await;
    assert_eq!(
        (&second["type"], &second["object"]["columnDefinitions"]),
        (&json!("DELETED"), &Value::Null)
    );
    assert_eq!(second["object"]["rows"][0]["cells"][0], "a");
    assert_eq!(
        second["object"]["rows"][0]["object"]["kind"],
        "PartialObjectMetadata"
    );
}

#[tokio::test]
async fn a_watch_of_metadata_alone() {
    let (_server, http) = start().await;
    create(
        &http,
        SECRETS,
        &json!({"metadata": {"name": "a"}, "stringData": {"k": "v"}}),
    )
    .await;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let streaming =
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut lines = http
        .watch_as(&format!("{SECRETS}?watch=true&{streaming}"), accept)
        .await;
    let event = lines.event().await;
    assert_eq!(
        (&event["object"]["kind"], &event["object"]["apiVersion"]),
        (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(event["object"]["data"], Value::Null);
    let mark = lines.event().await;
    assert_eq!(
        mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
}

#[tokio::test]
async fn a_watch_ends_with_the_definition_of_its_kind() {
    let (_server, http) = start().await;
    create(
        &http,
        DEFINITIONS,
        &definition("gears", "Gear", &json!({"type": "object"})),
    )
    .await;
    let gears = collection("gears");
    create(&http, &gears, &custom("Gear", "g", &json!({}))).await;
    let mut lines = http.watch(&format!("{gears}?watch=true")).await;
    assert_eq!(lines.short().await, "ADDED g");
    http.delete(&one(DEFINITIONS, "gears.it.polity.dev"))
        .await
        .expect(200);
    let rest = lines.rest().await;
    assert_eq!(
        rest.iter().map(short).next_back(),
        Some("DELETED g".into()),
        "{rest:?}"
    );
}
