//! The four kinds of policies.

use kube::api::ApiResource;
use kube::core::GroupVersionKind;
use polity_api::policies::GROUP;

/// A kind that has a lifecycle, by the short name that kubectl knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PolicyKind {
    /// AdmissionPolicy
    #[value(name = "ap", aliases = ["admissionpolicy", "admissionpolicies"])]
    Policy,
    /// AdmissionPolicyGroup
    #[value(name = "apg", aliases = ["admissionpolicygroup", "admissionpolicygroups"])]
    Group,
    /// ClusterAdmissionPolicy
    #[value(name = "cap", aliases = ["clusteradmissionpolicy", "clusteradmissionpolicies"])]
    ClusterPolicy,
    /// ClusterAdmissionPolicyGroup
    #[value(name = "capg", aliases = ["clusteradmissionpolicygroup", "clusteradmissionpolicygroups"])]
    ClusterGroup,
}

impl PolicyKind {
    /// All four, those of namespaces first.
    pub(crate) const ALL: [Self; 4] = [
        Self::Policy,
        Self::Group,
        Self::ClusterPolicy,
        Self::ClusterGroup,
    ];

    /// The kind as objects spell it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "AdmissionPolicy",
            Self::Group => "AdmissionPolicyGroup",
            Self::ClusterPolicy => "ClusterAdmissionPolicy",
            Self::ClusterGroup => "ClusterAdmissionPolicyGroup",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Self::Policy => "admissionpolicies",
            Self::Group => "admissionpolicygroups",
            Self::ClusterPolicy => "clusteradmissionpolicies",
            Self::ClusterGroup => "clusteradmissionpolicygroups",
        }
    }

    /// The word for `--kind`.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Self::Policy => "ap",
            Self::Group => "apg",
            Self::ClusterPolicy => "cap",
            Self::ClusterGroup => "capg",
        }
    }

    /// Whether its objects live in namespaces.
    pub(crate) fn is_namespaced(self) -> bool {
        matches!(self, Self::Policy | Self::Group)
    }

    /// Where its objects are served.
    pub(crate) fn api_resource(self) -> ApiResource {
        let kind = GroupVersionKind::gvk(GROUP, "v1", self.as_str());
        ApiResource::from_gvk_with_plural(&kind, self.plural())
    }
}
