//! A namespace per scenario with helpers for its policies, policy servers and Pods, and the installations that
//! scenarios share.

use std::sync::OnceLock;

use e2e::eventually::eventually_seen;
use e2e::installation::NAMESPACE;
use e2e::{Installation, Kubectl, eventually};
use http::Request;
use serde_json::{Value, json};

use crate::modules;

/// The namespace of one scenario in an installation.
pub(crate) struct TestNamespace {
    pub(crate) installation: &'static Installation,
    /// The name of the namespace, and the prefix of the names of all other objects.
    pub(crate) name: String,
    /// kubectl in the namespace.
    pub(crate) k: Kubectl,
}

/// The installation on the embedded API server.
pub(crate) fn embedded() -> Option<&'static Installation> {
    static INSTALLATION: OnceLock<Option<Installation>> = OnceLock::new();
    INSTALLATION
        .get_or_init(|| Installation::embedded().inspect(prepare))
        .as_ref()
}

/// The installation on the real Kubernetes.
pub(crate) fn real() -> Option<&'static Installation> {
    static INSTALLATION: OnceLock<Option<Installation>> = OnceLock::new();
    INSTALLATION
        .get_or_init(|| Installation::real().inspect(prepare))
        .as_ref()
}

/// Allows the default policy server to pull modules from the test process.
fn prepare(installation: &Installation) {
    let sources = json!({"spec": {"insecureSources": [modules::host()]}});
    installation.kubectl().ok(&format!(
        "patch policyserver default --type=merge -p '{sources}'"
    ));
}

/// Runs a scenario in a namespace that is named after it.
pub(crate) fn run(
    installation: Option<&'static Installation>,
    name: &str,
    scenario: impl FnOnce(&TestNamespace),
) {
    let Some(installation) = installation else {
        return;
    };
    let name = name.replace('_', "-");
    let k = installation.kubectl();
    k.ok(&format!("create namespace {name}"));
    let test_namespace = TestNamespace {
        installation,
        k: k.in_namespace(&name),
        name,
    };
    eventually("the namespace has its ServiceAccount", || {
        let account = format!(
            "/api/v1/namespaces/{}/serviceaccounts/default",
            test_namespace.name
        );
        test_namespace.installation.get(&account)
    });
    scenario(&test_namespace);
    test_namespace.close();
}

/// Turns functions over a [`TestNamespace`] into tests on both installations, or only on the embedded one if the API
/// server does not matter.
macro_rules! scenarios {
    (embedded: $($name:ident),+ $(,)?) => {
        mod embedded {
            $(#[test] fn $name() { crate::test_namespace::run(crate::test_namespace::embedded(), stringify!($name), super::$name); })+
        }
    };
    ($($name:ident),+ $(,)?) => {
        crate::test_namespace::scenarios![embedded: $($name),+];
        mod real {
            $(#[test] fn $name() { crate::test_namespace::run(crate::test_namespace::real(), stringify!($name), super::$name); })+
        }
    };
}
pub(crate) use scenarios;

impl TestNamespace {
    /// Deletes the policy servers of this scenario without waiting, to free memory for the others.
    fn close(&self) {
        let all = self.installation.read("policyservers").unwrap_or_default();
        let names = all["items"].as_array().into_iter().flatten();
        let names = names.filter_map(|server| server["metadata"]["name"].as_str());
        for name in names.filter(|name| name.starts_with(&self.name)) {
            self.k
                .ok(&format!("delete policyserver {name} --wait=false"));
        }
    }

    /// A ClusterAdmissionPolicy for new Pods in this namespace, with one of our modules.
    pub(crate) fn policy(&self, module: &str) -> Value {
        json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
            "metadata": {"name": self.name},
            "spec": {
                "module": self.installation.module(module),
                "mutating": false,
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
                }],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.name}},
            },
        })
    }

    /// The path of that policy.
    pub(crate) fn path(&self) -> String {
        format!("clusteradmissionpolicies/{}", self.name)
    }

    /// Applies an object as users do.
    #[track_caller]
    pub(crate) fn apply(&self, object: &Value) {
        self.k.apply(&object.to_string());
    }

    /// The revisions of the policy of this scenario.
    pub(crate) fn revisions(&self) -> Vec<Value> {
        self.revisions_of(&self.name)
    }

    /// The revisions of a policy.
    pub(crate) fn revisions_of(&self, policy: &str) -> Vec<Value> {
        let all = self
            .installation
            .read(&format!("namespaces/{NAMESPACE}/policyrevisions"))
            .unwrap();
        let of_ours =
            |revision: &&Value| revision["spec"]["objectReference"]["name"] == json!(policy);
        all["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(of_ours)
            .cloned()
            .collect()
    }

    /// How often an Event with this reason was reported for the policy of this scenario.
    pub(crate) fn events(&self, reason: &str) -> usize {
        let path = "/apis/events.k8s.io/v1/namespaces/default/events";
        let all = self.installation.get(path).unwrap();
        let of_ours = |event: &&Value| {
            event["regarding"]["name"] == json!(self.name) && event["reason"] == reason
        };
        all["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(of_ours)
            .map(|event| event["series"]["count"].as_u64().unwrap_or(1) as usize)
            .sum()
    }

    /// Creates a policy server with this number of replicas, and waits until they are ready.
    #[track_caller]
    pub(crate) fn server(&self, name: &str, replicas: u64) {
        self.server_with(name, json!({"replicas": replicas}));
        self.replicas_are_ready(name, replicas);
    }

    /// Creates a policy server with these fields in addition to the common ones. By default it may pull modules from
    /// the test process.
    #[track_caller]
    pub(crate) fn server_with(&self, name: &str, mut spec: Value) {
        spec["image"] = json!("polity:e2e");
        if spec["insecureSources"].is_null() {
            spec["insecureSources"] = json!([modules::host()]);
        }
        self.apply(&json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer",
            "metadata": {"name": name}, "spec": spec,
        }));
    }

    /// Waits until a policy server has exactly this number of replicas, and all are ready.
    #[track_caller]
    pub(crate) fn replicas_are_ready(&self, server: &str, replicas: u64) {
        eventually(&format!("{server} has {replicas} ready replicas"), || {
            let pods = self.installation.pods(server);
            let is_ready = |pod: &Value| pod["status"]["containerStatuses"][0]["ready"] == true;
            (pods.len() as u64 == replicas && pods.values().all(is_ready)).then_some(())
        });
    }

    /// The ordinal of the replica that leads a policy server.
    pub(crate) fn leader(&self, server: &str) -> u64 {
        let pod = self.leading_pod(server);
        let ordinal = pod.rsplit_once('-').unwrap().1;
        ordinal.parse().unwrap()
    }

    /// The name of the Pod that leads a policy server.
    pub(crate) fn leading_pod(&self, server: &str) -> String {
        let lease = format!(
            "/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/policy-server-{server}"
        );
        eventually("one of them leads", || {
            let lease = self.installation.get(&lease)?;
            let (pod, _) = lease["spec"]["holderIdentity"].as_str()?.split_once('_')?;
            Some(pod.to_owned())
        })
    }

    /// Makes the API server refuse status writes of revisions on this scenario's policy server if they contain a
    /// matching condition. Replaces the previous gate.
    pub(crate) fn gate(&self, condition: &str) {
        let refused =
            format!("has(object.status) && object.status.conditions.exists(c, {condition})");
        self.apply(&json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": format!("gate-{}", self.name)},
            "webhooks": [{
                "name": "gate.e2e.polity.dev",
                // No server listens on this port.
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "objectSelector": {"matchLabels": {"kubewarden.io/policy-server": self.name}},
                "matchConditions": [{"name": "held", "expression": refused}],
                "rules": [{
                    "apiGroups": ["policies.kubewarden.io"], "apiVersions": ["v1"],
                    "resources": ["policyrevisions/status"], "operations": ["UPDATE"],
                }],
            }],
        }));
    }

    /// Removes the gate.
    pub(crate) fn open_gate(&self) {
        self.k.ok(&format!(
            "delete validatingwebhookconfiguration gate-{}",
            self.name
        ));
    }

    /// Sends a dry run that creates a Pod in this namespace. Returns the error message of a refusal.
    pub(crate) fn try_pod(&self, privileged: bool) -> Result<(), String> {
        self.try_this_pod(json!({"name": "trial"}), privileged)
    }

    /// Like [`Self::try_pod`], with this metadata.
    pub(crate) fn try_this_pod(&self, metadata: Value, privileged: bool) -> Result<(), String> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"containers": [{
                "name": "trial", "image": "busybox:1", "securityContext": {"privileged": privileged},
            }]},
        });
        let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", self.name);
        let request = Request::post(path).header("Content-Type", "application/json");
        self.installation
            .send(request.body(pod.to_string().into_bytes()).unwrap())
            .map(drop)
    }

    /// Asserts that a privileged Pod is denied with this message and another one is allowed. Waits only if the API
    /// server applies webhook changes with a delay.
    #[track_caller]
    pub(crate) fn enforces(&self, words: &str) {
        if !self.installation.applies_webhook_changes_at_once() {
            self.soon_enforces(words);
        }
        let refusal = self.try_pod(true).unwrap_err();
        assert!(refusal.contains(words), "{refusal}");
        assert_eq!(self.try_pod(false), Ok(()));
    }

    /// Like [`Self::enforces`], but retries: a replica is ready before all components have its address.
    #[track_caller]
    pub(crate) fn soon_enforces(&self, words: &str) {
        eventually_seen(&format!("{words:?} is enforced"), || {
            let refusal = self.try_pod(true).err().unwrap_or_default();
            if refusal.contains(words) && self.try_pod(false).is_ok() {
                Ok(())
            } else {
                Err(refusal)
            }
        });
    }
}
