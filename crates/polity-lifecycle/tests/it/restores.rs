//! Objects of the controller that somebody edits or deletes come back at once, not in the next slow round.

use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use polity_lifecycle::lifecycle::WebhookKind;
use polity_testing::eventually;
use serde_json::{Value, json};

use crate::cluster::{NAMESPACE, TestCluster};
use crate::whole::Running;

/// Everything that a policy server owns, with an edit and the field that it changes. Some cannot be edited, or need not.
fn owned() -> Vec<(
    &'static str,
    &'static str,
    &'static str,
    Value,
    &'static str,
)> {
    let own = "policy-server-default";
    let rbac = "rbac.authorization.k8s.io/v1";
    let context = "kubewarden-context-watcher-default";
    let stranger = json!([{"kind": "ServiceAccount", "name": "stranger", "namespace": "default"}]);
    let selector = json!({"spec": {"selector": {"extra": "x"}}});
    vec![
        ("v1", "Service", own, selector.clone(), "/spec/selector"),
        ("v1", "Service", "peers-default", selector, "/spec/selector"),
        (
            "v1",
            "ConfigMap",
            own,
            json!({"data": {"server.yml": "{}"}}),
            "/data",
        ),
        (
            "v1",
            "Secret",
            own,
            json!({"data": {"tls.crt": "QUI="}}),
            "/data",
        ),
        (
            "v1",
            "Secret",
            "cache-signer-default",
            json!({"data": {"tls.crt": "QUI="}}),
            "/data",
        ),
        ("v1", "ServiceAccount", own, Value::Null, ""),
        (
            "v1",
            "PersistentVolumeClaim",
            "policy-server-default-cache",
            Value::Null,
            "",
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            own,
            json!({"spec": {"minAvailable": 0}}),
            "/spec",
        ),
        (rbac, "Role", own, json!({"rules": []}), "/rules"),
        (
            rbac,
            "RoleBinding",
            own,
            json!({"subjects": stranger}),
            "/subjects",
        ),
        (
            rbac,
            "ClusterRoleBinding",
            context,
            json!({"subjects": stranger}),
            "/subjects",
        ),
        ("coordination.k8s.io/v1", "Lease", own, Value::Null, ""),
        (
            "apps/v1",
            "StatefulSet",
            own,
            json!({"spec": {"replicas": 7}}),
            "/spec/replicas",
        ),
    ]
}

fn api(cluster: &TestCluster, api_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if kind == "ClusterRoleBinding" {
        Api::all_with(cluster.client.clone(), &resource)
    } else {
        Api::namespaced_with(cluster.client.clone(), NAMESPACE, &resource)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_policy_server_owns_comes_back_after_an_edit_or_a_deletion() {
    let cluster = TestCluster::bare().await;
    let running = Running::start(&cluster).await;
    cluster
        .add_server(json!({"minAvailable": 1, "cache": {"size": "1Gi"}}))
        .await;
    for (api_version, kind, name, edit, field) in owned() {
        let objects = api(&cluster, api_version, kind);
        let what = format!("{kind} {name}");
        let before = eventually(&what, || async { objects.get_opt(name).await.unwrap() }).await;
        if !edit.is_null() {
            // Certificates are made anew; everything else is as it was.
            let is_remade = kind == "Secret";
            let wanted = before.data.pointer(field).cloned();
            let params = PatchParams::default();
            let edited = objects.patch(name, &params, &Patch::Merge(&edit)).await;
            let edited = edited.unwrap().data.pointer(field).cloned();
            assert_ne!(edited, wanted, "{what}: the edit has an effect");
            eventually(&format!("{what} is restored after an edit"), || async {
                let found = objects
                    .get(name)
                    .await
                    .unwrap()
                    .data
                    .pointer(field)
                    .cloned();
                if is_remade {
                    found != edited
                } else {
                    found == wanted
                }
            })
            .await;
        }
        objects
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
        eventually(
            &format!("{what} is restored after its deletion"),
            || async {
                let found = objects.get_opt(name).await.unwrap();
                found.is_some_and(|found| found.uid() != before.uid())
            },
        )
        .await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_of_a_policy_comes_back_after_an_edit_or_a_deletion() {
    let cluster = TestCluster::start().await;
    let running = Running::start(&cluster).await;
    cluster.add_policy("p").await;
    eventually("there is a revision", || async {
        !cluster.revisions_of("p").await.is_empty()
    })
    .await;
    cluster.load("p").await;
    let hooks = cluster.hooks(WebhookKind::Validating);
    let name = "clusterwide-p";
    let before = eventually("the webhook", || async {
        hooks.get_opt(name).await.unwrap()
    })
    .await;
    let is_back = async |edit: &str| {
        eventually(&format!("the webhook is back after {edit}"), || async {
            let found = hooks.get_opt(name).await.unwrap();
            found.is_some_and(|found| {
                found.data["webhooks"] == before.data["webhooks"]
                    && found.labels() == before.labels()
                    && found.annotations().contains_key("kubewarden.io/policy-uid")
            })
        })
        .await;
    };
    let params = PatchParams::default();
    let blind = json!({"/webhooks/0/failurePolicy": "Ignore", "/webhooks/0/timeoutSeconds": 1});
    let blind: Vec<_> = blind
        .as_object()
        .unwrap()
        .iter()
        .map(|(path, value)| json!({"op": "replace", "path": path, "value": value}))
        .collect();
    let blind: Patch<()> = Patch::Json(serde_json::from_value(json!(blind)).unwrap());
    hooks.patch(name, &params, &blind).await.unwrap();
    is_back("an edit").await;
    let unlabelled = Patch::Merge(json!({"metadata": {"labels": null}}));
    hooks.patch(name, &params, &unlabelled).await.unwrap();
    is_back("the removal of its label").await;
    let anonymous = json!({"metadata": {"annotations": {"kubewarden.io/policy-uid": null}}});
    hooks
        .patch(name, &params, &Patch::Merge(anonymous))
        .await
        .unwrap();
    is_back("the removal of its annotation").await;
    hooks.delete(name, &DeleteParams::default()).await.unwrap();
    is_back("a deletion").await;
    running.stop().await;
}
