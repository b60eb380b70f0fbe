//! One Pod through starts, ends, probes and deletions; a property over all of them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const START: i64 = 1_763_294_400;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START + seconds).unwrap()
}

fn pod(container: Value) -> Pod {
    let mut whole = json!({"name": "c", "image": "polity"});
    for (key, value) in container.as_object().unwrap() {
        whole[key] = value.clone();
    }
    serde_json::from_value(json!({
        "metadata": {"name": "web-0", "namespace": "team", "uid": "u", "generation": 1},
        "spec": {"terminationGracePeriodSeconds": 45, "containers": [whole]},
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }))
    .unwrap()
}

fn delete_by(mut pod: Pod, seconds: i64) -> Pod {
    let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(seconds));
    pod.metadata.deletion_timestamp = Some(time);
    pod
}

/// A machine, its Pod, and a clock in seconds.
struct PodRun {
    pod: Pod,
    machine: Machine,
    next_process: u32,
}

impl PodRun {
    fn new(container: Value) -> Self {
        let pod = pod(container);
        let machine = Machine::new(&pod, at(0));
        Self {
            pod,
            machine,
            next_process: 0,
        }
    }

    fn step(&mut self, seconds: i64, input: Input) -> Vec<Action> {
        let actions = self.machine.step(&self.pod, input, at(seconds));
        self.pod.status = Some(self.machine.status(&self.pod, at(seconds)));
        actions
    }

    fn look(&mut self, seconds: i64) -> Vec<Action> {
        self.step(seconds, Input::Look)
    }

    /// Asks for a start, and starts.
    fn start(&mut self, seconds: i64) -> Vec<Action> {
        let asked = self.look(seconds);
        assert!(matches!(asked[..], [Action::Start { .. }]), "{asked:?}");
        self.next_process += 1;
        let process = self.next_process;
        self.step(seconds, Input::Started { process })
    }

    fn exit(&mut self, seconds: i64, exit: Exit) -> Vec<Action> {
        let process = self.next_process;
        self.step(seconds, Input::Exited { process, exit })
    }

    fn probed(&mut self, seconds: i64, kind: Kind, verdict: Verdict) -> Vec<Action> {
        let process = self.next_process;
        self.step(
            seconds,
            Input::Probed {
                process,
                kind,
                verdict,
            },
        )
    }

    /// Phase, readiness, restarts and state in a line.
    fn shown(&self) -> String {
        let status = self.pod.status.as_ref().unwrap();
        let container = &status.container_statuses.as_ref().unwrap()[0];
        let state = container.state.as_ref().unwrap();
        let state = match (&state.waiting, &state.running, &state.terminated) {
            (Some(waiting), _, _) => waiting.reason.clone().unwrap(),
            (_, Some(_), _) => "running".to_owned(),
            (_, _, Some(_)) => "terminated".to_owned(),
            (None, None, None) => "nothing".to_owned(),
        };
        let ready = status.conditions.iter().flatten();
        let ready = ready
            .filter(|condition| condition.type_ == "Ready")
            .map(|condition| condition.status.as_str())
            .collect::<String>();
        let phase = status.phase.as_deref().unwrap();
        format!(
            "{phase} ready={ready} restarts={} {state}",
            container.restart_count
        )
    }
}

#[test]
fn without_probes_what_runs_is_ready() {
    let mut run = PodRun::new(json!({}));
    assert_eq!(run.look(0), [Action::Start { restarts: 0 }]);
    assert_eq!(
        run.shown(),
        "Pending ready=False restarts=0 ContainerCreating"
    );
    assert_eq!(run.step(1, Input::Started { process: 7 }), []);
    assert_eq!(run.shown(), "Running ready=True restarts=0 running");
    assert_eq!(run.machine.look_again_at(), None);
    // What others wrote into the status stays.
    let status = run.pod.status.as_ref().unwrap();
    assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
}

#[test]
fn one_that_cannot_start_says_why_and_tries_again() {
    let mut run = PodRun::new(json!({}));
    run.look(0);
    let problem = Unready {
        reason: "CreateContainerConfigError",
        message: "secret \"x\" not found".into(),
    };
    assert_eq!(run.step(0, Input::NotStarted(problem)), []);
    assert_eq!(
        run.shown(),
        "Pending ready=False restarts=0 CreateContainerConfigError"
    );
    assert_eq!(run.machine.look_again_at(), Some(at(2)));
    assert_eq!(run.look(1), []);
    run.start(2);
    assert_eq!(run.shown(), "Running ready=True restarts=0 running");
}

#[test]
fn one_that_ends_comes_back_at_once_and_then_ever_later() {
    let mut run = PodRun::new(json!({}));
    run.start(0);
    let mut now = 0;
    for (restarts, pause) in [(1, 0), (2, 10), (3, 20), (4, 40)] {
        now += 1;
        let actions = run.exit(now, Exit::Code(1));
        if pause > 0 {
            assert_eq!(actions, []);
            let shown = format!(
                "Running ready=False restarts={} CrashLoopBackOff",
                restarts - 1
            );
            assert_eq!(run.shown(), shown);
            assert_eq!(run.look(now + pause - 1), []);
            now += pause;
            run.start(now);
        } else {
            assert_eq!(actions, [Action::Start { restarts: 1 }]);
            run.next_process += 1;
            let process = run.next_process;
            run.step(now, Input::Started { process });
        }
        let shown = format!("Running ready=True restarts={restarts} running");
        assert_eq!(run.shown(), shown);
    }
    let status = run.pod.status.as_ref().unwrap();
    let last = status.container_statuses.as_ref().unwrap()[0]
        .last_state
        .clone();
    let last = last.unwrap().terminated.unwrap();
    assert_eq!((last.exit_code, last.reason.as_deref()), (1, Some("Error")));
}

#[test]
fn readiness_follows_its_probe_by_the_thresholds() {
    use Verdict::{Failure, Success};
    let probe = json!({"httpGet": {"port": 1}, "initialDelaySeconds": 3, "periodSeconds": 5,
        "successThreshold": 2, "failureThreshold": 2});
    let mut run = PodRun::new(json!({"readinessProbe": probe}));
    assert_eq!(run.start(0), []);
    assert_eq!(run.machine.look_again_at(), Some(at(3)));
    assert_eq!(run.look(3), [Action::Probe(Kind::Readiness)]);
    assert_eq!(run.look(20), [], "one at a time");
    let answers = [
        (Success, false),
        (Success, true),
        (Failure, true),
        (Success, true),
        (Failure, true),
        (Failure, false),
        (Success, false),
        (Success, true),
    ];
    let mut now = 20;
    for (nth, (verdict, ready)) in answers.into_iter().enumerate() {
        assert_eq!(run.probed(now, Kind::Readiness, verdict), []);
        assert_eq!(run.machine.is_ready(), ready, "answer {nth}");
        assert_eq!(run.look(now + 4), []);
        now += 5;
        assert_eq!(run.look(now), [Action::Probe(Kind::Readiness)]);
    }
}

#[test]
fn a_process_that_starts_is_asked_often_but_not_for_ever() {
    let mut run = PodRun::new(json!({"readinessProbe": {"tcpSocket": {"port": 1}}}));
    assert_eq!(run.start(0), [Action::Probe(Kind::Readiness)]);
    for now in 1..30 {
        run.probed(now, Kind::Readiness, Verdict::Failure);
        assert_eq!(run.look(now + 1), [Action::Probe(Kind::Readiness)]);
    }
    run.probed(30, Kind::Readiness, Verdict::Failure);
    assert_eq!(run.look(39), []);
    assert_eq!(run.look(40), [Action::Probe(Kind::Readiness)]);
    // Once it was ready there is no hurry any more.
    let mut run = PodRun::new(json!({"readinessProbe": {"tcpSocket": {"port": 1}}}));
    run.start(0);
    run.probed(1, Kind::Readiness, Verdict::Success);
    run.look(11);
    run.probed(11, Kind::Readiness, Verdict::Failure);
    assert_eq!(run.look(20), []);
}

#[test]
fn nothing_else_is_asked_before_the_startup_probe_succeeded() {
    let probe = json!({"tcpSocket": {"port": 1}, "periodSeconds": 1});
    let container = json!({"startupProbe": probe, "livenessProbe": probe, "readinessProbe": probe});
    let mut run = PodRun::new(container);
    assert_eq!(run.start(0), [Action::Probe(Kind::Startup)]);
    run.probed(1, Kind::Startup, Verdict::Failure);
    assert_eq!(run.look(2), [Action::Probe(Kind::Startup)]);
    let then = run.probed(2, Kind::Startup, Verdict::Success);
    assert_eq!(
        then,
        [
            Action::Probe(Kind::Liveness),
            Action::Probe(Kind::Readiness)
        ]
    );
    assert_eq!(run.shown(), "Running ready=False restarts=0 running");
    run.probed(3, Kind::Readiness, Verdict::Success);
    assert_eq!(run.shown(), "Running ready=True restarts=0 running");
}

#[test]
fn a_failed_liveness_probe_restarts_with_grace() {
    let probe = json!({"tcpSocket": {"port": 1}, "periodSeconds": 1, "failureThreshold": 1});
    let check = |own: Option<i64>, grace: i64| {
        let mut probe = probe.clone();
        if let Some(own) = own {
            probe["terminationGracePeriodSeconds"] = json!(own);
        }
        let mut run = PodRun::new(json!({"livenessProbe": probe}));
        assert_eq!(run.start(0), [Action::Probe(Kind::Liveness)]);
        assert_eq!(
            run.probed(1, Kind::Liveness, Verdict::Failure),
            [Action::Terminate]
        );
        assert_eq!(run.shown(), "Running ready=False restarts=0 running");
        assert_eq!(run.look(grace), []);
        assert_eq!(run.look(1 + grace), [Action::Kill]);
        assert_eq!(run.look(100), [], "killed once");
        let back = run.exit(101, Exit::Signal(9));
        assert_eq!(back, [Action::Start { restarts: 1 }]);
    };
    check(None, 45);
    check(Some(7), 7);
}

#[test]
fn a_deleted_pod_has_until_its_deadline() {
    let mut run = PodRun::new(json!({}));
    run.start(0);
    run.pod = delete_by(run.pod, 45);
    assert_eq!(run.look(1), [Action::Terminate]);
    assert_eq!(run.shown(), "Running ready=False restarts=0 running");
    assert_eq!(run.machine.look_again_at(), Some(at(46)));
    // A second delete shortens it; a longer one would not lengthen it.
    run.pod = delete_by(run.pod, 10);
    assert_eq!(run.look(10), []);
    run.pod = delete_by(run.pod, 60);
    assert_eq!(run.look(11), [Action::Kill]);
    assert_eq!(run.exit(11, Exit::Signal(9)), [Action::Remove]);
    assert_eq!(run.look(12), []);
    run.machine.not_removed();
    assert_eq!(run.look(13), [Action::Remove]);
}

#[test]
fn a_pod_that_is_deleted_while_it_starts_or_waits() {
    let mut run = PodRun::new(json!({}));
    run.look(0);
    run.pod = delete_by(run.pod, 30);
    assert_eq!(run.look(1), [], "its process is on its way");
    assert_eq!(
        run.step(2, Input::Started { process: 1 }),
        [Action::Terminate]
    );
    let gone = run.step(
        3,
        Input::Exited {
            process: 1,
            exit: Exit::Code(0),
        },
    );
    assert_eq!(gone, [Action::Remove]);

    let mut run = PodRun::new(json!({}));
    run.pod = delete_by(run.pod, 30);
    assert_eq!(run.look(0), [Action::Remove]);
}

#[test]
fn one_that_ran_under_another_runtime_is_started_anew() {
    let mut before = PodRun::new(json!({}));
    before.start(0);
    let mut run = PodRun {
        machine: Machine::new(&before.pod, at(100)),
        ..before
    };
    assert_eq!(run.look(100), [Action::Start { restarts: 1 }]);
    run.step(100, Input::Started { process: 9 });
    assert_eq!(run.shown(), "Running ready=True restarts=1 running");
    let status = run.pod.status.unwrap();
    let last = status.container_statuses.unwrap()[0]
        .last_state
        .clone()
        .unwrap();
    let last = last.terminated.unwrap();
    assert_eq!(last.reason.as_deref(), Some("ContainerStatusUnknown"));
    // Its readiness is new, its start is not.
    assert_eq!(status.start_time.unwrap().0, at(0));
}

#[test]
fn answers_about_another_process_mean_nothing() {
    let mut run = PodRun::new(json!({}));
    run.start(0);
    let stale = Input::Exited {
        process: 99,
        exit: Exit::Code(0),
    };
    assert_eq!(run.step(1, stale), []);
    assert_eq!(run.shown(), "Running ready=True restarts=0 running");
}

/// What can happen to a Pod, in any order.
fn inputs() -> impl Strategy<Value = Vec<(i64, u8)>> {
    proptest::collection::vec((0..30i64, 0..8u8), 0..60)
}

proptest! {
    #[test]
    fn there_are_never_two_processes_and_the_end_is_reached(inputs in inputs()) {
        let probe = json!({"tcpSocket": {"port": 1}, "periodSeconds": 2, "failureThreshold": 2});
        let mut run = PodRun::new(json!({"livenessProbe": probe, "readinessProbe": probe}));
        let (mut alive, mut starting, mut killed, mut now) = (false, false, false, 0);
        for (pause, what) in inputs {
            now += pause;
            let process = run.next_process;
            let actions = match what {
                0 if starting => {
                    starting = false;
                    alive = true;
                    run.next_process += 1;
                    let process = run.next_process;
                    run.step(now, Input::Started { process })
                }
                1 if starting => {
                    starting = false;
                    let problem = Unready { reason: "ErrImagePull", message: String::new() };
                    run.step(now, Input::NotStarted(problem))
                }
                2 if alive => {
                    alive = false;
                    run.step(now, Input::Exited { process, exit: Exit::Code(3) })
                }
                3 => run.probed(now, Kind::Liveness, Verdict::Failure),
                4 => run.probed(now, Kind::Readiness, Verdict::Success),
                5 => run.step(now, Input::Exited { process: process + 100, exit: Exit::Code(0) }),
                _ => run.look(now),
            };
            if actions.iter().any(|action| matches!(action, Action::Start { .. })) {
                prop_assert!(!alive && !starting, "a second start");
                (starting, killed) = (true, false);
            }
            killed |= actions.contains(&Action::Kill);
            prop_assert_eq!(run.machine.has_process(), alive || starting);
        }
        // Deleted, it ends: whoever is asked to end does, or is killed.
        run.pod = delete_by(run.pod, now + 30);
        let mut removed = false;
        for _ in 0..6 {
            now += 31;
            let actions = if starting {
                (starting, alive) = (false, true);
                run.next_process += 1;
                let process = run.next_process;
                run.step(now, Input::Started { process })
            } else {
                run.look(now)
            };
            removed |= actions.contains(&Action::Remove);
            if alive && (killed || actions.contains(&Action::Kill)) {
                alive = false;
                let process = run.next_process;
                let actions = run.step(now, Input::Exited { process, exit: Exit::Signal(9) });
                removed |= actions.contains(&Action::Remove);
            }
        }
        prop_assert!(removed && !alive);
    }
}
