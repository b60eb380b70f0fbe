//! An uninstall against the API server in this process.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use polity_api::policies::v1::{ClusterAdmissionPolicy, PolicyServer};
use polity_lifecycle::install::Installation;
use polity_runtime::Clock;
use polity_testing::{TestServer, eventually};
use serde_json::{Value, json};

use super::found::{Found, Home, Owned, Scope};
use super::remove::Removal;
use super::{observe, observed};
use crate::hub;
use crate::install::{self, Definition, Existing, apply_manifest};

const NAMESPACE: &str = "policies";

struct Installed {
    _server: TestServer,
    client: kube::Client,
}

impl Installed {
    async fn start() -> Self {
        let server = TestServer::start().await;
        let client = server.client().await;
        Self {
            _server: server,
            client,
        }
    }

    /// An installation with a policy in each mode, as its controller leaves them.
    async fn installed() -> Self {
        let installed = Self::start().await;
        install::install(&installed.client, &installation())
            .await
            .unwrap();
        for (name, mode) in [("strict", "protect"), ("relaxed", "monitor")] {
            installed.add(policy(name, mode)).await;
            installed
                .add(webhook(&format!("clusterwide-{name}"), Some(name)))
                .await;
            let status = json!({"status": {"policyStatus": "active"}});
            installed.patch_status(name, &status).await;
        }
        installed.bind_context_reader("default").await;
        let own = polity_lifecycle::webhooks::configuration_name(
            polity_lifecycle::webhooks::Verb::Validate,
        );
        installed.add(webhook(&own, None)).await;
        installed.add(webhook("foreign", None)).await;
        installed
    }

    /// A ClusterRoleBinding as the controller creates it for a policy server.
    async fn bind_context_reader(&self, name: &str) {
        let servers: Api<PolicyServer> = Api::all(self.client.clone());
        let server = servers.get("default").await.unwrap();
        self.add(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {
                "name": format!("policy-server-{name}-context"),
                "labels": {"app.kubernetes.io/part-of": "kubewarden"},
                "ownerReferences": [{
                    "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer",
                    "name": "default", "uid": server.uid(),
                }],
            },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "kubewarden-context-watcher",
            },
        }))
        .await;
    }

    async fn add(&self, manifest: Value) {
        apply_manifest(&self.client, &manifest, Existing::Replaced)
            .await
            .unwrap();
    }

    async fn patch_status(&self, policy: &str, status: &Value) {
        let params = PatchParams::default();
        let patch = Patch::Merge(status);
        let policies = self.policies();
        policies
            .patch_status(policy, &params, &patch)
            .await
            .unwrap();
    }

    fn policies(&self) -> Api<ClusterAdmissionPolicy> {
        Api::all(self.client.clone())
    }

    async fn found(&self) -> Found {
        observe::found(&self.client, NAMESPACE).await.unwrap()
    }

    fn removal(&self, scope: Scope) -> Removal {
        Removal {
            client: self.client.clone(),
            clock: Clock::system(),
            timeout: Duration::from_secs(30),
            scope,
        }
    }

    async fn uninstall(&self, scope: Scope) -> anyhow::Result<Vec<String>> {
        let removal = self.removal(scope);
        let mut told = Vec::new();
        let found = self.found().await;
        removal
            .run(&found, |progress| told.push(progress.to_owned()))
            .await?;
        Ok(told)
    }

    async fn webhooks(&self) -> Vec<String> {
        let hooks: Api<
            k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration,
        > = Api::all(self.client.clone());
        let list = hooks.list(&ListParams::default()).await.unwrap();
        list.iter().map(kube::ResourceExt::name_any).collect()
    }
}

fn installation() -> Installation {
    Installation {
        namespace: NAMESPACE.into(),
        image: "polity".into(),
        replicas: 1,
    }
}

fn policy(name: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
        "metadata": {"name": name, "finalizers": ["kubewarden.io/finalizer", "example.com/other"]},
        "spec": {
            "module": "registry.example/policy:1", "mutating": false, "mode": mode, "policyServer": "default",
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
            }],
        },
    })
}

/// A configuration with the label of an installation, and of a policy if it names one. No server answers.
fn webhook(name: &str, policy: Option<&str>) -> Value {
    let mut manifest = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "kubewarden"}},
        "webhooks": [],
    });
    if let Some(policy) = policy {
        manifest["metadata"]["annotations"] = json!({"kubewardenPolicyName": policy});
        manifest["webhooks"] = json!([{
            "name": "test.example.com", "failurePolicy": "Fail", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
            }],
        }]);
    }
    manifest
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_and_definitions_are_kept_and_can_be_deleted() {
    let installed = Installed::installed().await;
    let found = installed.found().await;
    let summary = found.summary(Scope::Installation);
    for expected in [
        "  2 webhook configurations of policies\n",
        "  1 webhook configuration of the controller\n",
        "  Deployment policies/kubewarden-controller\n",
        "  Namespace policies, with everything in it\n",
        "kept:\n  2 policies\n  1 PolicyServer\n",
        "1 policy in protect mode is no longer enforced\n",
    ] {
        assert!(
            summary.contains(expected),
            "{expected:?} is not in:\n{summary}"
        );
    }

    installed.uninstall(Scope::Installation).await.unwrap();
    assert_eq!(installed.webhooks().await, ["foreign"]);
    let namespaces: Api<Namespace> = Api::all(installed.client.clone());
    assert!(namespaces.get_opt(NAMESPACE).await.unwrap().is_none());
    let roles: Api<ClusterRole> = Api::all(installed.client.clone());
    let ours = ListParams::default().labels("app.kubernetes.io/part-of=kubewarden");
    assert_eq!(roles.list(&ours).await.unwrap().items.len(), 0);
    let bindings: Api<ClusterRoleBinding> = Api::all(installed.client.clone());
    assert_eq!(bindings.list(&ours).await.unwrap().items.len(), 0);
    for name in ["strict", "relaxed"] {
        let policy = installed.policies().get(name).await.unwrap();
        assert_eq!(policy.finalizers(), ["example.com/other"]);
        assert!(policy.status.is_none(), "{name} is not shown as active");
    }
    let servers: Api<PolicyServer> = Api::all(installed.client.clone());
    servers
        .delete("default", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    eventually("a kept policy server can be deleted", || async {
        servers.get_opt("default").await.unwrap().is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_has_nothing_to_do() {
    let installed = Installed::installed().await;
    installed.uninstall(Scope::Installation).await.unwrap();
    let found = installed.found().await;
    assert!(found.is_gone(Scope::Installation), "{found:?}");
    let summary = found.summary(Scope::Installation);
    assert!(
        summary.starts_with("nothing of Polity is left to remove"),
        "{summary}"
    );
    assert!(summary.contains("  2 policies\n"), "{summary}");
    assert!(!summary.contains("removed:"), "{summary}");
    installed.uninstall(Scope::Installation).await.unwrap();
    assert!(
        !found.is_gone(Scope::WithDefinitions),
        "the definitions are still there"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_and_policies_are_deleted_on_request() {
    let installed = Installed::installed().await;
    // A finalizer of another controller would hold the policy.
    for name in ["strict", "relaxed"] {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": ["kubewarden.io/finalizer"]}}));
        let params = PatchParams::default();
        installed
            .policies()
            .patch(name, &params, &patch)
            .await
            .unwrap();
    }
    let summary = installed.found().await.summary(Scope::WithDefinitions);
    assert!(
        summary.contains("CustomResourceDefinitions, with all objects of these kinds"),
        "{summary}"
    );
    assert!(
        summary.contains("1 policy in protect mode is no longer enforced"),
        "{summary}"
    );
    installed.uninstall(Scope::WithDefinitions).await.unwrap();
    let found = installed.found().await;
    assert!(found.is_gone(Scope::WithDefinitions), "{found:?}");
    assert_eq!(found.definitions, []);
    assert_eq!(installed.webhooks().await, ["foreign"]);
    installed.uninstall(Scope::WithDefinitions).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn half_an_installation_is_removed() {
    let installed = Installed::start().await;
    // Roles without the kinds that they are about, and no controller.
    for manifest in installation().roles() {
        if manifest["metadata"]["namespace"].is_null() {
            installed.add(manifest).await;
        }
    }
    installed
        .add(webhook("clusterwide-orphan", Some("orphan")))
        .await;
    let found = installed.found().await;
    assert_eq!(found.home, Home::Absent);
    assert!(!found.is_gone(Scope::Installation));
    installed.uninstall(Scope::WithDefinitions).await.unwrap();
    assert!(installed.found().await.is_gone(Scope::WithDefinitions));

    // Definitions, and nothing else.
    let definitions = Definition::all().unwrap();
    install::apply(&[("this one", installed.client.clone())], &definitions)
        .await
        .unwrap();
    assert!(installed.found().await.is_gone(Scope::Installation));
    installed.uninstall(Scope::WithDefinitions).await.unwrap();
    assert!(installed.found().await.is_gone(Scope::WithDefinitions));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_and_definitions_of_others_are_kept() {
    let installed = Installed::start().await;
    let namespaces: Api<Namespace> = Api::all(installed.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    let others = PostParams {
        field_manager: Some("others".into()),
        ..PostParams::default()
    };
    namespaces.create(&others, &namespace).await.unwrap();
    install::install(&installed.client, &installation())
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(installed.client.clone(), NAMESPACE);
    let map = serde_json::from_value(json!({"metadata": {"name": "theirs"}})).unwrap();
    maps.create(&others, &map).await.unwrap();
    let kind = kube::api::ApiResource::erase::<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    >(&());
    let definitions: Api<DynamicObject> = Api::all_with(installed.client.clone(), &kind);
    let shared = "policies.policy.open-cluster-management.io";
    let params = PatchParams {
        field_manager: Some("others".into()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"metadata": {"labels": {"by": "others"}}}));
    definitions.patch(shared, &params, &patch).await.unwrap();

    let summary = installed.found().await.summary(Scope::WithDefinitions);
    for expected in [
        "  Namespace policies, which is used by others\n".to_owned(),
        format!("  CustomResourceDefinition {shared}, which is used by others\n"),
    ] {
        assert!(
            summary.contains(&expected),
            "{expected:?} is not in:\n{summary}"
        );
    }
    installed.uninstall(Scope::WithDefinitions).await.unwrap();
    assert!(maps.get_opt("theirs").await.unwrap().is_some());
    assert!(definitions.get_opt(shared).await.unwrap().is_some());
    let found = installed.found().await;
    assert!(found.is_gone(Scope::WithDefinitions), "{found:?}");
    assert_eq!(found.home, Home::Shared);
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_stay_until_the_controller_has_ended() {
    let installed = Installed::installed().await;
    let pods: Api<Pod> = Api::namespaced(installed.client.clone(), NAMESPACE);
    let labels = json!({"app.kubernetes.io/part-of": "kubewarden", "app.kubernetes.io/component": "controller"});
    // Bound to a node, so that a deletion waits for a kubelet.
    let pod = json!({
        "metadata": {"name": "running", "labels": labels, "finalizers": ["example.com/kubelet"]},
        "spec": {"serviceAccountName": "kubewarden-controller", "nodeName": "n", "containers": [{"name": "controller", "image": "polity"}]},
    });
    // Webhooks that call nobody let the Pod of this test through.
    for name in ["strict", "relaxed"] {
        let mut open = webhook(&format!("clusterwide-{name}"), Some(name));
        open["webhooks"] = json!([]);
        installed.add(open).await;
    }
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let removal = Removal {
        client: installed.client.clone(),
        clock: Clock::system(),
        timeout: Duration::ZERO,
        scope: Scope::Installation,
    };
    let found = installed.found().await;
    let error = removal.run(&found, |_| {}).await.unwrap_err().to_string();
    assert!(
        error.starts_with("1 pod of the controller did not end"),
        "{error}"
    );
    assert_eq!(
        installed.webhooks().await.len(),
        4,
        "nothing else was removed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_appear_after_the_confirmation_are_removed_too() {
    for scope in [Scope::Installation, Scope::WithDefinitions] {
        let installed = Installed::installed().await;
        let confirmed = installed.found().await;
        installed
            .add(webhook("clusterwide-late", Some("late")))
            .await;
        installed.bind_context_reader("late").await;
        if scope == Scope::WithDefinitions {
            // A finalizer of another controller would hold the policy.
            for name in ["strict", "relaxed"] {
                let ours = json!({"metadata": {"finalizers": ["kubewarden.io/finalizer"]}});
                let params = PatchParams::default();
                let patch = Patch::Merge(ours);
                installed
                    .policies()
                    .patch(name, &params, &patch)
                    .await
                    .unwrap();
            }
        }
        installed
            .removal(scope)
            .run(&confirmed, |_| {})
            .await
            .unwrap();
        assert_eq!(installed.webhooks().await, ["foreign"], "{scope:?}");
        let found = installed.found().await;
        assert!(found.is_gone(scope), "{scope:?}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_release_is_checked() {
    let installed = Installed::installed().await;
    let removal = installed.removal(Scope::Installation);
    assert!(installed.found().await.owned.iter().any(Owned::is_held));
    let error = removal.release_all(0).await.unwrap_err().to_string();
    assert!(error.starts_with("another process keeps"), "{error}");
    removal.release_all(1).await.unwrap();
    assert!(!installed.found().await.owned.iter().any(Owned::is_held));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_hub_is_refused_without_policy_server_too() {
    let installed = Installed::start().await;
    assert!(observed(&installed.client, NAMESPACE).await.is_ok());
    // All that `polity up --no-policy-server` applies.
    for manifest in hub::manifests(&hub::installation()) {
        installed.add(manifest).await;
    }
    for namespace in [hub::NAMESPACE, NAMESPACE] {
        let error = observed(&installed.client, namespace).await.unwrap_err();
        assert!(error.to_string().contains("runs in `polity up`"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_only_deleted_with_our_label_and_our_controller_in_it() {
    let installed = Installed::start().await;
    let namespace = |part_of: &str| {
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {"app.kubernetes.io/part-of": part_of}},
        })
    };
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {
            "name": "kubewarden-controller", "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/part-of": "kubewarden"},
        },
    });
    installed.add(namespace("kubewarden")).await;
    assert_eq!(installed.found().await.home, Home::Shared, "no controller");
    installed.add(account).await;
    assert_eq!(installed.found().await.home, Home::Ours);
    installed.add(namespace("shop")).await;
    assert_eq!(
        installed.found().await.home,
        Home::Shared,
        "another's label"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_after_an_interrupted_one_still_deletes_the_namespace() {
    let installed = Installed::installed().await;
    // A finalizer holds the namespace, so the first run ends before its deletion does.
    let maps: Api<ConfigMap> = Api::namespaced(installed.client.clone(), NAMESPACE);
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    let held = serde_json::from_value(held).unwrap();
    maps.create(&PostParams::default(), &held).await.unwrap();
    let first = Removal {
        timeout: Duration::ZERO,
        ..installed.removal(Scope::Installation)
    };
    let error = first
        .run(&installed.found().await, |_| {})
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("is still being deleted"),
        "{error}"
    );
    let found = installed.found().await;
    assert_eq!(found.home, Home::Ours);
    assert!(!found.is_gone(Scope::Installation));
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let freed = maps.patch("held", &PatchParams::default(), &free).await;
    freed.unwrap();
    installed.uninstall(Scope::Installation).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(installed.client.clone());
    assert!(namespaces.get_opt(NAMESPACE).await.unwrap().is_none());
}
