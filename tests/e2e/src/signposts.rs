//! Where requests go: what webhooks and EndpointSlices say about it.

use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;

/// The port of a policy server by its name.
const PORT: &str = "policy-server";

/// Where a webhook points.
#[derive(Debug, Clone)]
pub struct Hook {
    pub generation: i64,
    pub switched_at: Timestamp,
    /// Whom its callers trust, in PEM.
    pub authorities: Arc<str>,
}

impl Hook {
    /// Reads the webhook of a policy; `None` when it is none.
    pub fn read(object: &ValidatingWebhookConfiguration) -> Option<Self> {
        let config = &object.webhooks.as_ref()?.first()?.client_config;
        let path = config.service.as_ref()?.path.as_ref()?;
        let bundle = String::from_utf8(config.ca_bundle.as_ref()?.0.clone()).ok()?;
        let switched_at = object.annotations().get("kubewarden.io/switched-at")?;
        Some(Self {
            generation: path.rsplit('/').next()?.parse().ok()?,
            switched_at: switched_at.parse().ok()?,
            authorities: bundle.into(),
        })
    }
}

/// The pod and the address of a replica that takes requests.
pub fn replica(slice: &EndpointSlice) -> Option<(String, SocketAddr)> {
    let endpoint = slice.endpoints.as_ref()?.first()?;
    let is_ready = endpoint.conditions.as_ref()?.ready == Some(true);
    let pod = endpoint.target_ref.as_ref()?.name.clone()?;
    let mut ports = slice.ports.iter().flatten();
    let port = ports
        .find(|port| port.name.as_deref() == Some(PORT))?
        .port?;
    let address = endpoint.addresses.first()?.parse().ok()?;
    is_ready.then_some((pod, SocketAddr::new(address, u16::try_from(port).ok()?)))
}
