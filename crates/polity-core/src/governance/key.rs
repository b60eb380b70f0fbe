//! The key of a policy that is distributed to clusters.

use std::fmt;

use super::Policy;
use super::names::replica_name;

/// Identifies one root policy: a `Policy` in the namespace where users write it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RootPolicyKey {
    /// The namespace of the root policy on the hub.
    pub namespace: String,
    /// `metadata.name` of the root policy.
    pub name: String,
}

impl RootPolicyKey {
    /// The key of a root policy that was read.
    pub fn of(policy: &Policy) -> Self {
        Self {
            namespace: policy.namespace.clone(),
            name: policy.name.clone(),
        }
    }

    /// The name of its replica in the namespace of each cluster.
    pub fn replica_name(&self) -> String {
        replica_name(&self.namespace, &self.name)
    }
}

/// `namespace/name`.
impl fmt::Display for RootPolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
