//! Rules about placements.

use crate::CelPredicates;
use polity_core::FieldPath;
use polity_core::cluster::TaintEffect;
use polity_core::cluster::names::{UNAVAILABLE, UNREACHABLE};
use polity_core::placement::{Placement, ToleratedValue};
use polity_govern::objects::PlacementKind;
use polity_rollout::placement::ClusterExpressions as _;

use super::rules::{EXPRESSION, Lint, MISCONFIGURED, OFFLINE};
use crate::findings::Finding;

impl Lint<'_> {
    pub(super) fn offline(&self, placement: &Placement) -> Option<Finding> {
        let is_bound = self.governance.hub.bindings.iter().any(|binding| {
            binding.namespace == placement.key.namespace
                && binding.placement.as_ref().is_some_and(|bound| {
                    bound.kind == PlacementKind::Placement && bound.name == placement.key.name
                })
        });
        let rules = placement.rules.as_ref().ok().filter(|_| is_bound)?;
        let tolerates = |key: &str| {
            rules.tolerations.iter().any(|toleration| {
                toleration.key.as_deref().is_none_or(|found| found == key)
                    && toleration.value == ToleratedValue::Any
                    && toleration
                        .effect
                        .is_none_or(|effect| effect == TaintEffect::NoSelect)
                    && toleration.seconds.is_none()
            })
        };
        let missing: Vec<&str> = [UNREACHABLE, UNAVAILABLE]
            .into_iter()
            .filter(|key| !tolerates(key))
            .collect();
        if missing.is_empty() {
            return None;
        }
        let why = "a cluster that goes offline leaves this placement: its policies are taken away, and when it is back it \
                   starts as a new one";
        let finding = Finding::warning(OFFLINE, why).mend(format!(
            "add tolerations with operator Exists for {}",
            missing.join(" and ")
        ));
        let path = FieldPath::of("spec").child("tolerations");
        Some(self.at_placement(finding, placement, &path))
    }

    fn at_placement(&self, finding: Finding, placement: &Placement, path: &FieldPath) -> Finding {
        let object = (
            placement.key.namespace.as_str(),
            placement.key.name.as_str(),
        );
        self.place(finding, "Placement", object, path)
    }

    pub(super) fn misconfigured(&self, placement: &Placement) -> Option<Finding> {
        let why = &placement.rules.as_ref().err()?.message;
        let why = format!("the placement is invalid and selects no cluster: {why}");
        let finding = Finding::error(MISCONFIGURED, why).mend(
            "correct the field that the message names; polity placement explain shows the rest",
        );
        Some(self.at_placement(finding, placement, &FieldPath::of("spec")))
    }

    pub(super) fn expressions(&self, placement: &Placement) -> Vec<Finding> {
        let language = CelPredicates::default();
        let mut findings = Vec::new();
        let predicates = placement.rules.iter().flat_map(|rules| &rules.predicates);
        for (index, predicate) in predicates.enumerate() {
            let path = FieldPath::of("spec").child("predicates").index(index);
            let path = path.child("requiredClusterSelector").child("celSelector");
            for (index, expression) in predicate.expressions.iter().enumerate() {
                let Err(error) = language.compile(expression) else {
                    continue;
                };
                let why = format!(
                    "the expression does not compile: {error}; the placement selects no cluster"
                );
                let finding = Finding::error(EXPRESSION, why)
                    .mend("correct the expression; its only variable is managedCluster");
                let path = path.child("celExpressions").index(index);
                findings.push(self.at_placement(finding, placement, &path));
            }
        }
        findings
    }
}
