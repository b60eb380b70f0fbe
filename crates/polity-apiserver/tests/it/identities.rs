//! Identities: the clusters of one fleet, impersonation, service accounts and their Pods.

use polity_testing::{Http, TestServer, eventually};
use serde_json::{Value, json};

use super::*;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn whoami(http: &Http) -> Result<Value, u16> {
    let answer = http
        .post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            &json!({}),
        )
        .await;
    if answer.code == 201 {
        Ok(answer.body["status"]["userInfo"].clone())
    } else {
        Err(answer.code)
    }
}

async fn token(http: &Http, account: &str, spec: &Value) -> String {
    let answer = http
        .post(
            &format!("{ACCOUNTS}/{account}/token"),
            &json!({"spec": spec}),
        )
        .await
        .expect(201);
    answer["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn credentials_of_one_cluster_are_worth_nothing_in_another() {
    let server = TestServer::builder()
        .members(["east", "west"])
        .start()
        .await;
    let token_of = async |cluster: &str| {
        let config = server.config_of(cluster).await;
        let auth = serde_json::to_value(&config.auth_info).unwrap();
        auth["token"].as_str().map(str::to_owned)
    };
    let mut tokens = Vec::new();
    for cluster in ["hub", "east", "west"] {
        let http = Http::new(server.client_of(cluster).await);
        let admin = token_of(cluster).await;
        create(&http, ACCOUNTS, &named("robot")).await;
        tokens.push((cluster, token(&http, "robot", &json!({})).await));
        tokens.extend(admin.map(|admin| (cluster, admin)));
    }
    for (of, token) in &tokens {
        for cluster in ["hub", "east", "west"] {
            let there = Http::new(server.client_with_token(cluster, token).await);
            let who = whoami(&there).await;
            assert_eq!(
                who.is_ok(),
                *of == cluster,
                "a token of {of} in {cluster}: {who:?}"
            );
            if *of != cluster {
                assert_eq!(who, Err(401));
            }
        }
    }
    // The prefix is only part of the URL.
    let west = Http::new(server.client_of("west").await);
    assert_eq!(west.get("/version").await.code, 200);
    assert_eq!(
        server
            .http()
            .await
            .get("/clusters/nowhere/version")
            .await
            .text,
        "404 page not found\n"
    );
    assert_eq!(
        server
            .http()
            .await
            .get("/clusters/west/api/v1/namespaces")
            .await
            .code,
        401,
        "the hub's admin is not known there"
    );
}

#[tokio::test]
async fn impersonation_needs_permission_and_changes_the_user() {
    let (server, http) = start().await;
    let alice = Http::new(server.client_as("alice", &["devs"]).await);
    let who = whoami(&alice).await.unwrap();
    assert_eq!(
        (&who["username"], &who["groups"]),
        (&json!("alice"), &json!(["devs", "system:authenticated"]))
    );
    assert_eq!(alice.get(MAPS).await.refusal(), (403, "Forbidden"));
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    create(&http, &format!("{roles}/namespaces/default/roles"), &json!({"metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]})).await;
    let binding = json!({
        "metadata": {"name": "readers"}, "roleRef": {"kind": "Role", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "Group", "name": "devs", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    create(
        &http,
        &format!("{roles}/namespaces/default/rolebindings"),
        &binding,
    )
    .await;
    alice.get(MAPS).await.expect(200);
    let refused = alice.get("/api/v1/namespaces/kube-system/configmaps").await;
    let expected = "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"kube-system\"";
    assert_eq!(
        (refused.refusal(), refused.message()),
        ((403, "Forbidden"), expected),
    );

    // A user without permission cannot impersonate.
    create(&http, ACCOUNTS, &named("robot")).await;
    let robot = token(&http, "robot", &json!({})).await;
    let robot = Http::new(server.client_with_token("hub", &robot).await);
    let mut request =
        polity_testing::http::request(http::Method::GET, MAPS, kube::client::Body::empty());
    request
        .headers_mut()
        .insert("Impersonate-User", "alice".parse().unwrap());
    assert_eq!(robot.send(request).await.refusal(), (403, "Forbidden"));
    // No user becomes an administrator by request.
    let mut request =
        polity_testing::http::request(http::Method::GET, MAPS, kube::client::Body::empty());
    request
        .headers_mut()
        .insert("Impersonate-Group", "system:masters".parse().unwrap());
    assert!((400..=403).contains(&robot.send(request).await.code));
}

#[tokio::test]
async fn a_token_bound_to_a_pod_dies_with_it() {
    let (server, http) = start().await;
    create(&http, ACCOUNTS, &named("robot")).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]}});
    let stored = create(&http, PODS, &pod).await;
    let reference =
        json!({"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": stored["metadata"]["uid"]});
    let bound = token(
        &http,
        "robot",
        &json!({"expirationSeconds": 600, "boundObjectRef": reference}),
    )
    .await;
    let free = token(&http, "robot", &json!({})).await;
    let bound = Http::new(server.client_with_token("hub", &bound).await);
    let free = Http::new(server.client_with_token("hub", &free).await);

    let who = whoami(&bound).await.unwrap();
    assert_eq!(who["username"], "system:serviceaccount:default:robot");
    assert_eq!(
        who["groups"],
        json!([
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated"
        ])
    );
    assert_eq!(
        who["extra"]["authentication.kubernetes.io/pod-name"],
        json!(["p"])
    );
    assert_eq!(
        who["extra"]["authentication.kubernetes.io/pod-uid"],
        json!([stored["metadata"]["uid"]])
    );

    http.delete(&one(PODS, "p")).await.expect(200);
    assert_eq!(whoami(&bound).await, Err(401));
    assert!(whoami(&free).await.is_ok());
    // Another Pod of that name is another Pod.
    create(&http, PODS, &pod).await;
    assert_eq!(whoami(&bound).await, Err(401));
    let answer = http
        .post(
            &format!("{ACCOUNTS}/robot/token"),
            &json!({"spec": {"boundObjectRef": reference}}),
        )
        .await;
    assert_eq!(
        answer.code, 409,
        "the uid of a Pod that is gone: {}",
        answer.text
    );

    http.delete(&one(ACCOUNTS, "robot")).await.expect(200);
    assert_eq!(
        whoami(&free).await,
        Err(401),
        "and all die with the account"
    );
    assert_eq!(
        http.post(&format!("{ACCOUNTS}/robot/token"), &json!({"spec": {}}))
            .await
            .code,
        404
    );
}

#[tokio::test]
async fn anonymous_users_and_invalid_credentials() {
    let (server, _http) = start().await;
    let nobody = Http::new(server.anonymous().await);
    for path in ["/version", "/healthz", "/livez", "/readyz"] {
        assert_eq!(nobody.get(path).await.code, 200, "{path}");
    }
    let refused = nobody.get(MAPS).await;
    assert_eq!(refused.refusal(), (403, "Forbidden"));
    assert!(
        refused
            .message()
            .contains("User \"system:anonymous\" cannot list resource"),
        "{}",
        refused.message()
    );
    let wrong = Http::new(server.client_with_token("hub", "wrong").await);
    for path in ["/version", MAPS] {
        let answer = wrong.get(path).await;
        assert_eq!(
            (answer.refusal(), answer.message()),
            ((401, "Unauthorized"), "Unauthorized"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_token_expires() {
    let clock = polity_testing::Clock::manual(polity_testing::Clock::system().now());
    let server = TestServer::builder().clock(clock.clone()).start().await;
    let http = server.http().await;
    create(&http, ACCOUNTS, &named("robot")).await;
    let short = token(&http, "robot", &json!({"expirationSeconds": 600})).await;
    let robot = Http::new(server.client_with_token("hub", &short).await);
    assert!(whoami(&robot).await.is_ok());
    // Clocks may differ by a minute.
    clock.advance(std::time::Duration::from_mins(12));
    assert_eq!(whoami(&robot).await, Err(401));
    let answer = http
        .post(
            &format!("{ACCOUNTS}/robot/token"),
            &json!({"spec": {"expirationSeconds": 10}}),
        )
        .await;
    assert_eq!(answer.refusal(), (422, "Invalid"));
}

#[tokio::test]
async fn permissions_hold_from_the_answer_on() {
    let (server, http) = start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let bob = Http::new(server.client_as("bob", &[]).await);
    create(&http, roles, &json!({"metadata": {"name": "secrets"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]})).await;
    let binding = json!({"metadata": {"name": "bob"}, "roleRef": {"kind": "ClusterRole", "name": "secrets", "apiGroup": "rbac.authorization.k8s.io"}, "subjects": [{"kind": "User", "name": "bob"}]});
    for _ in 0..5 {
        assert_eq!(bob.get(SECRETS).await.code, 403);
        create(&http, bindings, &binding).await;
        assert_eq!(bob.get(SECRETS).await.code, 200);
        http.delete(&one(bindings, "bob")).await.expect(200);
    }
    // A user cannot grant permissions that they lack.
    create(&http, bindings, &binding).await;
    let escalation = json!({"metadata": {"name": "more"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]});
    create(&http, roles, &json!({"metadata": {"name": "role-writer"}, "rules": [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["create"]}]})).await;
    create(&http, bindings, &json!({"metadata": {"name": "bob-writes"}, "roleRef": {"kind": "ClusterRole", "name": "role-writer", "apiGroup": "rbac.authorization.k8s.io"}, "subjects": [{"kind": "User", "name": "bob"}]})).await;
    assert_eq!(
        bob.post(roles, &escalation).await.refusal(),
        (403, "Forbidden")
    );
    bob.post(roles, &json!({"metadata": {"name": "less"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]})).await.expect(201);
    eventually("aggregation settles", || async {
        http.get(&one(roles, "less")).await.code == 200
    })
    .await;
}
