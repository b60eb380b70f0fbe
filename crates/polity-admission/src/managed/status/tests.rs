//! The conditions that leader and replicas write for each event, and the rules for all conditions
//! (docs/spec/admission.md#19-2, #19-3).

use super::*;
use crate::managed::revision::samples::Sample;

fn build() -> Build {
    Build {
        version: "1.0".to_owned(),
        config_hash: "abc".to_owned(),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn failed(reason: InitializedReason, message: &str) -> Change {
    Change::NotInitialized {
        why: Failure {
            reason,
            message: message.to_owned(),
        },
        by: build(),
    }
}

fn begins(n: i32, holder: &str, withdrawn: &[&str]) -> Change {
    let withdrawn = withdrawn.iter().map(|&holder| holder.to_owned());
    Change::Begins {
        attempt: Attempt {
            n,
            holder: holder.to_owned(),
            withdrawn: withdrawn.collect(),
        },
        by: build(),
    }
}

fn crashed(n_crashes: i32, next_second: i64) -> Change {
    let crashed = Crashed {
        n_crashes,
        next: at(next_second),
    };
    let by = build();
    Change::Crashed { crashed, by }
}

fn ready(replica: i32, report: ReadyReport) -> Change {
    Change::Ready { replica, report }
}

fn module(digest: &str) -> ResolvedModule {
    ResolvedModule {
        member: None,
        uri: "registry://registry.example/p:1".to_owned(),
        digest: digest.to_owned(),
        manifest_digest: None,
        size: 8,
    }
}

fn initialized(digest: &str) -> Change {
    Change::Initialized {
        modules: vec![module(digest)],
        by: build(),
    }
}

/// `type=status/reason` of each condition, then attempts and the time of the last transition.
fn told(status: &PolicyRevisionStatus) -> String {
    let mut words: Vec<String> = status
        .conditions
        .iter()
        .map(|condition| {
            let replica = condition
                .replica
                .map(|n| format!("[{n}]"))
                .unwrap_or_default();
            let at = condition
                .last_transition_time
                .as_ref()
                .unwrap()
                .0
                .as_second();
            format!(
                "{}{replica}={:?}/{}@{at}",
                condition.type_, condition.status, condition.reason
            )
        })
        .collect();
    if let Some(initializer) = &status.initializer {
        words.push(format!("attempts={}", initializer.attempts));
    }
    words.join(" ")
}

fn check(row: &str, before: Sample, change: &Change, expected: Option<&str>) {
    let before = before.object();
    let after = change.applied(before.status.as_ref(), 1, at(60));
    assert_eq!(after.as_ref().map(told).as_deref(), expected, "{row}");
    if let Some(after) = after {
        let again = change.applied(Some(&after), 1, at(120));
        assert_eq!(again, None, "{row}: written once");
    }
}

#[test]
fn the_rows_as_writes() {
    let new = || Sample::new(1);
    check(
        "the leader takes it, and counts the attempt before anything can crash",
        new(),
        &begins(1, "server-0_s_1", &[]),
        Some("Scheduled=True/PolicyScheduled@60 attempts=1"),
    );
    check(
        "initialised",
        new().scheduled().tried(1, "1.0", "abc"),
        &initialized("sha256:a"),
        Some("Scheduled=True/PolicyScheduled@0 Initialized=True/PolicyInitialized@60 attempts=0"),
    );
    check(
        "not initialised",
        new().scheduled().tried(1, "1.0", "abc"),
        &failed(InitializedReason::ModuleInvalid, "no"),
        Some("Scheduled=True/PolicyScheduled@0 Initialized=False/ModuleInvalid@60 attempts=0"),
    );
    check(
        "a replica can serve it; entries stand in order",
        new().initialized().ready(2, "True", "PolicyReady"),
        &ready(1, ReadyReport::Ready),
        Some(
            "Scheduled=True/PolicyScheduled@0 Initialized=True/PolicyInitialized@0 \
             Ready[1]=True/PolicyReady@60 Ready[2]=True/PolicyReady@0",
        ),
    );
    check(
        "a replica cannot, and others' entries stay",
        new()
            .initialized()
            .ready(0, "True", "PolicyReady")
            .ready(1, "True", "PolicyReady"),
        &ready(
            1,
            ReadyReport::NotReady {
                reason: ReadyReason::LoadError,
                message: "why".to_owned(),
            },
        ),
        Some(
            "Scheduled=True/PolicyScheduled@0 Initialized=True/PolicyInitialized@0 \
             Ready[0]=True/PolicyReady@0 Ready[1]=False/LoadError@60",
        ),
    );
    check(
        "a later success overwrites the failure",
        new().not_initialized("PullError").tried(1, "1.0", "abc"),
        &initialized("sha256:a"),
        Some("Scheduled=True/PolicyScheduled@0 Initialized=True/PolicyInitialized@60 attempts=0"),
    );
    check(
        "another failure is no transition",
        new().not_initialized("PullError").tried(0, "1.0", "abc"),
        &failed(InitializedReason::CacheError, "disk full"),
        Some("Scheduled=True/PolicyScheduled@0 Initialized=False/CacheError@0 attempts=0"),
    );
    check(
        "two leaders: what was initialised stays so",
        new().initialized(),
        &failed(InitializedReason::PullError, "late"),
        None,
    );
}

#[test]
fn attempts_are_taken_back_by_their_holders() {
    let status = |sample: Sample| sample.object().status.unwrap();
    let tried = |status: &PolicyRevisionStatus| {
        let initializer = status.initializer.clone().unwrap();
        (initializer.attempts, initializer.holders.join(" "))
    };
    let two = status(Sample::new(1).scheduled().begun_by(&["a_s_1", "b_s_1"]));
    let withdrawn = |holder: &str| Change::Withdrawn {
        holders: vec![holder.to_owned()],
    };
    let one = withdrawn("a_s_1").applied(Some(&two), 1, at(1)).unwrap();
    assert_eq!(tried(&one), (1, "b_s_1".to_owned()));
    assert_eq!(withdrawn("a_s_1").applied(Some(&one), 1, at(1)), None);
    let again = begins(1, "c_s_1", &["b_s_1"]);
    let again = again.applied(Some(&one), 1, at(1)).unwrap();
    assert_eq!(tried(&again), (1, "c_s_1".to_owned()));
    let done = initialized("sha256:a").applied(Some(&again), 1, at(1));
    assert_eq!(tried(&done.unwrap()), (0, String::new()));
}

#[test]
fn crashes_are_kept_until_there_is_another_result() {
    let begun = begins(3, "a_s_3", &[]).applied(None, 1, at(0)).unwrap();
    let failed_once = crashed(3, 120).applied(Some(&begun), 1, at(60)).unwrap();
    let kept = |status: &PolicyRevisionStatus| {
        let initializer = status.initializer.clone().unwrap();
        let next = initializer.next_attempt.map(|time| time.0.as_second());
        (initializer.attempts, initializer.crashes, next)
    };
    assert_eq!(kept(&failed_once), (0, 3, Some(120)));
    assert_eq!(
        failed_once.conditions[1].message,
        "The policy server ended 3 times while it compiled the module or checked the settings. The next attempt is \
         made at 1970-01-01T00:02:00Z, or when the policy changes."
    );
    let again = begins(1, "a_s_4", &[]);
    let again = again.applied(Some(&failed_once), 1, at(120)).unwrap();
    assert_eq!(kept(&again), (1, 3, Some(120)));
    let unpulled = failed(InitializedReason::PullError, "away");
    let unpulled = unpulled.applied(Some(&again), 1, at(121)).unwrap();
    assert_eq!(kept(&unpulled), (0, 3, None));
    let refused = failed(InitializedReason::SettingsInvalid, "no");
    let refused = refused.applied(Some(&again), 1, at(121)).unwrap();
    assert_eq!(kept(&refused), (0, 0, None));
}

#[test]
fn modules_are_written_once() {
    let first = initialized("sha256:a").applied(None, 1, at(1)).unwrap();
    assert_eq!(first.modules, [module("sha256:a")]);
    assert_eq!(
        initialized("sha256:b").applied(Some(&first), 1, at(2)),
        None
    );

    // Re-initialisation removes everything but the modules.
    let reset = PolicyRevisionStatus {
        modules: first.modules,
        ..PolicyRevisionStatus::default()
    };
    let again = initialized("sha256:b").applied(Some(&reset), 1, at(2));
    assert_eq!(again.unwrap().modules, [module("sha256:a")]);
}

#[test]
fn each_condition_has_its_message() {
    let message = |change: Change| {
        let status = change.applied(None, 1, at(1)).unwrap();
        status.conditions[0].message.clone()
    };
    for (change, expected) in [
        (
            begins(1, "server-0_s_1", &[]),
            "The policy was scheduled by the PolicyServer.",
        ),
        (
            initialized("sha256:a"),
            "The policy was successfully initialized.",
        ),
        (
            failed(
                InitializedReason::PullError,
                "ghcr.io answered 404: MANIFEST_UNKNOWN",
            ),
            "Cannot pull the policy from the registry. ghcr.io answered 404: MANIFEST_UNKNOWN",
        ),
        (
            failed(InitializedReason::SettingsInvalid, "the guest's own words"),
            "the guest's own words",
        ),
        (
            ready(0, ReadyReport::Ready),
            "The policy is ready to be used.",
        ),
    ] {
        assert_eq!(message(change), expected);
    }
    let long = message(failed(InitializedReason::ModuleInvalid, &"é".repeat(2000)));
    assert_eq!(long.chars().count(), 1024);
}

#[test]
fn conditions_speak_about_the_generation() {
    let status = ready(3, ReadyReport::Pending)
        .applied(None, 7, at(1))
        .unwrap();
    let [condition] = &status.conditions[..] else {
        panic!("one condition");
    };
    assert_eq!(condition.generation, Some(7));
    assert_eq!(condition.observed_generation, Some(7));
    assert_eq!(condition.replica, Some(3));
    assert!(ReadyReport::Pending.matches(condition));
    assert!(!ReadyReport::Ready.matches(condition));
}
