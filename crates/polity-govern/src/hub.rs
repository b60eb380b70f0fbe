//! A hub as plain values: the objects that its API server stores, and what they become when a plan is carried out.
//!
//! [`HubObject`] is one such object, lowered; [`Lower`] turns the JSON of an object into it.

mod object;

use std::collections::{BTreeMap, BTreeSet};

use crate::objects::{Binding, Policy, PolicySet};
use jiff::Timestamp;
use polity_core::{ClusterName, ObjectKey};

use crate::place::Decisions;
use crate::plan::{Observed, Plan, Write, plan};
use crate::replica::Unresolved;

pub use object::{HubObject, Lower};

/// The objects of a hub that rollouts depend on. Policies are keyed by namespace and name of the root policy.
#[derive(Debug, Clone, Default)]
pub struct Hub {
    pub policies: BTreeMap<ObjectKey, Policy>,
    pub bindings: Vec<Binding>,
    pub policy_sets: Vec<PolicySet>,
    pub decisions: Vec<Decisions>,
    pub replicas: BTreeMap<ObjectKey, BTreeMap<ClusterName, Policy>>,
    pub unwritable: BTreeMap<ClusterName, String>,
    pub clock_is_off: BTreeSet<ClusterName>,
    /// The number of writes so far, which is the resource version of the last one.
    pub revision: u64,
}

/// Every plan of a policy asks for more writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plan for {policy} does not converge")]
pub struct NotConverging {
    pub policy: String,
}

/// More plans than any policy needs at one time: one for each pass, and a few more.
const MAX_PLANS: usize = 50;

impl Hub {
    /// Plans one root policy; none if it does not exist.
    pub fn plan(&self, key: &ObjectKey, now: Timestamp) -> Option<Plan> {
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
    pub fn carry_out(&mut self, key: &ObjectKey, write: &Write) {
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

    /// Plans and writes until there is nothing left to write, and returns the last plan. Calls `on_plan` after each plan
    /// is carried out.
    pub fn settle(
        &mut self,
        key: &ObjectKey,
        now: Timestamp,
        mut on_plan: impl FnMut(&Self, &Plan),
    ) -> Result<Option<Plan>, NotConverging> {
        for _ in 0..MAX_PLANS {
            let Some(plan) = self.plan(key, now) else {
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
            on_plan(self, &plan);
            if plan.writes.is_empty() && !plan.root_status_changed {
                return Ok(Some(plan));
            }
        }
        Err(NotConverging {
            policy: key.to_string(),
        })
    }

    /// The replica of a policy for a cluster.
    pub fn replica(&self, key: &ObjectKey, cluster: &str) -> Option<&Policy> {
        self.replicas.get(key)?.get(cluster)
    }
}
