//! Services: which EndpointSlices they should have, and what is to be forwarded to whom.
//!
//! Every Pod listens on ports of its own, so each has an EndpointSlice of its own.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::container::Ports;
use crate::pod::ADDRESS;

const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Tells whose an EndpointSlice is.
pub const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// The value of that label on ours.
pub const MANAGER: &str = "local.polity.dev";

/// A Pod with a process.
#[derive(Debug, Clone)]
pub struct Backend<'a> {
    pub pod: &'a Pod,
    pub ports: &'a Ports,
    pub is_ready: bool,
}

impl Backend<'_> {
    fn is_terminating(&self) -> bool {
        self.pod.metadata.deletion_timestamp.is_some()
    }

    fn is_behind(&self, service: &Service) -> bool {
        let labels = self.pod.metadata.labels.as_ref();
        let has =
            |key: &str, value: &String| labels.and_then(|labels| labels.get(key)) == Some(value);
        let selector = selector(service);
        self.pod.metadata.namespace == service.metadata.namespace
            && selector.is_some_and(|selector| selector.iter().all(|(key, value)| has(key, value)))
    }

    /// A Service may want those that are not ready too.
    fn is_open_to(&self, service: &Service) -> bool {
        let spec = service.spec.as_ref();
        let wants_all = spec.and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
        wants_all || (self.is_ready && !self.is_terminating())
    }
}

/// A Service without a selector has its endpoints from somebody else.
fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    spec.selector
        .as_ref()
        .filter(|selector| !selector.is_empty())
}

/// The EndpointSlices of a Service, one for each Pod behind it.
pub fn slices(service: &Service, backends: &[Backend<'_>]) -> Vec<EndpointSlice> {
    let behind = backends.iter().filter(|backend| backend.is_behind(service));
    behind.map(|backend| slice(service, backend)).collect()
}

fn slice(service: &Service, backend: &Backend<'_>) -> EndpointSlice {
    let service_name = service.metadata.name.clone().unwrap_or_default();
    let pod = &backend.pod.metadata;
    let pod_name = pod.name.clone().unwrap_or_default();
    let mut slice = EndpointSlice {
        address_type: "IPv4".into(),
        endpoints: Some(vec![Endpoint {
            addresses: vec![ADDRESS.into()],
            conditions: Some(EndpointConditions {
                ready: Some(backend.is_open_to(service)),
                serving: Some(backend.is_ready),
                terminating: Some(backend.is_terminating()),
            }),
            node_name: backend
                .pod
                .spec
                .as_ref()
                .and_then(|spec| spec.node_name.clone()),
            target_ref: Some(ObjectReference {
                kind: Some("Pod".into()),
                namespace: pod.namespace.clone(),
                name: Some(pod_name.clone()),
                uid: pod.uid.clone(),
                ..ObjectReference::default()
            }),
            ..Endpoint::default()
        }]),
        ports: Some(ports(service, backend)),
        ..EndpointSlice::default()
    };
    slice.metadata.name = Some(format!("{service_name}-{pod_name}"));
    slice
        .metadata
        .namespace
        .clone_from(&service.metadata.namespace);
    slice.metadata.labels = Some(BTreeMap::from([
        (SERVICE_LABEL.to_owned(), service_name.clone()),
        (MANAGED_BY_LABEL.to_owned(), MANAGER.to_owned()),
    ]));
    slice.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".into(),
        kind: "Service".into(),
        name: service_name,
        uid: service.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    slice
}

fn service_ports(service: &Service) -> impl Iterator<Item = &ServicePort> {
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.ports.as_ref())
        .into_iter()
        .flatten()
}

fn real_port(port: &ServicePort, backend: &Backend<'_>) -> Option<u16> {
    let target = port.target_port.clone();
    backend
        .ports
        .real(&target.unwrap_or(IntOrString::Int(port.port)))
}

fn ports(service: &Service, backend: &Backend<'_>) -> Vec<EndpointPort> {
    service_ports(service)
        .filter_map(|port| {
            Some(EndpointPort {
                name: Some(port.name.clone().unwrap_or_default()),
                port: Some(real_port(port, backend)?.into()),
                protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".into())),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect()
}

/// Whether an EndpointSlice says what it should. API servers leave out lists of nothing: a Service without ports has such.
pub fn says_the_same(found: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    let ports = |slice: &EndpointSlice| slice.ports.clone().unwrap_or_default();
    found.address_type == wanted.address_type
        && found.endpoints == wanted.endpoints
        && ports(found) == ports(wanted)
        && found.metadata.owner_references == wanted.metadata.owner_references
}

/// What the ClusterIPs of a Service forward to: those that are loopback addresses, which is where nobody else
/// would bring the connections on.
pub fn routes(
    service: &Service,
    backends: &[Backend<'_>],
) -> BTreeMap<SocketAddr, Vec<SocketAddr>> {
    let spec = service.spec.as_ref();
    let address = spec.and_then(|spec| spec.cluster_ip.as_deref());
    let address = address.and_then(|address| address.parse::<IpAddr>().ok());
    let Some(address) =
        address.filter(|address| address.is_loopback() && address.to_string() != ADDRESS)
    else {
        return BTreeMap::new();
    };
    let behind: Vec<&Backend<'_>> = backends
        .iter()
        .filter(|backend| backend.is_behind(service))
        .collect();
    // A Service without any Pod of ours is somebody else's, who may want to listen there.
    if behind.is_empty() {
        return BTreeMap::new();
    }
    let open: Vec<&Backend<'_>> = behind
        .into_iter()
        .filter(|backend| backend.is_open_to(service))
        .collect();
    service_ports(service)
        .filter(|port| {
            port.protocol
                .as_deref()
                .is_none_or(|protocol| protocol == "TCP")
        })
        .filter_map(|port| {
            let from = SocketAddr::new(address, u16::try_from(port.port).ok()?);
            let real = open.iter().filter_map(|backend| real_port(port, backend));
            Some((
                from,
                real.map(|real| ([127, 0, 0, 1], real).into()).collect(),
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod;

    fn pod_of(name: &str, namespace: &str, labels: Value, deleted: bool) -> Pod {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}"), "labels": labels},
            "spec": {"nodeName": "here", "containers": [{"name": "c",
                "env": [{"name": "KUBEWARDEN_PORT", "value": "8443"}],
                "ports": [{"name": "https", "containerPort": 8443}]}]},
        });
        if deleted {
            pod["metadata"]["deletionTimestamp"] = json!("2026-11-16T12:00:00Z");
        }
        serde_json::from_value(pod).unwrap()
    }

    fn service(spec: Value) -> Service {
        let service =
            json!({"metadata": {"name": "web", "namespace": "team", "uid": "s"}, "spec": spec});
        serde_json::from_value(service).unwrap()
    }

    /// The slices in a line each, and the routes.
    fn show(spec: Value) -> (Vec<String>, Vec<String>) {
        let pods = [
            (pod_of("web-0", "team", json!({"app": "web"}), false), true),
            (pod_of("web-1", "team", json!({"app": "web"}), false), false),
            (pod_of("web-2", "team", json!({"app": "web"}), true), true),
            (
                pod_of("other", "team", json!({"app": "other"}), false),
                true,
            ),
            (pod_of("web-0", "else", json!({"app": "web"}), false), true),
        ];
        let ports: Vec<Ports> = (0..5u16)
            .map(|n| Ports::assign(pod::container(&pods[0].0).unwrap(), [100 + n, 200 + n]))
            .collect();
        let backends: Vec<Backend<'_>> = pods
            .iter()
            .zip(&ports)
            .map(|((pod, is_ready), ports)| Backend {
                pod,
                ports,
                is_ready: *is_ready,
            })
            .collect();
        let service = service(spec);
        let line = |slice: EndpointSlice| {
            let endpoint = &slice.endpoints.unwrap()[0];
            let conditions = endpoint.conditions.clone().unwrap();
            let ports = slice.ports.unwrap().into_iter();
            let ports: Vec<i32> = ports.map(|port| port.port.unwrap()).collect();
            format!(
                "{} {ports:?} ready={} serving={} terminating={}",
                slice.metadata.name.unwrap(),
                conditions.ready.unwrap(),
                conditions.serving.unwrap(),
                conditions.terminating.unwrap(),
            )
        };
        let routes = routes(&service, &backends).into_iter();
        (
            slices(&service, &backends).into_iter().map(line).collect(),
            routes.map(|(from, to)| format!("{from} {to:?}")).collect(),
        )
    }

    #[test]
    fn every_pod_behind_a_service_has_a_slice_and_only_ready_ones_are_forwarded_to() {
        let (slices, routes) = show(json!({
            "clusterIP": "127.96.0.7", "selector": {"app": "web"},
            "ports": [{"port": 443, "targetPort": "https"}, {"name": "m", "port": 8081}],
        }));
        assert_eq!(
            slices,
            [
                "web-web-0 [100, 200] ready=true serving=true terminating=false",
                "web-web-1 [101, 201] ready=false serving=false terminating=false",
                "web-web-2 [102, 202] ready=false serving=true terminating=true",
            ]
        );
        assert_eq!(
            routes,
            [
                "127.96.0.7:443 [127.0.0.1:100]",
                "127.96.0.7:8081 [127.0.0.1:200]"
            ]
        );
    }

    #[test]
    fn a_slice_without_ports_is_the_same_with_or_without_the_empty_list() {
        let slice = |ports: Option<Vec<EndpointPort>>| EndpointSlice {
            ports,
            ..EndpointSlice::default()
        };
        let port = EndpointPort {
            port: Some(443),
            ..EndpointPort::default()
        };
        assert!(says_the_same(&slice(None), &slice(Some(Vec::new()))));
        assert!(!says_the_same(&slice(None), &slice(Some(vec![port]))));
    }

    #[test]
    fn services_of_other_kinds() {
        let ports = json!([{"port": 443, "targetPort": 8443}]);
        let (slices, routes) = show(json!({
            "clusterIP": "None", "selector": {"app": "web"}, "publishNotReadyAddresses": true, "ports": ports,
        }));
        assert!(slices.len() == 3 && slices.iter().all(|line| line.contains("ready=true")));
        assert!(routes.is_empty());
        for spec in [
            json!({"clusterIP": "127.96.0.7", "ports": ports}),
            json!({"type": "ExternalName", "externalName": "x", "selector": {"app": "web"}}),
            json!({"clusterIP": "127.96.0.7", "selector": {"app": "nobody"}}),
        ] {
            assert_eq!(show(spec.clone()), (vec![], vec![]), "{spec}");
        }
        // A ClusterIP that is no loopback address is somebody else's business.
        let (_, routes) =
            show(json!({"clusterIP": "10.96.0.1", "selector": {"app": "web"}, "ports": ports}));
        assert!(routes.is_empty());
    }
}
