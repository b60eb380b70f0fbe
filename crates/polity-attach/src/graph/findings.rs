//! What the graph has to say about its input.

use std::collections::BTreeSet;

use polity_core::GroupKind;
use serde_json::Value;

use super::Graph;
use super::ids::ObjId;
use crate::finding::{self, Finding, Severity};
use crate::object::ObjectRef;

impl Graph {
    /// Everything that is worth saying about the input, the gravest first.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = self.registry.findings.clone();
        for held in self.policies.values() {
            findings.extend(held.policy.lint.iter().cloned());
        }
        for (id, stored) in &self.objects {
            findings.extend(self.unknown_policy(self.refs.value(*id), &stored.value));
        }
        for (name, host) in &self.hosts {
            for (first, members) in &host.cyclic {
                if members.first() == Some(first) {
                    findings.push(self.cycle_finding(name, members));
                }
            }
        }
        finding::sort(&mut findings);
        findings
    }

    /// An object that looks like a policy and whose kind is unknown is not a detail: nothing it says is in any result.
    fn unknown_policy(&self, reference: &ObjectRef, object: &Value) -> Option<Finding> {
        let kind = GroupKind::new(reference.group.as_str(), reference.kind.as_str());
        if self.registry.kinds.contains_key(&kind) || !reference.kind.contains("Policy") {
            return None;
        }
        let spec = object.get("spec")?;
        let targets = spec.get("targetRef").is_some_and(Value::is_object)
            || spec.get("targetRefs").is_some_and(Value::is_array);
        if !targets {
            return None;
        }
        let message = if self.registry.installed.contains_key(&kind) {
            format!(
                "{reference} targets objects, but its CRD is no policy kind: label the CRD with {} or name {kind} in an AttachmentConfig",
                crate::kind::POLICY_LABEL
            )
        } else {
            format!(
                "{reference} looks like a policy, but the CRD of {kind} is not here: it takes no part in any result"
            )
        };
        Some(Finding::new(
            Severity::Error,
            "PolicyKindUnknown",
            reference.clone(),
            message,
        ))
    }

    fn cycle_finding(&self, hierarchy: &str, members: &BTreeSet<ObjId>) -> Finding {
        let mut refs: Vec<ObjectRef> = members
            .iter()
            .map(|id| self.refs.value(*id).clone())
            .collect();
        refs.sort();
        let names: Vec<String> = refs.iter().take(10).map(ToString::to_string).collect();
        Finding {
            severity: Severity::Error,
            code: "ObjectCycle",
            message: format!(
                "{} objects refer to each other in a circle in hierarchy {hierarchy}, so none of these references counts: {}",
                refs.len(),
                names.join(", ")
            ),
            refs,
        }
    }
}
