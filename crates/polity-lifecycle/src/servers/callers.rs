//! The webhooks that call a policy server.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use polity_api::policies::names as known;

use crate::certificates::Authorities;

/// A webhook that calls a Service.
pub(super) struct Caller {
    /// Whether the controller keeps it up to date. A webhook of an earlier installation stays unchanged until its policy
    /// is taken over.
    is_kept: bool,
    /// The certificates that it trusts.
    bundle: String,
}

impl Caller {
    /// The webhooks of ours that call this Service.
    pub(super) async fn list(
        client: &Client,
        namespace: &str,
        service: &str,
    ) -> kube::Result<Vec<Self>> {
        let ours =
            ListParams::default().labels(&format!("{}={}", known::PART_OF, known::PART_OF_VALUE));
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let mut configs = Vec::new();
        for object in validating.list(&ours).await? {
            let is_kept = object.annotations().contains_key(known::POLICY_UID);
            let hooks = object.webhooks.unwrap_or_default().into_iter();
            configs.extend(hooks.map(|hook| (is_kept, hook.client_config)));
        }
        for object in mutating.list(&ours).await? {
            let is_kept = object.annotations().contains_key(known::POLICY_UID);
            let hooks = object.webhooks.unwrap_or_default().into_iter();
            configs.extend(hooks.map(|hook| (is_kept, hook.client_config)));
        }
        let calls = |config: &WebhookClientConfig| {
            let called = config.service.as_ref();
            called.is_some_and(|one| one.name == service && one.namespace == namespace)
        };
        let callers = configs.into_iter().filter(|(_, config)| calls(config));
        Ok(callers
            .map(|(is_kept, config)| Self {
                is_kept,
                bundle: config
                    .ca_bundle
                    .map(|bundle| String::from_utf8_lossy(&bundle.0).into_owned())
                    .unwrap_or_default(),
            })
            .collect())
    }

    /// Whether it accepts certificates that the current authority signs.
    pub(super) fn trusts(&self, authorities: &Authorities) -> bool {
        !self.is_kept || authorities.are_trusted_by(&self.bundle)
    }
}
