//! The manifests of an installation: its namespace, accounts with no more rights than they use, the controller, and a
//! first policy server. `config/install/` is written from here, and `polity up` applies the same roles.

mod roles;

use std::net::SocketAddr;

use polity_api::policies::{GROUP, names};
use serde_json::{Value, json};

use crate::webhooks::SERVICE;

/// The controller: its Deployment, and its account.
pub const CONTROLLER: &str = "kubewarden-controller";
/// An account that PolicyServers can name. Those that name none get one of their own from the controller.
pub const POLICY_SERVER_ACCOUNT: &str = "policy-server";
/// The ClusterRole with what context-aware policies may read, by the name that installations know.
pub(crate) const CONTEXT_WATCHER: &str = "kubewarden-context-watcher";
/// What namespaced policies on the default policy server may ask its host for. Questions about the cluster are left out:
/// `can_i` would answer a tenant about every user.
pub const NAMESPACED_CAPABILITIES: [&str; 4] = ["oci/*", "net/*", "crypto/*", "cache/*"];
/// The account of the job that cleans up before an uninstall.
pub const CLEANUP_ACCOUNT: &str = "kubewarden-cleanup";
/// The policy server of policies that name none.
pub const DEFAULT_SERVER: &str = "default";
/// The port of the webhooks for our own kinds.
pub const WEBHOOK_PORT: u16 = 9443;
const WEBHOOK_PORT_NAME: &str = "webhooks";
/// The port of the probes.
pub const HEALTH_PORT: u16 = 8081;
/// The port of the metrics.
pub const METRICS_PORT: u16 = 8088;

/// What can be chosen about an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The namespace of the controller and of all policy servers.
    pub namespace: String,
    /// The image of controller and policy servers.
    pub image: String,
    /// How many replicas the first policy server has.
    pub replicas: i32,
}

impl Installation {
    /// The manifests by the file they stand in, in the order in which they are applied.
    pub fn files(&self) -> Vec<(&'static str, Vec<Value>)> {
        vec![
            ("1-namespace.yaml", vec![self.namespace()]),
            ("2-roles.yaml", self.roles()),
            ("3-controller.yaml", self.controller()),
            ("4-defaults.yaml", self.defaults()),
        ]
    }

    /// The namespace.
    pub fn namespace(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": self.namespace, "labels": labels()},
        })
    }

    /// The accounts and rights of the controller, the policy servers, the cleanup, and the owners of policies.
    pub fn roles(&self) -> Vec<Value> {
        roles::all(&self.namespace)
    }

    /// The controller, and the Service that leads to its webhooks.
    pub fn controller(&self) -> Vec<Value> {
        vec![self.webhook_service(), self.deployment()]
    }

    /// The Service by which API servers reach the webhooks for our own kinds.
    pub fn webhook_service(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": self.metadata(SERVICE),
            "spec": {
                "selector": selector(),
                "ports": [{"name": WEBHOOK_PORT_NAME, "port": 443, "targetPort": WEBHOOK_PORT, "protocol": "TCP"}],
            },
        })
    }

    /// The endpoints of that Service when the controller is not a pod but a process on this machine.
    pub fn webhook_endpoints(&self, address: SocketAddr) -> Value {
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": SERVICE, "namespace": self.namespace,
                "labels": {"kubernetes.io/service-name": SERVICE},
            },
            "addressType": family,
            "endpoints": [{"addresses": [address.ip()], "conditions": {"ready": true}}],
            "ports": [{"name": WEBHOOK_PORT_NAME, "port": address.port(), "protocol": "TCP"}],
        })
    }

    /// The policy server of policies that name none.
    ///
    /// The memory limit leaves room for a hundred policies (about 120 MB), one guest that uses all the memory it may have
    /// (512 MiB), the lists that context-aware policies read (512 MiB at most), and the compilation of large modules.
    pub fn defaults(&self) -> Vec<Value> {
        vec![json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "PolicyServer",
            "metadata": {"name": DEFAULT_SERVER, "labels": labels()},
            "spec": {
                "image": self.image, "replicas": self.replicas,
                "namespacedPoliciesCapabilities": NAMESPACED_CAPABILITIES,
                "requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "2Gi"},
            },
        })]
    }

    fn deployment(&self) -> Value {
        let probe = |path: &str| json!({"httpGet": {"path": path, "port": HEALTH_PORT}});
        let port =
            |name: &str, port: u16| json!({"name": name, "containerPort": port, "protocol": "TCP"});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": self.metadata(CONTROLLER),
            "spec": {
                // The second one takes over when the first is gone; both answer for our own kinds.
                "replicas": 2,
                "selector": {"matchLabels": selector()},
                "template": {
                    "metadata": {"labels": labels_of_controller()},
                    "spec": {
                        "serviceAccountName": CONTROLLER,
                        "terminationGracePeriodSeconds": 30,
                        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                            "weight": 100,
                            "podAffinityTerm": {
                                "topologyKey": "kubernetes.io/hostname",
                                "labelSelector": {"matchLabels": selector()},
                            },
                        }]}},
                        "containers": [{
                            "name": "controller",
                            "image": self.image,
                            "command": ["polity", "controller", "--leader-elect"],
                            "ports": [
                                port(WEBHOOK_PORT_NAME, WEBHOOK_PORT), port("health", HEALTH_PORT),
                                port("metrics", METRICS_PORT),
                            ],
                            "livenessProbe": probe("/healthz"),
                            "readinessProbe": probe("/readyz"),
                            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
                            "securityContext": {
                                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                                "capabilities": {"drop": ["ALL"]},
                            },
                        }],
                    },
                },
            },
        })
    }

    fn metadata(&self, name: &str) -> Value {
        json!({"name": name, "namespace": self.namespace, "labels": labels_of_controller()})
    }
}

fn labels() -> Value {
    json!({ names::PART_OF: names::PART_OF_VALUE })
}

fn selector() -> Value {
    json!({
        names::PART_OF: names::PART_OF_VALUE,
        "app.kubernetes.io/component": "controller",
    })
}

fn labels_of_controller() -> Value {
    let mut labels = selector();
    labels["app.kubernetes.io/name"] = json!(CONTROLLER);
    labels
}

#[cfg(test)]
mod tests;
