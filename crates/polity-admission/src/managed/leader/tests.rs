//! Rows 5, 7, 20 and 29 of section 19.3, retries of 19.4, poison of 19.11: what the leader does next.

use std::sync::Arc;
use std::time::Duration;

use polity_api::policies::v1::PolicyRevision;

use super::*;
use crate::managed::revision::samples::Sample;
use crate::managed::status::Change;

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

/// What is done at second 100, in words.
fn told(samples: impl IntoIterator<Item = Sample>, memory: &[(&str, Tried)]) -> String {
    let memory = memory
        .iter()
        .map(|(uid, tried)| (Uid::from(*uid), *tried))
        .collect();
    let plan = Plan::of(&all(samples), &memory, &build(), at(100));
    let mut words: Vec<String> = Vec::new();
    words.extend(plan.begin.iter().map(|job| {
        let first = if job.is_first { "take" } else { "try" };
        format!("{first} {} #{}", job.uid, job.attempt)
    }));
    words.extend(
        plan.condemn
            .iter()
            .map(|(uid, why)| format!("condemn {uid} {}", why.reason)),
    );
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
        ("5: enabled, not yet scheduled", new(), None, "take r1 #1"),
        ("disabled", new().disabled(), None, ""),
        (
            "it works on it",
            new().scheduled(),
            Some(Tried::Working { n: 0 }),
            "",
        ),
        ("6: initialised", new().initialized(), None, ""),
        (
            "another leader took it and is gone",
            new().scheduled().tried(1, "1.0", "abc"),
            None,
            "try r1 #2",
        ),
        (
            "19.4: a pull that failed before this one led",
            new().not_initialized("PullError").tried(0, "1.0", "abc"),
            None,
            "try r1 #1",
        ),
        (
            "20: its time has come",
            new().not_initialized("PullError").tried(0, "1.0", "abc"),
            Some(failed(1, 100)),
            "try r1 #1",
        ),
        (
            "20: its time has not come",
            new().not_initialized("CacheError").tried(0, "1.0", "abc"),
            Some(failed(3, 120)),
            "look again in 20s",
        ),
        (
            "7: settings refused, same input, same result",
            new()
                .not_initialized("SettingsInvalid")
                .tried(0, "1.0", "abc"),
            None,
            "",
        ),
        (
            "19.4: once more by another version",
            new()
                .not_initialized("ModuleInvalid")
                .tried(0, "0.9", "abc"),
            None,
            "try r1 #1",
        ),
        (
            "19.4: once more with another configuration",
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
            "19.11: two attempts ended without a result",
            new().scheduled().tried(2, "1.0", "abc"),
            None,
            "try r1 #3",
        ),
        (
            "19.11: three did",
            new().scheduled().tried(3, "1.0", "abc"),
            None,
            "condemn r1 ModuleInvalid",
        ),
        (
            "19.11: what was condemned stays so",
            new()
                .not_initialized("ModuleInvalid")
                .tried(0, "1.0", "abc"),
            None,
            "",
        ),
    ] {
        let memory: Vec<_> = memory.into_iter().map(|tried| ("r1", tried)).collect();
        assert_eq!(told([sample], &memory), expected, "{case}");
    }
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
        "29: serving ones first"
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
    /// After it counted its attempt: while it compiles.
    Compiling,
}

proptest::proptest! {
    /// Acceptance 7 and 28: whoever ends wherever, the next one goes on, and three ends in the compiler are enough.
    #[test]
    fn leaders_may_end_anywhere(ends in proptest::collection::vec(
        proptest::prop_oneof![proptest::strategy::Just(Ends::AtOnce), proptest::strategy::Just(Ends::Compiling)],
        0..8,
    )) {
        let mut object = Sample::new(1).object();
        let write = |object: &mut PolicyRevision, change: Change| {
            let after = change.applied(object.status.as_ref(), 1, jiff::Timestamp::UNIX_EPOCH);
            if let Some(status) = after {
                object.status = Some(status);
            }
        };
        let mut n_compiled = 0;
        for leader in ends.into_iter().map(Some).chain([None]) {
            let plan = Plan::of(&all([Sample::of(object.clone())]), &Memory::new(), &build(), at(100));
            for (_, why) in plan.condemn {
                write(&mut object, Change::NotInitialized { why, by: build() });
            }
            let Some(job) = plan.begin.first() else {
                continue;
            };
            if let Some(Ends::AtOnce) = leader {
                continue;
            }
            write(&mut object, Change::Begins { attempt: job.attempt, by: build() });
            if let Some(Ends::Compiling) = leader {
                n_compiled += 1;
                continue;
            }
            write(&mut object, Change::Initialized { modules: Vec::new(), by: build() });
        }
        let revision = Sample::of(object).read();
        proptest::prop_assert_eq!(revision.is_initialized(), n_compiled < 3);
        proptest::prop_assert!(n_compiled <= 3, "condemned revisions are left alone");
        proptest::prop_assert_eq!(attempts(&revision), 0, "a result of one kind or the other");
    }
}
