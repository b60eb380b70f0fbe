//! The four kinds of admission policies.

use std::fmt;

/// A kind of `policies.kubewarden.io` that evaluates admission requests.
///
/// The order of the variants is the order in which policies of different kinds are listed in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// One module, evaluated for objects of the whole cluster.
    ClusterAdmissionPolicy,
    /// One module, evaluated for objects of the policy's own namespace.
    AdmissionPolicy,
    /// Several modules joined by an expression, evaluated for objects of the whole cluster.
    ClusterAdmissionPolicyGroup,
    /// Several modules joined by an expression, evaluated for objects of the policy's own namespace.
    AdmissionPolicyGroup,
}

impl PolicyKind {
    /// All four kinds, in their order.
    pub const ALL: [Self; 4] = [
        Self::ClusterAdmissionPolicy,
        Self::AdmissionPolicy,
        Self::ClusterAdmissionPolicyGroup,
        Self::AdmissionPolicyGroup,
    ];

    /// The value of `kind` in a manifest.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClusterAdmissionPolicy => "ClusterAdmissionPolicy",
            Self::AdmissionPolicy => "AdmissionPolicy",
            Self::ClusterAdmissionPolicyGroup => "ClusterAdmissionPolicyGroup",
            Self::AdmissionPolicyGroup => "AdmissionPolicyGroup",
        }
    }

    /// The kind with this value of `kind`, which is case-sensitive.
    pub fn parse(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == kind)
    }

    /// The resource in request paths and RBAC rules.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::ClusterAdmissionPolicy => "clusteradmissionpolicies",
            Self::AdmissionPolicy => "admissionpolicies",
            Self::ClusterAdmissionPolicyGroup => "clusteradmissionpolicygroups",
            Self::AdmissionPolicyGroup => "admissionpolicygroups",
        }
    }

    /// The short name that `kubectl get` accepts.
    pub const fn short(self) -> &'static str {
        match self {
            Self::ClusterAdmissionPolicy => "cap",
            Self::AdmissionPolicy => "ap",
            Self::ClusterAdmissionPolicyGroup => "capg",
            Self::AdmissionPolicyGroup => "apg",
        }
    }

    /// Whether a policy of this kind holds several modules.
    pub const fn is_group(self) -> bool {
        match self {
            Self::ClusterAdmissionPolicyGroup | Self::AdmissionPolicyGroup => true,
            Self::ClusterAdmissionPolicy | Self::AdmissionPolicy => false,
        }
    }

    /// Whether objects of this kind have a namespace.
    pub const fn is_namespaced(self) -> bool {
        match self {
            Self::AdmissionPolicy | Self::AdmissionPolicyGroup => true,
            Self::ClusterAdmissionPolicy | Self::ClusterAdmissionPolicyGroup => false,
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_parsed_by_their_exact_names() {
        for kind in PolicyKind::ALL {
            assert_eq!(PolicyKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(PolicyKind::parse("admissionpolicy"), None);
        assert_eq!(PolicyKind::parse("ConfigurationPolicy"), None);
    }

    #[test]
    fn all_is_in_the_order_of_the_kinds() {
        assert!(PolicyKind::ALL.is_sorted());
    }
}
