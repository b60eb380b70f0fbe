//! Resource reports and the patches by which several writers keep them. See docs/spec/reports.md#5-4.

use polity_report::decide::Why;
use polity_report::resource_report::{
    AuditWrite, Evaluated, Evaluation, ResourceReport, admission_patch,
};
use polity_report::verdict::{GuestVerdict, Process};
use polity_report::{Outcome, ReportKey, ReportingPolicy};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{at, cluster_policy, evaluation, evaluator, pod, report_of, scanned};

fn merged(mut stored: Value, patch: &Value) -> ResourceReport {
    json_patch::merge(&mut stored, patch);
    ResourceReport::read(&stored).unwrap()
}

fn outcome(report: &ResourceReport, policy: &str) -> Option<Outcome> {
    report
        .entries
        .get(&format!("cpol/{policy}/"))
        .map(|entry| entry.result)
}

#[test]
fn a_resource_report_has_labels_annotations_owner_and_results() {
    let pod = pod(0, "5bd17c64f6929451ef3791c99e680efb");
    let report = report_of(&pod, &[(cluster_policy("no-privileged"), false)], 0);
    let uid = "6f0f0a52-0000-4000-8000-000000000000";
    let mut value = report.to_value();
    value["spec"]["results"]["cpol/no-privileged/"]["properties"].take();
    assert_eq!(
        value,
        json!({
            "apiVersion": "reports.polity.dev/v1alpha1",
            "kind": "ResourceReport",
            "metadata": {
                "name": uid,
                "namespace": "shop",
                "labels": {
                    "app.kubernetes.io/managed-by": "polity",
                    "audit.kyverno.io/resource.uid": uid,
                    "audit.kyverno.io/resource.hash": "5bd17c64f6929451ef3791c99e680efb",
                    "cpol.kyverno.io/no-privileged": "v1",
                    "reports.polity.dev/bucket": "9"
                },
                "annotations": {
                    "audit.kyverno.io/resource.name": "web-0",
                    "cpol.hash.polity.dev/no-privileged": "5bd17c64f6929451"
                },
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": uid}]
            },
            "spec": {"results": {"cpol/no-privileged/": {
                "result": "fail",
                "message": "no",
                "timestamp": {"seconds": 1_794_700_800, "nanos": 0},
                "properties": null
            }}}
        })
    );
    assert_eq!(ResourceReport::read(&report.to_value()).unwrap(), report);
}

#[test]
fn a_report_about_a_cluster_scoped_object_is_cluster_scoped() {
    let mut namespace = pod(0, "1");
    namespace.reference.kind = "Namespace".to_owned();
    namespace.reference.namespace.clear();
    let report = report_of(&namespace, &[(cluster_policy("p"), true)], 0);
    let value = report.to_value();
    assert_eq!(value["kind"], "ClusterResourceReport");
    assert_eq!(value["metadata"].get("namespace"), None);
    assert_eq!(
        value["metadata"]["labels"]["reports.polity.dev/bucket"],
        "37"
    );
}

#[test]
fn two_replicas_admit_one_object_and_both_entries_stay() {
    let pod = pod(0, "1");
    let stored = report_of(&pod, &[(cluster_policy("old"), true)], 0);
    let answer = |name| scanned(cluster_policy(name), &pod, GuestVerdict::allowed(), 1);
    let first = admission_patch(&pod, &[answer("a")]);
    let second = admission_patch(&pod, &[answer("b")]);
    let mut value = stored.to_value();
    json_patch::merge(&mut value, &second);
    let report = merged(value, &first);
    let keys: Vec<_> = report.entries.keys().map(String::as_str).collect();
    assert_eq!(keys, ["cpol/a/", "cpol/b/", "cpol/old/"]);
}

#[test]
fn nothing_of_an_earlier_verdict_stays_after_an_admission() {
    let pod = pod(0, "1");
    let warned = GuestVerdict::Allowed {
        message: "careful".to_owned(),
        mutated: false,
        warnings: vec!["soon gone".to_owned()],
    };
    let admitted = |answer| {
        [evaluation(
            cluster_policy("p"),
            "v1",
            &pod,
            answer,
            Process::Admission,
            at(5),
        )]
    };
    let before = ResourceReport::of(&pod, "polity").apply(&pod, "polity", &admitted(warned), []);
    assert!(
        before.entries["cpol/p/"]
            .properties
            .contains_key("warnings")
    );
    let plain = admitted(GuestVerdict::allowed());
    let after = merged(before.to_value(), &admission_patch(&pod, &plain));
    assert_eq!(after.entries["cpol/p/"], plain[0].entries[0]);
    let none = admitted(GuestVerdict::NotMatched);
    let after = merged(before.to_value(), &admission_patch(&pod, &none));
    assert_eq!(after.entries.len(), 0, "no entry any more");
    assert_eq!(
        after.metadata.labels["cpol.kyverno.io/p"], "v1",
        "but it was evaluated"
    );
}

#[test]
fn the_same_verdict_again_writes_nothing() {
    let pod = pod(0, "1");
    let stored = report_of(&pod, &[(cluster_policy("p"), false)], 0);
    let again = [scanned(
        cluster_policy("p"),
        &pod,
        GuestVerdict::denied("no"),
        3600,
    )];
    let next = stored.apply(&pod, "polity", &again, []);
    assert_eq!(next.write_over(Some(&stored)), AuditWrite::Nothing);
    let by_admission = [evaluation(
        cluster_policy("p"),
        "v1",
        &pod,
        GuestVerdict::allowed(),
        Process::Admission,
        at(7200),
    )];
    let next = stored.apply(&pod, "polity", &by_admission, []);
    let AuditWrite::Patch(patch) = next.write_over(Some(&stored)) else {
        panic!("the verdict changed");
    };
    assert_eq!(
        outcome(&merged(stored.to_value(), &patch), "p"),
        Some(Outcome::Pass)
    );
}

#[test]
fn a_patch_of_the_background_carries_what_it_was_decided_on() {
    let pod = pod(0, "1");
    let mut stored = report_of(
        &pod,
        &[(cluster_policy("p"), false), (cluster_policy("q"), true)],
        0,
    );
    stored.metadata.resource_version = Some("41".to_owned());
    let gone: ReportKey = "cpol/q".parse().unwrap();
    let next = stored.apply(&pod, "polity", &[], [gone]);
    assert_eq!(
        next.write_over(Some(&stored)),
        AuditWrite::Patch(json!({
            "metadata": {
                "resourceVersion": "41",
                "labels": {"cpol.kyverno.io/q": null},
                "annotations": {"cpol.hash.polity.dev/q": null}
            },
            "spec": {"results": {"cpol/q/": null}}
        }))
    );
    let both = ["cpol/p", "cpol/q"].map(|key| key.parse::<ReportKey>().unwrap());
    let next = stored.apply(&pod, "polity", &[], both);
    assert_eq!(next.write_over(Some(&stored)), AuditWrite::Delete);
    assert_eq!(next.write_over(None), AuditWrite::Nothing);
}

#[test]
fn a_policy_with_120_characters_has_its_entry() {
    let long = "p".repeat(120);
    let pod = pod(0, "1");
    let report = report_of(&pod, &[(cluster_policy(&long), true)], 0);
    for key in report.metadata.labels.keys() {
        assert_eq!(polity_core::name::qualified_name(key), Ok(()), "{key}");
    }
    assert_eq!(outcome(&report, &long), Some(Outcome::Pass));
    assert!(
        report
            .metadata
            .annotations
            .values()
            .any(|value| *value == long)
    );
    let dropped = cluster_policy(&long).key();
    let empty = report.apply(&pod, "polity", &[], [dropped]);
    assert!(empty.is_empty());
}

#[test]
fn without_an_evaluation_fresh_entries_stay_and_others_become_errors() {
    let pod = pod(0, "1");
    let evaluator = evaluator(cluster_policy("p"), "v2");
    let asked = |why| {
        let evaluated = Evaluated::Object {
            hash: pod.hash.clone(),
        };
        Evaluation::without_answer(&evaluator, evaluated, why, "no answer", at(9))
    };
    assert_eq!(asked(Why::Elapsed), None);
    for why in [Why::Missing, Why::Outdated, Why::OldObject] {
        let evaluation = asked(why).unwrap();
        assert_eq!(evaluation.entries[0].result, Outcome::Error);
        assert_eq!(evaluation.version, "v2", "tried again at the next interval");
    }
}

#[test]
fn hostile_reports_are_read_as_far_as_they_can_be() {
    let read = ResourceReport::read(&json!({
        "metadata": {"name": "u", "labels": 3, "ownerReferences": "x"},
        "spec": {"results": {
            "": {}, "cpol": {}, "cpol/p": {}, "odd/p/": {"result": "pass"},
            "cpol/p/": {"result": "dreadful"}, "cpol/q/": [],
            "cpol/r/": {"result": "pass", "timestamp": {"seconds": "x"}, "properties": [1, {"name": ""}]}
        }}
    }))
    .unwrap();
    assert_eq!(read.entries.keys().collect::<Vec<_>>(), ["cpol/r/"]);
    for object in [
        json!(null),
        json!({"metadata": {}}),
        json!({"metadata": {"name": "u"}, "spec": {"results": []}}),
    ] {
        assert!(ResourceReport::read(&object).is_err(), "{object}");
    }
}

fn verdicts() -> impl Strategy<Value = Vec<(ReportingPolicy, bool)>> {
    let verdict = (0_usize..6, any::<bool>());
    proptest::collection::vec(verdict, 0..6).prop_map(|verdicts| {
        verdicts
            .into_iter()
            .map(|(n, is_allowed)| (cluster_policy(&format!("p{n}")), is_allowed))
            .collect()
    })
}

proptest! {
    /// A patch does what it says: stored and patch give the wanted report, and then nothing is left to write.
    #[test]
    fn a_patch_leads_to_what_was_wanted(before in verdicts(), after in verdicts(), hash in "[0-9a-f]{8}", drop in 0_usize..6) {
        let stored = report_of(&pod(0, "1"), &before, 0);
        let pod = pod(0, &hash);
        let evaluations: Vec<_> = after
            .iter()
            .map(|(policy, is_allowed)| {
                let answer = if *is_allowed { GuestVerdict::allowed() } else { GuestVerdict::denied("no") };
                scanned(policy.clone(), &pod, answer, 60)
            })
            .collect();
        let dropped = [cluster_policy(&format!("p{drop}")).key()];
        let next = stored.apply(&pod, "polity", &evaluations, dropped);
        match next.write_over(Some(&stored)) {
            AuditWrite::Patch(patch) => prop_assert_eq!(&merged(stored.to_value(), &patch), &next),
            AuditWrite::Nothing => prop_assert_eq!(&stored, &next),
            AuditWrite::Delete => prop_assert!(next.is_empty()),
            AuditWrite::Create(_) => prop_assert!(false, "it exists"),
        }
        if !next.is_empty() {
            prop_assert_eq!(next.write_over(Some(&next)), AuditWrite::Nothing);
        }
    }
}
