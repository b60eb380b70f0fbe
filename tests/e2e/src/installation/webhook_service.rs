//! Makes the controller's webhooks reachable for the API server. This is the only place that depends on the kind of
//! server.
//!
//! The embedded server uses EndpointSlices, which may contain loopback addresses. The real server rejects such
//! addresses. It calls the ClusterIP of the Service, which is an address of this machine, and connections to it are
//! forwarded.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use polity_local::forward::Forwarder;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::Kubectl;

const SERVICE: &str = "kubewarden-controller-webhook-service";

/// Routes the Service of the webhooks to a port of this machine until the returned forwarder is dropped.
pub(super) fn forward(kubectl: &Kubectl, runtime: &Runtime, port: u16) -> Forwarder {
    let mut forwarder = Forwarder::default();
    let address = kubectl.field(&format!("service {SERVICE}"), ".spec.clusterIP");
    let address: IpAddr = address.parse().expect("a ClusterIP is an address");
    if address.is_loopback() {
        let _context = runtime.enter();
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        forwarder.set(&BTreeMap::from([(SocketAddr::new(address, 443), vec![to])]));
    } else {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": SERVICE, "labels": {"kubernetes.io/service-name": SERVICE}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [Ipv4Addr::LOCALHOST], "conditions": {"ready": true}}],
            "ports": [{"name": "webhooks", "port": port, "protocol": "TCP"}],
        });
        kubectl.apply(&slice.to_string());
    }
    forwarder
}
