//! What the controller counts, under the name and with the labels that dashboards know.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};
use polity_api::policies::v1::{FailurePolicy, PolicyState, PolicyStatus};

use crate::lifecycle::{Modules, Policy};

/// The instruments of the controller. Clones are the same.
#[derive(Debug, Clone)]
pub struct PolicyMetrics {
    policies: Counter<u64>,
}

impl PolicyMetrics {
    /// Makes them.
    pub fn new(meter: &Meter) -> Self {
        let policies = meter
            .u64_counter("kubewarden_policy_total")
            .with_description("Statuses written about policies.");
        Self {
            policies: policies.build(),
        }
    }

    /// Counts a status that was written.
    pub(crate) fn count(&self, policy: &Policy, status: &PolicyStatus) {
        self.policies.add(1, &labels(policy, status.policy_status));
    }
}

fn labels(policy: &Policy, state: PolicyState) -> [KeyValue; 7] {
    let enforcement = &policy.content.enforcement;
    let module = match &policy.content.modules {
        Modules::One(module) => module.clone(),
        Modules::Members(members) => members.values().cloned().collect::<Vec<_>>().join(","),
    };
    let failure_policy = match enforcement.failure_policy {
        Some(FailurePolicy::Ignore) => "Ignore",
        Some(FailurePolicy::Fail) | None => "Fail",
    };
    let state = match state {
        PolicyState::Unscheduled => "unscheduled",
        PolicyState::Scheduled => "scheduled",
        PolicyState::Pending => "pending",
        PolicyState::Active => "active",
    };
    let namespace = policy.namespace().unwrap_or_default().to_owned();
    [
        KeyValue::new("name", policy.name.clone()),
        KeyValue::new("policy_server", enforcement.policy_server.clone()),
        KeyValue::new("module", module),
        KeyValue::new("mutating", policy.content.mutating),
        KeyValue::new("namespace", namespace),
        KeyValue::new("failure_policy", failure_policy),
        KeyValue::new("policy_status", state),
    ]
}
