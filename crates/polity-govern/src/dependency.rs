//! Dependencies of templates on a managed cluster: which objects, whether they have the required state, and messages.

use std::collections::BTreeMap;

use crate::objects::{Dependency, PolicyTemplate};
use jiff::{SignedDuration, Timestamp};
use polity_core::governance::{Compliance, names};
use serde_json::Value;

const GATEKEEPER_TEMPLATES: &str = "templates.gatekeeper.sh";
const GATEKEEPER_CONSTRAINTS: &str = "constraints.gatekeeper.sh";

/// What a look at a dependency found on the cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Found<'a> {
    /// The kind is not served.
    NotServed,
    Missing,
    /// It could not be read.
    Unreadable,
    Object(&'a Value),
    /// An admission policy, with the verdict on it if there is one.
    AdmissionPolicy(Option<Compliance>),
}

/// Why a dependency does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Unmet {
    #[error("Could not find an API mapping for the dependency")]
    NotServed,
    #[error("Dependency object not found")]
    NotFound,
    #[error("Failed to get the dependency object")]
    Unreadable,
    #[error("Failed to find complianceState on the dependency object")]
    NoCompliance,
    #[error("The dependency object is not evaluated yet")]
    NotEvaluated,
    #[error("Compliance mismatch on the dependency object")]
    Mismatch,
}

/// Whether a dependency holds.
pub fn check(dependency: &Dependency, found: Found<'_>) -> Result<(), Unmet> {
    let group = dependency
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    let wants_compliant = dependency.compliance == Compliance::Compliant;
    match found {
        Found::NotServed => Err(Unmet::NotServed),
        Found::Unreadable => Err(Unmet::Unreadable),
        // A constraint template has no compliance: only its existence counts.
        Found::Missing if group == GATEKEEPER_TEMPLATES && !wants_compliant => Ok(()),
        Found::Missing => Err(Unmet::NotFound),
        Found::AdmissionPolicy(None) => Err(Unmet::NotEvaluated),
        Found::AdmissionPolicy(Some(state)) => matches(state == dependency.compliance),
        Found::Object(_) if group == GATEKEEPER_TEMPLATES => matches(wants_compliant),
        Found::Object(object) if group == GATEKEEPER_CONSTRAINTS => {
            let total = object
                .pointer("/status/totalViolations")
                .and_then(Value::as_i64);
            matches(
                total.ok_or(Unmet::NoCompliance)? == 0 && wants_compliant
                    || total.is_some_and(|total| total != 0) && !wants_compliant,
            )
        }
        Found::Object(object) => {
            let state = object.pointer("/status/compliant").and_then(Value::as_str);
            matches(state.ok_or(Unmet::NoCompliance)? == dependency.compliance.as_str())
        }
    }
}

fn matches(holds: bool) -> Result<(), Unmet> {
    if holds { Ok(()) } else { Err(Unmet::Mismatch) }
}

/// The namespace to look in: policies live where the cluster's policies are, whatever the dependency says.
pub fn namespace_to_read<'a>(
    dependency: &'a Dependency,
    cluster_namespace: &'a str,
) -> Option<&'a str> {
    let in_group = dependency
        .api_version
        .split_once('/')
        .is_some_and(|(group, _)| group == names::GROUP);
    if in_group && dependency.kind.ends_with("Policy") {
        Some(cluster_namespace)
    } else {
        dependency.namespace.as_deref()
    }
}

/// Two dependencies of a template want different things of one object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("dependency on {0} has conflicting compliance states")]
pub struct Conflict(pub String);

/// The dependencies of a policy as one list: of two that contradict each other the later is ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyDependencies {
    wanted: BTreeMap<Target, Compliance>,
    /// Dependencies that are ignored because an earlier one requires another state.
    pub ignored: Vec<Dependency>,
}

/// What a dependency is about, whatever it wants of it.
type Target = (String, String, Option<String>, String);

impl PolicyDependencies {
    pub fn of(dependencies: &[Dependency]) -> Self {
        let mut all = Self::default();
        for dependency in dependencies {
            let wanted = *all
                .wanted
                .entry(target(dependency))
                .or_insert(dependency.compliance);
            if wanted != dependency.compliance {
                all.ignored.push(dependency.clone());
            }
        }
        all
    }

    /// These together with the template's own.
    pub fn with(&self, template: &PolicyTemplate) -> Result<Vec<Dependency>, Conflict> {
        let mut wanted = self.wanted.clone();
        for dependency in &template.extra_dependencies {
            let found = *wanted
                .entry(target(dependency))
                .or_insert(dependency.compliance);
            if found != dependency.compliance {
                return Err(Conflict(dependency.name.clone()));
            }
        }
        Ok(wanted
            .into_iter()
            .map(
                |((api_version, kind, namespace, name), compliance)| Dependency {
                    api_version,
                    kind,
                    name,
                    namespace,
                    compliance,
                },
            )
            .collect())
    }
}

fn target(dependency: &Dependency) -> Target {
    (
        dependency.api_version.clone(),
        dependency.kind.clone(),
        dependency.namespace.clone(),
        dependency.name.clone(),
    )
}

/// What a template reports while it waits; none when nothing is unmet.
pub fn message(unmet: &[(Dependency, Unmet)], ignore_pending: bool) -> Option<String> {
    if unmet.is_empty() {
        return None;
    }
    let title = |dependency: &Dependency| format!("{} {}", dependency.kind, dependency.name);
    let mut items: Vec<String> = unmet
        .iter()
        .map(|(dependency, _)| title(dependency))
        .collect();
    items.sort();
    let are = if items.len() == 1 { "is" } else { "are" };
    let (state, ending) = if ignore_pending {
        (Compliance::Compliant, " but ignorePending is true")
    } else {
        (Compliance::Pending, "")
    };
    let mut text = format!(
        "{state}; Dependencies were not satisfied: {} {are} still pending ({}){ending}",
        items.len(),
        items.join(", ")
    );
    // The user must act on these: the state will not change by itself.
    let mut remarks: Vec<String> = unmet
        .iter()
        .filter_map(|(dependency, why)| match why {
            Unmet::NoCompliance => Some(format!("{} has no status.compliant", title(dependency))),
            Unmet::NotEvaluated => Some(format!("{} is not evaluated yet", title(dependency))),
            _ => None,
        })
        .collect();
    remarks.sort();
    for remark in remarks {
        text.push_str("; ");
        text.push_str(&remark);
    }
    Some(text)
}

const FLIPS: usize = 3;
const FLIP_WINDOW: SignedDuration = SignedDuration::from_mins(1);
const FLIP_PAUSE: SignedDuration = SignedDuration::from_secs(30);

/// Until when a template that keeps coming and going must wait before it does so again. `flips` are the times at
/// which it came or went, in order.
pub fn pause_until(flips: &[Timestamp], now: Timestamp) -> Option<Timestamp> {
    let window = now.checked_sub(FLIP_WINDOW).unwrap_or(Timestamp::MIN);
    let n_recent = flips.iter().filter(|at| **at > window).count();
    let last = flips.iter().max()?;
    let until = last.checked_add(FLIP_PAUSE).unwrap_or(Timestamp::MAX);
    (n_recent >= FLIPS && until > now).then_some(until)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wants(kind: &str, name: &str, compliance: Compliance) -> Dependency {
        Dependency {
            api_version: Dependency::default_api_version(kind).to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: None,
            compliance,
        }
    }

    fn policy(name: &str) -> Dependency {
        wants("Policy", name, Compliance::Compliant)
    }

    #[test]
    fn a_dependency_is_met_when_its_object_has_the_wanted_state() {
        let compliant = json!({"status": {"compliant": "Compliant"}});
        let terminating = json!({"status": {"compliant": "Terminating"}});
        let number = json!({"status": {"compliant": 1}});
        let cases = [
            (
                Found::NotServed,
                "Could not find an API mapping for the dependency",
            ),
            (Found::Missing, "Dependency object not found"),
            (Found::Unreadable, "Failed to get the dependency object"),
            (
                Found::Object(&number),
                "Failed to find complianceState on the dependency object",
            ),
            (
                Found::Object(&terminating),
                "Compliance mismatch on the dependency object",
            ),
            (Found::Object(&compliant), ""),
            (
                Found::AdmissionPolicy(None),
                "The dependency object is not evaluated yet",
            ),
            (Found::AdmissionPolicy(Some(Compliance::Compliant)), ""),
        ];
        for (found, expected) in cases {
            let said = check(&policy("p"), found).err().map(|why| why.to_string());
            assert_eq!(said.unwrap_or_default(), expected, "{found:?}");
        }
    }

    #[test]
    fn gatekeeper_objects_are_judged_by_existence_and_violations() {
        let gatekeeper = |group: &str, compliance| Dependency {
            api_version: format!("{group}/v1"),
            ..wants("K8sLabels", "x", compliance)
        };
        let (good, bad) = (Compliance::Compliant, Compliance::NonCompliant);
        let (template, constraint) = (GATEKEEPER_TEMPLATES, GATEKEEPER_CONSTRAINTS);
        let (none, some, unknown) = (
            json!({"status": {"totalViolations": 0}}),
            json!({"status": {"totalViolations": 2}}),
            json!({}),
        );
        for (group, wanted, found, expected) in [
            (template, good, Found::Object(&unknown), Ok(())),
            (template, bad, Found::Object(&unknown), Err(Unmet::Mismatch)),
            (template, good, Found::Missing, Err(Unmet::NotFound)),
            (template, bad, Found::Missing, Ok(())),
            (constraint, good, Found::Object(&none), Ok(())),
            (constraint, good, Found::Object(&some), Err(Unmet::Mismatch)),
            (constraint, bad, Found::Object(&none), Err(Unmet::Mismatch)),
            (constraint, bad, Found::Object(&some), Ok(())),
            (
                constraint,
                good,
                Found::Object(&unknown),
                Err(Unmet::NoCompliance),
            ),
        ] {
            assert_eq!(
                check(&gatekeeper(group, wanted), found),
                expected,
                "{group} {wanted} {found:?}"
            );
        }
    }

    #[test]
    fn policies_are_looked_up_in_the_namespace_of_the_cluster() {
        let elsewhere = |kind: &str| Dependency {
            namespace: Some("x".to_owned()),
            ..policy(kind)
        };
        for (kind, expected) in [
            ("Policy", "c1"),
            ("ConfigurationPolicy", "c1"),
            ("PolicySet", "x"),
        ] {
            let dependency = Dependency {
                kind: kind.to_owned(),
                ..elsewhere("n")
            };
            assert_eq!(
                namespace_to_read(&dependency, "c1"),
                Some(expected),
                "{kind}"
            );
        }
        let foreign = Dependency {
            api_version: "example.com/v1".to_owned(),
            ..elsewhere("n")
        };
        assert_eq!(namespace_to_read(&foreign, "c1"), Some("x"));
    }

    #[test]
    fn conflicting_dependencies_are_ignored_or_refused() {
        let bad = |name| wants("Policy", name, Compliance::NonCompliant);
        let template = |extra: Vec<Dependency>| PolicyTemplate {
            definition: json!({}),
            extra_dependencies: extra,
            ignore_pending: false,
        };
        let all = PolicyDependencies::of(&[policy("a"), bad("a"), policy("b")]);
        assert_eq!(all.ignored, [bad("a")]);
        assert_eq!(
            all.with(&template(vec![])),
            Ok(vec![policy("a"), policy("b")])
        );
        assert_eq!(all.with(&template(vec![policy("b")])).unwrap().len(), 2);
        let conflict = all.with(&template(vec![bad("b")])).unwrap_err();
        assert_eq!(
            conflict.to_string(),
            "dependency on b has conflicting compliance states"
        );
        assert!(all.with(&template(vec![policy("c"), bad("c")])).is_err());
    }

    #[test]
    fn messages_list_the_dependencies_that_are_not_met() {
        let a = || (policy("policies.a"), Unmet::NotFound);
        let bar = || {
            (
                wants("ConfigurationPolicy", "bar", Compliance::NonCompliant),
                Unmet::NoCompliance,
            )
        };
        for (unmet, ignore, expected) in [
            (vec![], false, ""),
            (
                vec![a()],
                false,
                "Pending; Dependencies were not satisfied: 1 is still pending (Policy policies.a)",
            ),
            (
                vec![a(), bar()],
                false,
                "Pending; Dependencies were not satisfied: 2 are still pending (ConfigurationPolicy bar, Policy \
                 policies.a); ConfigurationPolicy bar has no status.compliant",
            ),
            (
                vec![a()],
                true,
                "Compliant; Dependencies were not satisfied: 1 is still pending (Policy policies.a) but \
                 ignorePending is true",
            ),
        ] {
            assert_eq!(message(&unmet, ignore).unwrap_or_default(), expected);
        }
    }

    #[test]
    fn a_dependency_that_flips_often_is_slowed_down() {
        let start: Timestamp = "2026-11-15T10:00:00Z".parse().unwrap();
        let at = |seconds| {
            start
                .checked_add(SignedDuration::from_secs(seconds))
                .unwrap()
        };
        for (flips, now, expected) in [
            (vec![], 0, None),
            (vec![0, 1], 2, None),
            (vec![0, 1, 2], 3, Some(32)),
            (vec![0, 1, 2], 32, None),
            (vec![0, 1, 70], 71, None),
            (vec![0, 1, 2, 33], 34, Some(63)),
        ] {
            let flips: Vec<_> = flips.into_iter().map(at).collect();
            assert_eq!(pause_until(&flips, at(now)), expected.map(at), "{flips:?}");
        }
    }
}
