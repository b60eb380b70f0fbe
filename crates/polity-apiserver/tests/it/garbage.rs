//! Deletion and garbage collection: policies, finalizers, owners and dependents
//! (docs/spec/apiserver.md#13).

use polity_testing::eventually;
use serde_json::{Value, json};

use super::*;

/// A reference to an owner, which blocks its deletion in the foreground.
fn reference(kind: &str, owner: &Value) -> Value {
    let meta = &owner["metadata"];
    json!({"apiVersion": "v1", "kind": kind, "name": meta["name"], "uid": meta["uid"], "blockOwnerDeletion": true})
}

fn owned(name: &str, owners: &[Value]) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": owners}})
}

async fn secret(http: &Http, name: &str, owners: &[&Value]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|owner| reference("Secret", owner))
        .collect();
    create(http, SECRETS, &owned(name, &owners)).await
}

async fn delete(http: &Http, name: &str, policy: &str) -> Value {
    http.delete_with(&one(SECRETS, name), &json!({"propagationPolicy": policy}))
        .await
        .expect(200)
}

async fn hold(http: &Http, name: &str) {
    http.merge(
        &one(SECRETS, name),
        &json!({"metadata": {"finalizers": ["it.polity.dev/hold"]}}),
    )
    .await
    .expect(200);
}

async fn release(http: &Http, name: &str) {
    http.merge(
        &one(SECRETS, name),
        &json!({"metadata": {"finalizers": null}}),
    )
    .await
    .expect(200);
}

async fn left(http: &Http) -> String {
    names(&http.get(SECRETS).await.expect(200)).join(" ")
}

/// Waits until exactly these secrets are left.
async fn only(http: &Http, expected: &str) {
    eventually(&format!("only {expected:?} is left"), || async {
        let left = left(http).await;
        if left == expected { Ok(()) } else { Err(left) }
    })
    .await;
}

/// Passes once the collector has worked off everything before: it takes its work in order.
async fn settled(http: &Http) {
    create(
        http,
        SECRETS,
        &owned(
            "canary",
            &[json!({"apiVersion": "v1", "kind": "Secret", "name": "none", "uid": "none"})],
        ),
    )
    .await;
    eventually("the canary is collected", || async {
        http.get(&one(SECRETS, "canary")).await.code == 404
    })
    .await;
}

#[tokio::test]
async fn objects_go_at_once_or_wait_for_their_finalizers() {
    let (_server, http) = start().await;
    let stored = secret(&http, "a", &[]).await;
    let status = http.delete(&one(SECRETS, "a")).await.expect(200);
    assert_eq!(
        (&status["kind"], &status["status"]),
        (&json!("Status"), &json!("Success"))
    );
    assert_eq!(
        status["details"],
        json!({"name": "a", "kind": "secrets", "uid": stored["metadata"]["uid"]}),
    );

    secret(&http, "b", &[]).await;
    hold(&http, "b").await;
    let waiting = http.delete(&one(SECRETS, "b")).await.expect(200);
    assert_eq!(
        (
            &waiting["kind"],
            &waiting["metadata"]["deletionGracePeriodSeconds"]
        ),
        (&json!("Secret"), &json!(0))
    );
    let again = http.delete(&one(SECRETS, "b")).await.expect(200);
    assert_eq!(again, waiting);
    let more = http
        .merge(
            &one(SECRETS, "b"),
            &json!({"metadata": {"finalizers": ["it.polity.dev/hold", "it.polity.dev/more"]}}),
        )
        .await;
    assert_eq!(more.refusal(), (422, "Invalid"));
    let exists = http.post(SECRETS, &named("b")).await;
    assert_eq!(exists.refusal(), (409, "AlreadyExists"));
    assert!(
        exists.message().starts_with("object is being deleted: "),
        "{}",
        exists.message()
    );
    release(&http, "b").await;
    assert_eq!(left(&http).await, "");

    let account = create(
        &http,
        "/api/v1/namespaces/default/serviceaccounts",
        &named("s"),
    )
    .await;
    let gone = http
        .delete("/api/v1/namespaces/default/serviceaccounts/s")
        .await
        .expect(200);
    assert_eq!(
        (&gone["kind"], &gone["metadata"]["uid"]),
        (&json!("ServiceAccount"), &account["metadata"]["uid"]),
        "flag Obj"
    );
}

#[tokio::test]
async fn preconditions() {
    let (_server, http) = start().await;
    let stored = secret(&http, "a", &[]).await;
    for preconditions in [
        json!({"uid": "other"}),
        json!({"resourceVersion": "1"}),
        json!({"uid": stored["metadata"]["uid"], "resourceVersion": "1"}),
    ] {
        let answer = http
            .delete_with(&one(SECRETS, "a"), &json!({"preconditions": preconditions}))
            .await;
        assert_eq!(answer.refusal(), (409, "Conflict"), "{preconditions}");
    }
    let preconditions = json!({"uid": stored["metadata"]["uid"], "resourceVersion": stored["metadata"]["resourceVersion"]});
    http.delete_with(&one(SECRETS, "a"), &json!({"preconditions": preconditions}))
        .await
        .expect(200);
}

#[tokio::test]
async fn policies_become_finalizers() {
    let (_server, http) = start().await;
    for (policy, finalizers) in [
        (
            "Foreground",
            json!(["it.polity.dev/hold", "foregroundDeletion"]),
        ),
        ("Orphan", json!(["it.polity.dev/hold", "orphan"])),
        ("Background", json!(["it.polity.dev/hold"])),
    ] {
        let name = policy.to_lowercase();
        secret(&http, &name, &[]).await;
        hold(&http, &name).await;
        let deleted = http
            .delete_with(
                &format!("{SECRETS}/{name}?dryRun=All"),
                &json!({"propagationPolicy": policy}),
            )
            .await
            .expect(200);
        let mut expected = finalizers.as_array().unwrap().clone();
        let mut seen = deleted["metadata"]["finalizers"]
            .as_array()
            .unwrap()
            .clone();
        expected.sort_by_key(Value::to_string);
        seen.sort_by_key(Value::to_string);
        assert_eq!(seen, expected, "{policy}");
    }
    // An object may carry its policy with it.
    let owner = create(
        &http,
        SECRETS,
        &json!({"metadata": {"name": "owner", "finalizers": ["orphan"]}}),
    )
    .await;
    secret(&http, "kept", &[&owner]).await;
    http.delete(&one(SECRETS, "owner")).await.expect(200);
    eventually("the owner is gone", || async {
        http.get(&one(SECRETS, "owner")).await.code == 404
    })
    .await;
    settled(&http).await;
    assert_eq!(
        http.get(&one(SECRETS, "kept")).await.expect(200)["metadata"]["ownerReferences"],
        Value::Null
    );
}

#[tokio::test]
async fn pods_have_a_grace() {
    let (_server, http) = start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, node: Option<&str>| json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    create(&http, pods, &pod("pending", None)).await;
    http.delete(&format!("{pods}/pending")).await.expect(200);
    assert_eq!(
        http.get(&format!("{pods}/pending")).await.code,
        404,
        "not on a node: at once"
    );

    create(&http, pods, &pod("running", Some("n"))).await;
    let first = http.delete(&format!("{pods}/running")).await.expect(200);
    assert_eq!(first["metadata"]["deletionGracePeriodSeconds"], 30);
    let longer = http
        .delete_with(
            &format!("{pods}/running"),
            &json!({"gracePeriodSeconds": 60}),
        )
        .await
        .expect(200);
    assert_eq!(
        longer["metadata"]["deletionGracePeriodSeconds"], 30,
        "only shorter"
    );
    let shorter = http
        .delete_with(
            &format!("{pods}/running"),
            &json!({"gracePeriodSeconds": 5}),
        )
        .await
        .expect(200);
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    http.delete_with(
        &format!("{pods}/running"),
        &json!({"gracePeriodSeconds": 0}),
    )
    .await
    .expect(200);
    assert_eq!(http.get(&format!("{pods}/running")).await.code, 404);

    create(&http, pods, &pod("done", Some("n"))).await;
    http.merge(
        &format!("{pods}/done/status"),
        &json!({"status": {"phase": "Succeeded"}}),
    )
    .await
    .expect(200);
    http.delete(&format!("{pods}/done")).await.expect(200);
    assert_eq!(
        http.get(&format!("{pods}/done")).await.code,
        404,
        "ended: at once"
    );
}

#[tokio::test]
async fn background_dependents_follow_through_all_generations() {
    let (_server, http) = start().await;
    let a = secret(&http, "a", &[]).await;
    let b = secret(&http, "b", &[&a]).await;
    let c = secret(&http, "c", &[&b]).await;
    secret(&http, "d", &[&c]).await;
    secret(&http, "stranger", &[]).await;
    let answer = delete(&http, "a", "Background").await;
    assert_eq!(answer["status"], "Success", "the owner does not wait");
    only(&http, "stranger").await;
}

#[tokio::test]
async fn a_second_owner_keeps_a_dependent() {
    let (_server, http) = start().await;
    let (a, b) = (secret(&http, "a", &[]).await, secret(&http, "b", &[]).await);
    secret(&http, "d", &[&a, &b]).await;
    delete(&http, "a", "Background").await;
    let references = || async {
        http.get(&one(SECRETS, "d")).await.expect(200)["metadata"]["ownerReferences"].clone()
    };
    eventually("the dangling reference is removed", || async {
        references().await == json!([reference("Secret", &b)])
    })
    .await;
    delete(&http, "b", "Background").await;
    only(&http, "").await;
}

#[tokio::test]
async fn foreground_the_owner_stays_until_its_dependents_are_gone() {
    let (_server, http) = start().await;
    let owner = secret(&http, "owner", &[]).await;
    let child = secret(&http, "child", &[&owner]).await;
    secret(&http, "grandchild", &[&child]).await;
    hold(&http, "grandchild").await;
    let mut loose = reference("Secret", &owner);
    loose["blockOwnerDeletion"] = json!(false);
    create(&http, SECRETS, &owned("loose", &[loose])).await;
    hold(&http, "loose").await;

    let waiting = delete(&http, "owner", "Foreground").await;
    assert_eq!(
        waiting["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    let deleting = |name: &'static str| {
        let http = &http;
        async move {
            http.get(&one(SECRETS, name)).await.body["metadata"]["deletionTimestamp"].is_string()
        }
    };
    eventually("the grandchild is asked to go", || deleting("grandchild")).await;
    eventually("the loose one too", || deleting("loose")).await;
    settled(&http).await;
    assert_eq!(
        left(&http).await,
        "child grandchild loose owner",
        "who has dependents waits for them"
    );
    release(&http, "grandchild").await;
    // The deletion does not wait for dependents that do not block it.
    only(&http, "loose").await;
    release(&http, "loose").await;
    assert_eq!(left(&http).await, "");
}

#[tokio::test]
async fn orphan_dependents_stay_without_the_reference() {
    let (_server, http) = start().await;
    let (owner, other) = (
        secret(&http, "owner", &[]).await,
        secret(&http, "other", &[]).await,
    );
    secret(&http, "a", &[&owner]).await;
    secret(&http, "b", &[&owner, &other]).await;
    let waiting = delete(&http, "owner", "Orphan").await;
    assert_eq!(waiting["metadata"]["finalizers"], json!(["orphan"]));
    only(&http, "a b other").await;
    settled(&http).await;
    assert_eq!(left(&http).await, "a b other");
    assert_eq!(
        http.get(&one(SECRETS, "a")).await.body["metadata"]["ownerReferences"],
        Value::Null
    );
    assert_eq!(
        http.get(&one(SECRETS, "b")).await.body["metadata"]["ownerReferences"],
        json!([reference("Secret", &other)])
    );
}

#[tokio::test]
async fn cycles_do_not_block() {
    for policy in ["Foreground", "Background"] {
        let (_server, http) = start().await;
        let a = secret(&http, "a", &[]).await;
        let b = secret(&http, "b", &[&a]).await;
        let c = secret(&http, "c", &[&b]).await;
        http.merge(
            &one(SECRETS, "a"),
            &json!({"metadata": {"ownerReferences": [reference("Secret", &c)]}}),
        )
        .await
        .expect(200);
        delete(&http, "a", policy).await;
        only(&http, "").await;
    }
    // An object that owns itself.
    let (_server, http) = start().await;
    let own = secret(&http, "own", &[]).await;
    http.merge(
        &one(SECRETS, "own"),
        &json!({"metadata": {"ownerReferences": [reference("Secret", &own)]}}),
    )
    .await
    .expect(200);
    settled(&http).await;
    assert_eq!(left(&http).await, "own");
    delete(&http, "own", "Foreground").await;
    only(&http, "").await;
}

#[tokio::test]
async fn owners_in_another_namespace_count_as_absent() {
    let (_server, http) = start().await;
    create(&http, NAMESPACES, &named("other")).await;
    let owner = create(&http, "/api/v1/namespaces/other/secrets", &named("owner")).await;
    let namespace = create(&http, NAMESPACES, &named("team")).await;
    create(
        &http,
        SECRETS,
        &owned("foreign", &[reference("Secret", &owner)]),
    )
    .await;
    create(
        &http,
        SECRETS,
        &owned("of-cluster", &[reference("Namespace", &namespace)]),
    )
    .await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    create(
        &http,
        roles,
        &owned("of-namespaced", &[reference("Secret", &owner)]),
    )
    .await;
    only(&http, "of-cluster").await;
    eventually(
        "a cluster-scoped dependent of a namespaced owner is gone",
        || async { http.get(&one(roles, "of-namespaced")).await.code == 404 },
    )
    .await;
    settled(&http).await;
    assert_eq!(left(&http).await, "of-cluster");
    http.delete(&one(NAMESPACES, "team")).await.expect(200);
    only(&http, "").await;
}

#[tokio::test]
async fn dependents_without_an_owner_are_collected() {
    let (_server, http) = start().await;
    let old = secret(&http, "owner", &[]).await;
    http.delete(&one(SECRETS, "owner")).await.expect(200);
    secret(&http, "owner", &[]).await;
    // The same name, another uid.
    secret(&http, "late", &[&old]).await;
    let mut unknown = reference("Secret", &old);
    unknown["apiVersion"] = json!("nobody.example/v1");
    unknown["kind"] = json!("Unknown");
    create(&http, SECRETS, &owned("of-unknown-kind", &[unknown])).await;
    only(&http, "of-unknown-kind owner").await;
    settled(&http).await;
    assert_eq!(
        left(&http).await,
        "of-unknown-kind owner",
        "an owner of an unknown kind is assumed to exist"
    );
}

#[tokio::test]
async fn dependents_of_custom_owners_are_collected_also_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let server = TestServer::builder()
        .data_dir(directory.path())
        .start()
        .await;
    let http = server.http().await;
    create(
        &http,
        DEFINITIONS,
        &definition("gears", "Gear", &json!({"type": "object"})),
    )
    .await;
    let gear = create(
        &http,
        &collection("gears"),
        &custom("Gear", "g", &json!({})),
    )
    .await;
    let reference = json!({"apiVersion": "it.polity.dev/v1", "kind": "Gear", "name": "g", "uid": gear["metadata"]["uid"]});
    create(
        &http,
        SECRETS,
        &owned("a", std::slice::from_ref(&reference)),
    )
    .await;
    let _server = server.restart().await;
    create(&http, SECRETS, &owned("b", &[reference])).await;
    settled(&http).await;
    assert_eq!(left(&http).await, "a b");
    http.delete(&format!("{}/g", collection("gears")))
        .await
        .expect(200);
    only(&http, "").await;
}

#[tokio::test]
async fn owner_references_are_checked() {
    let (_server, http) = start().await;
    let owner = secret(&http, "owner", &[]).await;
    let whole = reference("Secret", &owner);
    for key in ["apiVersion", "kind", "name", "uid"] {
        let mut part = whole.clone();
        part.as_object_mut().unwrap().remove(key);
        let answer = http.post(SECRETS, &owned("a", &[part])).await;
        assert_eq!(answer.refusal(), (422, "Invalid"), "{key}: {}", answer.text);
    }
    let mut controllers = [whole.clone(), whole.clone()];
    controllers[1]["uid"] = json!("another");
    for controller in &mut controllers {
        controller["controller"] = json!(true);
    }
    assert_eq!(
        http.post(SECRETS, &owned("a", &controllers))
            .await
            .refusal(),
        (422, "Invalid")
    );
    let twice = http
        .post(SECRETS, &owned("b", &[whole.clone(), whole]))
        .await;
    assert_eq!(
        (
            twice.code,
            twice.body["metadata"]["ownerReferences"]
                .as_array()
                .map(Vec::len)
        ),
        (201, Some(1))
    );
    assert!(
        twice.header("warning").contains("uplicate"),
        "{}",
        twice.header("warning")
    );
}
