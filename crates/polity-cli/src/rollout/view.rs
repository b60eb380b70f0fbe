//! What people see of a live rollout: a function of the objects of the hub and of the time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use polity_api::policy::v1::RemediationAction;
use polity_core::ObjectKey;
use polity_core::governance::Compliance;
use polity_govern::hub::Hub;
use polity_govern::objects::Policy;
use polity_govern::plan::{ClusterPlan, Plan, Turn};
use serde::Serialize;

use super::plan::{paint_status, some};
use super::timeline::{Mark, drawn, legend, told};
use crate::output::{Paint, columns, one_line};

/// Longer messages of clusters are cut.
const MESSAGE: usize = 100;

/// A rollout at one time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RolloutView {
    pub(super) policy: String,
    pub(super) at: Timestamp,
    strategy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// By the objects as they are now; absent when no cluster is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rollout_status: Option<String>,
    /// What the status of the root policy says, which the hub writes a moment later.
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_status: Option<String>,
    pub(super) breach: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    pub(super) groups: Vec<GroupView>,
    /// When a soak or a deadline ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_change_at: Option<Timestamp>,
}

/// One decision group.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GroupView {
    placement: String,
    index: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    pub(super) clusters: Vec<ClusterView>,
}

/// One cluster of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterView {
    pub(super) cluster: String,
    /// The action of the replica in the namespace of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
    status: String,
    #[serde(skip)]
    pub(super) mark: Mark,
    /// What it does or waits for.
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    soaks_until: Option<Timestamp>,
}

impl RolloutView {
    /// The rollout of a root policy; none if the policy does not exist.
    pub(super) fn new(hub: &Hub, key: &ObjectKey, now: Timestamp) -> Option<Self> {
        let root = hub.policies.get(key)?;
        let plan = hub.plan(key, now)?;
        let mut groups: BTreeMap<_, Vec<ClusterView>> = BTreeMap::new();
        for (cluster, entry) in &plan.clusters {
            let group = (
                entry.group.index,
                entry.placement.clone(),
                entry.group.name.to_string(),
            );
            let replica = hub.replica(key, cluster.as_str());
            let view = ClusterView::new(cluster.as_str(), entry, replica, &plan);
            groups.entry(group).or_default().push(view);
        }
        let strategy = root.spec.wire().rollout_strategy.as_ref();
        Some(Self {
            policy: key.to_string(),
            at: now,
            strategy: strategy.map_or_else(|| "none".to_owned(), |found| found.type_.clone()),
            version: plan.version.as_ref().map(ToString::to_string),
            rollout_status: plan.root_status.rollout_status.map(|it| it.to_string()),
            reported_status: root.status.rollout_status.map(|it| it.to_string()),
            breach: plan.breach,
            refused: plan.refused.clone(),
            groups: groups
                .into_iter()
                .map(|((index, placement, name), clusters)| GroupView {
                    placement,
                    index,
                    name,
                    clusters,
                })
                .collect(),
            next_change_at: plan.look_again_at.filter(|at| *at > now),
        })
    }

    pub(super) fn is(&self, status: &str) -> bool {
        self.rollout_status.as_deref() == Some(status)
    }

    /// The first lines: the status of the whole rollout.
    pub(super) fn head(&self, paint: Paint) -> String {
        let status = self.rollout_status.as_deref().unwrap_or("no cluster");
        let mut text = format!(
            "{}  {}  strategy {}",
            paint.bold(&self.policy),
            paint_status(status, paint),
            self.strategy
        );
        if let Some(version) = &self.version {
            text.push_str(&format!("  version {version}"));
        }
        text.push_str(&format!("  at {}\n", self.at));
        if self.reported_status != self.rollout_status {
            let reported = self.reported_status.as_deref().unwrap_or("nothing");
            text.push_str(&format!(
                "the status of the policy still reports {reported}\n"
            ));
        }
        if let Some(why) = &self.refused {
            text.push_str(&paint.bad(&format!("the strategy is refused: {why}\n")));
        }
        if self.breach {
            text.push_str(&paint.bad(
                "more failures than maxFailures tolerates: no further cluster enforces the policy\n",
            ));
        }
        if self.groups.is_empty() {
            text.push_str(
                "no cluster is selected: check the PlacementBindings, the PlacementDecisions and spec.disabled\n",
            );
        }
        text
    }

    /// The page of `polity rollout status`.
    pub(super) fn table(&self, paint: Paint) -> String {
        let mut text = self.head(paint);
        if self.groups.is_empty() {
            return text;
        }
        text.push('\n');
        let lines = self.groups.iter().map(|group| {
            let line = [group.title(), group.symbols(paint), group.summary()];
            line.to_vec()
        });
        text.push_str(&columns(&lines.collect::<Vec<_>>()));
        let header = ["CLUSTER", "GROUP", "ACTION", "STATUS", "STATE"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for group in &self.groups {
            rows.extend(group.clusters.iter().map(|cluster| {
                vec![
                    cluster.cluster.clone(),
                    group.title(),
                    cluster.action.clone().unwrap_or_else(|| "-".to_owned()),
                    paint_status(&cluster.status, paint),
                    cluster.state.clone(),
                ]
            }));
        }
        text.push_str(&format!("\n{}\n", columns(&rows)));
        if let Some(at) = self.next_change_at {
            text.push_str(&format!("next change at {at}, or when a cluster reports\n"));
        }
        text.push_str(&format!("{}\n", legend(paint)));
        text
    }
}

impl GroupView {
    pub(super) fn title(&self) -> String {
        let Self {
            placement,
            index,
            name,
            ..
        } = self;
        format!("{placement} #{index} {name}").trim_end().to_owned()
    }

    pub(super) fn marks(&self) -> BTreeMap<String, Mark> {
        let clusters = self.clusters.iter();
        clusters
            .map(|cluster| (cluster.cluster.clone(), cluster.mark))
            .collect()
    }

    pub(super) fn symbols(&self, paint: Paint) -> String {
        drawn(&self.marks(), paint)
    }

    fn summary(&self) -> String {
        let all = self.marks().into_iter();
        told(
            &all.map(|(name, mark)| (name, Some(mark)))
                .collect::<Vec<_>>(),
        )
    }
}

impl ClusterView {
    fn new(cluster: &str, entry: &ClusterPlan, replica: Option<&Policy>, plan: &Plan) -> Self {
        let action = replica.map(|replica| {
            let action = replica.spec.wire().remediation_action;
            action
                .map_or("by template", RemediationAction::as_str)
                .to_lowercase()
        });
        let (mark, state) = state(&entry.turn, replica, plan);
        Self {
            cluster: cluster.to_owned(),
            action,
            // The plan is about to hand it out; until the hub has written that, the cluster waits.
            status: match entry.turn {
                Turn::HandedOut => "ToApply".to_owned(),
                _ => entry.status.to_string(),
            },
            mark,
            state,
            since: entry
                .since
                .filter(|_| !matches!(entry.turn, Turn::HandedOut | Turn::FirstPass)),
            soaks_until: match entry.turn {
                Turn::Soaking { until } => Some(until),
                _ => None,
            },
        }
    }
}

fn state(turn: &Turn, replica: Option<&Policy>, plan: &Plan) -> (Mark, String) {
    match turn {
        Turn::FirstPass => (
            Mark::Waiting,
            "waits until the hub has written the newest version".to_owned(),
        ),
        Turn::Unwritable { why } => (Mark::Waiting, format!("cannot be written: {why}")),
        Turn::HandedOut => (Mark::Waiting, "is next: it enforces in a moment".to_owned()),
        Turn::Waiting if plan.refused.is_some() => {
            (Mark::Waiting, "waits: the strategy is refused".to_owned())
        }
        Turn::Waiting if plan.breach => {
            let failed = plan
                .clusters
                .iter()
                .filter(|(_, entry)| matches!(entry.turn, Turn::Failed | Turn::TimedOut { .. }));
            let failed: Vec<_> = failed.map(|(cluster, _)| cluster).collect();
            let why = format!("waits: too many failures ({})", some(&failed));
            (Mark::Waiting, why)
        }
        Turn::Waiting => (Mark::Waiting, format!("waits for {}", some(&plan.holding))),
        Turn::Running { deadline: None } => (
            Mark::Running,
            "has not reported yet, and has no deadline".to_owned(),
        ),
        Turn::Running { deadline: Some(at) } => (
            Mark::Running,
            format!("has not reported yet, times out at {at}"),
        ),
        Turn::Soaking { until } => (Mark::Soaking, format!("complies, soaks until {until}")),
        Turn::Done => (Mark::Done, "complies".to_owned()),
        Turn::Failed => {
            let why = replica.and_then(violation);
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            (Mark::Failed, format!("does not comply{why}"))
        }
        Turn::TimedOut { at } => (Mark::TimedOut, format!("timed out at {at}")),
    }
}

/// The newest message of a template that does not comply.
fn violation(replica: &Policy) -> Option<String> {
    let mut details = replica.status.details.iter();
    let broken = details.find(|detail| detail.compliant == Some(Compliance::NonCompliant))?;
    let message = one_line(&broken.history.first()?.message);
    let cut: String = message.chars().take(MESSAGE).collect();
    Some(if cut.len() < message.len() {
        format!("{cut}…")
    } else {
        cut
    })
}

#[cfg(test)]
mod tests;
