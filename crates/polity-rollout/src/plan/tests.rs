//! The cases of docs/spec/governance.md#7-7, by their numbers.

use jiff::{SignedDuration, Timestamp};
use polity_core::rollout_strategy::{
    GroupKey, GroupReference, Pace, Progressive, ProgressivePerGroup, RolloutStatus,
    RolloutStrategy, Threshold, parse_deadline,
};

use super::{ClusterState, Entry, Observed, Plan, plan};
use crate::groups::DecisionGroups;

/// Number, strategy, groups, existing, toRollout, timedOut, removed, breach, recheck.
type Case = (
    u32,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    bool,
    i64,
);

const TWO: &str = "can{a1 a2 a3} {b1 b2 b3}";
const THREE: &str = "can{a1 a2} {b1 b2} {c1 c2}";
const ALL_SIX: &str = "a1:A a2:A a3:A b1:A b2:A b3:A";

#[rustfmt::skip]
const CASES: &[Case] = &[
    (1, "All", TWO, "", ALL_SIX, "", "", false, 0),
    (2, "All DL=90s", TWO, "a1=S@60 a2=F@120 a3=P@60 b1=P@120", "a3:P b2:A b3:A", "a2:T b1:T", "", false, 30),
    (3, "All DL=None", TWO, "a1=F@9999 a2=P@9999 a3=S@1 b1=K b2=T b3=A", "a1:F a2:P b3:A", "", "", false, 0),
    (4, "All DL=90s", TWO, "a1=S@60 z9=P@10", "a2:A a3:A b1:A b2:A b3:A", "", "z9:P", false, 0),
    (5, "Progressive MC=2", TWO, "", "a1:A a2:A", "", "", false, 0),
    (6, "Progressive MC=2", TWO, "a1=P@10 a2=P@10", "a1:P a2:P", "", "", false, 0),
    (7, "Progressive MC=2", TWO, "a1=S@10 a2=P@10", "a2:P a3:A", "", "", false, 0),
    (8, "Progressive MC=2", TWO, "b3=A a1=A b1=A a2=A b2=A a3=A", "a1:A a2:A", "", "", false, 0),
    (9, "Progressive", TWO, "a1=P@10", "a1:P a2:A a3:A b1:A b2:A b3:A", "", "", false, 0),
    (10, "Progressive MC=25%", TWO, "a1=S@10", "a2:A a3:A", "", "", false, 0),
    (11, "Progressive MC=50", TWO, "", ALL_SIX, "", "", false, 0),
    (12, "Progressive MC=1 MF=0", TWO, "a1=F@500", "a1:F", "", "", true, 0),
    (13, "Progressive MC=3 MF=0", TWO, "a1=F@500", "a1:F", "", "", true, 0),
    (14, "Progressive MC=3 MF=1", TWO, "a1=F@500", "a1:F a2:A a3:A", "", "", false, 0),
    (15, "Progressive MC=1 DL=60s MF=1", TWO, "a1=P@61", "a2:A", "a1:T", "", false, 0),
    (16, "Progressive MC=1 DL=60s MF=0", TWO, "a1=P@61", "", "a1:T", "", true, 0),
    (17, "Progressive MC=1 DL=60s MF=0", TWO, "a1=P@60", "", "a1:T", "", true, 0),
    (18, "Progressive MC=2 DL=0s MF=3", TWO, "a1=S@1 a2=P@1 a3=P@1", "b1:A b2:A", "a2:T a3:T", "", false, 0),
    (19, "Progressive MC=2 SK=60", TWO, "a1=S@30 a2=S@90", "a1:S a3:A", "", "", false, 30),
    (20, "Progressive MC=1 SK=60", TWO, "a1=S@30", "a1:S", "", "", false, 30),
    (21, "Progressive MC=1 SK=60", TWO, "a1=S", "a1:S", "", "", false, 60),
    (22, "Progressive MC=2 DL=60s MF=20%", TWO, "a1=T a2=T", "a3:A b1:A", "", "", false, 0),
    (23, "Progressive MC=2 DL=60s MF=10", TWO, "a1=T a2=S@5", "", "", "", true, 0),
    (24, "Progressive MC=4 MF=0", TWO, "a1=F@5 a2=A b1=P@5", "a1:F b1:P", "", "", true, 0),
    (25, "Progressive MC=2 MG=can", TWO, "", "a1:A a2:A a3:A", "", "", false, 0),
    (26, "Progressive MC=2 MG=can", TWO, "a1=S@5 a2=S@5 a3=S@5", "b1:A b2:A", "", "", false, 0),
    (27, "Progressive MC=2 MG=can MF=100%", TWO, "a1=S@5 a2=F@5 a3=S@5", "a2:F", "", "", true, 0),
    (28, "Progressive MC=2 MG=#1", TWO, "", "b1:A b2:A b3:A", "", "", false, 0),
    (29, "Progressive MC=2 MG=nope", TWO, "", "a1:A a2:A", "", "", false, 0),
    (30, "Progressive MC=2 MG=can", "can{a1 a2 a3 a4} {b1 b2 b3}", "a1=S@5 a2=S@5 a3=S@5 b1=P@5", "b1:P a4:A", "", "", false, 0),
    (31, "PerGroup", THREE, "", "a1:A a2:A", "", "", false, 0),
    (32, "PerGroup", THREE, "a1=S@5 a2=P@5", "a2:P", "", "", false, 0),
    (33, "PerGroup", THREE, "a1=S@5 a2=S@5", "b1:A b2:A", "", "", false, 0),
    (34, "PerGroup SK=60", THREE, "a1=S@90 a2=S@10", "a2:S", "", "", false, 50),
    (35, "PerGroup MF=0", THREE, "a1=S@5 a2=F@5", "a2:F", "", "", true, 0),
    (36, "PerGroup MF=50%", THREE, "a1=S@5 a2=F@5", "a2:F b1:A b2:A", "", "", false, 0),
    (37, "PerGroup MF=1 DL=60s", THREE, "a1=S@5 a2=P@61", "b1:A b2:A", "a2:T", "", false, 0),
    (38, "PerGroup MF=1 DL=60s", THREE, "a1=P@61 a2=F@10", "a2:F", "a1:T", "", true, 50),
    (39, "PerGroup MF=1 DL=60s", THREE, "a1=P@61 a2=P@10", "a2:P", "a1:T", "", false, 50),
    (40, "PerGroup", "can{a1 a2 a9} {b1 b2} {c1 c2}", "a1=S@5 a2=S@5 b1=P@5 b2=P@5", "b1:P b2:P a9:A", "", "", false, 0),
    (41, "PerGroup MG=#2", THREE, "", "c1:A c2:A", "", "", false, 0),
    (42, "PerGroup MG=can MF=2 DL=60s", THREE, "a1=S@5 a2=F@61", "", "a2:T", "", true, 0),
    (43, "PerGroup MG=can", THREE, "a1=S@5 a2=T", "b1:A b2:A", "", "", false, 0),
    (44, "PerGroup", THREE, "a1=S@5 a2=S@5 b1=S@5 b2=K c1=S@5 c2=S@5", "", "", "", false, 0),
    (45, "PerGroup", THREE, "a1=P@5 a2=A b1=A b2=A c1=A c2=A", "a1:P a2:A", "", "", false, 0),
    (46, "Progressive MC=1 MF=0", TWO, "a1=A a2=P@5 b3=F@5", "a1:A", "", "", false, 0),
    (47, "Progressive MC=1 MF=0", TWO, "a2=P@5", "a2:P", "", "", false, 0),
    (48, "PerGroup MF=50%", THREE, "a1=S@5 a2=S@5 b1=F@5 b2=S@5", "b1:F c1:A c2:A", "", "", false, 0),
    (49, "Progressive MC=2 MF=1 MG=can", TWO, "a1=S@5 a2=S@5 a3=S@5 b1=F@5", "b1:F b2:A", "", "", false, 0),
    (50, "Progressive MC=2 MF=1 DL=60s MG=can", TWO, "a1=S@5 a2=S@5 a3=S@5 b1=P@61", "b2:A b3:A", "b1:T", "", false, 0),
    (51, "Progressive MC=2 MG=can", TWO, "a1=S@5 a2=S@5 a3=S@5 b1=P@5", "b1:P b2:A", "", "", false, 0),
    (52, "Progressive MC=1 MF=1", TWO, "a1=F@500", "a1:F", "", "", false, 0),
    // Not of 7.7. Several mandatory groups: one in flight elsewhere does not hide that the second of them waits.
    (101, "PerGroup MG=can,#1", THREE, "a1=S@5 a2=S@5 c1=P@5", "c1:P b1:A b2:A", "", "", false, 0),
    // Mandatory groups run in the order of their index, not in that of the list.
    (102, "PerGroup MG=#1,can", THREE, "", "a1:A a2:A", "", "", false, 0),
    // A name refers to every index that carries it.
    (103, "Progressive MC=1 MG=can", "can{a1} can{b1} {c1}", "a1=S@5", "b1:A", "", "", false, 0),
    // A failed cluster in `All` never sets breach.
    (104, "All MF=0", TWO, "a1=F@5 a2=T", "a1:F a3:A b1:A b2:A b3:A", "", "", false, 0),
    // A cluster that joins a group with too many failures waits.
    (107, "PerGroup", "can{a1 a2 a3} {b1}", "a1=F@5 a2=S@5", "a1:F", "", "", true, 0),
    // Nothing is placed.
    (105, "Progressive MC=1", "{}", "a1=P@5", "", "", "a1:P", false, 0),
    (106, "PerGroup", "", "", "", "", "", false, 0),
];

#[test]
fn cases_of_the_specification() {
    for (number, strategy, groups, existing, to_rollout, timed_out, removed, breach, recheck) in
        CASES
    {
        let plan = plan(
            &strategy_of(strategy),
            &groups_of(groups),
            &observed(existing),
            now(),
        );
        let shown = (
            show(&plan.to_rollout),
            show(&plan.timed_out),
            show_removed(&plan),
            plan.breach,
            plan.recheck_after.map_or(0, |after| after.as_secs()),
        );
        let expected = (
            (*to_rollout).to_owned(),
            (*timed_out).to_owned(),
            (*removed).to_owned(),
            *breach,
            *recheck,
        );
        assert_eq!(shown, expected, "case {number}: {strategy}, {existing}");
    }
    let numbers: Vec<u32> = CASES
        .iter()
        .map(|case| case.0)
        .filter(|n| *n < 100)
        .collect();
    assert_eq!(numbers, (1..=52).collect::<Vec<_>>(), "every case is there");
}

#[test]
fn entries_carry_their_group_and_their_times() {
    let plan = plan(
        &strategy_of("PerGroup DL=60s"),
        &groups_of(THREE),
        &observed("a1=P@10 a2=P@70"),
        now(),
    );
    let a1 = &plan.to_rollout[0];
    assert_eq!(a1.group, GroupKey::new(0, "can"));
    assert_eq!(a1.recheck_at, Some(now() + SignedDuration::from_secs(50)));
    let a2 = &plan.timed_out[0];
    assert_eq!(a2.recheck_at, Some(now() - SignedDuration::from_secs(10)));
    assert_eq!(a2.since, Some(now() - SignedDuration::from_secs(70)));
}

#[test]
fn times_at_the_end_of_the_calendar_are_no_trouble() {
    let strategy = strategy_of("Progressive MC=1 DL=2000000h SK=9000000000");
    for since in [Timestamp::MIN, Timestamp::MAX] {
        for status in RolloutStatus::ALL {
            let state = ClusterState {
                status,
                since: Some(since),
            };
            let observed = Observed::from([("a1".into(), state)]);
            for now in [Timestamp::MIN, now(), Timestamp::MAX] {
                plan(&strategy, &groups_of(TWO), &observed, now);
            }
        }
    }
}

pub(super) fn now() -> Timestamp {
    "2026-11-15T10:00:00Z".parse().unwrap()
}

fn strategy_of(text: &str) -> RolloutStrategy {
    let mut words = text.split_whitespace();
    let kind = words.next().unwrap();
    let mut pace = Pace::default();
    let mut max_concurrency = None;
    let mut mandatory_groups = Vec::new();
    for word in words {
        match word.split_once('=').unwrap() {
            ("DL", text) => pace.progress_deadline = parse_deadline(text).unwrap(),
            ("SK", text) => {
                pace.min_success_time = SignedDuration::from_secs(text.parse().unwrap());
            }
            ("MF", text) => pace.max_failures = threshold(text),
            ("MC", text) => max_concurrency = Some(threshold(text)),
            ("MG", text) => mandatory_groups = text.split(',').map(reference).collect(),
            other => panic!("{other:?}"),
        }
    }
    match kind {
        "All" => RolloutStrategy::All(pace),
        "Progressive" => RolloutStrategy::Progressive(Progressive {
            pace,
            max_concurrency,
            mandatory_groups,
        }),
        "PerGroup" => RolloutStrategy::ProgressivePerGroup(ProgressivePerGroup {
            pace,
            mandatory_groups,
        }),
        other => panic!("{other}"),
    }
}

fn threshold(text: &str) -> Threshold {
    text.parse()
        .unwrap_or_else(|_| Threshold::Count(text.parse().unwrap()))
}

fn reference(text: &str) -> GroupReference {
    match text.strip_prefix('#') {
        Some(index) => GroupReference::Index(index.parse().unwrap()),
        None => GroupReference::Name(text.to_owned()),
    }
}

fn groups_of(text: &str) -> DecisionGroups {
    let groups = text.split_terminator('}').map(str::trim_start);
    DecisionGroups::gather(groups.enumerate().map(|(index, group)| {
        let (name, clusters) = group.split_once('{').unwrap();
        let clusters: Vec<&str> = clusters.split_whitespace().collect();
        (GroupKey::new(index as u32, name), clusters)
    }))
}

fn observed(text: &str) -> Observed {
    let state = |word: &str| {
        let (cluster, state) = word.split_once('=').unwrap();
        let (letter, since) = match state.split_once('@') {
            Some((letter, ago)) => {
                let ago = SignedDuration::from_secs(ago.parse().unwrap());
                (letter, Some(now() - ago))
            }
            None => (state, None),
        };
        let status = LETTERS.into_iter().find(|(_, l)| *l == letter).unwrap().0;
        (cluster.into(), ClusterState { status, since })
    };
    text.split_whitespace().map(state).collect()
}

const LETTERS: [(RolloutStatus, &str); 6] = [
    (RolloutStatus::ToApply, "A"),
    (RolloutStatus::Progressing, "P"),
    (RolloutStatus::Succeeded, "S"),
    (RolloutStatus::Failed, "F"),
    (RolloutStatus::TimeOut, "T"),
    (RolloutStatus::Skip, "K"),
];

fn letter(status: RolloutStatus) -> &'static str {
    LETTERS.into_iter().find(|(s, _)| *s == status).unwrap().1
}

fn show(entries: &[Entry]) -> String {
    let shown: Vec<_> = entries
        .iter()
        .map(|entry| format!("{}:{}", entry.cluster, letter(entry.status)))
        .collect();
    shown.join(" ")
}

fn show_removed(plan: &Plan) -> String {
    let shown: Vec<_> = plan
        .removed
        .iter()
        .map(|(cluster, state)| format!("{cluster}:{}", letter(state.status)))
        .collect();
    shown.join(" ")
}
