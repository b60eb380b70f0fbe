//! The objects of a policy server, as values: what each should be for a PolicyServer and the setup of this controller.
//! Nothing here reads or writes the cluster.

mod config;
mod network;
mod rights;
mod storage;
mod workload;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::EnvVar;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource as _;
use polity_api::policies::names;
use polity_api::policies::v1::PolicyServer;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::names::{app_label, policy_server};

pub use config::{Configs, config_hash, config_map};
pub use network::{disruption_budget, peers, service};
pub(crate) use rights::{account, account_of};
pub use rights::{context_binding, former_accounts, lease, role, role_binding, service_account};
pub use storage::{Cache, claim};
pub use workload::stateful_set;

/// How the controller sets up every policy server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Setup {
    /// Where policy servers live.
    pub namespace: String,
    /// Whether servers accept every request about their own namespace.
    pub always_accept_own_namespace: bool,
    /// The port of the Service for metrics, when metrics are on.
    pub metrics_port: Option<i32>,
    /// Whether traces are exported.
    pub has_tracing: bool,
    /// Where traces and metrics are collected.
    pub collector: Collector,
    /// The Secret with the authority of the collector, key `ca.crt`.
    pub collector_ca_secret: Option<String>,
    /// The Secret with the client certificate for the collector, keys `tls.crt` and `tls.key`.
    pub collector_client_secret: Option<String>,
    /// The ConfigMap with the authority of API servers, for mutual TLS.
    pub client_ca_config_map: Option<String>,
    /// Secrets that every pod pulls its image with.
    pub image_pull_secrets: Vec<String>,
    /// Whether pods use the network of their node.
    pub host_network: bool,
    /// The storage class of the caches of servers without `spec.cache`; `None` gives each replica a volume of its own.
    pub cache_storage_class: Option<String>,
}

/// Where traces and metrics go.
#[derive(Debug, Clone, PartialEq)]
pub enum Collector {
    /// To a sidecar of each replica.
    Sidecar,
    /// To the collector that these variables of the controller name.
    Elsewhere(Vec<EnvVar>),
}

impl Default for Collector {
    fn default() -> Self {
        Self::Elsewhere(Vec::new())
    }
}

/// The name of a policy server.
pub(crate) fn name_of(server: &PolicyServer) -> &str {
    server.metadata.name.as_deref().unwrap_or_default()
}

/// The metadata that every object of a policy server has: its owner, and the labels of the server.
pub(crate) fn metadata_of(server: &PolicyServer, setup: &Setup, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(setup.namespace.clone()),
        labels: Some(labels(name_of(server))),
        owner_references: Some(owner(server).into_iter().collect()),
        ..ObjectMeta::default()
    }
}

fn owner(server: &PolicyServer) -> Option<OwnerReference> {
    server.controller_owner_ref(&())
}

/// The labels of the workload, its pods and all other objects of a policy server.
pub(crate) fn labels(server: &str) -> BTreeMap<String, String> {
    [
        ("app", app_label(server)),
        ("app.kubernetes.io/instance", policy_server(server)),
        ("app.kubernetes.io/component", "policy-server".to_owned()),
        (names::PART_OF, names::PART_OF_VALUE.to_owned()),
        (
            "app.kubernetes.io/managed-by",
            "kubewarden-controller".to_owned(),
        ),
        (names::WORKLOAD_POLICY_SERVER, server.to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// The labels by which a Service and a disruption budget select pods, those of an older Deployment included.
fn selector(server: &str) -> BTreeMap<String, String> {
    let keys = ["app.kubernetes.io/instance", names::PART_OF];
    let all = labels(server).into_iter();
    all.filter(|(key, _)| keys.contains(&key.as_str()))
        .collect()
}

/// Decodes a part of an object that is easier to read as JSON.
fn decoded<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("what is written here has the shape of its type")
}

#[cfg(test)]
mod tests;
