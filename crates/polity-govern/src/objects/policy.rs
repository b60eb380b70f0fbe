//! A policy, root or replica.

use std::collections::BTreeMap;
use std::sync::Arc;

use polity_api::policy::v1;
use polity_core::governance::{Action, Compliance, names};
use polity_core::rollout_strategy::{RolloutStrategy, RolloutStrategyError};
use polity_core::{ObjectKey, PolicyKind};
use serde_json::Value;

use super::PolicyStatus;

/// A policy: a root, or a copy of one in the namespace of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The precondition of a write; empty for a policy that is not stored.
    pub resource_version: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub spec: Arc<PolicySpec>,
    pub status: PolicyStatus,
}

/// The spec of a policy: the wire type, from which replicas are built, and what it means to the engine.
///
/// The two always agree: [`PolicySpec::from`] is the only way to build one.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySpec {
    pub(super) wire: v1::PolicySpec,
    pub disabled: bool,
    pub action: Option<Action>,
    pub templates: Vec<PolicyTemplate>,
    pub dependencies: Vec<Dependency>,
    /// If false, replicas get only the labels and annotations of the policy group.
    pub copy_metadata: bool,
    /// The ServiceAccount with which hub templates read objects.
    pub template_account: Option<String>,
    /// `rolloutStrategy`, or why it cannot be carried out.
    pub rollout_strategy: Option<Result<RolloutStrategy, RolloutStrategyError>>,
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

    /// The action that the template sets itself; admission policies set it by their `mode`.
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

impl PolicySpec {
    /// The spec as it is stored.
    pub fn wire(&self) -> &v1::PolicySpec {
        &self.wire
    }

    /// Whether the strategy of the policy is another than `All`, in whichever action.
    pub fn is_progressive(&self) -> bool {
        let strategy = self.wire.rollout_strategy.as_ref();
        strategy.is_some_and(|strategy| !matches!(strategy.type_.as_str(), "" | "All"))
    }

    /// Whether the policy enforces: its action decides or, if it has none, the actions of its templates.
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
    fn a_policy_without_action_enforces_when_a_template_does() {
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
    fn the_api_version_of_a_dependency_follows_from_its_kind() {
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
