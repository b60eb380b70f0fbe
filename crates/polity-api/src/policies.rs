//! The group `policies.kubewarden.io`: policies, policy groups, policy servers and revisions.
//!
//! `v1` is served and stored. `v1alpha2` is an older, smaller form of three of its kinds: same fields, fewer of them,
//! so an object of one version decodes as the other and no conversion webhook is needed.

use kube::core::{ApiResource, GroupVersionKind};
use polity_core::PolicyKind;

pub mod names;
pub mod v1;
pub mod v1alpha2;

/// The API group of every kind in this module.
pub const GROUP: &str = "policies.kubewarden.io";

/// Group, version and resource of an admission policy kind, for requests that are not typed by the kind.
pub fn api_resource(kind: PolicyKind) -> ApiResource {
    let gvk = GroupVersionKind::gvk(GROUP, "v1", kind.as_str());
    ApiResource::from_gvk_with_plural(&gvk, kind.plural())
}

#[cfg(test)]
mod tests {
    use kube::Resource;

    use super::v1::{
        AdmissionPolicy, AdmissionPolicyGroup, ClusterAdmissionPolicy, ClusterAdmissionPolicyGroup,
    };
    use super::*;

    #[test]
    fn resources_of_kinds_agree_with_the_types() {
        fn of<K: Resource<DynamicType = ()>>() -> ApiResource {
            ApiResource::erase::<K>(&())
        }
        for (kind, typed) in [
            (PolicyKind::AdmissionPolicy, of::<AdmissionPolicy>()),
            (
                PolicyKind::ClusterAdmissionPolicy,
                of::<ClusterAdmissionPolicy>(),
            ),
            (
                PolicyKind::AdmissionPolicyGroup,
                of::<AdmissionPolicyGroup>(),
            ),
            (
                PolicyKind::ClusterAdmissionPolicyGroup,
                of::<ClusterAdmissionPolicyGroup>(),
            ),
        ] {
            assert_eq!(api_resource(kind), typed);
        }
    }
}
