//! Events about a root policy.

use crate::objects::Policy;
use polity_core::ClusterName;
use polity_core::rollout_strategy::GroupReference;

/// Reason and action of every event of the propagator.
pub const PROPAGATION: &str = "PolicyPropagation";

/// Whether an event asks for attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

/// Something to say on the root policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub severity: Severity,
    pub message: String,
}

impl Event {
    fn normal(message: String) -> Self {
        Self {
            severity: Severity::Normal,
            message,
        }
    }

    fn warning(message: String) -> Self {
        Self {
            severity: Severity::Warning,
            message,
        }
    }

    pub(super) fn propagated(root: &Policy, cluster: &ClusterName) -> Self {
        let (namespace, name) = (&root.namespace, &root.name);
        Self::normal(format!(
            "Policy {namespace}/{name} was propagated to cluster {cluster}"
        ))
    }

    pub(super) fn updated(root: &Policy, cluster: &ClusterName) -> Self {
        let (namespace, name) = (&root.namespace, &root.name);
        Self::normal(format!(
            "Policy {namespace}/{name} was updated for cluster {cluster}"
        ))
    }

    pub(super) fn disabled(root: &Policy) -> Self {
        Self::normal(format!(
            "Policy {}/{} was disabled",
            root.namespace, root.name
        ))
    }

    pub(super) fn template_error(cluster: &ClusterName, error: &str) -> Self {
        Self::warning(format!(
            "Failed to resolve templates for cluster {cluster}: {error}"
        ))
    }

    pub(super) fn refused(why: &str) -> Self {
        Self::warning(format!("The rollout strategy cannot be carried out: {why}"))
    }

    pub(super) fn unknown_group(reference: &GroupReference) -> Self {
        Self::warning(format!(
            "The mandatory decision group {reference} is unknown or empty; the rollout goes on without it"
        ))
    }

    pub(super) fn unwritable(cluster: &ClusterName, why: &str) -> Self {
        Self::warning(format!(
            "The policy could not be written for cluster {cluster}: {why}"
        ))
    }

    pub(super) fn stands_still(holding: &[ClusterName]) -> Self {
        Self::warning(format!(
            "The rollout stands still: failed clusters hold every slot ({}) and there is no progressDeadline",
            join(holding)
        ))
    }

    pub(super) fn ignored_bindings(bindings: &[String]) -> Self {
        Self::warning(format!(
            "The rollout strategy sets selective enforcement aside; bindings without effect: {}",
            join(bindings)
        ))
    }
}

fn join<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}
