//! The simulation itself: time goes from one thing that happens to the next.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use polity_core::cluster::{AddOnScores, ClusterSet, ClusterSetBinding, names};
use polity_core::placement::{Placement, PlacementDecision};
use polity_core::{ClusterName, ObjectKey};
use polity_rollout::FleetParts;
use serde_json::Value;

use super::clock::{self, TimeError};
use super::expect::{Checks, Seen, Snapshot};
use super::member::Member;
use super::scenario::{ClusterScript, Deed, Names, Outcome, Scenario};
use super::timeline::{ClusterChange, Moment, RootChange, Timeline};
use crate::hub::{Hub, HubObject, Lower, NotConverging};
use crate::place::{self, Decisions};
use crate::plan::{Plan, Severity, Turn};

/// A scenario that cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    #[error("start: {0}")]
    Start(TimeError),
    #[error("until: {0}")]
    Until(TimeError),
    #[error("events[{index}].at: {error}")]
    EventTime { index: usize, error: TimeError },
    #[error("{0} happens before the start")]
    BeforeStart(String),
    #[error("until: is before the start")]
    EndsBeforeStart,
    #[error("expect[{index}]: {message}")]
    Expectation { index: usize, message: String },
    #[error("clusters: {name}: {error}")]
    Cluster { name: String, error: String },
    #[error("the script names the cluster {0}, which is not there")]
    UnknownCluster(String),
    #[error("the script names {kind} {name}, which is not there")]
    UnknownObject { kind: String, name: String },
    #[error("{kind} {name}: {message}")]
    Object {
        kind: String,
        name: String,
        message: String,
    },
    #[error(transparent)]
    NotConverging(#[from] NotConverging),
    #[error("something happens all the time: stopped after {0} moments")]
    Endless(usize),
}

/// More moments than a scenario worth reading has.
const MAX_MOMENTS: usize = 200_000;
/// The most clusters of one script.
const MAX_CLUSTERS: u32 = 100_000;

/// Plays a scenario over the objects of its manifests.
pub fn run(
    scenario: &Scenario,
    objects: &[Value],
    lower: &dyn Lower,
) -> Result<Timeline, SimulationError> {
    let start: Timestamp = scenario
        .start
        .parse()
        .map_err(|_| SimulationError::Start(TimeError(scenario.start.clone())))?;
    let until = scenario
        .until
        .as_deref()
        .map(|text| clock::parse(text, start));
    let until = until.transpose().map_err(SimulationError::Until)?;
    if until.is_some_and(|until| until < start) {
        return Err(SimulationError::EndsBeforeStart);
    }
    let mut script = Vec::new();
    for (index, event) in scenario.events.iter().enumerate() {
        let at = clock::parse(&event.at, start)
            .map_err(|error| SimulationError::EventTime { index, error })?;
        if at < start {
            return Err(SimulationError::BeforeStart(event.at.clone()));
        }
        script.push((at, &event.deed));
    }
    script.sort_by_key(|(at, _)| *at);
    let mut checks = Checks::of(&scenario.expect, start)?;
    let mut world = SimulatedFleet::new(lower);
    for object in objects {
        world.put(object.clone());
    }
    world.rebuild()?;
    for cluster in &scenario.clusters {
        world.join(cluster)?;
    }
    let mut moments = Vec::new();
    let mut now = start;
    let mut script = script.into_iter().peekable();
    for n_moments in 0.. {
        if n_moments == MAX_MOMENTS {
            return Err(SimulationError::Endless(MAX_MOMENTS));
        }
        let mut moment = Moment::new(now);
        while let Some((_, deed)) = script.next_if(|(at, _)| *at <= now) {
            moment.events.push(told(deed));
            world.act(deed, now)?;
        }
        world.settle(now, &mut moment)?;
        checks.look(now, &world.seen, &moment);
        if !moment.is_empty() {
            moments.push(moment);
        }
        let next = [
            script.peek().map(|(at, _)| *at),
            world.next(now),
            checks.next(now),
        ];
        match next.into_iter().flatten().min() {
            Some(next) if until.is_none_or(|until| next <= until) => now = next,
            _ => break,
        }
    }
    let end = until.unwrap_or(now);
    Ok(Timeline {
        start,
        end,
        moments,
        broken: checks.finish(end, &world.seen),
        n_expectations: scenario.expect.len(),
        n_plans: world.n_plans,
    })
}

/// Kind, namespace and name.
type ManifestKey = (String, String, String);

struct SimulatedFleet<'a> {
    lower: &'a dyn Lower,
    objects: BTreeMap<ManifestKey, Value>,
    /// How often an object of this name was created: a policy that comes back is another one.
    n_created: BTreeMap<ManifestKey, u32>,
    hub: Hub,
    placements: Vec<Placement>,
    sets: Vec<ClusterSet>,
    set_bindings: Vec<ClusterSetBinding>,
    scores: Vec<AddOnScores>,
    given: Vec<PlacementDecision>,
    rules: Vec<Decisions>,
    members: BTreeMap<ClusterName, Member>,
    seen: BTreeMap<ObjectKey, Snapshot>,
    warned: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// Warnings about invalid placements that were printed.
    misconfigured: BTreeSet<String>,
    wake: BTreeSet<Timestamp>,
    n_plans: usize,
}

impl<'a> SimulatedFleet<'a> {
    fn new(lower: &'a dyn Lower) -> Self {
        Self {
            lower,
            objects: BTreeMap::new(),
            n_created: BTreeMap::new(),
            hub: Hub::default(),
            placements: Vec::new(),
            sets: Vec::new(),
            set_bindings: Vec::new(),
            scores: Vec::new(),
            given: Vec::new(),
            rules: Vec::new(),
            members: BTreeMap::new(),
            seen: BTreeMap::new(),
            warned: BTreeMap::new(),
            misconfigured: BTreeSet::new(),
            wake: BTreeSet::new(),
            n_plans: 0,
        }
    }

    /// Stores an object; [`SimulatedFleet::rebuild`] puts it into effect.
    fn put(&mut self, object: Value) {
        let key = key_of(&object);
        if !self.objects.contains_key(&key) {
            *self.n_created.entry(key.clone()).or_default() += 1;
        }
        self.objects.insert(key, object);
    }

    /// Reads all objects again. What the hub has written itself, status and replicas, stays.
    fn rebuild(&mut self) -> Result<(), SimulationError> {
        let old = std::mem::take(&mut self.hub.policies);
        self.hub.bindings.clear();
        self.hub.policy_sets.clear();
        (self.placements, self.sets, self.set_bindings) = (Vec::new(), Vec::new(), Vec::new());
        (self.given, self.rules, self.scores) = (Vec::new(), Vec::new(), Vec::new());
        for (key, object) in &self.objects {
            let lowered = self
                .lower
                .lower(object)
                .map_err(|message| SimulationError::Object {
                    kind: key.0.clone(),
                    name: key.2.clone(),
                    message,
                })?;
            match lowered {
                HubObject::Policy(mut policy) => {
                    let n_created = self.n_created.get(key).copied().unwrap_or(1);
                    policy.uid = format!("{}/{}#{n_created}", policy.namespace, policy.name);
                    let key = policy.key();
                    if let Some(old) = old.get(&key) {
                        policy.status.clone_from(&old.status);
                    }
                    self.hub.policies.insert(key, *policy);
                }
                HubObject::Binding(binding) => self.hub.bindings.push(binding),
                HubObject::PolicySet(set) => self.hub.policy_sets.push(set),
                HubObject::Placement(placement) => self.placements.push(*placement),
                HubObject::Decision(decision) => self.given.push(decision),
                HubObject::PlacementRule(decisions) => self.rules.push(decisions),
                HubObject::Cluster(cluster) => {
                    self.members
                        .entry(cluster.name.clone())
                        .or_insert_with(|| Member::of(*cluster));
                }
                HubObject::ClusterSet(set) => self.sets.push(set),
                HubObject::ClusterSetBinding(binding) => self.set_bindings.push(binding),
                HubObject::Scores(scores) => self.scores.push(scores),
                HubObject::Other => {}
            }
        }
        let gone: Vec<ObjectKey> = old
            .into_keys()
            .filter(|key| !self.hub.policies.contains_key(key))
            .collect();
        for key in gone {
            self.hub.replicas.remove(&key);
        }
        Ok(())
    }

    fn join(&mut self, script: &ClusterScript) -> Result<(), SimulationError> {
        let wrong = |error: String| SimulationError::Cluster {
            name: script.name.clone(),
            error,
        };
        if script.count.is_some_and(|count| count > MAX_CLUSTERS) {
            return Err(wrong(format!("more than {MAX_CLUSTERS} clusters")));
        }
        for mut member in Member::all(script).map_err(wrong)? {
            // A script plays the cluster of its name among the manifests.
            if let Some(written) = self.members.remove(&member.cluster.name) {
                member.plays(written.cluster);
            }
            self.members.insert(member.cluster.name.clone(), member);
        }
        Ok(())
    }

    fn each(
        &mut self,
        names: &Names,
        mut act: impl FnMut(&mut Member),
    ) -> Result<(), SimulationError> {
        for name in names.iter() {
            let member = self.members.get_mut(name);
            act(member.ok_or_else(|| SimulationError::UnknownCluster(name.to_owned()))?);
        }
        Ok(())
    }

    fn act(&mut self, deed: &Deed, now: Timestamp) -> Result<(), SimulationError> {
        match deed {
            Deed::Fail(names) => {
                self.each(names, |member| member.change(Outcome::NonCompliant, now))
            }
            Deed::Stall(names) => self.each(names, |member| member.change(Outcome::Pending, now)),
            Deed::Silence(names) => self.each(names, |member| member.change(Outcome::Silent, now)),
            Deed::Recover(names) => {
                self.each(names, |member| member.change(Outcome::Compliant, now))
            }
            Deed::Drift(names) => self.each(names, |member| member.drift(now)),
            Deed::Offline(names) => self.each(names, |member| member.set_online(false, now)),
            Deed::Online(names) => self.each(names, |member| member.set_online(true, now)),
            Deed::Join(script) => self.join(script),
            Deed::Leave(names) => {
                self.each(names, |_| {})?;
                let is_gone = |name: &str| names.iter().any(|gone| gone == name);
                self.members.retain(|name, _| !is_gone(name));
                self.objects
                    .retain(|(kind, _, name), _| kind != "ManagedCluster" || !is_gone(name));
                Ok(())
            }
            Deed::Label(change) => self.each(&change.clusters, |member| {
                for (name, value) in &change.labels {
                    if value.is_empty() {
                        member.cluster.labels.remove(name);
                    } else {
                        member.cluster.labels.insert(name.clone(), value.clone());
                    }
                }
            }),
            Deed::Edit(edit) => {
                let key = self.find(&edit.kind, &edit.name, edit.namespace.as_deref())?;
                if let Some(object) = self.objects.get_mut(&key) {
                    polity_merge::patch::merge_patch(object, &edit.merge);
                }
                self.rebuild()
            }
            Deed::Apply(object) => {
                self.put(Value::Object(object.clone()));
                self.rebuild()
            }
            Deed::Delete(named) => {
                let key = self.find(&named.kind, &named.name, named.namespace.as_deref())?;
                self.objects.remove(&key);
                self.rebuild()
            }
        }
    }

    fn find(
        &self,
        kind: &str,
        name: &str,
        namespace: Option<&str>,
    ) -> Result<ManifestKey, SimulationError> {
        let mut keys = self.objects.keys();
        keys.find(|key| {
            key.0 == kind && key.2 == name && namespace.is_none_or(|namespace| key.1 == namespace)
        })
        .cloned()
        .ok_or_else(|| SimulationError::UnknownObject {
            kind: kind.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Everything that follows at this moment: reports, decisions, plans, and what clusters take over.
    fn settle(&mut self, now: Timestamp, moment: &mut Moment) -> Result<(), SimulationError> {
        self.wake = self.wake.split_off(&now);
        self.wake.remove(&now);
        let mut changed = true;
        while changed {
            self.report(now);
            let warnings = self.decide(now);
            moment
                .warnings
                .extend(warnings.difference(&self.misconfigured).cloned());
            self.misconfigured = warnings;
            let keys: Vec<ObjectKey> = self
                .hub
                .policies
                .keys()
                .chain(self.hub.replicas.keys())
                .cloned()
                .collect();
            for key in keys.into_iter().collect::<BTreeSet<_>>() {
                self.plan(&key, now, moment)?;
            }
            self.sync(now);
            changed = self
                .members
                .values()
                .any(|member| member.next_report().is_some_and(|due| due <= now));
        }
        Ok(())
    }

    fn report(&mut self, now: Timestamp) {
        for (name, member) in &mut self.members {
            let hub = &self.hub;
            let replica_of = |key: &ObjectKey| hub.replica(key, name).cloned();
            for (key, status) in member.reports(replica_of, now) {
                if let Some(replica) = self
                    .hub
                    .replicas
                    .get_mut(&key)
                    .and_then(|all| all.get_mut(name))
                {
                    replica.status = status;
                }
            }
        }
    }

    fn sync(&mut self, now: Timestamp) {
        let keys: BTreeSet<ObjectKey> = self
            .hub
            .policies
            .keys()
            .cloned()
            .chain(self.seen.keys().cloned())
            .collect();
        for (name, member) in self
            .members
            .iter_mut()
            .filter(|(_, member)| member.is_online)
        {
            for key in &keys {
                member.sync(key, self.hub.replica(key, name), now);
            }
        }
    }

    /// Decides for every placement, and warns about invalid ones.
    fn decide(&mut self, now: Timestamp) -> BTreeSet<String> {
        let fleet = polity_rollout::Fleet::from(FleetParts {
            clusters: self
                .members
                .values()
                .map(|member| member.cluster.clone())
                .collect(),
            sets: self.sets.clone(),
            bindings: self.bound_sets(),
            scores: self.scores.clone(),
            decisions: self.standing_decisions(),
        });
        let expressions = self.lower.expressions();
        let decided = place::decide(&self.placements, &self.given, &fleet, expressions, now);
        self.wake.extend(decided.look_again_at);
        self.hub.decisions.clone_from(&self.rules);
        self.hub.decisions.extend(decided.decisions);
        decided
            .misconfigured
            .into_iter()
            .map(|(placement, why)| format!("placement {placement} selects no cluster: {why}"))
            .collect()
    }

    /// Without any binding among the manifests every placement may choose from all clusters: a scenario is about
    /// rollouts, not about who may see which clusters.
    fn bound_sets(&self) -> Vec<ClusterSetBinding> {
        if !self.set_bindings.is_empty() {
            return self.set_bindings.clone();
        }
        let namespaces: BTreeSet<&str> = self
            .placements
            .iter()
            .map(|placement| placement.key.namespace.as_str())
            .collect();
        namespaces
            .into_iter()
            .map(|namespace| ClusterSetBinding {
                namespace: namespace.to_owned(),
                cluster_set: names::GLOBAL_SET.to_owned(),
            })
            .collect()
    }

    fn standing_decisions(&self) -> Vec<PlacementDecision> {
        let mut standing = Vec::new();
        for placement in &self.placements {
            let found = self.hub.decisions.iter().find(|decisions| {
                decisions.namespace == placement.key.namespace
                    && decisions.placement.name == placement.key.name
            });
            for group in found.iter().flat_map(|decisions| decisions.groups.iter()) {
                standing.push(PlacementDecision {
                    placement: placement.key.clone(),
                    name: format!("{}-decision-{}", placement.key.name, standing.len() + 1),
                    group: group.key.clone(),
                    clusters: group.clusters.clone(),
                });
            }
        }
        standing
    }

    fn plan(
        &mut self,
        key: &ObjectKey,
        now: Timestamp,
        moment: &mut Moment,
    ) -> Result<(), SimulationError> {
        let mut n_plans = 0;
        let mut warnings = BTreeSet::new();
        let settled = self.hub.settle(key, now, |_, plan| {
            n_plans += 1;
            let told = plan
                .events
                .iter()
                .filter(|event| event.severity == Severity::Warning);
            warnings.extend(told.map(|event| event.message.clone()));
        })?;
        self.n_plans += n_plans;
        let known = self
            .warned
            .insert(key.clone(), warnings.clone())
            .unwrap_or_default();
        moment.warnings.extend(warnings.difference(&known).cloned());
        let snapshot = settled
            .as_ref()
            .map(|plan| self.snapshot(key, plan))
            .unwrap_or_default();
        if let Some(at) = settled.and_then(|plan| plan.look_again_at)
            && at > now
        {
            self.wake.insert(at);
        }
        self.note(key, snapshot, moment);
        Ok(())
    }

    fn snapshot(&self, key: &ObjectKey, plan: &Plan) -> Snapshot {
        let clusters = plan.clusters.iter().map(|(cluster, entry)| {
            let seen = Seen {
                placement: entry.placement.clone(),
                group: entry.group.clone(),
                status: entry.status,
                enforcing: self
                    .hub
                    .replica(key, cluster)
                    .is_some_and(|replica| replica.spec.enforces()),
                soaking: matches!(entry.turn, Turn::Soaking { .. }),
            };
            (cluster.clone(), seen)
        });
        Snapshot {
            exists: true,
            rollout_status: plan.root_status.rollout_status,
            compliant: plan.root_status.compliant,
            breach: plan.breach,
            clusters: clusters.collect(),
        }
    }

    /// Notes what is different from before.
    fn note(&mut self, key: &ObjectKey, snapshot: Snapshot, moment: &mut Moment) {
        let before = self.seen.get(key).cloned().unwrap_or_default();
        if (snapshot.rollout_status, snapshot.compliant, snapshot.breach)
            != (before.rollout_status, before.compliant, before.breach)
        {
            moment.roots.push(RootChange {
                policy: key.to_string(),
                rollout_status: snapshot.rollout_status.map(|status| status.to_string()),
                compliant: snapshot.compliant.map(|compliance| compliance.to_string()),
                breach: snapshot.breach,
            });
        }
        let gone = before
            .clusters
            .iter()
            .filter(|(name, _)| !snapshot.clusters.contains_key(*name));
        moment
            .clusters
            .extend(gone.map(|(name, seen)| seen.change(key, name, true)));
        for (name, seen) in &snapshot.clusters {
            if before.clusters.get(name) != Some(seen) {
                moment.clusters.retain(|change: &ClusterChange| {
                    change.policy != key.to_string() || change.cluster != *name
                });
                moment.clusters.push(seen.change(key, name, false));
            }
        }
        self.seen.insert(key.clone(), snapshot);
    }

    /// The next time at which something happens by itself.
    fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let reports = self.members.values().filter_map(Member::next_report);
        reports
            .chain(self.wake.iter().copied())
            .filter(|at| *at > now)
            .min()
    }
}

fn key_of(object: &Value) -> ManifestKey {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    (
        text("/kind"),
        text("/metadata/namespace"),
        text("/metadata/name"),
    )
}

fn told(deed: &Deed) -> String {
    let list = |names: &Names| names.iter().collect::<Vec<_>>().join(", ");
    match deed {
        Deed::Fail(names) => format!("{} fails from now on", list(names)),
        Deed::Drift(names) => format!("{} drifts", list(names)),
        Deed::Stall(names) => format!("{} waits for something", list(names)),
        Deed::Silence(names) => format!("{} stops reporting", list(names)),
        Deed::Recover(names) => format!("{} recovers", list(names)),
        Deed::Offline(names) => format!("{} goes offline", list(names)),
        Deed::Online(names) => format!("{} is back online", list(names)),
        Deed::Join(script) => format!("{} joins", script.name),
        Deed::Leave(names) => format!("{} leaves", list(names)),
        Deed::Label(change) => format!("labels of {} change", list(&change.clusters)),
        Deed::Edit(edit) => format!("{} {} is edited", edit.kind, edit.name),
        Deed::Apply(object) => {
            let (kind, _, name) = key_of(&Value::Object(object.clone()));
            format!("{kind} {name} is applied")
        }
        Deed::Delete(named) => format!("{} {} is deleted", named.kind, named.name),
    }
}
