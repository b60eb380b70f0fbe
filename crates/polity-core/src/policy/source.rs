//! The kinds of policies whose results appear in policy reports.

use std::fmt;

use super::PolicyKind;

/// A kind of policy that writes policy reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    /// An admission policy or a group of admission policies.
    Admission(PolicyKind),
    /// A ConfigurationPolicy.
    Configuration,
}

impl SourceKind {
    /// All kinds of sources, in the order in which reports list them.
    pub const ALL: [Self; 5] = [
        Self::Admission(PolicyKind::ClusterAdmissionPolicy),
        Self::Admission(PolicyKind::AdmissionPolicy),
        Self::Admission(PolicyKind::ClusterAdmissionPolicyGroup),
        Self::Admission(PolicyKind::AdmissionPolicyGroup),
        Self::Configuration,
    ];

    /// The value of `kind` in a manifest and of the `policy-kind` property of a report entry.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admission(kind) => kind.as_str(),
            Self::Configuration => "ConfigurationPolicy",
        }
    }

    /// The kind with this value of `kind`, which is case-sensitive.
    pub fn parse(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == kind)
    }

    /// The prefix of the names, labels and entry keys of reports about policies of this kind.
    ///
    /// Every kind has a prefix of its own, so that policies of different kinds with the same name never share an
    /// object, a label or an entry.
    pub const fn report_prefix(self) -> &'static str {
        match self {
            Self::Admission(PolicyKind::ClusterAdmissionPolicy) => "cpol",
            Self::Admission(PolicyKind::AdmissionPolicy) => "pol",
            Self::Admission(PolicyKind::ClusterAdmissionPolicyGroup) => "cpolg",
            Self::Admission(PolicyKind::AdmissionPolicyGroup) => "polg",
            Self::Configuration => "cfgpol",
        }
    }

    /// The kind with this [report prefix](Self::report_prefix).
    pub fn from_report_prefix(prefix: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|known| known.report_prefix() == prefix)
    }

    /// Whether objects of this kind have a namespace.
    pub const fn is_namespaced(self) -> bool {
        match self {
            Self::Admission(kind) => kind.is_namespaced(),
            Self::Configuration => true,
        }
    }
}

impl From<PolicyKind> for SourceKind {
    fn from(kind: PolicyKind) -> Self {
        Self::Admission(kind)
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_prefix_is_the_start_of_another() {
        for a in SourceKind::ALL {
            for b in SourceKind::ALL {
                let prefix = |kind: SourceKind| format!("{}-", kind.report_prefix());
                assert_eq!(prefix(b).starts_with(&prefix(a)), a == b);
            }
        }
    }

    #[test]
    fn kinds_and_prefixes_parse_back() {
        for kind in SourceKind::ALL {
            assert_eq!(SourceKind::parse(kind.as_str()), Some(kind));
            assert_eq!(
                SourceKind::from_report_prefix(kind.report_prefix()),
                Some(kind)
            );
        }
        assert_eq!(SourceKind::parse("Policy"), None);
        assert!(SourceKind::ALL.is_sorted());
    }
}
