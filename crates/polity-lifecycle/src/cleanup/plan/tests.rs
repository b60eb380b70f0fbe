//! What is done in which order, with a controller and without one.

use super::*;
use crate::kinds::OwnedKind;
use crate::lifecycle::PolicyKind;

const RUNNING: Controller = Controller::Deployed {
    n_wanted: 2,
    n_ready: 1,
};
const DOWN: Controller = Controller::Deployed {
    n_wanted: 2,
    n_ready: 0,
};
const STOPPED: Controller = Controller::Deployed {
    n_wanted: 0,
    n_ready: 0,
};
const OURS: &[&str] = &["kubewarden.io/finalizer"];

fn left(kind: OwnedKind, name: &str, is_going: bool, finalizers: &[&str]) -> Left {
    Left {
        key: OwnedKey {
            kind,
            namespace: None,
            name: name.to_owned(),
        },
        uid: "uid".to_owned(),
        resource_version: "1".to_owned(),
        deleted_at: is_going.then_some(Timestamp::UNIX_EPOCH),
        finalizers: finalizers.iter().map(|&one| one.to_owned()).collect(),
    }
}

fn policy(is_going: bool, finalizers: &[&str]) -> Left {
    let kind = OwnedKind::Policy(PolicyKind::ClusterAdmissionPolicy);
    left(kind, "p", is_going, finalizers)
}

fn server(is_going: bool, finalizers: &[&str]) -> Left {
    left(OwnedKind::Server, "s", is_going, finalizers)
}

fn webhook(name: &str) -> Vec<Configuration> {
    vec![Configuration {
        kind: WebhookKind::Validating,
        name: name.to_owned(),
        uid: "uid".to_owned(),
    }]
}

/// Everything at once.
fn everything(controller: Controller) -> Observed {
    Observed {
        controller,
        policies: vec![policy(false, OURS)],
        servers: vec![server(false, OURS)],
        revisions: vec![("r".to_owned(), "uid".to_owned())],
        policy_webhooks: webhook("hook"),
        own_webhooks: webhook("own"),
        n_controller_pods: 0,
    }
}

fn in_words(step: &Step<'_>) -> String {
    match step {
        Step::Delete(left) => format!("delete {}", left.key.name),
        Step::Release(left, others) => format!("release {} but for {others:?}", left.key.name),
        Step::DeleteWebhook(webhook) => format!("unregister {}", webhook.name),
        Step::DeleteRevision(name, _) => format!("delete {name}"),
        Step::StopController => "stop".to_owned(),
    }
}

fn check(case: &str, observed: &Observed, stage: Stage, expected: &[&str]) {
    let (reached, steps) = plan(observed);
    let steps: Vec<_> = steps.iter().map(in_words).collect();
    assert_eq!(reached, stage, "{case}");
    assert_eq!(steps, expected, "{case}");
}

/// Carries out every plan until all is done; a controller finalises what is being deleted.
fn run(mut world: Observed) -> Vec<String> {
    let mut done = Vec::new();
    for _ in 0..50 {
        let (stage, steps) = plan(&world);
        if stage == Stage::Done {
            return done;
        }
        let steps: Vec<_> = steps.iter().map(in_words).collect();
        for step in &steps {
            match step.as_str() {
                "delete p" => world.policies[0] = policy(true, OURS),
                "delete s" => world.servers[0] = server(true, OURS),
                "delete r" => world.revisions.clear(),
                "release p but for []" => world.policies.clear(),
                "release s but for []" => world.servers.clear(),
                "unregister hook" => world.policy_webhooks.clear(),
                "unregister own" => world.own_webhooks.clear(),
                "stop" => world.controller = STOPPED,
                other => panic!("{other}"),
            }
        }
        if steps.is_empty() {
            assert!(world.controller.is_running(), "waits for nobody: {world:?}");
            if world.policies.is_empty() {
                world.servers.clear();
            } else {
                world.policies.clear();
                world.policy_webhooks.clear();
                world.revisions.clear();
            }
        }
        done.extend(steps);
    }
    panic!("it does not end: {world:?}");
}

#[test]
fn with_a_controller_it_deletes_and_waits() {
    let done = run(everything(RUNNING));
    assert_eq!(done, ["delete p", "delete s", "stop", "unregister own"]);
}

#[test]
fn the_webhooks_of_the_controller_stay_until_its_last_pod_has_ended() {
    let mut world = Observed {
        own_webhooks: webhook("own"),
        controller: RUNNING,
        n_controller_pods: 2,
        ..Observed::default()
    };
    check("running", &world, Stage::Controller, &["stop"]);
    world.controller = STOPPED;
    check("terminating", &world, Stage::Controller, &[]);
    world.n_controller_pods = 0;
    check("ended", &world, Stage::Controller, &["unregister own"]);
}

#[test]
fn without_one_it_does_what_the_controller_would() {
    let expected = [
        "unregister hook",
        "unregister own",
        "delete p",
        "release p but for []",
        "delete r",
        "delete s",
        "release s but for []",
    ];
    assert_eq!(run(everything(Controller::Absent)), expected);
    let mut with_stop = expected.to_vec();
    with_stop.push("stop");
    assert_eq!(run(everything(DOWN)), with_stop);
}

#[test]
fn single_moments() {
    use Stage::{Controller as ControllerStage, Done, Policies, Servers};
    let nothing = |controller| Observed {
        controller,
        ..Observed::default()
    };
    check("nothing was there", &nothing(Controller::Absent), Done, &[]);
    check("run again", &nothing(STOPPED), Done, &[]);
    check(
        "only the controller",
        &nothing(RUNNING),
        ControllerStage,
        &["stop"],
    );
    check(
        "it does not start",
        &nothing(DOWN),
        ControllerStage,
        &["stop"],
    );
    let with_policy = |policy: Left, controller| Observed {
        policies: vec![policy],
        servers: vec![server(false, OURS)],
        ..nothing(controller)
    };
    check(
        "the controller drains",
        &with_policy(policy(true, OURS), RUNNING),
        Policies,
        &[],
    );
    check(
        "somebody else's finalizer stays",
        &with_policy(
            policy(true, &["a", "kubewarden", "kubewarden.io/finalizer"]),
            DOWN,
        ),
        Policies,
        &[r#"release p but for ["a"]"#],
    );
    check(
        "and is waited for",
        &with_policy(policy(true, &["a"]), DOWN),
        Policies,
        &[],
    );
    let mut orphans = nothing(RUNNING);
    orphans.servers = vec![server(true, OURS)];
    orphans.policy_webhooks = webhook("hook");
    check(
        "an orphan holds up a server",
        &orphans,
        Servers,
        &["unregister hook"],
    );
}
