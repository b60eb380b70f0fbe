//! What is judged: policies of different modules over different resources, and for each an object that every generation
//! refuses and one that every generation lets pass.

use serde_json::{Value, json};

/// Where the objects of the requests would be. Nothing is ever stored: every request is a dry run.
pub const NAMESPACE: &str = "chaos";

/// A policy and what it is asked about.
#[derive(Debug)]
pub struct Subject {
    /// The policy, and the resource that it is about.
    pub name: &'static str,
    /// One of our own policies.
    pub module: &'static str,
    kind: (&'static str, &'static str, &'static str),
    /// Settings that differ and mean the same.
    settings: fn(i64) -> Value,
    object: fn(bool) -> Value,
}

/// All of them.
pub static SUBJECTS: [Subject; 5] = [
    Subject {
        name: "pods",
        module: "pod-privileged",
        kind: ("", "v1", "Pod"),
        settings: |n| json!({"skip_ephemeral_containers": n % 2 == 0}),
        object: |is_guilty| json!({"spec": pod("registry.example/web:1", is_guilty)}),
    },
    Subject {
        name: "configmaps",
        module: "required-metadata",
        kind: ("", "v1", "ConfigMap"),
        settings: |n| json!({"labels": {"required": ["team"], "denied": [format!("no-{n}")]}}),
        object: |is_guilty| json!({"metadata": {"labels": team(is_guilty)}}),
    },
    Subject {
        name: "services",
        module: "required-metadata",
        kind: ("", "v1", "Service"),
        settings: |n| json!({"labels": {"required": ["team"], "values": {"tier": [format!("t{n}")]}}}),
        object: |is_guilty| json!({"metadata": {"labels": team(is_guilty)}, "spec": {"ports": [{"port": 80}]}}),
    },
    Subject {
        name: "deployments",
        module: "trusted-registries",
        kind: ("apps", "v1", "Deployment"),
        settings: |n| json!({"allowed": ["registry.example"], "rejected_tags": [format!("v{n}")]}),
        object: |is_guilty| {
            let registry = if is_guilty { "elsewhere" } else { "registry" };
            workload(&pod(&format!("{registry}.example/web:1"), false))
        },
    },
    Subject {
        name: "daemonsets",
        module: "pod-privileged",
        kind: ("apps", "v1", "DaemonSet"),
        settings: |n| json!({"skip_init_containers": n % 2 == 0}),
        object: |is_guilty| workload(&pod("registry.example/web:1", is_guilty)),
    },
];

fn pod(image: &str, is_privileged: bool) -> Value {
    json!({"containers": [{
        "name": "web", "image": image, "securityContext": {"privileged": is_privileged},
    }]})
}

fn workload(pod: &Value) -> Value {
    let labels = json!({"app": "web"});
    json!({"spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }})
}

/// What everybody must say and the guilty do not.
fn team(is_guilty: bool) -> Value {
    match is_guilty {
        true => json!({"app": "web"}),
        false => json!({"app": "web", "team": "a"}),
    }
}

impl Subject {
    /// The one whose policy has this name.
    pub fn of(policy: &str) -> Option<&'static Self> {
        SUBJECTS.iter().find(|subject| subject.name == policy)
    }

    /// The id under which policy servers know the policy.
    pub fn id(&self) -> String {
        format!("clusterwide-{}", self.name)
    }

    /// The specification of a generation that works, with the URI of its module.
    pub fn spec(&self, module: &str, generation: i64) -> Value {
        let (group, version, _) = self.kind;
        json!({
            "policyServer": "default",
            "module": module,
            "settings": (self.settings)(generation),
            "message": words_of(self.name, generation),
            "rules": [{
                "apiGroups": [group], "apiVersions": [version], "resources": [self.name],
                "operations": ["CREATE"],
            }],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
            "failurePolicy": "Fail",
            "mutating": false,
            "mode": "protect",
            "backgroundAudit": false,
        })
    }

    /// Where such objects are created; nothing is stored.
    pub fn path(&self) -> String {
        let (group, version, _) = self.kind;
        let base = match group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        format!("{base}/namespaces/{NAMESPACE}/{}?dryRun=All", self.name)
    }

    /// An object that the policy refuses, or lets pass.
    pub fn object(&self, is_guilty: bool) -> Value {
        let (group, version, kind) = self.kind;
        let mut object = (self.object)(is_guilty);
        object["apiVersion"] = match group {
            "" => json!(version),
            group => json!(format!("{group}/{version}")),
        };
        object["kind"] = json!(kind);
        object["metadata"]["name"] = json!("asked-about");
        object["metadata"]["namespace"] = json!(NAMESPACE);
        object
    }

    /// What an API server asks a policy server.
    pub fn review(&self, is_guilty: bool) -> Value {
        let (group, version, kind) = self.kind;
        let kind = json!({"group": group, "version": version, "kind": kind});
        let resource = json!({"group": group, "version": version, "resource": self.name});
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "chaos", "kind": kind, "requestKind": kind,
                "resource": resource, "requestResource": resource,
                "name": "asked-about", "namespace": NAMESPACE, "operation": "CREATE",
                "userInfo": {"username": "ann", "groups": ["system:authenticated"]},
                "object": self.object(is_guilty), "dryRun": true,
                "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
            },
        })
    }
}

/// The words with which generation `n` of a policy refuses.
pub fn words_of(policy: &str, generation: i64) -> String {
    format!("refused by generation {generation} of {policy}.")
}

/// The generation that speaks.
pub fn generation_in(policy: &str, words: &str) -> Option<i64> {
    let (_, rest) = words.split_once("refused by generation ")?;
    let (generation, rest) = rest.split_once(" of ")?;
    let (speaker, _) = rest.split_once('.')?;
    (speaker == policy).then(|| generation.parse().ok())?
}
