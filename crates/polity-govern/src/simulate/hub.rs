//! A hub as plain values: what its API server would hold, and what carrying out a plan makes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use polity_core::ClusterName;
use polity_core::governance::{Binding, Policy, PolicySet};

use crate::place::Decisions;
use crate::plan::{Observed, Plan, Write, plan};
use crate::replica::Unresolved;

/// Which root policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyKey {
    pub namespace: String,
    pub name: String,
}

impl PolicyKey {
    pub fn of(policy: &Policy) -> Self {
        Self {
            namespace: policy.namespace.clone(),
            name: policy.name.clone(),
        }
    }
}

impl fmt::Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What is stored on a hub.
#[derive(Debug, Clone, Default)]
pub struct Hub {
    pub policies: BTreeMap<PolicyKey, Policy>,
    pub bindings: Vec<Binding>,
    pub policy_sets: Vec<PolicySet>,
    pub decisions: Vec<Decisions>,
    pub replicas: BTreeMap<PolicyKey, BTreeMap<ClusterName, Policy>>,
    pub unwritable: BTreeMap<ClusterName, String>,
    pub clock_is_off: BTreeSet<ClusterName>,
    /// How many writes there were; the resource version of the last.
    pub revision: u64,
}

/// A plan that never comes to rest: each look asks for more writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plan for {policy} does not come to rest")]
pub struct Restless {
    pub policy: String,
}

/// More looks than any plan needs at one moment: one for each pass, and a few.
const MAX_LOOKS: usize = 50;

impl Hub {
    /// One look at a root policy; none when there is no such policy.
    pub fn look(&self, key: &PolicyKey, now: Timestamp) -> Option<Plan> {
        let none = BTreeMap::new();
        let observed = Observed {
            root: self.policies.get(key)?,
            bindings: &self.bindings,
            policy_sets: &self.policy_sets,
            decisions: &self.decisions,
            replicas: self.replicas.get(key).unwrap_or(&none),
            unwritable: &self.unwritable,
            clock_is_off: &self.clock_is_off,
            templates: &Unresolved,
        };
        Some(plan(&observed, now))
    }

    /// Carries out one write.
    pub fn carry_out(&mut self, key: &PolicyKey, write: &Write) {
        self.revision += 1;
        let replicas = self.replicas.entry(key.clone()).or_default();
        match write {
            Write::Create(replica) | Write::Update(replica) => {
                let mut stored = replica.clone();
                stored.resource_version = self.revision.to_string();
                replicas.insert(ClusterName::from(replica.namespace.as_str()), stored);
            }
            Write::Delete { cluster, .. } => {
                replicas.remove(cluster);
            }
            Write::ShowStatus {
                cluster, status, ..
            } => {
                if let Some(replica) = replicas.get_mut(cluster) {
                    replica.status.rollout_status = Some(*status);
                }
            }
        }
    }

    /// Looks and writes until there is nothing left to write; answers the last plan. `told` hears of every write.
    pub fn settle(
        &mut self,
        key: &PolicyKey,
        now: Timestamp,
        mut told: impl FnMut(&Self, &Plan),
    ) -> Result<Option<Plan>, Restless> {
        for _ in 0..MAX_LOOKS {
            let Some(plan) = self.look(key, now) else {
                self.replicas.remove(key);
                return Ok(None);
            };
            for write in &plan.writes {
                self.carry_out(key, write);
            }
            if let Some(root) = self.policies.get_mut(key)
                && plan.root_status_changed
            {
                root.status = plan.root_status.clone();
            }
            told(self, &plan);
            if plan.writes.is_empty() && !plan.root_status_changed {
                return Ok(Some(plan));
            }
        }
        Err(Restless {
            policy: key.to_string(),
        })
    }

    /// The replica of a policy for a cluster.
    pub fn replica(&self, key: &PolicyKey, cluster: &str) -> Option<&Policy> {
        self.replicas.get(key)?.get(cluster)
    }
}
