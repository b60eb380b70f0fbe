//! Folding: which entries count, which of two takes precedence, and that the order of reading does not matter.
//! See docs/spec/reports.md#7-4.

use polity_report::plan::Settings;
use polity_report::policy_set::{PolicyMeta, PolicySet};
use polity_report::resource_report::{HASH_LABEL, ResourceReport};
use polity_report::verdict::GuestVerdict;
use polity_report::{Outcome, ReportingKind, ResourceRef, Stamp};
use proptest::prelude::*;

use crate::world::{
    NAMESPACE, Store, at, cluster_policy, folded, meta, pass, pod, policy, report_of, scanned,
};

fn policies(metas: &[PolicyMeta]) -> PolicySet {
    PolicySet::of_namespace(metas, Some(NAMESPACE))
}

/// What is said about the first pod, from these reports in this order and in the other.
fn result_of(reports: [ResourceReport; 2], stored: &Store) -> Option<Outcome> {
    let policies = policies(&[meta(cluster_policy("p"))]);
    let settings = Settings::default();
    let [a, b] = reports;
    let stored = stored.all();
    let one = folded(&policies, [a.clone(), b.clone()], &stored, &settings);
    let other = folded(&policies, [b, a], &stored, &settings);
    assert_eq!(one, other);
    one.values().next()?.first()?.result
}

#[test]
fn entries_of_policies_that_do_not_report_are_dropped() {
    let pod = pod(0, "1");
    let kept = meta(cluster_policy("kept"));
    let disabled = PolicyMeta {
        is_disabled: true,
        ..meta(cluster_policy("disabled"))
    };
    let mut report = report_of(
        &pod,
        &[
            (cluster_policy("kept"), true),
            (cluster_policy("deleted"), true),
            (cluster_policy("disabled"), true),
        ],
        0,
    );
    let mut unknown_rule = report.entries["cpol/kept/"].clone();
    unknown_rule.rule = "3".to_owned();
    report
        .entries
        .insert("cpol/kept/3".to_owned(), unknown_rule);
    let folded = folded(
        &policies(&[kept, disabled]),
        [report],
        &[],
        &Settings::default(),
    );
    let found: Vec<_> = folded
        .iter()
        .map(|(key, entries)| (key.to_string(), entries.len()))
        .collect();
    assert_eq!(found, [("cpol/kept".to_owned(), 1)]);
}

#[test]
fn a_report_without_exactly_one_owner_is_ignored() {
    let report = report_of(&pod(0, "1"), &[(cluster_policy("p"), true)], 0);
    let policies = policies(&[meta(cluster_policy("p"))]);
    for n_owners in [0, 2] {
        let mut report = report.clone();
        report.metadata.owners = vec![ResourceRef::default(); n_owners];
        let mut fold = polity_report::fold::Fold::new(&policies, &[]);
        fold.add(report);
        assert_eq!(fold.n_ignored(), 1);
        assert!(fold.finish("polity").is_empty());
    }
}

#[test]
fn the_owner_becomes_the_one_resource() {
    let report = report_of(&pod(3, "1"), &[(cluster_policy("p"), true)], 0);
    let policies = policies(&[meta(cluster_policy("p"))]);
    let folded = folded(&policies, [report], &[], &Settings::default());
    let entry = &folded.values().next().unwrap()[0];
    assert_eq!(entry.resources, [pod(3, "1").reference]);
}

#[test]
fn the_later_verdict_wins_by_seconds_then_nanos() {
    let pod = pod(0, "1");
    let fail = report_of(&pod, &[(cluster_policy("p"), false)], 10);
    let pass = report_of(&pod, &[(cluster_policy("p"), true)], 11);
    assert_eq!(
        result_of([fail.clone(), pass.clone()], &Store::default()),
        Some(Outcome::Pass)
    );
    let mut later = fail;
    later.entries.get_mut("cpol/p/").unwrap().timestamp = Stamp {
        seconds: pass.entries["cpol/p/"].timestamp.seconds,
        nanos: 1,
    };
    assert_eq!(
        result_of([later, pass], &Store::default()),
        Some(Outcome::Fail)
    );
}

#[test]
fn of_one_moment_the_verdict_on_the_object_as_it_is_wins() {
    let pod = pod(0, "1");
    let mut old = report_of(&pod, &[(cluster_policy("p"), true)], 10);
    old.metadata
        .labels
        .insert(HASH_LABEL.to_owned(), "2".repeat(32));
    let current = report_of(&pod, &[(cluster_policy("p"), false)], 10);
    assert_eq!(
        result_of([old, current], &Store::default()),
        Some(Outcome::Fail)
    );
}

#[test]
fn of_one_moment_and_one_object_the_stored_verdict_stays() {
    let pod = pod(0, "1");
    let metas = [meta(cluster_policy("p"))];
    for is_allowed in [true, false] {
        let stored = report_of(&pod, &[(cluster_policy("p"), is_allowed)], 10);
        let other = report_of(&pod, &[(cluster_policy("p"), !is_allowed)], 10);
        let mut store = Store::default();
        store.carry_out(&pass(
            &metas,
            [stored.clone()],
            &store,
            &Settings::default(),
            at(20),
        ));
        let expected = if is_allowed {
            Outcome::Pass
        } else {
            Outcome::Fail
        };
        assert_eq!(result_of([stored, other], &store), Some(expected));
    }
}

#[test]
fn policies_of_one_name_stay_apart() {
    let pod = pod(0, "1");
    let kinds = ReportingKind::ALL.map(|kind| policy(kind, "same"));
    let verdicts = kinds.clone().map(|policy| (policy, true));
    let report = report_of(&pod, &verdicts, 0);
    assert_eq!(report.entries.len(), kinds.len());
    let metas = kinds.map(meta);
    let mut store = Store::default();
    store.carry_out(&pass(&metas, [report], &store, &Settings::default(), at(0)));
    assert_eq!(
        store.names(),
        [
            "cfgpol-shop.same",
            "cpol-same",
            "cpolg-same",
            "pol-same",
            "polg-same"
        ]
    );
    let ids: std::collections::BTreeSet<_> = store
        .all()
        .iter()
        .flat_map(|report| report.entries.clone())
        .map(|entry| match entry.properties.get("resultID") {
            Some(id) => id.clone(),
            None => polity_report::shard::reader_result_id(&entry).to_string(),
        })
        .collect();
    assert_eq!(ids.len(), 5, "every reader tells them apart");
}

#[test]
fn configuration_policies_of_two_namespaces_report_apart() {
    let pod = pod(0, "1");
    let both = ["ops", "sec"].map(|namespace| {
        polity_report::ReportingPolicy::new(ReportingKind::Configuration, Some(namespace), "c")
            .unwrap()
    });
    let report = report_of(&pod, &both.clone().map(|policy| (policy, true)), 0);
    let mut store = Store::default();
    store.carry_out(&pass(
        &both.map(meta),
        [report],
        &store,
        &Settings::default(),
        at(0),
    ));
    assert_eq!(store.names(), ["cfgpol-ops.c", "cfgpol-sec.c"]);
}

fn any_reports() -> impl Strategy<Value = Vec<ResourceReport>> {
    let entry = (0_usize..4, any::<bool>(), 0_i64..3);
    let report = (0_usize..4, "[12]", proptest::collection::vec(entry, 0..4));
    proptest::collection::vec(report, 0..8).prop_map(|reports| {
        reports
            .into_iter()
            .map(|(n, hash, entries)| {
                let pod = pod(n, &hash);
                let mut report = ResourceReport::of(&pod, "polity");
                for (policy, is_allowed, seconds) in entries {
                    let answer = if is_allowed {
                        GuestVerdict::allowed()
                    } else {
                        GuestVerdict::denied("no")
                    };
                    let policy = cluster_policy(&format!("p{policy}"));
                    let evaluation = scanned(policy, &pod, answer, seconds);
                    report = report.apply(&pod, "polity", &[evaluation], []);
                }
                report
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn the_order_of_pages_and_reports_does_not_matter(
        (reports, shuffled) in any_reports().prop_flat_map(|reports| {
            (Just(reports.clone()), Just(reports).prop_shuffle())
        }),
        page in 1_usize..4,
    ) {
        let metas: Vec<_> = (0..4).map(|n| meta(cluster_policy(&format!("p{n}")))).collect();
        let policies = policies(&metas);
        let settings = Settings::default();
        let expected = folded(&policies, reports, &[], &settings);
        let mut fold = polity_report::fold::Fold::new(&policies, &[]);
        for page in shuffled.chunks(page) {
            fold.add_page(page.to_vec());
        }
        prop_assert_eq!(fold.finish("polity"), expected);
    }
}
