//! Problems that users should know: policies that do not act, kinds that do not conform, references that lead
//! nowhere or are not permitted.

use crate::finding::{self, Finding, Severity};
use crate::graph::facts::{Facts, ParentRef, Route};
use crate::graph::ids::ObjId;
use crate::graph::{Effectiveness, Graph};
use crate::object::ObjectRef;

impl Graph {
    /// All issues, worst first.
    pub fn issues(&self) -> Vec<Finding> {
        let mut issues = self.findings();
        for policy in self.policies() {
            issues.extend(self.policy_issues(policy));
        }
        for (id, stored) in &self.objects {
            let from = self.reference(*id);
            match &stored.facts {
                Facts::Gateway { class, .. } => issues.extend(self.missing(from, class)),
                Facts::ListenerSet { parent, .. } => issues.extend(self.missing(from, parent)),
                Facts::Route(route) => issues.extend(self.route_issues(*id, from, route)),
                _ => {}
            }
        }
        finding::sort(&mut issues);
        issues
    }

    fn policy_issues(&self, policy: &ObjectRef) -> Vec<Finding> {
        let Some(status) = self.policy_status(policy) else {
            return Vec::new();
        };
        let mut issues = Vec::new();
        for ancestor in status
            .ancestors
            .iter()
            .filter(|ancestor| !ancestor.is_accepted())
        {
            let Some(condition) = ancestor.condition("Accepted") else {
                continue;
            };
            let code = match condition.reason.as_str() {
                "Conflicted" => "PolicyConflicted",
                "TargetNotFound" => "PolicyTargetNotFound",
                _ => "PolicyInvalid",
            };
            let message = format!("{policy}: {}", condition.message);
            issues.push(Finding::new(Severity::Error, code, policy.clone(), message));
        }
        if status.effectiveness == Some(Effectiveness::Overridden) {
            let names: Vec<String> = status
                .beaten_by
                .iter()
                .take(10)
                .map(|beater| beater.policy.to_string())
                .collect();
            let message = format!("{policy} is overridden everywhere by {}", names.join(", "));
            issues.push(Finding::new(
                Severity::Warn,
                "PolicyOverridden",
                policy.clone(),
                message,
            ));
        }
        issues
    }

    fn missing(&self, from: &ObjectRef, to: &ObjectRef) -> Option<Finding> {
        let there = self
            .refs
            .get(to)
            .is_some_and(|id| self.objects.contains_key(&id));
        (!there).then(|| {
            let message = format!("{from} refers to {to}, which does not exist");
            Finding::new(Severity::Error, "ReferenceMissing", from.clone(), message)
        })
    }

    fn route_issues(&self, id: ObjId, from: &ObjectRef, route: &Route) -> Vec<Finding> {
        let mut issues = Vec::new();
        for parent in &route.parents {
            match self.missing(from, &parent.to) {
                Some(missing) => issues.push(missing),
                None if !self.hangs_under(id, parent) => {
                    let section = parent
                        .section
                        .as_ref()
                        .map_or_else(String::new, |name| format!(" listener {name}"));
                    let message = format!(
                        "{from} names {}{section}, but no listener there takes it",
                        parent.to
                    );
                    issues.push(Finding::new(
                        Severity::Error,
                        "NotAttached",
                        from.clone(),
                        message,
                    ));
                }
                None => {}
            }
        }
        for backend in route.rules.iter().flat_map(|rule| &rule.backends) {
            if self.may_refer(from, &backend.to) {
                issues.extend(self.missing(from, &backend.to));
            } else {
                let message = format!(
                    "{from} refers to {}, and no ReferenceGrant permits it",
                    backend.to
                );
                issues.push(Finding::new(
                    Severity::Error,
                    "ReferenceNotPermitted",
                    from.clone(),
                    message,
                ));
            }
        }
        issues
    }

    /// Whether a route has any edge to the parent it names.
    fn hangs_under(&self, id: ObjId, parent: &ParentRef) -> bool {
        let host = self.host("gateway");
        let Some(node) = host
            .nodes
            .get(&id)
            .and_then(|parts| parts.get(&crate::graph::lattice::Part::Whole))
        else {
            return false;
        };
        let to = self.refs.get(&parent.to);
        host.lattice
            .node(*node)
            .parents
            .iter()
            .any(|above| Some(host.lattice.node(*above).object) == to)
    }
}
