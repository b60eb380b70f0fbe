//! How a policy server is reached, and how many of its replicas may be away.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use polity_api::policies::v1::PolicyServer;

use super::{Setup, metadata_of, name_of, selector};
use crate::names;

/// The Service that webhooks call. Metrics come from the readiness port, where every server has them.
pub fn service(server: &PolicyServer, setup: &Setup) -> Service {
    let port = |name: &str, port: i32, target: i32| ServicePort {
        name: Some(name.to_owned()),
        port,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::Int(target)),
        ..ServicePort::default()
    };
    let webhook = port("policy-server", 443, server.spec.webhook_port);
    let metrics = setup.metrics_port.map(|default| {
        let own = server.spec.metrics_port.unwrap_or(default);
        port("metrics", own, server.spec.readiness_probe_port)
    });
    Service {
        metadata: metadata_of(server, setup, names::policy_server(name_of(server))),
        spec: Some(ServiceSpec {
            ports: Some([Some(webhook), metrics].into_iter().flatten().collect()),
            selector: Some(selector(name_of(server))),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// The Service that gives replicas their names.
pub fn peers(server: &PolicyServer, setup: &Setup) -> Service {
    Service {
        metadata: metadata_of(server, setup, names::peers(name_of(server))),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(selector(name_of(server))),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// How many replicas an eviction must leave, if the server says so.
pub fn disruption_budget(server: &PolicyServer, setup: &Setup) -> Option<PodDisruptionBudget> {
    let spec = &server.spec;
    if spec.min_available.is_none() && spec.max_unavailable.is_none() {
        return None;
    }
    Some(PodDisruptionBudget {
        metadata: metadata_of(server, setup, names::policy_server(name_of(server))),
        spec: Some(PodDisruptionBudgetSpec {
            min_available: spec.min_available.clone(),
            max_unavailable: spec.max_unavailable.clone(),
            selector: Some(LabelSelector {
                match_labels: Some(selector(name_of(server))),
                match_expressions: None,
            }),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    })
}
