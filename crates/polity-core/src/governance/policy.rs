//! A policy, root or replica, and its status.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::names;
use crate::ObjectKey;
use crate::cluster::ClusterName;
use crate::policy::PolicyKind;
use crate::rollout_strategy::{RolloutStatus, RolloutStrategy, RolloutStrategyError};

/// A policy: a root, or a copy of one in the namespace of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// What a write must still find; empty for what is not stored.
    pub resource_version: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub spec: Arc<PolicySpec>,
    pub status: PolicyStatus,
}

/// The spec of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySpec {
    /// All of it, as it stands in the object. Replicas are made of this.
    pub document: Map<String, Value>,
    pub disabled: bool,
    pub action: Option<Action>,
    pub templates: Vec<PolicyTemplate>,
    pub dependencies: Vec<Dependency>,
    /// False: only labels and annotations of the group reach the replicas.
    pub copy_metadata: bool,
    /// The account that hub templates read with.
    pub template_account: Option<String>,
    /// `rolloutStrategy`, or why it cannot be carried out.
    pub rollout_strategy: Option<Result<RolloutStrategy, RolloutStrategyError>>,
}

/// What a policy does about what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    Inform,
    Enforce,
}

impl Action {
    /// `inform` or `enforce` in any case; `InformOnly` never enforces.
    pub fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("enforce") {
            Some(Self::Enforce)
        } else if text.eq_ignore_ascii_case("inform") || text.eq_ignore_ascii_case("informonly") {
            Some(Self::Inform)
        } else {
            None
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inform => "inform",
            Self::Enforce => "enforce",
        }
    }
}

/// One entry of `policy-templates`.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyTemplate {
    pub definition: Value,
    pub extra_dependencies: Vec<Dependency>,
    pub ignore_pending: bool,
}

impl Policy {
    /// Its namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, &self.name)
    }
}

impl PolicyTemplate {
    pub fn kind(&self) -> &str {
        text(&self.definition, "/kind")
    }

    pub fn api_version(&self) -> &str {
        text(&self.definition, "/apiVersion")
    }

    /// The name of the object; empty when there is none to read.
    pub fn name(&self) -> &str {
        text(&self.definition, "/metadata/name")
    }

    /// What the template itself says about its action: for admission kinds their `mode`.
    pub fn action(&self) -> Option<Action> {
        if self.is_admission_policy() {
            let mode = text(&self.definition, "/spec/mode");
            return Some(if mode == "monitor" {
                Action::Inform
            } else {
                Action::Enforce
            });
        }
        Action::parse(text(&self.definition, "/spec/remediationAction"))
    }

    /// Whether the template is an admission policy or a group of them.
    pub fn is_admission_policy(&self) -> bool {
        self.api_version()
            .split_once('/')
            .is_some_and(|(group, _)| group == names::ADMISSION_GROUP)
            && PolicyKind::parse(self.kind()).is_some()
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// An object that must be in some state before a template is applied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dependency {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub namespace: Option<String>,
    pub compliance: Compliance,
}

impl Dependency {
    /// The `apiVersion` of a dependency that names none.
    pub fn default_api_version(kind: &str) -> &'static str {
        match kind {
            "PolicySet" | "OperatorPolicy" => names::V1BETA1,
            _ if PolicyKind::parse(kind).is_some() => "policies.kubewarden.io/v1",
            _ => names::V1,
        }
    }
}

/// How far something is as its policy wants it. Not knowing is the absence of this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compliance {
    Compliant,
    NonCompliant,
    Pending,
}

impl Compliance {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "Compliant" => Some(Self::Compliant),
            "NonCompliant" => Some(Self::NonCompliant),
            "Pending" => Some(Self::Pending),
            _ => None,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compliant => "Compliant",
            Self::NonCompliant => "NonCompliant",
            Self::Pending => "Pending",
        }
    }
}

impl fmt::Display for Compliance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The status of a policy. A root has `placement` and `clusters`, a replica `details` and `rollout_step`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyStatus {
    pub compliant: Option<Compliance>,
    pub rollout_status: Option<RolloutStatus>,
    pub placement: Vec<PlacementStatus>,
    pub clusters: Vec<ClusterStatus>,
    pub details: Vec<TemplateStatus>,
    /// The step of the copy that this status was computed for.
    pub rollout_step: Option<String>,
}

/// One binding of a root policy, with the set it goes through if it does.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacementStatus {
    pub binding: String,
    pub placement: Option<String>,
    pub placement_rule: Option<String>,
    pub policy_set: Option<String>,
    pub exclusions: Vec<ClusterName>,
}

/// One cluster of a root policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterStatus {
    pub cluster: ClusterName,
    pub compliant: Option<Compliance>,
    pub rollout_status: Option<RolloutStatus>,
    /// Bindings that still place the policy here although a set excludes it.
    pub remaining_bindings: Vec<String>,
}

/// One template of a replica.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateStatus {
    pub name: String,
    pub compliant: Option<Compliance>,
    /// Newest first.
    pub history: Vec<HistoryEntry>,
}

/// What a template reported once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    pub event_name: String,
    pub at: Option<Timestamp>,
    pub message: String,
}

impl PolicyStatus {
    /// When the newest entry of any template was made, by the clock of its cluster.
    pub fn newest_report(&self) -> Option<Timestamp> {
        let entries = self.details.iter().flat_map(|detail| &detail.history);
        entries.filter_map(|entry| entry.at).max()
    }
}

impl PolicySpec {
    /// Whether the policy changes clusters: its own action says so, or, without one, any template's.
    pub fn enforces(&self) -> bool {
        match self.action {
            Some(action) => action == Action::Enforce,
            None => self
                .templates
                .iter()
                .any(|template| template.action() == Some(Action::Enforce)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(definition: Value) -> PolicyTemplate {
        PolicyTemplate {
            definition,
            extra_dependencies: Vec::new(),
            ignore_pending: false,
        }
    }

    #[test]
    fn section_8_1_a_policy_without_action_enforces_when_a_template_does() {
        let admission = |spec: Value| {
            template(
                json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy", "spec": spec}),
            )
        };
        for (definition, expected) in [
            (
                template(json!({"spec": {"remediationAction": "Enforce"}})),
                Some(Action::Enforce),
            ),
            (
                template(json!({"spec": {"remediationAction": "InformOnly"}})),
                Some(Action::Inform),
            ),
            (template(json!({"spec": {}})), None),
            (template(json!("no object")), None),
            (admission(json!({})), Some(Action::Enforce)),
            (admission(json!({"mode": "protect"})), Some(Action::Enforce)),
            (admission(json!({"mode": "monitor"})), Some(Action::Inform)),
        ] {
            assert_eq!(definition.action(), expected, "{definition:?}");
        }
    }

    #[test]
    fn section_3_1_dependencies_know_their_api_version() {
        for (kind, expected) in [
            ("Policy", names::V1),
            ("PolicySet", names::V1BETA1),
            ("OperatorPolicy", names::V1BETA1),
            ("AdmissionPolicyGroup", "policies.kubewarden.io/v1"),
            ("Anything", names::V1),
        ] {
            assert_eq!(Dependency::default_api_version(kind), expected, "{kind}");
        }
    }
}
