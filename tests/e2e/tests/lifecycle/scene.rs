//! What scenarios share: the stages, a namespace, policies that look at it, and Pods that are tried there.

use std::sync::OnceLock;

use e2e::eventually::eventually_seen;
use e2e::stage::NAMESPACE;
use e2e::{Kubectl, Stage, eventually};
use http::Request;
use serde_json::{Value, json};

use crate::modules;

/// A namespace on a stage.
pub(crate) struct Scene {
    pub(crate) stage: &'static Stage,
    /// The name of the namespace, and the beginning of every other name.
    pub(crate) name: String,
    /// kubectl in the namespace.
    pub(crate) k: Kubectl,
}

/// The stage of the embedded API server.
pub(crate) fn embedded() -> Option<&'static Stage> {
    static STAGE: OnceLock<Option<Stage>> = OnceLock::new();
    STAGE
        .get_or_init(|| Stage::embedded().inspect(prepare))
        .as_ref()
}

/// The stage of the real Kubernetes.
pub(crate) fn real() -> Option<&'static Stage> {
    static STAGE: OnceLock<Option<Stage>> = OnceLock::new();
    STAGE
        .get_or_init(|| Stage::real().inspect(prepare))
        .as_ref()
}

/// Lets the first policy server pull from the network of this process.
fn prepare(stage: &Stage) {
    let sources = json!({"spec": {"insecureSources": [modules::host()]}});
    stage.kubectl().ok(&format!(
        "patch policyserver default --type=merge -p '{sources}'"
    ));
}

/// Plays a scenario in a namespace that is named after it.
pub(crate) fn play(stage: Option<&'static Stage>, name: &str, scenario: impl FnOnce(&Scene)) {
    let Some(stage) = stage else { return };
    let name = name.replace('_', "-");
    let k = stage.kubectl();
    k.ok(&format!("create namespace {name}"));
    let scene = Scene {
        stage,
        k: k.in_namespace(&name),
        name,
    };
    eventually("the namespace has its ServiceAccount", || {
        let account = format!("/api/v1/namespaces/{}/serviceaccounts/default", scene.name);
        scene.stage.get(&account)
    });
    scenario(&scene);
    scene.close();
}

/// Turns functions over a [`Scene`] into tests on both stages, or on ours alone where the API server has no say.
macro_rules! scenarios {
    (embedded: $($name:ident),+ $(,)?) => {
        mod embedded {
            $(#[test] fn $name() { crate::scene::play(crate::scene::embedded(), stringify!($name), super::$name); })+
        }
    };
    ($($name:ident),+ $(,)?) => {
        crate::scene::scenarios![embedded: $($name),+];
        mod real {
            $(#[test] fn $name() { crate::scene::play(crate::scene::real(), stringify!($name), super::$name); })+
        }
    };
}
pub(crate) use scenarios;

impl Scene {
    /// Takes away the policy servers of this scene, and waits for nothing: the others need the room.
    fn close(&self) {
        let all = self.stage.read("policyservers").unwrap_or_default();
        let names = all["items"].as_array().into_iter().flatten();
        let names = names.filter_map(|server| server["metadata"]["name"].as_str());
        for name in names.filter(|name| name.starts_with(&self.name)) {
            self.k
                .ok(&format!("delete policyserver {name} --wait=false"));
        }
    }

    /// A ClusterAdmissionPolicy over new Pods of this namespace, by the module of one of our own policies.
    pub(crate) fn policy(&self, module: &str) -> Value {
        json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
            "metadata": {"name": self.name},
            "spec": {
                "module": self.stage.module(module),
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

    /// The revisions of the policy of this scene.
    pub(crate) fn revisions(&self) -> Vec<Value> {
        self.revisions_of(&self.name)
    }

    /// The revisions of a policy.
    pub(crate) fn revisions_of(&self, policy: &str) -> Vec<Value> {
        let all = self
            .stage
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

    /// How often an Event of this reason was told about the policy of this scene.
    pub(crate) fn events(&self, reason: &str) -> usize {
        let path = "/apis/events.k8s.io/v1/namespaces/default/events";
        let all = self.stage.get(path).unwrap();
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

    /// Makes a policy server of so many replicas, and waits until they are ready.
    #[track_caller]
    pub(crate) fn server(&self, name: &str, replicas: u64) {
        self.server_with(name, json!({"replicas": replicas}));
        self.replicas_are_ready(name, replicas);
    }

    /// Makes a policy server with these fields beside those that all have. It pulls from the network of this process,
    /// or from where it is told to.
    #[track_caller]
    pub(crate) fn server_with(&self, name: &str, mut spec: Value) {
        spec["image"] = json!("polity:stage");
        if spec["insecureSources"].is_null() {
            spec["insecureSources"] = json!([modules::host()]);
        }
        self.apply(&json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer",
            "metadata": {"name": name}, "spec": spec,
        }));
    }

    /// Waits until a policy server has just so many replicas, and all are ready.
    #[track_caller]
    pub(crate) fn replicas_are_ready(&self, server: &str, replicas: u64) {
        eventually(&format!("{server} has {replicas} ready replicas"), || {
            let pods = self.stage.pods(server);
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
            let lease = self.stage.get(&lease)?;
            let (pod, _) = lease["spec"]["holderIdentity"].as_str()?.split_once('_')?;
            Some(pod.to_owned())
        })
    }

    /// Has the API server refuse every status of a revision, for the policy server of this scene, that has a condition
    /// like this, instead of what it refused so far.
    pub(crate) fn gate(&self, condition: &str) {
        let refused =
            format!("has(object.status) && object.status.conditions.exists(c, {condition})");
        self.apply(&json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": format!("gate-{}", self.name)},
            "webhooks": [{
                "name": "gate.e2e.polity.dev",
                // Nobody listens there.
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

    /// Lets every status through again.
    pub(crate) fn open_gate(&self) {
        self.k.ok(&format!(
            "delete validatingwebhookconfiguration gate-{}",
            self.name
        ));
    }

    /// Tries to create a Pod in this namespace, and creates none; what the API server says when it refuses.
    pub(crate) fn try_pod(&self, privileged: bool) -> Result<(), String> {
        self.try_this_pod(json!({"name": "trial"}), privileged)
    }

    /// The same with metadata of one's own.
    pub(crate) fn try_this_pod(&self, metadata: Value, privileged: bool) -> Result<(), String> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"containers": [{
                "name": "trial", "image": "busybox:1", "securityContext": {"privileged": privileged},
            }]},
        });
        let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", self.name);
        let request = Request::post(path).header("Content-Type", "application/json");
        self.stage
            .send(request.body(pod.to_string().into_bytes()).unwrap())
            .map(drop)
    }

    /// A privileged Pod is refused with these words, an ordinary one is not; from now on, as far as that is ours to say.
    #[track_caller]
    pub(crate) fn enforces(&self, words: &str) {
        if !self.stage.learns_at_once() {
            self.soon_enforces(words);
        }
        let refusal = self.try_pod(true).unwrap_err();
        assert!(refusal.contains(words), "{refusal}");
        assert_eq!(self.try_pod(false), Ok(()));
    }

    /// [`Self::enforces`] in a moment: a replica is ready before everybody has learnt where it is.
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
