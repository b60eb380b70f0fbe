//! The policies that the fold knows, and what their metadata adds to every entry. See docs/spec/reports.md#10.

use std::collections::BTreeMap;

use crate::ReportingKind;
use crate::entry::Severity;
use crate::source::{ReportKey, ReportingPolicy};
use crate::verdict::Mode;

/// Annotations with the severity of a violation. The first one that is set counts.
const SEVERITY: [&str; 2] = [
    "io.kubewarden.policy.severity",
    "policies.kyverno.io/severity",
];
/// Annotations with the category of a policy. The first one that is set counts.
const CATEGORY: [&str; 3] = [
    "io.kubewarden.policy.category",
    "policies.kyverno.io/category",
    "policy.open-cluster-management.io/categories",
];
const SCORED: &str = "policies.kyverno.io/scored";

/// What public entries take from a policy; none of it needs a new evaluation when it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyMeta {
    pub policy: ReportingPolicy,
    /// The mode that is enforced: `status.mode`.
    pub mode: Mode,
    pub severity: Option<Severity>,
    pub category: String,
    pub scored: bool,
    /// How many templates it has, each a rule by its number; a policy without has one rule, without a name.
    pub n_templates: usize,
    /// Whether it asks not to be reported about.
    pub is_disabled: bool,
}

impl PolicyMeta {
    /// Reads severity, category and the rest from a policy; `spec_severity` is the field that some kinds have.
    pub fn new(
        policy: ReportingPolicy,
        mode: Mode,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
        spec_severity: Option<&str>,
    ) -> Self {
        let first = |keys: &[&str]| {
            keys.iter()
                .find_map(|key| annotations.get(*key))
                .map(String::as_str)
        };
        Self {
            policy,
            mode,
            severity: first(&SEVERITY).or(spec_severity).and_then(Severity::parse),
            category: first(&CATEGORY).unwrap_or_default().to_owned(),
            scored: annotations.get(SCORED).is_none_or(|value| value != "false"),
            n_templates: 0,
            is_disabled: labels.contains_key(crate::REPORTING_DISABLED),
        }
    }

    /// Whether an entry by this rule can be this policy's.
    pub fn knows_rule(&self, rule: &str) -> bool {
        rule.is_empty()
            || rule
                .parse::<usize>()
                .is_ok_and(|index| index < self.n_templates && rule == index.to_string())
    }
}

/// The policies that can have entries in one namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySet {
    by_key: BTreeMap<ReportKey, PolicyMeta>,
}

impl PolicySet {
    /// Those of all policies that can have entries in a namespace, or about cluster-scoped objects (none).
    pub fn of_namespace(policies: &[PolicyMeta], namespace: Option<&str>) -> Self {
        let by_key = policies
            .iter()
            .filter(|meta| match meta.policy.kind() {
                ReportingKind::Admission(kind) if kind.is_namespaced() => {
                    meta.policy.namespace() == namespace
                }
                ReportingKind::Admission(_) | ReportingKind::Configuration => true,
            })
            .map(|meta| (meta.policy.key(), meta.clone()))
            .collect();
        Self { by_key }
    }

    /// The policy of an entry, unless the entry must go: policy gone, rule unknown, reporting disabled.
    pub fn reporting(&self, policy: &ReportKey, rule: &str) -> Option<&PolicyMeta> {
        self.by_key
            .get(policy)
            .filter(|meta| !meta.is_disabled && meta.knows_rule(rule))
    }

    pub fn get(&self, policy: &ReportKey) -> Option<&PolicyMeta> {
        self.by_key.get(policy)
    }

    pub fn keys(&self) -> impl Iterator<Item = &ReportKey> {
        self.by_key.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicyKind;

    fn meta(annotations: &[(&str, &str)], spec_severity: Option<&str>) -> PolicyMeta {
        let annotations = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let policy = ReportingPolicy::new(PolicyKind::ClusterAdmissionPolicy, None, "p").unwrap();
        PolicyMeta::new(
            policy,
            Mode::Protect,
            &BTreeMap::new(),
            &annotations,
            spec_severity,
        )
    }

    #[test]
    fn the_first_annotation_that_is_set_counts() {
        let ours = ("io.kubewarden.policy.severity", "high");
        let theirs = ("policies.kyverno.io/severity", "low");
        for (annotations, spec, expected) in [
            (&[][..], None, None),
            (&[ours, theirs][..], Some("critical"), Some(Severity::High)),
            (&[theirs][..], Some("critical"), Some(Severity::Low)),
            (&[][..], Some("Critical"), Some(Severity::Critical)),
            (
                &[("io.kubewarden.policy.severity", "dreadful")][..],
                None,
                None,
            ),
        ] {
            assert_eq!(meta(annotations, spec).severity, expected);
        }
        let categories = [
            ("policies.kyverno.io/category", "B"),
            ("policy.open-cluster-management.io/categories", "C"),
        ];
        assert_eq!(meta(&categories, None).category, "B");
        assert_eq!(meta(&categories[1..], None).category, "C");
        assert!(meta(&[], None).scored);
        assert!(meta(&[(SCORED, "no")], None).scored);
        assert!(!meta(&[(SCORED, "false")], None).scored);
    }

    #[test]
    fn rules_are_the_numbers_of_templates() {
        let plain = meta(&[], None);
        assert!(plain.knows_rule("") && !plain.knows_rule("0"));
        let two = PolicyMeta {
            n_templates: 2,
            ..plain
        };
        for (rule, expected) in [
            ("", true),
            ("0", true),
            ("1", true),
            ("2", false),
            ("01", false),
            ("-", false),
        ] {
            assert_eq!(two.knows_rule(rule), expected, "{rule:?}");
        }
    }

    #[test]
    fn namespaced_policies_only_report_in_their_namespace() {
        use PolicyKind::*;
        let of = |kind: ReportingKind, namespace| PolicyMeta {
            policy: ReportingPolicy::new(kind, namespace, "p").unwrap(),
            ..meta(&[], None)
        };
        let all = [
            of(ClusterAdmissionPolicy.into(), None),
            of(AdmissionPolicy.into(), Some("a")),
            of(AdmissionPolicyGroup.into(), Some("b")),
            of(ReportingKind::Configuration, Some("ops")),
        ];
        let keys = |namespace| {
            let set = PolicySet::of_namespace(&all, namespace);
            set.keys()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(keys(Some("a")), "cpol/p pol/p cfgpol/ops.p");
        assert_eq!(keys(Some("b")), "cpol/p polg/p cfgpol/ops.p");
        assert_eq!(keys(None), "cpol/p cfgpol/ops.p");
    }
}
