//! Names that the hub and the agents of managed clusters agree on.

/// Lease in the namespace of a cluster on the hub. The agent renews it while it reaches its cluster.
pub const CLUSTER_LEASE: &str = "managed-cluster-lease";

/// Annotation on the Lease of a cluster: the report of the agent about its cluster, as JSON.
///
/// The Lease is the only object besides policy status that an agent may write on the hub, so claims, version and
/// resources travel with it, and the hub copies them to the status of the ManagedCluster.
pub const CLUSTER_REPORT: &str = "polity.dev/cluster-report";

/// ServiceAccount, Role and RoleBinding of the agent, in the namespace of its cluster on the hub.
pub const AGENT: &str = "polity-agent";

/// Label on the namespace of a cluster on the hub: the name of the cluster.
pub const MANAGED_CLUSTER: &str = "cluster.open-cluster-management.io/managedCluster";

/// Label on every object that a hub controller creates for a cluster.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Value of [`MANAGED_BY`].
pub const HUB: &str = "polity-hub";

/// The group of all agents of a cluster that identify themselves with client certificates, as existing agents do.
pub fn agent_group(cluster: &str) -> String {
    format!("system:open-cluster-management:{cluster}")
}
