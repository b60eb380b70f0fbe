//! What the leader does next: new revisions, failures and their retries, crashes.

use std::sync::Arc;
use std::time::Duration;

use polity_api::policies::v1::PolicyRevision;

use super::*;
use crate::managed::leader::attempts::tests::crashes;
use crate::managed::revision::samples::Sample;
use crate::managed::status::{Attempt, Change};

fn build() -> Build {
    Build {
        version: "1.0".to_owned(),
        config_hash: "abc".to_owned(),
    }
}

fn at(seconds: u64) -> Moment {
    Moment::START + Duration::from_secs(seconds)
}

fn all(samples: impl IntoIterator<Item = Sample>) -> Revisions {
    let read = samples.into_iter().map(|sample| Arc::new(sample.read()));
    read.map(|revision| (revision.uid.clone(), revision))
        .collect()
}

/// Second 100, which is also second 100 of 1970.
fn now() -> Now {
    Now {
        moment: at(100),
        date: Timestamp::from_second(100).unwrap(),
    }
}

/// What is done at second 100, in words.
fn told(samples: impl IntoIterator<Item = Sample>, memory: &[(&str, Tried)]) -> String {
    let memory = memory
        .iter()
        .map(|(uid, tried)| (Uid::from(*uid), *tried))
        .collect();
    let plan = Plan::of(View {
        revisions: &all(samples),
        memory: &memory,
        crashes: &crashes(&["server-0_s_9"]),
        build: &build(),
        now: now(),
    });
    let mut words: Vec<String> = Vec::new();
    words.extend(plan.begin.iter().map(|job| {
        let first = if job.is_first { "take" } else { "try" };
        format!("{first} {} #{}", job.uid, job.attempt)
    }));
    words.extend(plan.give_up.iter().map(|(uid, crashed)| {
        let wait = crashed.next.duration_since(now().date).as_secs();
        format!("give up {uid} after {} for {wait}s", crashed.n_crashes)
    }));
    words.extend(plan.look_again.map(|moment| {
        let wait = moment.since(at(100)).as_secs();
        format!("look again in {wait}s")
    }));
    words.join(", ")
}

#[test]
fn what_one_revision_gets() {
    let new = || Sample::new(1);
    let failed = |n, second| Tried::Failed {
        n,
        again: at(second),
    };
    for (case, sample, memory, expected) in [
        ("enabled, not yet scheduled", new(), None, "take r1 #1"),
        ("disabled", new().disabled(), None, ""),
        (
            "it works on it",
            new().scheduled(),
            Some(Tried::Working { n: 0 }),
            "",
        ),
        ("initialised", new().initialized(), None, ""),
        (
            "another leader took it and is gone",
            new().scheduled().tried(1, "1.0", "abc"),
            None,
            "try r1 #2",
        ),
        (
            "a pull that failed before this one led",
            new().not_initialized("PullError").tried(0, "1.0", "abc"),
            None,
            "try r1 #1",
        ),
        (
            "its time has come",
            new().not_initialized("PullError").tried(0, "1.0", "abc"),
            Some(failed(1, 100)),
            "try r1 #1",
        ),
        (
            "its time has not come",
            new().not_initialized("CacheError").tried(0, "1.0", "abc"),
            Some(failed(3, 120)),
            "look again in 20s",
        ),
        (
            "settings refused, same input, same result",
            new()
                .not_initialized("SettingsInvalid")
                .tried(0, "1.0", "abc"),
            None,
            "",
        ),
        (
            "once more by another version",
            new()
                .not_initialized("ModuleInvalid")
                .tried(0, "0.9", "abc"),
            None,
            "try r1 #1",
        ),
        (
            "once more with another configuration",
            new()
                .not_initialized("ModuleInvalid")
                .tried(0, "1.0", "abd"),
            None,
            "try r1 #1",
        ),
        (
            "a reason of another release",
            new().not_initialized("Unheard").tried(0, "1.0", "abc"),
            None,
            "try r1 #1",
        ),
        (
            "two attempts ended without a result",
            new().scheduled().tried(2, "1.0", "abc"),
            None,
            "try r1 #3",
        ),
        (
            "three did",
            new().scheduled().tried(3, "1.0", "abc"),
            None,
            "give up r1 after 3 for 60s",
        ),
        (
            "attempts of this pod that were no crashes",
            new()
                .scheduled()
                .begun_by(&["server-0_s_1", "server-0_s_2", "server-0_t_3"]),
            None,
            "try r1 #1",
        ),
        (
            "crashes in this pod and attempts of other pods",
            new()
                .scheduled()
                .begun_by(&["server-0_s_9", "server-1_s_1", "server-2_s_1"]),
            None,
            "give up r1 after 3 for 60s",
        ),
        (
            "crashed too often, not yet tried again",
            new()
                .not_initialized("ModuleInvalid")
                .tried(0, "1.0", "abc")
                .crashed(3, 130),
            None,
            "look again in 30s",
        ),
        (
            "crashed too often, the time of the next attempt has come",
            new()
                .not_initialized("ModuleInvalid")
                .tried(0, "1.0", "abc")
                .crashed(3, 100),
            None,
            "try r1 #1",
        ),
        (
            "the next attempt crashed too",
            new()
                .not_initialized("ModuleInvalid")
                .tried(0, "1.0", "abc")
                .crashed(3, 90)
                .begun_by(&["server-1_s_1"]),
            None,
            "give up r1 after 4 for 300s",
        ),
        (
            "the next attempt ended in an orderly way",
            new()
                .not_initialized("ModuleInvalid")
                .tried(0, "1.0", "abc")
                .crashed(6, 90)
                .begun_by(&["server-0_s_1"]),
            None,
            "try r1 #1",
        ),
        (
            "a clock that is far ahead delays nothing longer than an hour",
            new()
                .not_initialized("ModuleInvalid")
                .tried(0, "1.0", "abc")
                .crashed(3, 1_000_000),
            None,
            "look again in 3600s",
        ),
    ] {
        let memory: Vec<_> = memory.into_iter().map(|tried| ("r1", tried)).collect();
        assert_eq!(told([sample], &memory), expected, "{case}");
    }
}

#[test]
fn namespaces_with_slow_registries_leave_the_next_place_to_others() {
    let of_namespace = |n, namespace| Sample::new(n).of_kind("AdmissionPolicy", Some(namespace));
    let working = Tried::Working { n: 0 };
    let failed = Tried::Failed {
        n: 1,
        again: at(50),
    };
    let samples = [
        of_namespace(1, "slow"),
        of_namespace(2, "slow"),
        of_namespace(3, "slower"),
        of_namespace(4, "slower"),
        of_namespace(5, "slow"),
        of_namespace(6, "quick"),
    ];
    // One place is free, and modules of both slow namespaces are due before that of the third.
    assert_eq!(
        told(samples, &[("r1", working), ("r2", failed), ("r3", working)]),
        "take r6 #1",
    );
}

#[test]
fn no_namespace_delays_another_one_or_the_cluster() {
    let of_namespace = |n, namespace| Sample::new(n).of_kind("AdmissionPolicy", Some(namespace));
    let noisy = |n| of_namespace(n, "noisy");
    let working = Tried::Working { n: 0 };
    assert_eq!(
        told((1..=5).map(noisy), &[]),
        "take r1 #1, take r2 #1",
        "a namespace has two at most"
    );
    let others = [noisy(3), noisy(4), of_namespace(5, "other"), Sample::new(6)];
    let busy = || [noisy(1), noisy(2)].into_iter().chain(others.clone());
    assert_eq!(
        told(busy(), &[("r1", working), ("r2", working)]),
        "take r5 #1, take r6 #1",
        "others do not wait for it"
    );
    assert_eq!(
        told(
            (1..=6).map(|n| of_namespace(n, ["a", "b", "c"][n as usize % 3])),
            &[]
        ),
        "take r1 #1, take r2 #1, take r3 #1",
        "one is left for the cluster"
    );
}

#[test]
fn four_at_once_and_what_serves_first() {
    let six = || {
        [
            Sample::new(1),
            Sample::new(2),
            Sample::new(3).takeover(),
            Sample::new(4),
            Sample::new(5).serving(),
            Sample::new(6),
        ]
    };
    assert_eq!(
        told(six(), &[]),
        "take r5 #1, take r3 #1, take r1 #1, take r2 #1",
        "serving ones first"
    );
    assert_eq!(
        told(
            six(),
            &[
                ("r5", Tried::Working { n: 0 }),
                ("r3", Tried::Working { n: 0 })
            ]
        ),
        "take r1 #1, take r2 #1"
    );
    let busy = ["r1", "r2", "r3", "r4"].map(|uid| (uid, Tried::Working { n: 0 }));
    assert_eq!(told(six(), &busy), "");
}

#[test]
fn what_crashed_is_initialised_alone() {
    let new = |n| Sample::new(n).scheduled();
    let crashed = |n| new(n).begun_by(&["server-1_s_1"]);
    let given_up = |n| {
        Sample::new(n)
            .not_initialized("ModuleInvalid")
            .tried(0, "1.0", "abc")
            .crashed(3, 100)
    };
    let working = |uid| (uid, Tried::Working { n: 0 });
    for (case, samples, memory, expected) in [
        (
            "four crashed together: one after the other",
            vec![crashed(1), crashed(2), crashed(3), crashed(4)],
            vec![],
            "try r1 #2",
        ),
        (
            "others come first",
            vec![crashed(1), new(2), new(3)],
            vec![],
            "try r2 #1, try r3 #1",
        ),
        (
            "it waits until the others have ended",
            vec![crashed(1), new(2)],
            vec![working("r2")],
            "",
        ),
        (
            "nothing begins beside it",
            vec![crashed(1), new(2), crashed(3)],
            vec![working("r1")],
            "",
        ),
        (
            "after it was given up, too",
            vec![given_up(1), new(2)],
            vec![],
            "try r2 #1",
        ),
        (
            "and nothing begins beside that attempt",
            vec![given_up(1).begun_by(&["server-0_s_1"]), new(2)],
            vec![working("r1")],
            "",
        ),
        (
            "attempts that were no crashes do not matter",
            vec![new(1).begun_by(&["server-0_s_1"]), new(2)],
            vec![],
            "try r1 #1, try r2 #1",
        ),
    ] {
        assert_eq!(told(samples, &memory), expected, "{case}");
    }
}

/// Several revisions of which one crashes every process that compiles it.
#[test]
fn only_the_revision_that_crashes_is_given_up() {
    let mut objects: Vec<PolicyRevision> = (1..=6).map(|n| Sample::new(n).object()).collect();
    let guilty = Uid::from("r3");
    for process in 0..12 {
        // Each process is a pod of its own: its attempts count for the next one.
        let mut is_alive = true;
        while is_alive {
            let revisions = all(objects.iter().cloned().map(Sample::of));
            let plan = Plan::of(View {
                revisions: &revisions,
                memory: &Memory::new(),
                crashes: &crashes(&[]),
                build: &build(),
                now: now(),
            });
            let mut write = |uid: &Uid, change: Change| {
                let mut found = objects.iter_mut();
                let object =
                    found.find(|object| object.metadata.uid.as_deref() == Some(uid.as_str()));
                let object = object.unwrap();
                let status = change.applied(object.status.as_ref(), 1, now().date);
                object.status = status.or(object.status.take());
            };
            for (uid, crashed) in plan.give_up {
                assert_eq!(uid, guilty, "the others crash nothing");
                write(
                    &uid,
                    Change::Crashed {
                        crashed,
                        by: build(),
                    },
                );
            }
            for job in &plan.begin {
                let holder = format!("pod-{process}_s_1");
                let attempt = Attempt {
                    n: job.attempt,
                    holder,
                    withdrawn: job.withdrawn.clone(),
                };
                write(
                    &job.uid,
                    Change::Begins {
                        attempt,
                        by: build(),
                    },
                );
            }
            is_alive = !plan.begin.is_empty() && plan.begin.iter().all(|job| job.uid != guilty);
            if is_alive {
                for job in &plan.begin {
                    write(
                        &job.uid,
                        Change::Initialized {
                            modules: Vec::new(),
                            by: build(),
                        },
                    );
                }
            }
        }
    }
    for object in objects {
        let revision = Sample::of(object).read();
        assert_eq!(
            revision.is_initialized(),
            revision.uid != guilty,
            "{}",
            revision.uid
        );
    }
}

#[test]
fn the_earliest_of_all_retries_wakes_it() {
    let again = |second| Tried::Failed {
        n: 1,
        again: at(second),
    };
    let samples = [1, 2].map(|n| Sample::new(n).not_initialized("PullError"));
    let memory = [("r1", again(190)), ("r2", again(130))];
    assert_eq!(told(samples, &memory), "look again in 30s");
}

/// Where a leader ends.
#[derive(Debug, Clone, Copy)]
enum Ends {
    /// Before it wrote anything.
    AtOnce,
    /// After it counted its attempt: it crashes while it compiles.
    Compiling,
    /// Likewise, but in an orderly way or with its parent. The status is not corrected.
    Stopped,
}

proptest::proptest! {
    /// Wherever a leader ends, the next one continues. Three crashes in the compiler are enough, and nothing else counts.
    #[test]
    fn leaders_may_end_anywhere(ends in proptest::collection::vec(
        proptest::prop_oneof![
            proptest::strategy::Just(Ends::AtOnce),
            proptest::strategy::Just(Ends::Compiling),
            proptest::strategy::Just(Ends::Stopped),
        ],
        0..12,
    )) {
        let mut object = Sample::new(1).object();
        let write = |object: &mut PolicyRevision, change: Change| {
            let after = change.applied(object.status.as_ref(), 1, jiff::Timestamp::UNIX_EPOCH);
            if let Some(status) = after {
                object.status = Some(status);
            }
        };
        let mut crashed: Vec<String> = Vec::new();
        for (n, leader) in ends.into_iter().map(Some).chain([None]).enumerate() {
            let known: Vec<&str> = crashed.iter().map(String::as_str).collect();
            let plan = Plan::of(View {
                revisions: &all([Sample::of(object.clone())]),
                memory: &Memory::new(),
                crashes: &crashes(&known),
                build: &build(),
                now: now(),
            });
            for (_, crashed) in plan.give_up {
                write(&mut object, Change::Crashed { crashed, by: build() });
            }
            let Some(job) = plan.begin.first() else {
                continue;
            };
            if let Some(Ends::AtOnce) = leader {
                continue;
            }
            let holder = format!("server-0_s_{n}");
            let attempt = Attempt { n: job.attempt, holder: holder.clone(), withdrawn: job.withdrawn.clone() };
            write(&mut object, Change::Begins { attempt, by: build() });
            match leader {
                Some(Ends::Compiling) => {
                    crashed.push(holder);
                    continue;
                }
                Some(Ends::Stopped | Ends::AtOnce) => continue,
                None => {}
            }
            write(&mut object, Change::Initialized { modules: Vec::new(), by: build() });
        }
        let revision = Sample::of(object).read();
        proptest::prop_assert_eq!(revision.is_initialized(), crashed.len() < 3);
        proptest::prop_assert!(crashed.len() <= 3, "after three crashes the module is left alone for a while");
        let initializer = initializer(&revision).unwrap();
        proptest::prop_assert_eq!((initializer.attempts, initializer.holders.len()), (0, 0), "there is a result");
    }
}
