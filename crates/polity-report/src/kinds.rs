//! Kinds that are never reported about, whatever a policy selects.
//!
//! Without this list a policy on `*/*` writes a report about each report, for ever.

/// Groups whose every kind is left out: reports of any producer, and everything of ours.
const GROUPS: [&str; 4] = [
    "wgpolicyk8s.io",
    "openreports.io",
    "reports.kyverno.io",
    "polity.dev",
];

/// Kinds that cannot own anything, are written every few seconds, or are never stored.
const KINDS: [(&str, &str); 15] = [
    ("", "Event"),
    ("events.k8s.io", "Event"),
    ("coordination.k8s.io", "Lease"),
    ("policies.kubewarden.io", "PolicyRevision"),
    ("kyverno.io", "AdmissionReport"),
    ("kyverno.io", "ClusterAdmissionReport"),
    ("kyverno.io", "BackgroundScanReport"),
    ("kyverno.io", "ClusterBackgroundScanReport"),
    ("", "Binding"),
    ("authentication.k8s.io", "TokenReview"),
    ("authentication.k8s.io", "SelfSubjectReview"),
    ("authorization.k8s.io", "SubjectAccessReview"),
    ("authorization.k8s.io", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "LocalSubjectAccessReview"),
    ("authorization.k8s.io", "SelfSubjectRulesReview"),
];

/// Whether objects of a kind are reported about.
pub fn is_reported(group: &str, kind: &str) -> bool {
    !GROUPS.contains(&group) && !group.ends_with(".polity.dev") && !KINDS.contains(&(group, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_leases_events_reviews_and_our_own_kinds_are_left_out() {
        for (group, kind, expected) in [
            ("", "Pod", true),
            ("", "Namespace", true),
            ("apps", "Deployment", true),
            ("policies.kubewarden.io", "ClusterAdmissionPolicy", true),
            (
                "policy.open-cluster-management.io",
                "ConfigurationPolicy",
                true,
            ),
            ("example.polity.dev.test", "Thing", true),
            ("wgpolicyk8s.io", "PolicyReport", false),
            ("openreports.io", "ClusterReport", false),
            ("reports.polity.dev", "ResourceReport", false),
            ("reports.kyverno.io", "EphemeralReport", false),
            ("coordination.k8s.io", "Lease", false),
            ("policies.kubewarden.io", "PolicyRevision", false),
            ("polity.dev", "EffectivePolicy", false),
            ("", "Event", false),
            ("events.k8s.io", "Event", false),
            ("authorization.k8s.io", "SubjectAccessReview", false),
            ("authentication.k8s.io", "TokenReview", false),
        ] {
            assert_eq!(is_reported(group, kind), expected, "{kind}.{group}");
        }
    }
}
