//! What scenarios share: the stages, a namespace, policies that look at it, and Pods that are tried there.

use std::sync::OnceLock;

use e2e::{Kubectl, Stage, eventually};
use http::Request;
use serde_json::{Value, json};

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
    STAGE.get_or_init(Stage::embedded).as_ref()
}

/// The stage of the real Kubernetes.
pub(crate) fn real() -> Option<&'static Stage> {
    static STAGE: OnceLock<Option<Stage>> = OnceLock::new();
    STAGE.get_or_init(Stage::real).as_ref()
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
}

/// Turns functions over a [`Scene`] into tests on both stages.
macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {
        mod embedded {
            $(#[test] fn $name() { crate::scene::play(crate::scene::embedded(), stringify!($name), super::$name); })+
        }
        mod real {
            $(#[test] fn $name() { crate::scene::play(crate::scene::real(), stringify!($name), super::$name); })+
        }
    };
}
pub(crate) use scenarios;

impl Scene {
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

    /// Tries to create a Pod in this namespace, and creates none; what the API server says when it refuses.
    pub(crate) fn try_pod(&self, privileged: bool) -> Result<(), String> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "trial"},
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

    /// A privileged Pod is refused with these words, an ordinary one is not.
    #[track_caller]
    pub(crate) fn enforces(&self, words: &str) {
        let refusal = self.try_pod(true).unwrap_err();
        assert!(refusal.contains(words), "{refusal}");
        assert_eq!(self.try_pod(false), Ok(()));
    }
}
