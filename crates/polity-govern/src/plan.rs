//! Plans one root policy: which replicas and which status to write.
//!
//! [`plan`] is a function of what is observed and of `now`. The caller writes in the given order and plans again. It may
//! be killed after any write: the next plan continues, because the replicas, their status and the decisions hold the
//! complete state.

mod events;
mod groups;
mod standing;
mod status;
mod strategy;

use std::collections::{BTreeMap, BTreeSet};

use crate::objects::{Binding, Policy, PolicySet, PolicyStatus};
use jiff::Timestamp;
use polity_core::ClusterName;
use polity_core::rollout_strategy::{GroupKey, RolloutStatus, RolloutStrategy};
use polity_rollout::DecisionGroup;

pub use events::{Event, PROPAGATION, Severity};
pub use status::compliance;
pub use strategy::{Effective, Refusal};

use crate::mark::{Mark, Phase, Stage, Version};
use crate::place::{Bindings, Decisions, Placed, place};
use crate::replica::{Builder, HubTemplates, Text};
use groups::Groups;
use standing::{Course, Progress, Standing, Verdict};

/// The objects on the hub that concern one root policy.
pub struct Observed<'a> {
    pub root: &'a Policy,
    /// Bindings. Those of other namespaces are ignored.
    pub bindings: &'a [Binding],
    /// Policy sets of all namespaces: dependencies may name them.
    pub policy_sets: &'a [PolicySet],
    /// The placements that exist, with their decisions.
    pub decisions: &'a [Decisions],
    /// The replicas of this root, by cluster.
    pub replicas: &'a BTreeMap<ClusterName, Policy>,
    /// Clusters whose replica cannot be written now, and why.
    pub unwritable: &'a BTreeMap<ClusterName, String>,
    /// Clusters whose clock is known to be wrong: times in their reports cannot be compared with times of the hub.
    pub clock_is_off: &'a BTreeSet<ClusterName>,
    pub templates: &'a dyn HubTemplates,
}

/// The writes, events and status for one root policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// In the order in which they are to be carried out.
    pub writes: Vec<Write>,
    /// The status of the root after these writes.
    pub root_status: PolicyStatus,
    /// Whether it differs from the stored status.
    pub root_status_changed: bool,
    pub events: Vec<Event>,
    /// When to plan again without an event; `now` if more can be decided after these writes.
    pub look_again_at: Option<Timestamp>,
    /// The state of every placed cluster after the writes.
    pub clusters: BTreeMap<ClusterName, ClusterPlan>,
    /// More clusters failed than are tolerated: no further cluster is handed out.
    pub breach: bool,
    /// Why the strategy is refused.
    pub refused: Option<String>,
    /// The clusters in flight, failed or soaking that the waiting clusters wait for.
    pub holding: Vec<ClusterName>,
    /// The version that is rolled out; none without a strategy.
    pub version: Option<Version>,
}

/// One write of a plan. `v1::Policy::from` gives the object to write.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A replica that does not exist yet.
    Create(Policy),
    /// A replica that differs; its resource version must still be the one observed.
    Update(Policy),
    /// A replica that is no longer wanted.
    Delete { cluster: ClusterName, name: String },
    /// `status.rolloutStatus` of a replica whose cluster has not reported on its step yet, for people to see.
    ShowStatus {
        cluster: ClusterName,
        name: String,
        status: RolloutStatus,
    },
}

impl Write {
    /// The cluster of the replica.
    pub fn cluster(&self) -> &str {
        match self {
            Self::Create(replica) | Self::Update(replica) => &replica.namespace,
            Self::Delete { cluster, .. } | Self::ShowStatus { cluster, .. } => cluster,
        }
    }
}

/// The state of one cluster in a rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterPlan {
    /// The placement and the group in which it counts.
    pub placement: String,
    pub group: GroupKey,
    pub turn: Turn,
    pub status: RolloutStatus,
    /// When its phase began.
    pub since: Option<Timestamp>,
}

/// The position of a cluster in a rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Gets the newest text now.
    FirstPass,
    /// Its replica cannot be written.
    Unwritable { why: String },
    /// Has the newest text, and waits to enforce it.
    Waiting,
    /// Gets the policy as it is defined now.
    HandedOut,
    /// Has the policy, and has not reported a verdict yet.
    Running { deadline: Option<Timestamp> },
    /// Complies, but not for long enough.
    Soaking { until: Timestamp },
    /// Complies.
    Done,
    /// Does not comply.
    Failed,
    /// No verdict within the deadline.
    TimedOut { at: Timestamp },
}

/// Plans one root policy.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let bindings = Bindings {
        bindings: observed.bindings,
        policy_sets: observed.policy_sets,
        decisions: observed.decisions,
    };
    let placed = place(observed.root, bindings);
    let mut planner = Planner {
        observed,
        builder: Builder::new(observed.root, observed.policy_sets, observed.templates),
        placed: &placed,
        now,
        writes: Vec::new(),
        events: Vec::new(),
    };
    planner.delete_the_rest();
    let rollout = match Effective::of(&observed.root.spec) {
        None => planner.without_strategy(),
        Some(effective) => planner.with_strategy(&effective),
    };
    planner.finish(rollout)
}

/// What a replica without a strategy reports; what is left of an earlier rollout is about something else.
fn reported(status: &PolicyStatus) -> RolloutStatus {
    match status.rollout_status {
        Some(RolloutStatus::ToApply) | None => RolloutStatus::Progressing,
        Some(_) if status.rollout_step.is_some() => RolloutStatus::Progressing,
        Some(found) => found,
    }
}

struct Planner<'a> {
    observed: &'a Observed<'a>,
    builder: Builder<'a>,
    placed: &'a Placed,
    now: Timestamp,
    writes: Vec<Write>,
    events: Vec<Event>,
}

/// What the strategy makes of the placed clusters.
#[derive(Default)]
struct Rollout {
    clusters: BTreeMap<ClusterName, ClusterPlan>,
    look_again_at: Option<Timestamp>,
    breach: bool,
    refused: Option<String>,
    holding: Vec<ClusterName>,
    version: Option<Version>,
}

impl Planner<'_> {
    /// Replicas as they always were: the reported state is shown, nothing is kept.
    fn without_strategy(&mut self) -> Rollout {
        let groups = Groups::of(&self.placed.sources, &BTreeSet::new());
        let mut rollout = Rollout::default();
        for cluster in self.placed.clusters.keys() {
            let existing = self.observed.replicas.get(cluster);
            let why = self
                .observed
                .unwritable
                .get(cluster)
                .filter(|_| existing.is_none());
            if why.is_none() {
                self.write_replica(cluster, None);
            }
            let status = existing.map_or(RolloutStatus::Progressing, |replica| {
                reported(&replica.status)
            });
            let turn = match (why, existing, status) {
                (Some(why), ..) => Turn::Unwritable { why: why.clone() },
                (None, None, _) => Turn::FirstPass,
                (None, Some(_), RolloutStatus::Succeeded) => Turn::Done,
                (None, Some(_), RolloutStatus::Failed) => Turn::Failed,
                (None, Some(_), _) => Turn::Running { deadline: None },
            };
            rollout
                .clusters
                .insert(cluster.clone(), groups.entry(cluster, turn, status, None));
        }
        rollout
    }

    fn with_strategy(&mut self, effective: &Effective) -> Rollout {
        let version = Version::of(&self.observed.root.uid, &self.observed.root.spec);
        let mut standings = self.standings(&version, effective);
        let keeps_books = standing::keeps_books(&standings, effective, self.now);
        for standing in standings.values_mut() {
            standing.keep_books(keeps_books, effective, self.now);
        }
        let left_out: BTreeSet<ClusterName> = standings
            .iter()
            .filter(|(_, standing)| matches!(standing.course, Course::Unwritable { .. }))
            .map(|(cluster, _)| cluster.clone())
            .collect();
        let groups = Groups::of(&self.placed.sources, &left_out);
        let mut rollout = Rollout {
            version: Some(version.clone()),
            ..Rollout::default()
        };
        let first_pass = standings
            .values()
            .any(|standing| matches!(standing.course, Course::FirstPass));
        let mut handed_out = Vec::new();
        match (&effective.refused, first_pass) {
            (Some(Refusal(why)), _) => rollout.refused = Some(why.clone()),
            (None, true) => rollout.look_again_at = Some(self.now),
            (None, false) => {
                handed_out = self.ask_engine(effective, &groups, &standings, &mut rollout);
            }
        }
        for cluster in &handed_out {
            if let Some(standing) = standings.get_mut(cluster) {
                standing.hand_out(&version, self.now);
            }
        }
        self.write_standings(&standings, &handed_out);
        for (cluster, standing) in &standings {
            let look = standing.next_look(effective, self.now);
            rollout.look_again_at = [rollout.look_again_at, look].into_iter().flatten().min();
            let shown = standing.shown(effective, self.now);
            let turn = standing.turn(effective, self.now);
            let since = standing.mark.as_ref().map(|mark| mark.since);
            rollout
                .clusters
                .insert(cluster.clone(), groups.entry(cluster, turn, shown, since));
        }
        self.warn(effective, &groups, &rollout);
        rollout
    }

    /// Where every placed cluster stands before anything is decided.
    fn standings(
        &mut self,
        version: &Version,
        effective: &Effective,
    ) -> BTreeMap<ClusterName, Standing> {
        let mut standings = BTreeMap::new();
        for (cluster, place) in &self.placed.clusters {
            let replica = self.observed.replicas.get(cluster);
            let read = replica.and_then(|replica| Mark::read(&replica.annotations));
            let adopted = |builder: &mut Builder<'_>| {
                let replica = replica?;
                builder
                    .is_as_defined(cluster, replica, place.override_action)
                    .then(|| Mark::running(version, self.now))
            };
            let mark = match read {
                Some(mark) => Some(mark).filter(|mark| mark.step.version == *version),
                None => adopted(&mut self.builder),
            };
            let why = self.observed.unwritable.get(cluster);
            let course = match (mark.as_ref().map(|mark| mark.step.stage), why) {
                (None | Some(Stage::Wait), Some(why)) => Course::Unwritable { why: why.clone() },
                (None, None) => Course::FirstPass,
                (Some(Stage::Wait), None) => Course::Waiting,
                (Some(Stage::Final), _) => Course::Running,
            };
            let mark = match course {
                Course::FirstPass if effective.is_progressive() => {
                    Some(Mark::waiting(version, self.now))
                }
                Course::FirstPass => Some(Mark::running(version, self.now)),
                _ => mark,
            };
            let clock_is_off = self.observed.clock_is_off.contains(cluster);
            let verdict = match (&course, &mark, replica) {
                (Course::Running, Some(mark), Some(replica)) => {
                    Verdict::of(mark, &replica.status, clock_is_off)
                }
                _ => Verdict::none(),
            };
            standings.insert(
                cluster.clone(),
                Standing {
                    course,
                    mark,
                    verdict,
                },
            );
        }
        standings
    }

    /// The clusters to hand out to, in order.
    fn ask_engine(
        &self,
        effective: &Effective,
        groups: &Groups,
        standings: &BTreeMap<ClusterName, Standing>,
        rollout: &mut Rollout,
    ) -> Vec<ClusterName> {
        let strategy = groups.translate(&effective.strategy);
        // Who waits is left out, and who timed out goes in as what it is underneath: the duties of the engine's caller.
        let in_flight = standings
            .iter()
            .filter_map(|(cluster, standing)| {
                Some((cluster.clone(), standing.for_engine(self.now)?))
            })
            .collect();
        let answer = polity_rollout::plan(&strategy, &groups.decided, &in_flight, self.now);
        rollout.breach = answer.breach;
        let waits = |cluster: &ClusterName| {
            standings
                .get(cluster)
                .is_some_and(|standing| matches!(standing.course, Course::Waiting))
        };
        let mut handed_out = Vec::new();
        for entry in &answer.to_rollout {
            if entry.status == RolloutStatus::ToApply {
                handed_out.extend(waits(&entry.cluster).then(|| entry.cluster.clone()));
            } else {
                rollout.holding.push(entry.cluster.clone());
            }
        }
        rollout.holding.extend(
            answer
                .timed_out
                .iter()
                .filter(|_| answer.breach)
                .map(|entry| entry.cluster.clone()),
        );
        if handed_out.is_empty() && !answer.breach {
            handed_out = self.rest_of_started_group(effective, &strategy, groups, standings);
        }
        handed_out
    }

    /// The rest of a group of which some were handed out already: the hub was killed between two writes, or a cluster
    /// joined. The engine sees those in flight and waits for them before it looks at their group again.
    fn rest_of_started_group(
        &self,
        effective: &Effective,
        strategy: &RolloutStrategy,
        groups: &Groups,
        standings: &BTreeMap<ClusterName, Standing>,
    ) -> Vec<ClusterName> {
        let is_mandatory = |group: &&DecisionGroup| {
            let mut references = strategy.mandatory_groups().iter();
            references.any(|reference| group.key.is_meant_by(reference))
        };
        let per_group = matches!(strategy, RolloutStrategy::ProgressivePerGroup(_));
        let mandatory = groups
            .decided
            .iter()
            .filter(is_mandatory)
            .map(|group| (group, 0));
        let rest = groups
            .decided
            .iter()
            .filter(|group| per_group && !is_mandatory(group))
            .map(|group| {
                let tolerated = strategy.pace().max_failures.of(group.clusters.len(), 0);
                (group, tolerated)
            });
        for (group, tolerated) in mandatory.chain(rest) {
            let of = |wanted: Progress| -> Vec<ClusterName> {
                let is = |cluster: &&ClusterName| {
                    let standing = standings.get(*cluster);
                    standing
                        .is_some_and(|standing| standing.progress(effective, self.now) == wanted)
                };
                group.clusters.iter().filter(is).cloned().collect()
            };
            let waiting = of(Progress::Waiting);
            let is_started = waiting.len() < group.clusters.len();
            let is_breached = of(Progress::Failed).len() > tolerated;
            if is_breached || (!waiting.is_empty() && !is_started) {
                return Vec::new();
            }
            if !waiting.is_empty() || !of(Progress::Open).is_empty() {
                return waiting;
            }
        }
        Vec::new()
    }

    /// What everyone needs first, then who is handed out, in the order of the engine; what only people read comes last.
    fn write_standings(
        &mut self,
        standings: &BTreeMap<ClusterName, Standing>,
        handed_out: &[ClusterName],
    ) {
        let later: BTreeSet<&ClusterName> = handed_out.iter().collect();
        let others = standings.keys().filter(|cluster| !later.contains(cluster));
        for cluster in others.chain(handed_out) {
            let standing = &standings[cluster];
            if matches!(standing.course, Course::Unwritable { .. }) {
                continue;
            }
            self.write_replica(cluster, standing.mark.as_ref());
        }
        // After the first pass only: a cluster that is handed out right afterwards would be shown twice.
        if !standings
            .values()
            .any(|standing| matches!(standing.course, Course::FirstPass))
        {
            for (cluster, standing) in standings {
                self.show_status(cluster, standing);
            }
        }
    }

    fn write_replica(&mut self, cluster: &ClusterName, mark: Option<&Mark>) {
        let override_action = self
            .placed
            .clusters
            .get(cluster)
            .and_then(|place| place.override_action);
        let existing = self.observed.replicas.get(cluster);
        let Text {
            spec,
            template_errors,
        } = self.builder.text(cluster, mark, override_action);
        let is_built = |found: &Policy| self.builder.is_built(cluster, mark, &spec, found);
        if existing.is_some_and(is_built) {
            return;
        }
        let replica = self.builder.build(cluster, mark, spec, existing);
        let root = self.observed.root;
        for error in &template_errors {
            self.events.push(Event::template_error(cluster, error));
        }
        match existing {
            None => {
                self.events.push(Event::propagated(root, cluster));
                self.writes.push(Write::Create(replica));
            }
            Some(found) => {
                if found.spec.wire() != replica.spec.wire() {
                    self.events.push(Event::updated(root, cluster));
                }
                self.writes.push(Write::Update(replica));
            }
        }
    }

    /// The cluster has not reported on its step: what it said before is about something else.
    fn show_status(&mut self, cluster: &ClusterName, standing: &Standing) {
        let (Some(replica), Some(mark)) = (self.observed.replicas.get(cluster), &standing.mark)
        else {
            return;
        };
        if matches!(standing.course, Course::Unwritable { .. }) {
            return;
        }
        let reported_on =
            replica.status.rollout_step.as_deref() == Some(mark.step.to_string().as_str());
        let status = match (mark.step.stage, mark.phase) {
            (Stage::Wait, _) => RolloutStatus::ToApply,
            (Stage::Final, Phase::Succeeded) => RolloutStatus::Succeeded,
            (Stage::Final, Phase::TimeOut) => RolloutStatus::TimeOut,
            (Stage::Final, _) => standing.verdict.status(),
        };
        if !reported_on && replica.status.rollout_status != Some(status) {
            self.writes.push(Write::ShowStatus {
                cluster: cluster.clone(),
                name: replica.name.clone(),
                status,
            });
        }
    }

    fn warn(&mut self, effective: &Effective, groups: &Groups, rollout: &Rollout) {
        if let Some(why) = &rollout.refused {
            self.events.push(Event::refused(why));
        }
        for reference in groups.unmatched(&effective.strategy) {
            self.events.push(Event::unknown_group(reference));
        }
        for (cluster, entry) in &rollout.clusters {
            if let Turn::Unwritable { why } = &entry.turn {
                self.events.push(Event::unwritable(cluster, why));
            }
        }
        if standing::stands_still(effective, rollout) {
            self.events.push(Event::stands_still(&rollout.holding));
        }
        if effective.is_type_progressive && !self.placed.ignored_bindings.is_empty() {
            self.events
                .push(Event::ignored_bindings(&self.placed.ignored_bindings));
        }
    }

    fn finish(self, rollout: Rollout) -> Plan {
        let root_status = status::root_status(self.placed, self.observed.replicas, &rollout);
        Plan {
            root_status_changed: root_status != self.observed.root.status,
            root_status,
            writes: self.writes,
            events: self.events,
            look_again_at: rollout.look_again_at,
            clusters: rollout.clusters,
            breach: rollout.breach,
            refused: rollout.refused,
            holding: rollout.holding,
            version: rollout.version,
        }
    }

    /// A cluster may be missing from the decisions for a moment while they are rewritten; only settled ones count.
    fn delete_the_rest(&mut self) {
        let root = self.observed.root;
        if !root.spec.disabled && !self.placed.settled {
            return;
        }
        let unwanted = self
            .observed
            .replicas
            .iter()
            .filter(|(cluster, _)| !self.placed.clusters.contains_key(*cluster));
        let mut n_deleted = 0;
        for (cluster, replica) in unwanted {
            n_deleted += 1;
            self.writes.push(Write::Delete {
                cluster: cluster.clone(),
                name: replica.name.clone(),
            });
        }
        if root.spec.disabled && n_deleted > 0 {
            self.events.push(Event::disabled(root));
        }
    }
}

#[cfg(test)]
mod tests;
