//! Every row of the tables of docs/spec/reports.md#6-2, by name, and that every input has a decision.

use proptest::prelude::*;

use super::*;
use crate::PolicyKind;
use crate::source::ReportingPolicy;

const HASH: &str = "5bd17c64f6929451ef3791c99e680efb";
const MINUTE: i64 = 60;

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_794_700_800 + minutes * MINUTE).unwrap()
}

fn key(name: &str) -> ReportKey {
    ReportingPolicy::new(PolicyKind::ClusterAdmissionPolicy, None, name)
        .unwrap()
        .key()
}

fn live() -> ResourceState {
    ResourceState {
        hash: HASH.to_owned(),
        is_confirmed: false,
        is_deleting: false,
        kind: KindState::Selected,
    }
}

/// A background policy that applies, at version `v1`.
fn policy(name: &str) -> PolicyState {
    PolicyState {
        policy: key(name),
        serving: Serving::Version("v1".to_owned()),
        is_background: true,
        applies: true,
        is_disabled: false,
    }
}

fn not_background(policy: PolicyState) -> PolicyState {
    PolicyState {
        is_background: false,
        ..policy
    }
}

/// A report of ours with entries by name, version and hash.
fn report(entries: &[(&str, &str, &str)]) -> Metadata {
    let mut report = Metadata {
        name: "uid".to_owned(),
        created: Some(at(-600)),
        owners: vec![crate::ResourceRef::default()],
        ..Metadata::default()
    };
    report
        .labels
        .insert(crate::MANAGED_BY.to_owned(), "polity".to_owned());
    for (name, version, hash) in entries {
        let key = key(name);
        report.labels.insert(key.label_key(), (*version).to_owned());
        if !hash.is_empty() {
            report
                .annotations
                .insert(key.hash_key(), (*hash).to_owned());
        }
    }
    report
}

fn fresh(name: &str) -> (&str, &'static str, &'static str) {
    (name, "v1", "5bd17c64f6929451")
}

fn asked(
    resource: Option<&ResourceState>,
    report: Option<&Metadata>,
    policies: &[PolicyState],
    minutes_since_pass: i64,
) -> Decision {
    let pass = Pass {
        now: at(0),
        last: at(-minutes_since_pass),
        times: Times::default(),
    };
    decide(resource, report, policies, "polity", &pass)
}

fn about(report: &Metadata, policies: &[PolicyState]) -> Decision {
    asked(Some(&live()), Some(report), policies, 10)
}

fn evaluate(name: &str, why: Why) -> Decision {
    Decision::Update(Update {
        evaluate: BTreeMap::from([(key(name), why)]),
        ..Update::default()
    })
}

fn remove(names: &[&str]) -> Decision {
    Decision::Update(Update {
        remove: names.iter().map(|name| key(name)).collect(),
        ..Update::default()
    })
}

// Step 1: the object.

#[test]
fn resource_gone_any_report_nothing() {
    let policies = [policy("p")];
    assert_eq!(asked(None, None, &policies, 10), Decision::Nothing);
    let report = report(&[("gone", "v0", "x")]);
    assert_eq!(asked(None, Some(&report), &policies, 10), Decision::Nothing);
}

#[test]
fn kind_no_longer_selected_or_served_report_is_deleted() {
    for kind in [KindState::NotSelected, KindState::NotServed] {
        let resource = ResourceState { kind, ..live() };
        let report = report(&[fresh("p")]);
        let found = asked(Some(&resource), Some(&report), &[policy("p")], 10);
        assert_eq!(found, Decision::Delete);
        assert_eq!(
            asked(Some(&resource), None, &[policy("p")], 10),
            Decision::Nothing
        );
    }
}

#[test]
fn no_report_and_no_background_policy_nothing() {
    let elsewhere = PolicyState {
        applies: false,
        ..policy("b")
    };
    let disabled = PolicyState {
        is_disabled: true,
        ..policy("c")
    };
    let policies = [not_background(policy("a")), elsewhere, disabled];
    assert_eq!(asked(Some(&live()), None, &policies, 10), Decision::Nothing);
}

#[test]
fn no_report_and_background_policies_are_evaluated_and_created() {
    let policies = [policy("a"), not_background(policy("b")), policy("c")];
    assert_eq!(
        asked(Some(&live()), None, &policies, 10),
        Decision::Create {
            evaluate: BTreeSet::from([key("a"), key("c")])
        }
    );
}

// Step 2: the entries.

#[test]
fn missing_entry_is_evaluated_if_background() {
    let report = report(&[fresh("p")]);
    let found = about(&report, &[policy("p"), policy("new")]);
    assert_eq!(found, evaluate("new", Why::Missing));
    let found = about(&report, &[policy("p"), not_background(policy("new"))]);
    assert_eq!(found, Decision::Nothing, "only admission can fill it");
}

#[test]
fn outdated_entry_is_evaluated_if_background_else_removed() {
    let report = report(&[fresh("p"), ("old", "v0", "5bd17c64f6929451")]);
    assert_eq!(
        about(&report, &[policy("p"), policy("old")]),
        evaluate("old", Why::Outdated)
    );
    assert_eq!(
        about(&report, &[policy("p"), not_background(policy("old"))]),
        remove(&["old"])
    );
}

#[test]
fn entry_of_an_old_object_is_evaluated_if_background() {
    let report = report(&[fresh("p"), ("old", "v1", "0000000000000000")]);
    assert_eq!(
        about(&report, &[policy("p"), policy("old")]),
        evaluate("old", Why::OldObject)
    );
    let unmarked = self::report(&[fresh("p"), ("old", "v1", "")]);
    assert_eq!(
        about(&unmarked, &[policy("p"), policy("old")]),
        evaluate("old", Why::OldObject)
    );
}

#[test]
fn entry_of_an_old_object_not_background_is_removed_once_the_hash_is_confirmed() {
    let report = report(&[fresh("p"), ("old", "v1", "0000000000000000")]);
    let policies = [policy("p"), not_background(policy("old"))];
    let found = about(&report, &policies);
    assert_eq!(
        found,
        Decision::Update(Update {
            confirm: true,
            ..Update::default()
        })
    );
    let confirmed = ResourceState {
        is_confirmed: true,
        ..live()
    };
    let found = asked(Some(&confirmed), Some(&report), &policies, 10);
    assert_eq!(found, remove(&["old"]));
}

#[test]
fn entry_of_another_version_is_never_an_old_object() {
    let report = report(&[("p", "v1", "-")]);
    assert_eq!(
        about(&report, &[not_background(policy("p"))]),
        Decision::Nothing
    );
}

#[test]
fn extra_entry_is_removed_background_or_not() {
    let report = report(&[fresh("p"), fresh("extra")]);
    let others = |extra: PolicyState| [policy("p"), extra.clone()];
    let elsewhere = PolicyState {
        applies: false,
        ..policy("extra")
    };
    let disabled = PolicyState {
        is_disabled: true,
        ..policy("extra")
    };
    let never = PolicyState {
        serving: Serving::Never,
        ..policy("extra")
    };
    for extra in [elsewhere, disabled, never] {
        assert_eq!(about(&report, &others(extra.clone())), remove(&["extra"]));
        assert_eq!(
            about(&report, &others(not_background(extra))),
            remove(&["extra"])
        );
    }
    assert_eq!(
        about(&report, &[policy("p")]),
        remove(&["extra"]),
        "deleted"
    );
}

#[test]
fn fresh_entry_within_the_interval_needs_no_request() {
    let report = report(&[fresh("p"), fresh("q")]);
    let policies = [policy("p"), not_background(policy("q"))];
    assert_eq!(about(&report, &policies), Decision::Nothing);
}

#[test]
fn fresh_entry_after_the_interval_is_evaluated_if_background() {
    let report = report(&[fresh("p"), fresh("q")]);
    let policies = [policy("p"), not_background(policy("q"))];
    assert_eq!(
        asked(Some(&live()), Some(&report), &policies, 60),
        evaluate("p", Why::Elapsed)
    );
}

// Further rules.

#[test]
fn all_rows_combine_into_one_update() {
    let report = report(&[
        fresh("a"),
        ("b", "v0", "5bd17c64f6929451"),
        ("c", "v1", "0000000000000000"),
        fresh("d"),
        ("e", "v0", "5bd17c64f6929451"),
    ]);
    let policies = [
        policy("a"),
        policy("b"),
        policy("c"),
        not_background(policy("e")),
        policy("f"),
    ];
    let Decision::Update(update) = about(&report, &policies) else {
        panic!("an update is due");
    };
    assert_eq!(
        update.evaluate,
        BTreeMap::from([
            (key("b"), Why::Outdated),
            (key("c"), Why::OldObject),
            (key("f"), Why::Missing),
        ])
    );
    assert_eq!(update.remove, BTreeSet::from([key("d"), key("e")]));
    assert!(update.needs_object() && !update.confirm);
}

#[test]
fn only_removals_need_no_object() {
    let report = report(&[fresh("p"), fresh("extra")]);
    let Decision::Update(update) = about(&report, &[policy("p")]) else {
        panic!("an update is due");
    };
    assert!(!update.needs_object());
}

#[test]
fn a_report_that_is_left_empty_is_deleted() {
    assert_eq!(about(&report(&[fresh("p")]), &[]), Decision::Delete);
    assert_eq!(about(&report(&[]), &[]), Decision::Delete);
    let outdated = report(&[("p", "v0", "x")]);
    assert_eq!(
        about(&outdated, &[not_background(policy("p"))]),
        Decision::Delete
    );
}

#[test]
fn a_resource_that_is_being_deleted_is_left_alone() {
    let going = ResourceState {
        is_deleting: true,
        ..live()
    };
    let report = report(&[("p", "v0", "x")]);
    assert_eq!(
        asked(Some(&going), Some(&report), &[policy("p")], 90),
        Decision::Nothing
    );
    assert_eq!(
        asked(Some(&going), None, &[policy("p")], 90),
        Decision::Nothing
    );
}

#[test]
fn a_report_without_owner_is_deleted_after_two_minutes() {
    for (minutes, expected) in [(1, Decision::Nothing), (2, Decision::Delete)] {
        let orphan = Metadata {
            owners: Vec::new(),
            created: Some(at(-minutes)),
            ..report(&[fresh("p")])
        };
        assert_eq!(asked(None, Some(&orphan), &[policy("p")], 10), expected);
        assert_eq!(
            asked(Some(&live()), Some(&orphan), &[policy("p")], 10),
            expected
        );
    }
}

#[test]
fn a_report_of_somebody_else_is_left_alone() {
    let mut foreign = report(&[("p", "v0", "x")]);
    foreign
        .labels
        .insert(crate::MANAGED_BY.to_owned(), "kyverno".to_owned());
    assert_eq!(about(&foreign, &[policy("p")]), Decision::Nothing);
    let gone = ResourceState {
        kind: KindState::NotServed,
        ..live()
    };
    assert_eq!(
        asked(Some(&gone), Some(&foreign), &[], 90),
        Decision::Nothing
    );
}

#[test]
fn entries_outlive_a_lost_revision_by_five_minutes() {
    let report = report(&[fresh("p"), fresh("lost")]);
    for (minutes, expected) in [(4, Decision::Nothing), (5, remove(&["lost"]))] {
        let lost = PolicyState {
            serving: Serving::Lost {
                since: at(-minutes),
            },
            ..policy("lost")
        };
        assert_eq!(about(&report, &[policy("p"), lost.clone()]), expected);
        assert_eq!(asked(Some(&live()), None, &[lost], 10), Decision::Nothing);
    }
}

#[test]
fn configuration_policies_have_no_hash_and_no_interval() {
    let key = ReportingPolicy::new(ReportingKind::Configuration, Some("ops"), "c")
        .unwrap()
        .key();
    let state = PolicyState {
        policy: key.clone(),
        ..policy("unused")
    };
    let mut report = report(&[]);
    report.labels.insert(key.label_key(), "v1".to_owned());
    let found = asked(
        Some(&live()),
        Some(&report),
        std::slice::from_ref(&state),
        90,
    );
    assert_eq!(found, Decision::Nothing);
    report.labels.insert(key.label_key(), "v0".to_owned());
    let Decision::Update(update) = asked(Some(&live()), Some(&report), &[state], 10) else {
        panic!("an update is due");
    };
    assert_eq!(update.evaluate, BTreeMap::from([(key, Why::Outdated)]));
}

#[test]
fn a_policy_with_a_long_name_is_recognised_by_its_annotation() {
    let long = key(&"p".repeat(120));
    let mut report = report(&[fresh("p")]);
    report.labels.insert(long.label_key(), "v1".to_owned());
    report.annotations.extend(long.full_name());
    let Decision::Update(update) = about(&report, &[policy("p")]) else {
        panic!("an update is due");
    };
    assert_eq!(update.remove, BTreeSet::from([long]));
}

fn any_policy(name: &'static str) -> impl Strategy<Value = PolicyState> {
    let serving = prop_oneof![
        Just(Serving::Version("v1".to_owned())),
        Just(Serving::Version("v2".to_owned())),
        Just(Serving::Never),
        (0_i64..10).prop_map(|minutes| Serving::Lost {
            since: at(-minutes)
        }),
    ];
    (serving, any::<[bool; 3]>()).prop_map(
        move |(serving, [is_background, applies, is_disabled])| PolicyState {
            policy: key(name),
            serving,
            is_background,
            applies,
            is_disabled,
        },
    )
}

fn any_report() -> impl Strategy<Value = Metadata> {
    let entry = (
        proptest::sample::select(vec!["a", "b", "c", "d"]),
        proptest::sample::select(vec!["v1", "v2"]),
        proptest::sample::select(vec!["5bd17c64f6929451", "0000000000000000", "-", ""]),
    );
    let entries = proptest::collection::vec(entry, 0..5);
    (entries, any::<bool>()).prop_map(|(entries, has_owner)| {
        let mut report = report(&entries);
        if !has_owner {
            report.owners.clear();
        }
        report
    })
}

proptest! {
    #[test]
    fn decide_is_total_and_never_both_evaluates_and_removes(
        resource in proptest::option::of(any::<[bool; 3]>()),
        report in proptest::option::of(any_report()),
        policies in (any_policy("a"), any_policy("b"), any_policy("c")),
        minutes in 0_i64..120,
    ) {
        let resource = resource.map(|[is_confirmed, is_deleting, is_selected]| ResourceState {
            is_confirmed,
            is_deleting,
            kind: if is_selected { KindState::Selected } else { KindState::NotSelected },
            ..live()
        });
        let policies = [policies.0, policies.1, policies.2];
        let found = asked(resource.as_ref(), report.as_ref(), &policies, minutes);
        prop_assert_eq!(&found, &asked(resource.as_ref(), report.as_ref(), &policies, minutes));
        match found {
            Decision::Update(update) => {
                prop_assert!(report.is_some() && update != Update::default());
                prop_assert!(update.evaluate.keys().all(|key| !update.remove.contains(key)));
                for key in update.evaluate.keys() {
                    let policy = policies.iter().find(|policy| policy.policy == *key).unwrap();
                    prop_assert!(policy.is_background && policy.applies && !policy.is_disabled);
                }
            }
            Decision::Create { evaluate } => prop_assert!(report.is_none() && !evaluate.is_empty()),
            Decision::Delete => prop_assert!(report.is_some()),
            Decision::Nothing => {}
        }
    }
}
