//! Killed after any write and started again, a controller comes to the same end; and no generation is
//! called before every replica has it.

use proptest::prelude::*;
use serde_json::json;

use super::Simulation;
use crate::lifecycle::{Plan, Write};

/// Something that happens to a policy besides the controller.
#[derive(Debug, Clone, Copy)]
enum Happening {
    Update,
    Mutating,
    Load,
    FailToInitialize,
    Ready(i32),
    FailToLoad(i32),
    Down(i32),
    Up(i32),
    Scale(i32),
    ServerGone,
    ServerBack,
    WebhookDeleted,
    WebhookEdited,
    RollBack(i64),
    Pass(i64),
}

use Happening::{
    Down, FailToInitialize, FailToLoad, Load, Mutating, Pass, Ready, RollBack, Scale, ServerBack,
    ServerGone, Up, Update, WebhookDeleted, WebhookEdited,
};

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => Just(Update),
        1 => Just(Mutating),
        4 => Just(Load),
        1 => Just(FailToInitialize),
        2 => (0..3i32).prop_map(Ready),
        1 => (0..3i32).prop_map(FailToLoad),
        1 => (0..3i32).prop_map(Down),
        2 => (0..3i32).prop_map(Up),
        1 => (0..4i32).prop_map(Scale),
        1 => Just(ServerGone),
        2 => Just(ServerBack),
        1 => Just(WebhookDeleted),
        1 => Just(WebhookEdited),
        1 => (1..6i64).prop_map(RollBack),
        2 => (1..15i64).prop_map(Pass),
    ]
}

fn happen(simulation: &mut Simulation, what: Happening) {
    let current = simulation.observed.policy.generation;
    let has_revision = simulation.observed.current().is_some();
    let has_server = simulation.observed.server().is_some();
    match what {
        Update => simulation.update(&(current + 1).to_string()),
        Mutating => {
            simulation.edit(|spec| spec["mutating"] = json!(spec["mutating"] == json!(false)));
        }
        Load if has_revision && has_server => {
            let enabled: Vec<_> = simulation
                .observed
                .revisions
                .iter()
                .filter(|revision| revision.spec.enabled)
                .map(|revision| revision.spec.policy_generation)
                .collect();
            for generation in enabled {
                simulation.initialize(generation);
                for replica in simulation.server().ordinals() {
                    simulation.ready(generation, replica);
                }
            }
        }
        FailToInitialize if has_revision => simulation.fail_to_initialize(current, "PullError"),
        Ready(replica) if has_revision => simulation.ready(current, replica),
        FailToLoad(replica) if has_revision => {
            simulation.fail_to_load(current, replica, "LoadError");
        }
        Down(replica) | Up(replica)
            if has_server && simulation.server().pods.contains_key(&replica) =>
        {
            simulation.set_ready(replica, matches!(what, Up(_)));
        }
        Scale(n_replicas) if has_server => simulation.scale(n_replicas),
        ServerGone => simulation.observed.servers.clear(),
        ServerBack if !has_server => simulation.add_server(2),
        WebhookDeleted => simulation.observed.webhooks.clear(),
        WebhookEdited => {
            if let Some(webhook) = simulation.observed.webhooks.first_mut() {
                webhook.hooks[0]["timeoutSeconds"] = json!(1);
            }
        }
        RollBack(to) => simulation.annotate(
            polity_api::policies::names::ROLLBACK_TO_GENERATION,
            &to.to_string(),
        ),
        Pass(seconds) => simulation.pass(seconds),
        _ => {}
    }
}

/// Whether every expected replica can serve a generation, seen from outside.
fn is_everywhere(simulation: &Simulation, generation: i64) -> bool {
    let Some(server) = simulation.observed.server() else {
        return false;
    };
    let conditions = simulation.conditions_of(generation);
    let mut expected = server.ordinals();
    !expected.is_empty()
        && expected.all(|replica| {
            server.is_ready(replica)
                && conditions.contains(&format!("{generation} Ready[{replica}]=True/PolicyReady"))
        })
}

/// What must hold for each single write.
fn check(simulation: &Simulation, write: &Write) {
    match write {
        // The mark comes first, and only for what every replica has.
        Write::UpdateRevision(revision) => {
            let before = simulation
                .observed
                .revision(revision.spec.policy_generation)
                .unwrap();
            let is_marked = |one: &polity_api::policies::v1::PolicyRevision| {
                one.metadata
                    .annotations
                    .as_ref()
                    .unwrap()
                    .contains_key("kubewarden.io/serving")
            };
            if is_marked(revision) && !is_marked(before) {
                assert!(is_everywhere(simulation, revision.spec.policy_generation));
            }
            if !revision.spec.enabled {
                assert_ne!(simulation.webhook(), Some(revision.spec.policy_generation));
            }
        }
        Write::CreateWebhook(webhook) | Write::UpdateWebhook(webhook) => {
            let generation = webhook.generation().unwrap();
            let revision = simulation.observed.revision(generation).unwrap();
            assert!(revision.spec.enabled);
            let annotations = revision.metadata.annotations.as_ref().unwrap();
            assert!(
                annotations.contains_key("kubewarden.io/serving"),
                "marked before it is called"
            );
        }
        Write::DeleteRevision(revision) => {
            assert_ne!(simulation.webhook(), Some(revision.spec.policy_generation));
        }
        _ => {}
    }
}

/// Carries out plans, but dies after `n` writes; answers whether it died.
fn run_until_killed(simulation: &mut Simulation, mut n: usize) -> bool {
    for _ in 0..60 {
        let plan = Plan::of(&simulation.observed, simulation.now);
        if plan.steps.is_empty() {
            return false;
        }
        for step in plan.steps {
            if n == 0 {
                return true;
            }
            check(simulation, &step.write);
            if !simulation.carry_out(step) {
                break;
            }
            n -= 1;
        }
    }
    panic!("it never comes to rest: {:#?}", simulation.writes)
}

/// What is compared: everything but versions and what was written on the way.
fn end(simulation: &Simulation) -> (String, Vec<String>, Option<String>, Vec<Vec<String>>) {
    let revisions = simulation.observed.newest_first();
    let revisions = revisions
        .iter()
        .map(|one| simulation.conditions_of(one.spec.policy_generation));
    (
        simulation.line(),
        simulation.conditions(),
        simulation.status().message.clone(),
        revisions.collect(),
    )
}

proptest! {
    #[test]
    fn killed_after_any_write_it_comes_to_the_same_end(
        happenings in prop::collection::vec(happening(), 1..14),
    ) {
        let mut simulation = Simulation::new(2);
        run_until_killed(&mut simulation, usize::MAX);
        for what in happenings {
            happen(&mut simulation, what);
            let mut whole = simulation.clone();
            run_until_killed(&mut whole, usize::MAX);
            for n in 0.. {
                let mut killed = simulation.clone();
                let died = run_until_killed(&mut killed, n);
                run_until_killed(&mut killed, usize::MAX);
                prop_assert_eq!(end(&killed), end(&whole), "killed after {} writes, {:?}", n, what);
                prop_assert_eq!(&killed.events, &whole.events);
                if !died {
                    break;
                }
            }
            simulation = whole;
        }
        // Left alone with a healthy server, whatever happened, the current generation gets in.
        happen(&mut simulation, ServerBack);
        happen(&mut simulation, Scale(2));
        happen(&mut simulation, Up(0));
        happen(&mut simulation, Up(1));
        run_until_killed(&mut simulation, usize::MAX);
        happen(&mut simulation, Load);
        simulation.settle_for_good();
        let current = simulation.observed.policy.generation;
        prop_assert_eq!(simulation.status().serving_generation, Some(current));
        let enabled = simulation.observed.revisions.iter().filter(|one| one.spec.enabled).count();
        prop_assert_eq!(enabled, 1);
        prop_assert_eq!(simulation.observed.webhooks.len(), 1);
    }
}

#[test]
fn marked_and_not_yet_called_when_a_replica_is_lost_the_mark_is_taken_back() {
    let mut simulation = Simulation::active(2);
    simulation.update("2");
    simulation.settle();
    simulation.initialize(2);
    simulation.ready(2, 0);
    simulation.ready(2, 1);
    assert!(run_until_killed(&mut simulation, 1));
    assert_eq!(simulation.webhook(), Some(1));
    simulation.set_ready(1, false);
    simulation.settle();
    assert_eq!(simulation.line(), "Updating S=1 | 1 on serving, 2 on");
}
