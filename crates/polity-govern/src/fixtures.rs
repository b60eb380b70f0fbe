//! Short ways to write down policies, bindings and decisions in tests.

use crate::objects::{Binding, PlacementKind, PlacementRef, Policy, Subject, SubjectKind};
use polity_api::policy::v1;
use polity_core::rollout_strategy::GroupKey;
use polity_rollout::DecisionGroups;
use serde_json::{Value, json};

use crate::place::Decisions;

pub(crate) const START: &str = "2026-11-15T10:00:00Z";

/// `policies/p` with this spec; what a spec must have is filled in.
pub(crate) fn policy(mut spec: Value) -> Policy {
    let fields = spec.as_object_mut().unwrap();
    fields.entry("disabled").or_insert(json!(false));
    fields.entry("policy-templates").or_insert_with(|| {
        let definition = json!({
            "apiVersion": "policy.open-cluster-management.io/v1",
            "kind": "ConfigurationPolicy",
            "metadata": {"name": "t"},
            "spec": {"remediationAction": "inform"},
        });
        json!([{"objectDefinition": definition}])
    });
    let document = json!({
        "apiVersion": "policy.open-cluster-management.io/v1",
        "kind": "Policy",
        "metadata": {"name": "p", "namespace": "policies", "uid": "uid"},
        "spec": spec,
    });
    let wire: v1::Policy = polity_api::decode(&document).unwrap();
    Policy::from(&wire)
}

/// A binding in `policies` of a Placement to one subject.
pub(crate) fn binding(name: &str, placement: &str, kind: &str, subject: &str) -> Binding {
    Binding {
        namespace: "policies".to_owned(),
        name: name.to_owned(),
        placement: Some(reference(placement)),
        subjects: vec![Subject {
            kind: if kind == "Policy" {
                SubjectKind::Policy
            } else {
                SubjectKind::PolicySet
            },
            name: subject.to_owned(),
        }],
        override_action: None,
        restricted: false,
    }
}

fn reference(placement: &str) -> PlacementRef {
    PlacementRef {
        name: placement.to_owned(),
        kind: PlacementKind::Placement,
    }
}

/// What a Placement in `policies` decided: groups by name, numbered in this order.
pub(crate) fn decisions(placement: &str, groups: &[(&str, &[&str])]) -> Decisions {
    let keyed = groups.iter().enumerate().map(|(index, (name, clusters))| {
        let key = GroupKey::new(u32::try_from(index).unwrap(), *name);
        (key, clusters.iter().copied())
    });
    Decisions {
        namespace: "policies".to_owned(),
        placement: reference(placement),
        groups: DecisionGroups::gather(keyed),
        settled: true,
    }
}
