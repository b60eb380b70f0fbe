//! Events that report compliance, as the framework and other tools read them. See docs/spec/governance.md#10-4.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};

use super::status_sync::history::event_name;

/// A report about one template of a policy.
#[derive(Debug, Clone)]
pub(super) struct ComplianceReport<'a> {
    /// The Policy that owns the template, with its UID.
    pub(super) policy: ObjectReference,
    pub(super) template: ObjectReference,
    /// The state, a semicolon and the reason.
    pub(super) message: &'a str,
    /// The controller that reports.
    pub(super) manager: &'a str,
}

impl ComplianceReport<'_> {
    /// The Event, in the namespace of the policy.
    pub(super) fn event(self, now: Timestamp) -> Event {
        let Self {
            policy,
            template,
            message,
            manager,
        } = self;
        let policy_name = policy.name.as_deref().unwrap_or_default();
        let namespace = policy.namespace.as_deref().unwrap_or_default();
        let template_name = template.name.as_deref().unwrap_or_default();
        let kind = if message.starts_with("Compliant") {
            "Normal"
        } else {
            "Warning"
        };
        Event {
            metadata: ObjectMeta {
                name: Some(event_name(policy_name, now)),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            reason: Some(format!("policy: {namespace}/{template_name}")),
            message: Some(message.to_owned()),
            type_: Some(kind.to_owned()),
            action: Some("ComplianceStateUpdate".to_owned()),
            source: Some(EventSource {
                component: Some(manager.to_owned()),
                host: None,
            }),
            reporting_component: Some(manager.to_owned()),
            reporting_instance: Some(manager.to_owned()),
            event_time: Some(MicroTime(now)),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            involved_object: policy,
            related: Some(template),
            ..Event::default()
        }
    }
}
