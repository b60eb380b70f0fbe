//! Random fleets and faults: what must hold whatever happens.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::plan::Turn;

const CLUSTERS: [&str; 8] = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"];

#[derive(Debug, Clone)]
enum Happening {
    Report(usize, Compliance),
    /// The report of an earlier time arrives again.
    Echo(usize),
    Wait(i64),
    /// Which clusters are placed from now on, and how they are cut into groups.
    Decide(u8, usize),
    EditText,
    EditStrategy(usize),
    /// The clock is set back.
    Back(i64),
    /// A replica is deleted by hand.
    Lose(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    let state = prop_oneof![
        3 => Just(Compliance::Compliant),
        1 => Just(Compliance::NonCompliant),
        1 => Just(Compliance::Pending),
    ];
    prop_oneof![
        8 => (0..8usize, state).prop_map(|(cluster, state)| Happening::Report(cluster, state)),
        1 => (0..8usize).prop_map(Happening::Echo),
        4 => (0..400i64).prop_map(Happening::Wait),
        1 => (any::<u8>(), 1..5usize).prop_map(|(mask, size)| Happening::Decide(mask, size)),
        1 => Just(Happening::EditText),
        1 => (0..STRATEGIES.len()).prop_map(Happening::EditStrategy),
        1 => (0..400i64).prop_map(Happening::Back),
        1 => (0..8usize).prop_map(Happening::Lose),
    ]
}

/// Strategies with the most clusters that may be in flight at a time.
const STRATEGIES: [&str; 5] = [
    r#"{"type": "Progressive", "progressive": {"maxConcurrency": 1}}"#,
    r#"{"type": "Progressive", "progressive": {"maxConcurrency": 3, "progressDeadline": "5m", "maxFailures": 1}}"#,
    r#"{"type": "Progressive", "progressive": {"maxConcurrency": 2, "minSuccessTime": "2m", "maxFailures": "100%"}}"#,
    r#"{"type": "ProgressivePerGroup", "progressivePerGroup": {"minSuccessTime": "1m"}}"#,
    r#"{"type": "ProgressivePerGroup", "progressivePerGroup": {"progressDeadline": "3m", "maxFailures": "50%"}}"#,
];

/// Their deadlines, in seconds.
const DEADLINES: [Option<i64>; 5] = [None, Some(300), None, None, Some(180)];

fn max_concurrency(strategy: usize) -> usize {
    [1, 3, 2, usize::MAX, usize::MAX][strategy]
}

fn spec(text: usize, strategy: usize) -> Value {
    let strategy: Value = serde_json::from_str(STRATEGIES[strategy]).unwrap();
    let definition =
        json!({"kind": "ConfigurationPolicy", "metadata": {"name": format!("t{text}")}});
    json!({
        "remediationAction": "enforce",
        "policy-templates": [{"objectDefinition": definition}],
        "rolloutStrategy": strategy,
    })
}

fn groups(mask: u8, size: usize) -> Vec<Vec<&'static str>> {
    let chosen: Vec<&str> = (0..8)
        .filter(|bit| mask & (1 << bit) != 0)
        .map(|bit| CLUSTERS[bit])
        .collect();
    chosen.chunks(size).map(<[&str]>::to_vec).collect()
}

struct RandomFleet {
    fleet: Fleet,
    text: usize,
    strategy: usize,
    groups: Vec<Vec<&'static str>>,
}

impl RandomFleet {
    fn new(strategy: usize) -> Self {
        let mut world = Self {
            fleet: Fleet::new(spec(0, strategy), &[]),
            text: 0,
            strategy,
            groups: Vec::new(),
        };
        world.decide(0xff, 3);
        world
    }

    fn decide(&mut self, mask: u8, size: usize) {
        self.groups = groups(mask, size);
        let named: Vec<(&str, &[&str])> = self
            .groups
            .iter()
            .map(|group| ("", group.as_slice()))
            .collect();
        self.fleet.decide(&named);
    }

    fn happen(&mut self, happening: &Happening) {
        let step_of = |fleet: &Fleet, cluster: &str| {
            let replica = fleet.hub.replica(&Fleet::key(), cluster)?;
            Some((
                replica.annotations.get(names::ROLLOUT_STEP)?.clone(),
                Mark::read(&replica.annotations)?,
            ))
        };
        match happening {
            Happening::Report(cluster, state) => {
                let cluster = CLUSTERS[*cluster];
                let Some((step, mark)) = step_of(&self.fleet, cluster) else {
                    return;
                };
                let status = &mut self.fleet.replica_mut(cluster).status;
                status.compliant = Some(*state);
                status.rollout_step = Some(step);
                status.rollout_status = Some(match state {
                    _ if mark.step.stage == Stage::Wait => RolloutStatus::ToApply,
                    Compliance::Compliant => RolloutStatus::Succeeded,
                    Compliance::NonCompliant => RolloutStatus::Failed,
                    Compliance::Pending => RolloutStatus::Progressing,
                });
            }
            Happening::Echo(cluster) => {
                let cluster = CLUSTERS[*cluster];
                if self.fleet.hub.replica(&Fleet::key(), cluster).is_some() {
                    let status = &mut self.fleet.replica_mut(cluster).status;
                    status.rollout_step = Some("0000000000000000-final".to_owned());
                    status.rollout_status = Some(RolloutStatus::Succeeded);
                    status.compliant = Some(Compliance::Compliant);
                }
            }
            Happening::Wait(seconds) => self.fleet.now += SignedDuration::from_secs(*seconds),
            Happening::Back(seconds) => self.fleet.now -= SignedDuration::from_secs(*seconds),
            Happening::Decide(mask, size) => self.decide(*mask, *size),
            Happening::EditText => {
                self.text += 1;
                self.fleet.edit(spec(self.text, self.strategy));
            }
            Happening::EditStrategy(strategy) => {
                self.strategy = *strategy;
                self.fleet.edit(spec(self.text, self.strategy));
            }
            Happening::Lose(cluster) => {
                if let Some(replicas) = self.fleet.hub.replicas.get_mut(&Fleet::key()) {
                    replicas.remove(CLUSTERS[*cluster]);
                }
            }
        }
    }

    /// Looks and writes until nothing is left to write, checking every plan before it is carried out.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..20 {
            let plan = self.fleet.look();
            self.check(&plan)?;
            for write in &plan.writes {
                self.fleet.hub.carry_out(&Fleet::key(), write);
            }
            self.fleet
                .hub
                .policies
                .get_mut(&Fleet::key())
                .unwrap()
                .status = plan.root_status.clone();
            if plan.writes.is_empty() {
                return self.check_rest();
            }
        }
        Err(TestCaseError::fail("does not come to rest"))
    }

    fn check(&self, plan: &Plan) -> Result<(), TestCaseError> {
        let handed_out: Vec<&ClusterName> = plan
            .clusters
            .iter()
            .filter(|(_, entry)| entry.turn == Turn::HandedOut)
            .map(|(cluster, _)| cluster)
            .collect();
        let in_flight = plan
            .clusters
            .values()
            .filter(|entry| self.holds_a_slot(entry))
            .count();
        if !handed_out.is_empty() {
            prop_assert!(!plan.breach, "handed out after a breach");
            prop_assert!(
                in_flight <= max_concurrency(self.strategy),
                "{in_flight} in flight"
            );
            let version = plan.version.clone().unwrap();
            let all_have_the_text = plan.clusters.keys().all(|cluster| {
                let replica = self.fleet.hub.replica(&Fleet::key(), cluster);
                let mark = replica.and_then(|replica| Mark::read(&replica.annotations));
                mark.is_some_and(|mark| mark.step.version == version)
            });
            prop_assert!(
                all_have_the_text,
                "handed out before the first pass was over"
            );
        }
        // No cluster enforces before its turn: it gets the final copy only by being handed out from a waiting one.
        for write in &plan.writes {
            if let Write::Create(replica) | Write::Update(replica) = write
                && replica.spec.enforces()
            {
                let before = self.fleet.hub.replica(&Fleet::key(), &replica.namespace);
                let mark = before.and_then(|replica| Mark::read(&replica.annotations));
                let after = Mark::read(&replica.annotations).unwrap();
                prop_assert!(
                    mark.is_some_and(|mark| mark.step.version == after.step.version),
                    "enforces unseen"
                );
            }
        }
        if self.strategy >= 3 && !handed_out.is_empty() {
            Self::check_groups(plan, &handed_out)?;
        }
        Ok(())
    }

    /// A failed cluster gives its slot back when its time is up.
    fn holds_a_slot(&self, entry: &crate::plan::ClusterPlan) -> bool {
        match entry.turn {
            Turn::HandedOut | Turn::Running { .. } | Turn::Soaking { .. } => true,
            Turn::Failed => DEADLINES[self.strategy].is_none_or(|seconds| {
                entry.since.unwrap() + SignedDuration::from_secs(seconds) > self.fleet.now
            }),
            _ => false,
        }
    }

    /// Per group: no cluster of an earlier group waits, runs or soaks when a later one is handed out.
    fn check_groups(plan: &Plan, handed_out: &[&ClusterName]) -> Result<(), TestCaseError> {
        let first = handed_out
            .iter()
            .map(|cluster| plan.clusters[*cluster].group.index)
            .min()
            .unwrap();
        for (cluster, entry) in &plan.clusters {
            if entry.group.index < first {
                let is_open = matches!(
                    entry.turn,
                    Turn::Waiting | Turn::HandedOut | Turn::Running { .. } | Turn::Soaking { .. }
                );
                prop_assert!(
                    !is_open,
                    "{cluster} of an earlier group is {:?}",
                    entry.turn
                );
            }
        }
        Ok(())
    }

    fn check_rest(&self) -> Result<(), TestCaseError> {
        let placed: BTreeSet<&str> = self.groups.iter().flatten().copied().collect();
        let replicas = self.fleet.hub.replicas.get(&Fleet::key());
        let found: BTreeSet<&str> = replicas
            .iter()
            .flat_map(|all| all.keys())
            .map(ClusterName::as_str)
            .collect();
        prop_assert_eq!(found, placed, "removed clusters leave nothing behind");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_happens(strategy in 0..STRATEGIES.len(), happenings in prop::collection::vec(happening(), 0..40)) {
        let mut world = RandomFleet::new(strategy);
        world.settle()?;
        for happening in &happenings {
            world.happen(happening);
            world.settle()?;
        }
    }

    /// Killed after any single write, the sequence goes on the same.
    #[test]
    fn killed_after_any_write(strategy in 0..STRATEGIES.len(), happenings in prop::collection::vec(happening(), 0..12)) {
        let run = |writes_per_life: usize| {
            let mut world = RandomFleet::new(strategy);
            let mut written = Vec::new();
            let mut pending = happenings.iter();
            loop {
                let plan = world.fleet.look();
                for write in plan.writes.iter().take(writes_per_life) {
                    world.fleet.hub.carry_out(&Fleet::key(), write);
                    written.push(told(write));
                }
                if plan.writes.is_empty() {
                    match pending.next() {
                        Some(happening) => world.happen(happening),
                        None => return (written, world.fleet.look().root_status),
                    }
                }
            }
        };
        prop_assert_eq!(run(1), run(usize::MAX));
    }

    /// The order of bindings, sets and decisions does not matter.
    #[test]
    fn any_order_of_files(happenings in prop::collection::vec(happening(), 0..12)) {
        let mut world = RandomFleet::new(3);
        world.fleet.hub.bindings = vec![
            binding("b", "pl", "Policy", "p"),
            binding("a", "other", "Policy", "p"),
            binding("z", "third", "PolicySet", "s"),
        ];
        world.fleet.hub.decisions.push(decisions("other", &[("can", &["c8"]), ("", &["d1"])]));
        for happening in &happenings {
            if !matches!(happening, Happening::Decide(..)) {
                world.happen(happening);
            }
            let plan = world.fleet.look();
            let mut reversed = world.fleet.clone();
            reversed.hub.bindings.reverse();
            reversed.hub.decisions.reverse();
            prop_assert_eq!(&plan, &reversed.look());
            for write in &plan.writes {
                world.fleet.hub.carry_out(&Fleet::key(), write);
            }
        }
    }
}
