//! Names, labels, annotations and finalizers of `policy.open-cluster-management.io`, all in one place.
//!
//! Dashboards, scripts and other controllers match on every one of them, byte for byte.

/// The API group of policies, policy sets and bindings.
pub const GROUP: &str = "policy.open-cluster-management.io";
/// `apiVersion` of Policy, PlacementBinding, ConfigurationPolicy and CertificatePolicy.
pub const V1: &str = "policy.open-cluster-management.io/v1";
/// `apiVersion` of PolicySet, PolicyAutomation and OperatorPolicy.
pub const V1BETA1: &str = "policy.open-cluster-management.io/v1beta1";
/// The group of the legacy PlacementRule.
pub const APPS_GROUP: &str = "apps.open-cluster-management.io";
/// The group of Placement and ManagedCluster.
pub const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";
/// The group of admission policies, which may stand in a policy as templates.
pub const ADMISSION_GROUP: &str = "policies.kubewarden.io";

/// What every label and annotation of the group begins with.
pub const PREFIX: &str = "policy.open-cluster-management.io/";

/// Label on a replica: `<root namespace>.<root name>`. Having it makes a policy a replica.
pub const ROOT_POLICY: &str = "policy.open-cluster-management.io/root-policy";
/// Label on replicas and templates: the cluster.
pub const CLUSTER_NAME: &str = "policy.open-cluster-management.io/cluster-name";
/// Label on replicas and templates: the namespace that holds the policies on that side.
pub const CLUSTER_NAMESPACE: &str = "policy.open-cluster-management.io/cluster-namespace";
/// The older spelling of [`CLUSTER_NAME`], on templates only.
pub const OLD_CLUSTER_NAME: &str = "cluster-name";
/// The older spelling of [`CLUSTER_NAMESPACE`], on templates only.
pub const OLD_CLUSTER_NAMESPACE: &str = "cluster-namespace";
/// Label on templates: the replica that owns them.
pub const POLICY: &str = "policy.open-cluster-management.io/policy";
/// Label on a CRD whose kind may be a template, with value [`POLICY_TYPE_TEMPLATE`].
pub const POLICY_TYPE: &str = "policy.open-cluster-management.io/policy-type";
/// The value of [`POLICY_TYPE`].
pub const POLICY_TYPE_TEMPLATE: &str = "template";
/// Label on an AnsibleJob: the automation it belongs to.
pub const AUTOMATION_NAME: &str = "policy.open-cluster-management.io/policyautomation-name";

/// Annotation on a policy, for people: the standards it serves.
pub const STANDARDS: &str = "policy.open-cluster-management.io/standards";
/// Annotation on a policy, for people: the categories it is in.
pub const CATEGORIES: &str = "policy.open-cluster-management.io/categories";
/// Annotation on a policy, for people: the controls it implements.
pub const CONTROLS: &str = "policy.open-cluster-management.io/controls";
/// Annotation on a policy, for people: what it does.
pub const DESCRIPTION: &str = "policy.open-cluster-management.io/description";
/// Annotation on a root policy: any change resolves its hub templates again. Never on a replica.
pub const TRIGGER_UPDATE: &str = "policy.open-cluster-management.io/trigger-update";
/// Annotation: `true` leaves templates of this level unresolved.
pub const DISABLE_TEMPLATES: &str = "policy.open-cluster-management.io/disable-templates";
/// Annotation on the metadata of a template in a replica: why its hub templates could not be resolved.
pub const HUB_TEMPLATES_ERROR: &str = "policy.open-cluster-management.io/hub-templates-error";
/// Annotation on replicas and encrypted templates: the initialization vector, base64.
pub const ENCRYPTION_IV: &str = "policy.open-cluster-management.io/encryption-iv";
/// Annotation on the encryption secret: when its key was made.
pub const LAST_ROTATED: &str = "policy.open-cluster-management.io/last-rotated";
/// Annotation on the encryption secret: `true` keeps it from being rotated.
pub const DISABLE_ROTATION: &str = "policy.open-cluster-management.io/disable-rotation";
/// Annotation on an automation: `true` runs it once, now.
pub const RERUN: &str = "policy.open-cluster-management.io/rerun";
/// Annotation on an AnsibleJob: the generation of its automation.
pub const AUTOMATION_GENERATION: &str =
    "policy.open-cluster-management.io/policyautomation-generation";
/// Annotation on an AnsibleJob: the resource version of its automation.
pub const AUTOMATION_RESOURCE_VERSION: &str =
    "policy.open-cluster-management.io/policyautomation-resource-version";
/// Annotation on every replica, so that GitOps tools do not claim it.
pub const ARGO_COMPARE_OPTIONS: &str = "argocd.argoproj.io/compare-options";
/// The value of [`ARGO_COMPARE_OPTIONS`].
pub const ARGO_IGNORE_EXTRANEOUS: &str = "IgnoreExtraneous";

/// What the rollout annotations of a replica begin with.
pub const ROLLOUT_PREFIX: &str = "policy.open-cluster-management.io/rollout-";
/// Annotation on a replica: `<version>-wait` or `<version>-final`.
pub const ROLLOUT_STEP: &str = "policy.open-cluster-management.io/rollout-step";
/// Annotation on a replica: the phase the hub has it in.
pub const ROLLOUT_PHASE: &str = "policy.open-cluster-management.io/rollout-phase";
/// Annotation on a replica: when that phase began, by the clock of the hub.
pub const ROLLOUT_SINCE: &str = "policy.open-cluster-management.io/rollout-since";

/// Finalizer of a policy on its cluster: templates that an owner reference cannot reach go first.
pub const CLEANUP_FINALIZER: &str =
    "policy.open-cluster-management.io/cleanup-cluster-scoped-policies";
/// Finalizer of a ConfigurationPolicy that prunes.
pub const PRUNE_FINALIZER: &str = "policy.open-cluster-management.io/delete-related-objects";

/// The secret of a cluster namespace that holds the key of encrypted hub values.
pub const ENCRYPTION_SECRET: &str = "policy-encryption-key";

/// The most characters that namespace and name of a root policy may have together; with the dot between them they
/// are a label value.
pub const ROOT_NAME_MAX: usize = 62;

/// What the replicas of a root policy are called.
pub fn replica_name(root_namespace: &str, root_name: &str) -> String {
    format!("{root_namespace}.{root_name}")
}

/// Namespace and name of the root, from the name of a replica. Namespaces have no dot, names may.
pub fn root_of(replica_name: &str) -> Option<(&str, &str)> {
    replica_name.split_once('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replica_names_split_at_the_first_dot() {
        assert_eq!(replica_name("policies", "a.b"), "policies.a.b");
        assert_eq!(root_of("policies.a.b"), Some(("policies", "a.b")));
        assert_eq!(root_of("policies"), None);
    }

    #[test]
    fn all_names_share_the_prefix() {
        for name in [
            ROOT_POLICY,
            TRIGGER_UPDATE,
            ROLLOUT_STEP,
            CLEANUP_FINALIZER,
            PRUNE_FINALIZER,
        ] {
            assert!(name.starts_with(PREFIX), "{name}");
            assert!(crate::name::qualified_name(name).is_ok(), "{name}");
        }
        for name in [ROLLOUT_STEP, ROLLOUT_PHASE, ROLLOUT_SINCE] {
            assert!(name.starts_with(ROLLOUT_PREFIX), "{name}");
        }
    }
}
