//! Rows 9, 10, 14, 19, 20 and 28 of section 19.3, the start of 19.7, poison of 19.11: what a replica does next.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::managed::revision::samples::Sample;

const US: i32 = 1;

fn at(seconds: u64) -> Moment {
    Moment::START + Duration::from_secs(seconds)
}

fn failed(again: Again) -> Local {
    Local::Failed {
        why: LoadFailure {
            reason: ReadyReason::PullError,
            message: "why".to_owned(),
        },
        n_failures: 1,
        again,
    }
}

const LOADING: Local = Local::Loading { n_failures: 0 };

/// What is done at second 100 by a replica that is ready since then, or starting; in words.
fn told(
    ready_since: Option<u64>,
    samples: impl IntoIterator<Item = Sample>,
    locals: &[(&str, Local)],
) -> String {
    let read = samples.into_iter().map(|sample| Arc::new(sample.read()));
    let revisions: Revisions = read
        .map(|revision| (revision.uid.clone(), revision))
        .collect();
    let locals: Locals = locals
        .iter()
        .map(|(uid, local)| (Uid::from(*uid), local.clone()))
        .collect();
    let plan = Plan::of(View {
        revisions: &revisions,
        locals: &locals,
        replica: US,
        ready_since: ready_since.map(at),
        now: at(100),
    });
    let listed = |what: &str, uids: &[Uid]| {
        let each = uids.iter().map(|uid| format!("{what} {uid}"));
        each.collect::<Vec<_>>()
    };
    let mut words = listed("load", &plan.load);
    words.extend(listed("unload", &plan.unload));
    words.extend(plan.say.iter().map(|(uid, says)| match says {
        Says::Ready => format!("{uid} is ready"),
        Says::NotReady { reason, .. } => format!("{uid} is not: {reason}"),
        Says::Pending => format!("{uid} is pending"),
    }));
    words.extend(listed("wait for", &plan.missing));
    words.extend(listed("give up for", &plan.give_up));
    words.extend(
        plan.look_again
            .map(|moment| format!("look again in {}s", moment.since(at(100)).as_secs())),
    );
    words.join(", ")
}

const RUNNING: Option<u64> = Some(10);
const STARTING: Option<u64> = None;

#[test]
fn what_one_revision_gets() {
    let new = || Sample::new(1);
    let ready = || new().initialized().ready(US, "True", "PolicyReady");
    let retry = |second| failed(Again::At(at(second)));
    let cases = vec![
        ("19.7 step 3: not initialised", STARTING, new(), None, ""),
        (
            "9: initialised",
            RUNNING,
            new().initialized(),
            None,
            "load r1",
        ),
        (
            "it is loading",
            RUNNING,
            new().initialized(),
            Some(LOADING),
            "",
        ),
        (
            "9: loaded",
            RUNNING,
            new().initialized(),
            Some(Local::Loaded),
            "r1 is ready",
        ),
        (
            "19: unchanged entries are not written again",
            RUNNING,
            ready(),
            Some(Local::Loaded),
            "",
        ),
        (
            "10: loading fails",
            RUNNING,
            new().initialized(),
            Some(retry(105)),
            "r1 is not: PullError, look again in 5s",
        ),
        (
            "20: tried again",
            RUNNING,
            new().initialized(),
            Some(retry(100)),
            "load r1, r1 is not: PullError",
        ),
        (
            "14: disabled, what it says stays",
            RUNNING,
            ready().disabled(),
            Some(Local::Loaded),
            "unload r1",
        ),
        (
            "14: disabled while it loads",
            RUNNING,
            new().initialized().disabled(),
            Some(LOADING),
            "unload r1",
        ),
        (
            "24: Initialized was stripped, what is loaded stays",
            RUNNING,
            new(),
            Some(Local::Loaded),
            "r1 is ready",
        ),
        (
            "19.7: a True from before the restart",
            STARTING,
            ready(),
            None,
            "load r1, r1 is pending",
        ),
        (
            "19: a True of what the start waits for is not written again",
            STARTING,
            ready().serving(),
            None,
            "load r1, wait for r1",
        ),
        (
            "28: a True that is stale, while it loads",
            RUNNING,
            ready().serving(),
            Some(LOADING),
            "r1 is pending, wait for r1",
        ),
        (
            "19.7: a False from before the restart stays until there is news",
            STARTING,
            new().initialized().ready(US, "False", "PullError"),
            None,
            "load r1",
        ),
        (
            "another replica's entry is not ours",
            RUNNING,
            new().initialized().ready(0, "True", "PolicyReady"),
            None,
            "load r1",
        ),
        (
            "19.7 step 2: a start waits for what serves",
            STARTING,
            new().initialized().serving(),
            Some(LOADING),
            "wait for r1",
        ),
        (
            "19.7 step 5: and gives up without it",
            STARTING,
            new().initialized().serving(),
            Some(retry(105)),
            "r1 is not: PullError, wait for r1, give up for r1, look again in 5s",
        ),
        (
            "19.7: one on its way in does not take the server down",
            STARTING,
            new().initialized(),
            Some(retry(105)),
            "r1 is not: PullError, look again in 5s",
        ),
        (
            "4.3: a start waits for what takes over, and goes on waiting",
            STARTING,
            new().initialized().takeover(),
            Some(retry(105)),
            "r1 is not: PullError, wait for r1, look again in 5s",
        ),
        (
            "4.3: one that comes later does not hold up who runs",
            RUNNING,
            new().initialized().takeover(),
            Some(LOADING),
            "",
        ),
        (
            "28: serving, and not loaded here",
            RUNNING,
            ready().serving(),
            Some(retry(105)),
            "r1 is not: PullError, wait for r1, look again in 5s",
        ),
        (
            "29: serving, and not yet initialised again",
            RUNNING,
            new().serving(),
            None,
            "",
        ),
        (
            "19.11: what ended the process is not tried before the pod is ready",
            STARTING,
            new().initialized(),
            Some(failed(Again::OnceReady)),
            "r1 is not: PullError",
        ),
        (
            "19.11: then with a delay",
            Some(98),
            new().initialized(),
            Some(failed(Again::OnceReady)),
            "r1 is not: PullError, look again in 3s",
        ),
        (
            "19.11: and then",
            Some(95),
            new().initialized(),
            Some(failed(Again::OnceReady)),
            "load r1, r1 is not: PullError",
        ),
        (
            "after three crashes a minute later",
            Some(98),
            new().initialized(),
            after_crashes(&new().initialized().read(), 3),
            "r1 is not: LoadError, look again in 58s",
        ),
    ];
    for (case, since, sample, local, expected) in cases {
        let locals: Vec<_> = local.into_iter().map(|local| ("r1", local)).collect();
        assert_eq!(told(since, [sample], &locals), expected, "{case}");
    }
}

#[test]
fn what_is_said_already_is_not_said_again() {
    let status = |says: Says| {
        let change = crate::managed::status::Change::Ready { replica: US, says };
        let mut object = Sample::new(1).initialized().object();
        object.status = change.applied(object.status.as_ref(), 1, jiff::Timestamp::UNIX_EPOCH);
        Revision::read(Arc::new(object), "default").unwrap()
    };
    let says = |revision: &Revision, local: &Local| {
        let (revisions, locals) = (Revisions::new(), Locals::new());
        let view = View {
            revisions: &revisions,
            locals: &locals,
            replica: US,
            ready_since: RUNNING.map(at),
            now: at(100),
        };
        super::says(revision, Some(local), view)
    };
    assert_eq!(says(&status(Says::Ready), &Local::Loaded), None);
    assert_eq!(says(&status(Says::Pending), &LOADING), None);
    assert_eq!(
        says(&status(Says::Pending), &Local::Loaded),
        Some(Says::Ready)
    );
}

#[test]
fn gone_revisions_are_let_go() {
    assert_eq!(told(RUNNING, [], &[("r9", Local::Loaded)]), "unload r9");
}

#[test]
fn what_serves_is_loaded_first_and_all_that_is_wrong_is_said() {
    let three = || {
        [
            Sample::new(1).initialized(),
            Sample::new(2).initialized().serving(),
            Sample::new(3).initialized().serving(),
        ]
    };
    assert_eq!(
        told(STARTING, three(), &[]),
        "load r2, load r3, load r1, wait for r2, wait for r3"
    );
    let broken = failed(Again::At(at(200)));
    assert_eq!(
        told(
            STARTING,
            three(),
            &[("r2", broken.clone()), ("r3", LOADING), ("r1", LOADING)]
        ),
        "r2 is not: PullError, wait for r2, wait for r3, look again in 100s"
    );
    assert_eq!(
        told(
            STARTING,
            three(),
            &[("r2", broken.clone()), ("r3", broken), ("r1", LOADING)]
        ),
        "r2 is not: PullError, r3 is not: PullError, wait for r2, wait for r3, give up for r2, give up for r3, \
         look again in 100s"
    );
}

#[test]
fn a_policy_created_again_takes_the_place_of_the_old_one() {
    let old = || Sample::new(1).initialized().created(5);
    let new = || {
        Sample::new(1)
            .uid("r2")
            .of_policy("policy-2")
            .initialized()
            .created(9)
    };
    assert_eq!(
        told(
            RUNNING,
            [old().ready(US, "False", "PullError"), new()],
            &[("r1", Local::Loaded)]
        ),
        "load r2, unload r1"
    );
    assert_eq!(
        told(RUNNING, [old(), new().disabled()], &[("r1", Local::Loaded)]),
        "r1 is ready",
        "one that is disabled takes nobody's place"
    );
}

#[test]
fn crashes_of_earlier_processes_count() {
    let again = |sample: Sample, n| match after_crashes(&sample.read(), n) {
        Some(Local::Failed { again, why, .. }) => format!("{again:?} {}", why.message),
        other => format!("{other:?}"),
    };
    let ended = |times: &str| {
        format!("OnceReady The policy server ended {times} while it loaded the policy.")
    };
    let next =
        |minutes: &str| format!(" The next attempt is made {minutes} after the replica is ready.");
    for (n, expected) in [
        (0, "None".to_owned()),
        (1, ended("once")),
        (2, ended("2 times")),
        (3, ended("3 times") + &next("1 minute")),
        (4, ended("4 times") + &next("5 minutes")),
        (9, ended("9 times") + &next("60 minutes")),
    ] {
        assert_eq!(again(Sample::new(1), n), expected);
    }
    assert_eq!(again(Sample::new(1).serving(), 2), "None");
}
