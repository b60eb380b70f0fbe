//! Namespaces: content, refused writes and deletion (docs/spec/apiserver.md#14).

use polity_testing::eventually;
use serde_json::{Value, json};

use super::*;

async fn gone(http: &Http, namespace: &str) {
    eventually(&format!("namespace {namespace} is gone"), || async {
        let answer = http.get(&one(NAMESPACES, namespace)).await;
        if answer.code == 404 {
            Ok(())
        } else {
            Err(answer.text)
        }
    })
    .await;
}

fn condition<'a>(namespace: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = namespace["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)?["status"]
        .as_str()
}

#[tokio::test]
async fn the_usual_ones_are_there_and_stay() {
    let (_server, http) = start().await;
    let list = http.get(NAMESPACES).await.expect(200);
    assert_eq!(
        names(&list),
        ["default", "kube-node-lease", "kube-public", "kube-system"]
    );
    for name in ["default", "kube-system", "kube-public"] {
        assert_eq!(
            http.delete(&one(NAMESPACES, name)).await.refusal(),
            (403, "Forbidden"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn every_one_has_its_label_its_finalizer_and_its_phase() {
    let (_server, http) = start().await;
    let stored = create(
        &http,
        NAMESPACES,
        &json!({"metadata": {"name": "team", "labels": {"a": "b"}}}),
    )
    .await;
    assert_eq!(
        stored["metadata"]["labels"],
        json!({"a": "b", "kubernetes.io/metadata.name": "team"})
    );
    assert_eq!(
        (&stored["spec"]["finalizers"], &stored["status"]["phase"]),
        (&json!(["kubernetes"]), &json!("Active"))
    );
    let unlabelled = http
        .merge(
            &one(NAMESPACES, "team"),
            &json!({"metadata": {"labels": null}}),
        )
        .await
        .expect(200);
    assert_eq!(
        unlabelled["metadata"]["labels"],
        json!({"kubernetes.io/metadata.name": "team"})
    );
    for name in ["Team", "a.b", &"x".repeat(64)] {
        assert_eq!(
            http.post(NAMESPACES, &named(name)).await.refusal(),
            (422, "Invalid"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn nothing_is_created_where_there_is_no_namespace() {
    let (_server, http) = start().await;
    let answer = http
        .post("/api/v1/namespaces/nowhere/configmaps", &named("a"))
        .await;
    assert_eq!(
        (answer.refusal(), answer.message()),
        ((404, "NotFound"), "namespaces \"nowhere\" not found")
    );
    let apply = "/api/v1/namespaces/nowhere/configmaps/a?fieldManager=it";
    let answer = http
        .apply(
            apply,
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
        )
        .await;
    assert_eq!(answer.refusal(), (404, "NotFound"));
}

#[tokio::test]
async fn a_deleted_one_takes_nothing_new_and_goes_when_it_is_empty() {
    let (_server, http) = start().await;
    create(&http, NAMESPACES, &named("team")).await;
    let maps = "/api/v1/namespaces/team/configmaps";
    create(
        &http,
        maps,
        &json!({"metadata": {"name": "held", "finalizers": ["it.polity.dev/hold"]}}),
    )
    .await;
    create(&http, maps, &named("free")).await;
    create(
        &http,
        DEFINITIONS,
        &definition("gears", "Gear", &json!({"type": "object"})),
    )
    .await;
    let gears = "/apis/it.polity.dev/v1/namespaces/team/gears";
    create(&http, gears, &custom("Gear", "g", &json!({}))).await;

    let deleted = http.delete(&one(NAMESPACES, "team")).await.expect(200);
    assert_eq!(
        (&deleted["kind"], &deleted["status"]["phase"]),
        (&json!("Namespace"), &json!("Terminating"))
    );
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    let refused = http.post(maps, &named("new")).await;
    assert_eq!(refused.refusal(), (403, "Forbidden"));
    let cause = &refused.body["details"]["causes"][0];
    assert_eq!(
        (&cause["reason"], &cause["field"]),
        (&json!("NamespaceTerminating"), &json!("metadata.namespace"))
    );

    eventually("all that can go is gone", || async {
        let left = http.get(maps).await.expect(200);
        let gears = http.get(gears).await.expect(200);
        names(&left) == ["held"] && names(&gears).is_empty()
    })
    .await;
    // The conditions list the remaining content.
    eventually("the conditions say what remains", || async {
        let namespace = http.get(&one(NAMESPACES, "team")).await.expect(200);
        let seen = [
            "NamespaceContentRemaining",
            "NamespaceFinalizersRemaining",
            "NamespaceDeletionContentFailure",
        ]
        .map(|kind| condition(&namespace, kind).map(str::to_owned));
        if seen
            == [
                Some("True".into()),
                Some("True".into()),
                Some("False".into()),
            ]
        {
            Ok(())
        } else {
            Err(seen)
        }
    })
    .await;
    // Existing objects can still be changed.
    http.merge(
        &one(maps, "held"),
        &json!({"metadata": {"finalizers": null}}),
    )
    .await
    .expect(200);
    gone(&http, "team").await;
    // The name is free again.
    create(&http, NAMESPACES, &named("team")).await;
    assert!(
        names(&http.get(maps).await.expect(200))
            .iter()
            .all(|name| *name == "kube-root-ca.crt")
    );
}

#[tokio::test]
async fn pods_go_first() {
    let (_server, http) = start().await;
    create(&http, NAMESPACES, &named("team")).await;
    let (maps, pods) = (
        "/api/v1/namespaces/team/configmaps",
        "/api/v1/namespaces/team/pods",
    );
    create(&http, maps, &named("config")).await;
    create(&http, pods, &json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}})).await;
    http.delete(&one(NAMESPACES, "team")).await.expect(200);
    eventually("the Pod is asked to go", || async {
        http.get(&one(pods, "p")).await.body["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    http.get(&one(maps, "config")).await.expect(200);
    // The kubelet would send this deletion.
    http.delete_with(&one(pods, "p"), &json!({"gracePeriodSeconds": 0}))
        .await
        .expect(200);
    gone(&http, "team").await;
}

#[tokio::test]
async fn its_own_finalizers_hold_it_too() {
    let (_server, http) = start().await;
    create(
        &http,
        NAMESPACES,
        &json!({"metadata": {"name": "team", "finalizers": ["it.polity.dev/hold"]}}),
    )
    .await;
    http.delete(&one(NAMESPACES, "team")).await.expect(200);
    eventually("it is empty", || async {
        http.get(&one(NAMESPACES, "team")).await.expect(200)["spec"]["finalizers"].is_null()
    })
    .await;
    http.merge(
        &one(NAMESPACES, "team"),
        &json!({"metadata": {"finalizers": null}}),
    )
    .await
    .expect(200);
    gone(&http, "team").await;
}

#[tokio::test]
async fn finalize_replaces_the_finalizers_and_an_update_does_not() {
    let (_server, http) = start().await;
    let stored = create(
        &http,
        NAMESPACES,
        &json!({"metadata": {"name": "team"}, "spec": {"finalizers": ["it.polity.dev/own"]}}),
    )
    .await;
    assert_eq!(
        stored["spec"]["finalizers"],
        json!(["it.polity.dev/own", "kubernetes"])
    );
    let mut changed = stored.clone();
    changed["spec"]["finalizers"] = json!([]);
    let kept = http
        .put(&one(NAMESPACES, "team"), &changed)
        .await
        .expect(200);
    assert_eq!(kept["spec"]["finalizers"], stored["spec"]["finalizers"]);
    changed["metadata"]["resourceVersion"] = kept["metadata"]["resourceVersion"].clone();
    changed["spec"]["finalizers"] = json!(["kubernetes"]);
    let replaced = http
        .put("/api/v1/namespaces/team/finalize", &changed)
        .await
        .expect(200);
    assert_eq!(replaced["spec"]["finalizers"], json!(["kubernetes"]));
}

#[tokio::test]
async fn each_gets_a_service_account() {
    let (_server, http) = start().await;
    create(&http, NAMESPACES, &named("team")).await;
    for namespace in ["team", "default", "kube-system"] {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        eventually("the default account is there", || async {
            http.get(&path).await.code == 200
        })
        .await;
    }
    let path = "/api/v1/namespaces/team/configmaps/kube-root-ca.crt";
    let authority = eventually("the authority is published", || async {
        let answer = http.get(path).await;
        (answer.code == 200).then(|| answer.body["data"]["ca.crt"].clone())
    })
    .await;
    assert!(
        authority
            .as_str()
            .unwrap()
            .starts_with("-----BEGIN CERTIFICATE-----")
    );
    let service = http
        .get("/api/v1/namespaces/default/services/kubernetes")
        .await
        .expect(200);
    assert_eq!(service["spec"]["ports"][0]["port"], 443);
    // A deleted one is created again.
    http.delete("/api/v1/namespaces/team/serviceaccounts/default")
        .await
        .expect(200);
    let path = "/api/v1/namespaces/team/serviceaccounts/default";
    eventually("the account is back", || async {
        http.get(path).await.code == 200
    })
    .await;
}
