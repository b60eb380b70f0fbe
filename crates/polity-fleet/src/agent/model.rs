//! What the agent knows: the policies of its namespace on both sides, and the Events about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use polity_api::policy::v1;
use polity_govern::objects::Policy;
use polity_reconcile::{Cache, SharedCache};

use super::status_sync::history::ComplianceEvent;

/// The caches of an agent. Policies are found by name: all of them are in one namespace.
pub(crate) struct AgentModel {
    pub(crate) hub_policies: SharedCache<String, Arc<PolicyCopy>>,
    pub(crate) policies: SharedCache<String, Arc<PolicyCopy>>,
    /// Compliance Events by name, found by the UID of their policy.
    pub(crate) events: SharedCache<String, Arc<PolicyEvent>, String>,
    /// The claims of the cluster about itself.
    pub(crate) claims: SharedCache<String, String>,
    /// The encryption key on the hub and on the managed cluster.
    pub(crate) hub_secret: SharedCache<String, Arc<Secret>>,
    pub(crate) secret: SharedCache<String, Arc<Secret>>,
}

/// A policy of the hub or of the managed cluster.
#[derive(Debug, PartialEq)]
pub(crate) struct PolicyCopy {
    pub(crate) policy: Policy,
    /// The object as it was read, for writes of its status.
    pub(crate) object: v1::Policy,
}

impl PolicyCopy {
    pub(crate) fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }
}

/// An Event about the compliance of a template.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PolicyEvent {
    /// The name of the policy.
    pub(crate) policy: String,
    pub(crate) policy_uid: String,
    pub(crate) event: ComplianceEvent,
}

impl Default for AgentModel {
    fn default() -> Self {
        Self {
            hub_policies: SharedCache::new(Cache::default()),
            policies: SharedCache::new(Cache::default()),
            events: SharedCache::new(Cache::new(|_, event| vec![event.policy_uid.clone()])),
            claims: SharedCache::new(Cache::default()),
            hub_secret: SharedCache::new(Cache::default()),
            secret: SharedCache::new(Cache::default()),
        }
    }
}

impl AgentModel {
    /// The copy of a policy on the managed cluster.
    pub(crate) fn policy(&self, name: &String) -> Option<Arc<PolicyCopy>> {
        self.policies.read(|all| all.get(name).cloned())
    }

    /// The replica of a policy on the hub.
    pub(crate) fn hub_policy(&self, name: &String) -> Option<Arc<PolicyCopy>> {
        self.hub_policies.read(|all| all.get(name).cloned())
    }

    /// The claims that the cluster makes about itself.
    pub(crate) fn claims(&self) -> BTreeMap<String, String> {
        self.claims.read(|all| {
            let claims = all
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()));
            claims.collect()
        })
    }
}
