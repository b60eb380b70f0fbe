//! Schedules Placements and writes their PlacementDecisions. See docs/spec/governance.md#6.

pub mod plan;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource as _, ResourceExt as _};
use polity_api::cluster::v1beta1::{
    ClusterDecision, DecisionGroupStatus, Placement, PlacementDecision, PlacementDecisionFields,
    PlacementDecisionStatus, PlacementStatus,
};
use polity_core::cluster::names;
use polity_core::placement::PlacementKey;
use polity_core::rollout_strategy::GroupKey;
use polity_reconcile::{Queue, Requeue, WriteError, Writer};
use polity_rollout::placement::{Decision, Schedule};
use polity_runtime::Clock;
use serde_json::json;
use tracing::info;

use self::plan::{DecisionWrite, ExistingDecision, decision_writes};
use super::conditions::{ConditionUpdate, set_condition};
use super::model::{DecisionEntry, HubModel, PlacementEntry};
use super::requeue_at;

/// The field manager of these writes.
const MANAGER: &str = "polity/placements";

/// What the scheduler works on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlacementJob {
    /// Something changed that every placement may depend on.
    All,
    One(PlacementKey),
}

impl fmt::Display for PlacementJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all placements"),
            Self::One(key) => key.fmt(f),
        }
    }
}

/// The scheduler.
#[derive(Clone)]
pub(crate) struct Placements {
    clock: Clock,
    model: Arc<HubModel>,
    queue: Queue<PlacementJob>,
    placements: Writer<Placement>,
    decisions: Writer<PlacementDecision>,
}

impl Placements {
    pub(crate) fn new(
        client: &Client,
        clock: Clock,
        model: Arc<HubModel>,
        queue: Queue<PlacementJob>,
    ) -> Self {
        Self {
            clock,
            model,
            queue,
            placements: Writer::new(client, MANAGER),
            decisions: Writer::new(client, MANAGER),
        }
    }

    /// Schedules one placement, or queues all of them.
    pub(crate) async fn reconcile(&self, job: PlacementJob) -> Result<Requeue, WriteError> {
        self.model.listed().await;
        let key = match job {
            PlacementJob::One(key) => key,
            PlacementJob::All => {
                let keys: Vec<PlacementKey> = self
                    .model
                    .placements
                    .read(|all| all.iter().map(|(key, _)| key.clone()).collect());
                for key in keys {
                    self.queue.add(PlacementJob::One(key));
                }
                return Ok(Requeue::Never);
            }
        };
        let Some(entry) = self.model.placements.read(|all| all.get(&key).cloned()) else {
            return Ok(Requeue::Never);
        };
        let disabled = entry.object.annotations().get(names::SCHEDULING_DISABLED);
        if disabled.is_some_and(|text| text == "true")
            || entry.object.metadata.deletion_timestamp.is_some()
        {
            return Ok(Requeue::Never);
        }
        let now = self.clock.now();
        let fleet = self.model.fleet();
        let schedule = polity_rollout::placement::schedule(
            &entry.placement,
            &fleet,
            &self.model.expressions,
            now,
        );
        // A mistake in a placement must not take policies away: its decisions stay as they are.
        if !schedule.misconfigured.is_true {
            self.write_decisions(&key, &entry, &schedule).await?;
        }
        let change = |placement: &Placement| Some(status(placement, &schedule, now));
        let (clock, placements) = (&self.clock, &self.placements);
        placements
            .change_status(clock, &entry.object, change)
            .await?;
        Ok(requeue_at(schedule.look_again_at, now))
    }

    async fn write_decisions(
        &self,
        key: &PlacementKey,
        placement: &PlacementEntry,
        schedule: &Schedule,
    ) -> Result<(), WriteError> {
        let found = self.model.decisions_of(key);
        let existing: Vec<ExistingDecision> = found.iter().map(|entry| existing(entry)).collect();
        let writes = decision_writes(&key.name, schedule, &existing);
        if writes.is_empty() {
            return Ok(());
        }
        let mut objects: Vec<PlacementDecision> =
            found.iter().map(|entry| entry.object.clone()).collect();
        for write in writes {
            self.write_decision(placement, &mut objects, write).await?;
        }
        let n_clusters = schedule.n_selected();
        info!(placement = %key, n_clusters, "decisions written");
        Ok(())
    }

    /// Carries out one write. `objects` holds the latest version of each object.
    async fn write_decision(
        &self,
        placement: &PlacementEntry,
        objects: &mut Vec<PlacementDecision>,
        write: DecisionWrite,
    ) -> Result<(), WriteError> {
        let (name, written) = match write {
            DecisionWrite::Create { name, group } => {
                let object = new_decision(&placement.object, &name, &group);
                (name, Some(self.decisions.create(&object).await?))
            }
            DecisionWrite::Relabel { name, group } => {
                let Some(object) = objects.iter().find(|object| object.name_any() == name) else {
                    return Ok(());
                };
                let labels = group_labels(&placement.object, &group);
                let changes = json!({ "labels": labels });
                let metadata = self
                    .decisions
                    .patch_metadata(object.meta(), changes)
                    .await?;
                let object = PlacementDecision {
                    metadata,
                    ..object.clone()
                };
                (name, Some(object))
            }
            DecisionWrite::SetClusters { name, clusters } => {
                let Some(object) = objects.iter().find(|object| object.name_any() == name) else {
                    return Ok(());
                };
                let mut object = object.clone();
                object.status = Some(PlacementDecisionStatus {
                    decisions: clusters.iter().map(wire_decision).collect(),
                });
                (name, Some(self.decisions.update_status(&object).await?))
            }
            DecisionWrite::Delete { name } => {
                if let Some(object) = objects.iter().find(|object| object.name_any() == name) {
                    self.decisions.delete(object.meta()).await?;
                }
                (name, None)
            }
        };
        objects.retain(|object| object.name_any() != name);
        objects.extend(written);
        Ok(())
    }
}

fn existing(entry: &DecisionEntry) -> ExistingDecision {
    let decisions = entry
        .object
        .status
        .iter()
        .flat_map(|status| &status.decisions);
    ExistingDecision {
        name: entry.decision.name.clone(),
        group: has_group_labels(&entry.object.metadata).then(|| entry.decision.group.clone()),
        clusters: decisions
            .map(|decision| Decision {
                cluster: decision.cluster_name.as_str().into(),
                score: decision.score,
            })
            .collect(),
    }
}

fn has_group_labels(metadata: &ObjectMeta) -> bool {
    let has = |name: &str| {
        let labels = metadata.labels.as_ref();
        labels.is_some_and(|labels| labels.contains_key(name))
    };
    has(names::DECISION_GROUP_INDEX) && has(names::DECISION_GROUP_NAME)
}

fn group_labels(placement: &Placement, group: &GroupKey) -> BTreeMap<String, String> {
    [
        (names::PLACEMENT.to_owned(), placement.name_any()),
        (
            names::DECISION_GROUP_INDEX.to_owned(),
            group.index.to_string(),
        ),
        (
            names::DECISION_GROUP_NAME.to_owned(),
            group.name.to_string(),
        ),
    ]
    .into()
}

fn new_decision(placement: &Placement, name: &str, group: &GroupKey) -> PlacementDecision {
    let mut object = PlacementDecision::new(name, PlacementDecisionFields {});
    object.metadata.namespace = placement.namespace();
    object.metadata.labels = Some(group_labels(placement, group));
    object.metadata.owner_references = placement.controller_owner_ref(&()).map(|owner| vec![owner]);
    object
}

fn wire_decision(decision: &Decision) -> ClusterDecision {
    ClusterDecision {
        cluster_name: decision.cluster.to_string(),
        reason: String::new(),
        score: decision.score,
    }
}

/// The status of a placement after its decisions were written.
fn status(placement: &Placement, schedule: &Schedule, now: Timestamp) -> PlacementStatus {
    let mut status = placement.status.clone().unwrap_or_default();
    if !schedule.misconfigured.is_true {
        status.number_of_selected_clusters = count(schedule.n_selected());
        status.decision_groups = decision_groups(&placement.name_any(), schedule);
    }
    for condition in [&schedule.misconfigured, &schedule.satisfied] {
        let update = ConditionUpdate::of(condition.is_true, condition.reason, &condition.message);
        let generation = placement.metadata.generation;
        set_condition(
            &mut status.conditions,
            condition.kind.as_str(),
            update,
            generation,
            now,
        );
    }
    status
}

fn decision_groups(placement_name: &str, schedule: &Schedule) -> Vec<DecisionGroupStatus> {
    let objects = schedule.decision_objects(placement_name);
    schedule
        .groups
        .iter()
        .map(|group| DecisionGroupStatus {
            decision_group_index: i32::try_from(group.key.index).unwrap_or(i32::MAX),
            decision_group_name: group.key.name.to_string(),
            decisions: objects
                .iter()
                .filter(|object| *object.group == group.key)
                .map(|object| object.name.clone())
                .collect(),
            cluster_count: count(group.clusters.len()),
        })
        .collect()
}

fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}
