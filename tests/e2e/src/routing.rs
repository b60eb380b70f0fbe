//! Reads where admission requests go, from webhooks and EndpointSlices.

use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;

/// The port name of a policy server in its EndpointSlice.
const PORT: &str = "policy-server";

/// The policy generation to which a webhook sends requests.
#[derive(Debug, Clone)]
pub struct WebhookRoute {
    pub generation: i64,
    pub switched_at: Timestamp,
    /// The `caBundle` of the webhook (PEM).
    pub authorities: Arc<str>,
}

impl WebhookRoute {
    /// Reads the webhook configuration of a policy. Returns `None` if it is not one.
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

/// The Pod name and the address of a replica that is ready.
pub fn ready_replica(slice: &EndpointSlice) -> Option<(String, SocketAddr)> {
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
