//! Writes the status of PolicySets. See docs/spec/governance.md#5-6.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Resource as _, ResourceExt as _};
use polity_api::policy::v1beta1::{self, PolicySetStatus};
use polity_core::ObjectKey;
use polity_govern::objects::{Binding, Policy, SubjectKind};
use polity_govern::sets::{self, ObservedSet, SetStatus};
use polity_reconcile::{ObjectEvent, Requeue, WriteError, WriteOutcome, Writer, publish_event};
use polity_runtime::Clock;

use super::model::{BindingIndex, HubModel};

/// The field manager of these writes.
const MANAGER: &str = "polity/policy-sets";

/// The reconciler of PolicySets.
#[derive(Clone)]
pub(crate) struct PolicySets {
    client: Client,
    clock: Clock,
    model: Arc<HubModel>,
    sets: Writer<v1beta1::PolicySet>,
}

impl PolicySets {
    pub(crate) fn new(client: &Client, clock: Clock, model: Arc<HubModel>) -> Self {
        Self {
            client: client.clone(),
            clock,
            model,
            sets: Writer::new(client, MANAGER),
        }
    }

    /// Reconciles one PolicySet.
    pub(crate) async fn reconcile(&self, key: ObjectKey) -> Result<Requeue, WriteError> {
        self.model.listed().await;
        let Some(entry) = self.model.policy_sets.read(|all| all.get(&key).cloned()) else {
            return Ok(Requeue::Never);
        };
        let namespace = &entry.set.namespace;
        let subject = BindingIndex::Subject(
            namespace.clone(),
            SubjectKind::PolicySet,
            entry.set.name.clone(),
        );
        let bindings = self.model.bindings_of(&subject);
        let bindings: Vec<Binding> = bindings.iter().map(|it| it.as_ref().clone()).collect();
        let decisions: Vec<_> = bindings
            .iter()
            .filter_map(|binding| self.model.decided(namespace, binding.placement.as_ref()?))
            .collect();
        let policies: BTreeMap<String, Policy> = self.model.policies.read(|all| {
            let members = entry.set.policies.iter();
            let members = members.filter_map(|name| {
                let found = all.get(&ObjectKey::namespaced(namespace, name))?;
                Some((name.clone(), found.policy.clone()))
            });
            members.collect()
        });
        let status = sets::status(ObservedSet {
            set: &entry.set,
            policies: &policies,
            bindings: &bindings,
            decisions: &decisions,
        });
        let wire = PolicySetStatus::from(&status);
        let change = |_: &v1beta1::PolicySet| Some(wire.clone());
        let written = self
            .sets
            .change_status(&self.clock, &entry.object, change)
            .await?;
        if matches!(written, WriteOutcome::Written(_)) {
            self.report(&entry.object, &status).await;
        }
        Ok(Requeue::Slowly)
    }

    async fn report(&self, set: &v1beta1::PolicySet, status: &SetStatus) {
        let about = ObjectReference {
            api_version: Some(v1beta1::PolicySet::api_version(&()).into_owned()),
            kind: Some(v1beta1::PolicySet::kind(&()).into_owned()),
            namespace: set.namespace(),
            name: Some(set.name_any()),
            uid: set.uid(),
            ..ObjectReference::default()
        };
        let missing: Vec<(&str, String, bool)> = status
            .missing
            .iter()
            .map(|name| {
                let note = format!(
                    "Policy {name} is in PolicySet {} but could not be found",
                    set.name_any()
                );
                (sets::POLICY_NOT_FOUND, note, true)
            })
            .collect();
        let updated = format!("Status of policySet {} was updated", set.name_any());
        let updated = (sets::STATUS_UPDATE, updated, false);
        let now = self.clock.now();
        for (reason, note, is_warning) in missing.into_iter().chain([updated]) {
            let event = ObjectEvent {
                about: about.clone(),
                reason,
                note: &note,
                is_warning,
                manager: MANAGER,
                rank: 0,
            };
            publish_event(&self.client, &event, now).await;
        }
    }
}
