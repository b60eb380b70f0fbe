//! Policies for tests under load. They use different modules and resources. For each there is an object that every
//! generation denies, and one that every generation allows.

use serde_json::{Value, json};

/// The namespace of the objects. Every request is a dry run, so nothing is stored.
pub const NAMESPACE: &str = "chaos";

/// A policy with the objects that it reviews.
#[derive(Debug)]
pub struct TestPolicy {
    /// The name of the policy and of the resource that it reviews.
    pub name: &'static str,
    /// The name of one of the policy modules in this repository.
    pub module: &'static str,
    kind: (&'static str, &'static str, &'static str),
    /// Settings that differ between generations but have the same effect.
    settings: fn(i64) -> Value,
    object: fn(bool) -> Value,
}

pub static TEST_POLICIES: [TestPolicy; 5] = [
    TestPolicy {
        name: "pods",
        module: "pod-privileged",
        kind: ("", "v1", "Pod"),
        settings: |n| json!({"skip_ephemeral_containers": n % 2 == 0}),
        object: |violates| json!({"spec": pod("registry.example/web:1", violates)}),
    },
    TestPolicy {
        name: "configmaps",
        module: "required-metadata",
        kind: ("", "v1", "ConfigMap"),
        settings: |n| json!({"labels": {"required": ["team"], "denied": [format!("no-{n}")]}}),
        object: |violates| json!({"metadata": {"labels": team(violates)}}),
    },
    TestPolicy {
        name: "services",
        module: "required-metadata",
        kind: ("", "v1", "Service"),
        settings: |n| json!({"labels": {"required": ["team"], "values": {"tier": [format!("t{n}")]}}}),
        object: |violates| json!({"metadata": {"labels": team(violates)}, "spec": {"ports": [{"port": 80}]}}),
    },
    TestPolicy {
        name: "deployments",
        module: "trusted-registries",
        kind: ("apps", "v1", "Deployment"),
        settings: |n| json!({"allowed": ["registry.example"], "rejected_tags": [format!("v{n}")]}),
        object: |violates| {
            let registry = if violates { "elsewhere" } else { "registry" };
            workload(&pod(&format!("{registry}.example/web:1"), false))
        },
    },
    TestPolicy {
        name: "daemonsets",
        module: "pod-privileged",
        kind: ("apps", "v1", "DaemonSet"),
        settings: |n| json!({"skip_init_containers": n % 2 == 0}),
        object: |violates| workload(&pod("registry.example/web:1", violates)),
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

/// Labels with or without the required `team`.
fn team(violates: bool) -> Value {
    match violates {
        true => json!({"app": "web"}),
        false => json!({"app": "web", "team": "a"}),
    }
}

impl TestPolicy {
    /// Finds a test policy by name.
    pub fn of(policy: &str) -> Option<&'static Self> {
        TEST_POLICIES
            .iter()
            .find(|test_policy| test_policy.name == policy)
    }

    /// The id of the policy in policy servers.
    pub fn id(&self) -> String {
        format!("clusterwide-{}", self.name)
    }

    /// The spec of a working generation, with the URI of its module.
    pub fn spec(&self, module: &str, generation: i64) -> Value {
        let (group, version, _) = self.kind;
        json!({
            "policyServer": "default",
            "module": module,
            "settings": (self.settings)(generation),
            "message": denial_message(self.name, generation),
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

    /// The path to which objects of the policy's resource are posted, as a dry run.
    pub fn path(&self) -> String {
        let (group, version, _) = self.kind;
        let base = match group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        format!("{base}/namespaces/{NAMESPACE}/{}?dryRun=All", self.name)
    }

    /// An object that the policy denies (`violates`) or allows.
    pub fn object(&self, violates: bool) -> Value {
        let (group, version, kind) = self.kind;
        let mut object = (self.object)(violates);
        object["apiVersion"] = match group {
            "" => json!(version),
            group => json!(format!("{group}/{version}")),
        };
        object["kind"] = json!(kind);
        object["metadata"]["name"] = json!("reviewed");
        object["metadata"]["namespace"] = json!(NAMESPACE);
        object
    }

    /// The AdmissionReview that an API server sends for such an object.
    pub fn review(&self, violates: bool) -> Value {
        let (group, version, kind) = self.kind;
        let kind = json!({"group": group, "version": version, "kind": kind});
        let resource = json!({"group": group, "version": version, "resource": self.name});
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "chaos", "kind": kind, "requestKind": kind,
                "resource": resource, "requestResource": resource,
                "name": "reviewed", "namespace": NAMESPACE, "operation": "CREATE",
                "userInfo": {"username": "ann", "groups": ["system:authenticated"]},
                "object": self.object(violates), "dryRun": true,
                "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
            },
        })
    }
}

/// The message with which a generation of a policy denies a request.
pub fn denial_message(policy: &str, generation: i64) -> String {
    format!("refused by generation {generation} of {policy}.")
}

/// Reads the generation of a policy out of its denial message.
pub fn denying_generation(policy: &str, message: &str) -> Option<i64> {
    let (_, rest) = message.split_once("refused by generation ")?;
    let (generation, rest) = rest.split_once(" of ")?;
    let (name, _) = rest.split_once('.')?;
    (name == policy).then(|| generation.parse().ok())?
}
