//! Lists: order, pages on one snapshot, versions, selectors (docs/spec/apiserver.md#8).

use serde_json::{Value, json};

use super::*;

async fn with_secrets(names: &[&str]) -> (TestServer, Http) {
    let (server, http) = start().await;
    for name in names {
        create(&http, SECRETS, &named(name)).await;
    }
    (server, http)
}

fn token(list: &Value) -> &str {
    list["metadata"]["continue"].as_str().expect("more remains")
}

#[tokio::test]
async fn lists_have_a_kind_a_version_and_an_order() {
    let (_server, http) = with_secrets(&["b", "a-1", "a", "a.b"]).await;
    create(&http, NAMESPACES, &named("aaa")).await;
    create(&http, "/api/v1/namespaces/aaa/secrets", &named("z")).await;
    let list = http.get("/api/v1/secrets").await.expect(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("SecretList"), &json!("v1"))
    );
    assert_eq!(names(&list), ["z", "a", "a-1", "a.b", "b"]);
    version(&list);
    let empty = http
        .get("/api/v1/namespaces/default/podtemplates")
        .await
        .expect(200);
    assert_eq!(empty["items"], json!([]));
    version(&empty);
}

#[tokio::test]
async fn all_pages_show_the_snapshot_of_the_first() {
    let (_server, http) = with_secrets(&["a", "b", "c", "d", "e"]).await;
    let first = http.get(&format!("{SECRETS}?limit=2")).await.expect(200);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);

    http.delete(&one(SECRETS, "c")).await.expect(200);
    http.merge(
        &one(SECRETS, "d"),
        &json!({"metadata": {"labels": {"new": "1"}}}),
    )
    .await
    .expect(200);
    create(&http, SECRETS, &named("bb")).await;

    let second = http
        .get(&format!("{SECRETS}?limit=2&continue={}", token(&first)))
        .await
        .expect(200);
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["items"][1]["metadata"]["labels"], Value::Null);
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    let third = http
        .get(&format!("{SECRETS}?limit=2&continue={}", token(&second)))
        .await
        .expect(200);
    assert_eq!(names(&third), ["e"]);
    assert_eq!(
        (
            &third["metadata"]["continue"],
            &third["metadata"]["remainingItemCount"]
        ),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        [version(&first), version(&second)],
        [version(&third), version(&third)]
    );

    let whole = http.get(&format!("{SECRETS}?limit=5")).await.expect(200);
    assert_eq!(names(&whole), ["a", "b", "bb", "d", "e"]);
    assert_eq!(
        whole["metadata"]["continue"],
        Value::Null,
        "nothing remains"
    );
}

#[tokio::test]
async fn a_page_is_filled_with_matching_objects() {
    let (_server, http) = with_secrets(&["b", "d", "f"]).await;
    for name in ["a", "c", "e"] {
        create(
            &http,
            SECRETS,
            &json!({"metadata": {"name": name, "labels": {"vowel": "1"}}}),
        )
        .await;
    }
    let first = http
        .get(&format!("{SECRETS}?limit=2&labelSelector=vowel"))
        .await
        .expect(200);
    assert_eq!(names(&first), ["a", "c"]);
    assert_eq!(first["metadata"]["remainingItemCount"], Value::Null);
    let second = http
        .get(&format!(
            "{SECRETS}?limit=2&labelSelector=vowel&continue={}",
            token(&first)
        ))
        .await
        .expect(200);
    assert_eq!(names(&second), ["e"]);
    let one = http
        .get(&format!(
            "{SECRETS}?limit=1&fieldSelector=metadata.name%3Df"
        ))
        .await
        .expect(200);
    assert_eq!(
        (names(&one), &one["metadata"]["continue"]),
        (vec!["f"], &Value::Null)
    );
}

#[tokio::test]
async fn versions_and_their_match() {
    let (_server, http) = with_secrets(&["a", "b"]).await;
    let then = version(&http.get(SECRETS).await.expect(200));
    create(&http, SECRETS, &named("c")).await;
    let get = async |query: &str| http.get(&format!("{SECRETS}?{query}")).await;
    let all = ["a", "b", "c"];
    for (query, expected) in [
        (String::new(), &all[..]),
        ("resourceVersion=0".into(), &all),
        (
            "resourceVersion=0&resourceVersionMatch=NotOlderThan".into(),
            &all,
        ),
        (format!("resourceVersion={then}"), &all),
        (
            format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan"),
            &all,
        ),
        (
            format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan&limit=9"),
            &all,
        ),
        (format!("resourceVersion={then}&limit=9"), &all[..2]),
        (
            format!("resourceVersion={then}&resourceVersionMatch=Exact"),
            &all[..2],
        ),
    ] {
        let list = get(&query).await.expect(200);
        assert_eq!(names(&list), expected, "{query}");
        if expected.len() == 2 {
            assert_eq!(version(&list), then, "{query}");
        }
    }
    let page = get("limit=1").await.expect(200);
    let token = token(&page);
    for (query, expected) in [
        ("resourceVersionMatch=Exact".to_owned(), 422),
        ("resourceVersionMatch=NotOlderThan".into(), 422),
        ("resourceVersion=0&resourceVersionMatch=Exact".into(), 422),
        (
            "resourceVersion=1&resourceVersionMatch=Sometimes".into(),
            422,
        ),
        (
            format!("continue={token}&resourceVersionMatch=Exact&resourceVersion={then}"),
            422,
        ),
        (format!("continue={token}&resourceVersion={then}"), 400),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".into(),
            422,
        ),
        ("limit=abc".into(), 400),
        ("resourceVersion=abc".into(), 400),
        ("continue=%21%21".into(), 400),
        ("continue=e30".into(), 400),
    ] {
        assert_eq!(get(&query).await.code, expected, "{query}");
    }
}

#[tokio::test]
async fn a_version_from_the_future_is_a_timeout() {
    let (_server, http) = with_secrets(&[]).await;
    let future = version(&http.get(SECRETS).await.expect(200)) + 1000;
    let answer = http
        .get(&format!("{SECRETS}?resourceVersion={future}"))
        .await;
    assert_eq!(answer.refusal(), (504, "Timeout"));
    assert_eq!(
        answer.body["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    assert_eq!(answer.body["details"]["retryAfterSeconds"], 1);
}

#[tokio::test]
async fn a_get_is_not_older_than_asked() {
    let (_server, http) = with_secrets(&["a"]).await;
    let now = version(&http.get(SECRETS).await.expect(200));
    http.get(&format!("{SECRETS}/a?resourceVersion={now}"))
        .await
        .expect(200);
    http.get(&format!("{SECRETS}/a?resourceVersion=0"))
        .await
        .expect(200);
    // It waits for a future version.
    let later = async {
        http.get(&format!("{SECRETS}/a?resourceVersion={}", now + 1))
            .await
            .code
    };
    let next = named("b");
    let (code, _) = tokio::join!(later, create(&http, SECRETS, &next));
    assert_eq!(code, 200);
}

#[tokio::test]
async fn an_expired_token_comes_with_one_that_goes_on() {
    let (server, http) = with_secrets(&["a", "b", "c", "d"]).await;
    let first = http.get(&format!("{SECRETS}?limit=2")).await.expect(200);
    create(&http, SECRETS, &named("cc")).await;
    http.delete(&one(SECRETS, "c")).await.expect(200);
    server.compact().await;

    let expired = http
        .get(&format!("{SECRETS}?limit=2&continue={}", token(&first)))
        .await;
    assert_eq!(expired.refusal(), (410, "Expired"));
    let fresh = token(&expired.body).to_owned();
    let rest = http
        .get(&format!("{SECRETS}?limit=1&continue={fresh}"))
        .await
        .expect(200);
    assert_eq!(
        names(&rest),
        ["cc"],
        "from the same key, in the newest snapshot"
    );
    assert!(version(&rest) > version(&first));
    // From here on the pages are of one snapshot again.
    create(&http, SECRETS, &named("ccc")).await;
    let last = http
        .get(&format!("{SECRETS}?limit=5&continue={}", token(&rest)))
        .await
        .expect(200);
    assert_eq!((names(&last), version(&last)), (vec!["d"], version(&rest)));

    let exact = http
        .get(&format!(
            "{SECRETS}?resourceVersion={}&resourceVersionMatch=Exact",
            version(&first)
        ))
        .await;
    assert_eq!(exact.refusal(), (410, "Expired"));
}

#[tokio::test]
async fn selectors() {
    let (_server, http) = start().await;
    for (name, labels) in [
        ("a", json!({"n": "5", "tier": "web"})),
        ("b", json!({"n": "7"})),
        ("c", json!({"tier": ""})),
        ("d", json!({})),
    ] {
        create(
            &http,
            SECRETS,
            &json!({"type": "it/secret", "metadata": {"name": name, "labels": labels}}),
        )
        .await;
    }
    for (query, expected) in [
        ("labelSelector=", "abcd"),
        ("labelSelector=tier", "ac"),
        ("labelSelector=%21tier", "bd"),
        ("labelSelector=tier%3Dweb", "a"),
        ("labelSelector=tier%3D%3Dweb", "a"),
        ("labelSelector=tier%21%3Dweb", "bcd"),
        ("labelSelector=tier%3D", "c"),
        ("labelSelector=tier+in+(web,)", "ac"),
        ("labelSelector=tier+notin+(web)", "bcd"),
        ("labelSelector=n%3E5", "b"),
        ("labelSelector=n%3C7,tier", "a"),
        ("fieldSelector=metadata.name%3Da", "a"),
        ("fieldSelector=metadata.name%21%3Da,type%3Dit/secret", "bcd"),
        ("fieldSelector=metadata.namespace%3Dother", ""),
        ("labelSelector=n&fieldSelector=metadata.name%3Db", "b"),
    ] {
        let list = http.get(&format!("{SECRETS}?{query}")).await.expect(200);
        assert_eq!(names(&list).concat(), expected, "{query}");
    }
    for query in [
        "labelSelector=a%3D%3D%3Db",
        "labelSelector=a+in+b",
        "labelSelector=a+in+(b",
        "labelSelector=-a",
        "labelSelector=a%3D-b-",
        "labelSelector=a%3Ex",
        "labelSelector=a,,b",
        "fieldSelector=spec.nonsense%3Da",
        "fieldSelector=metadata.name",
        "fieldSelector=metadata.name%3Da%5C",
    ] {
        assert_eq!(
            http.get(&format!("{SECRETS}?{query}")).await.refusal(),
            (400, "BadRequest"),
            "{query}"
        );
    }
    let answer = http
        .get(&format!("{SECRETS}?labelSelector=a%3D%3D%3Db"))
        .await;
    assert!(
        answer.message().contains("unable to parse requirement: "),
        "{}",
        answer.message()
    );
}

#[tokio::test]
async fn a_namespace_that_is_not_there_lists_nothing() {
    let (_server, http) = start().await;
    let list = http
        .get("/api/v1/namespaces/nowhere/secrets")
        .await
        .expect(200);
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn deletecollection_deletes_the_listed_objects() {
    let (_server, http) = with_secrets(&["a", "b"]).await;
    create(
        &http,
        SECRETS,
        &json!({"metadata": {"name": "c", "labels": {"keep": ""}}}),
    )
    .await;
    let held = json!({"metadata": {"name": "d", "finalizers": ["it.polity.dev/hold"]}});
    create(&http, SECRETS, &held).await;
    let dry = http
        .delete(&format!("{SECRETS}?labelSelector=%21keep&dryRun=All"))
        .await
        .expect(200);
    assert_eq!(names(&dry), ["a", "b", "d"]);
    let deleted = http
        .delete(&format!("{SECRETS}?labelSelector=%21keep"))
        .await
        .expect(200);
    assert_eq!(names(&deleted), ["a", "b", "d"]);
    let left = http.get(SECRETS).await.expect(200);
    assert_eq!(names(&left), ["c", "d"]);
    assert!(left["items"][1]["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(
        http.delete(NAMESPACES).await.refusal(),
        (405, "MethodNotAllowed"),
    );
}
