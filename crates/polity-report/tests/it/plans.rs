//! Plans: which reports are written, kept and left alone. See docs/spec/reports.md#7-4.

use std::collections::BTreeSet;

use polity_report::plan::{Layout, MIXED_VERSIONS, Settings, Write};
use polity_report::policy_set::PolicyMeta;
use polity_report::public::ReportGroup;
use polity_report::verdict::{GuestVerdict, Mode, Process};
use polity_report::{Outcome, Severity};

use crate::world::{Store, at, cluster_policy, evaluation, meta, pass, pod, report_of};

fn metas() -> Vec<PolicyMeta> {
    vec![meta(cluster_policy("a")), meta(cluster_policy("b"))]
}

fn reports(seconds: i64) -> Vec<polity_report::resource_report::ResourceReport> {
    (0..3)
        .map(|n| {
            let verdicts = [(cluster_policy("a"), n != 1), (cluster_policy("b"), true)];
            report_of(&pod(n, "1"), &verdicts, seconds)
        })
        .collect()
}

/// A store after one pass.
fn settled() -> Store {
    let mut store = Store::default();
    store.carry_out(&pass(
        &metas(),
        reports(0),
        &store,
        &Settings::default(),
        at(0),
    ));
    store
}

fn names(writes: &[Write]) -> Vec<String> {
    writes
        .iter()
        .map(|write| match write {
            Write::Create(report) => format!("create {}", report.metadata.name),
            Write::Put(report) => format!("put {}", report.metadata.name),
            Write::Delete(doomed) => format!("delete {}", doomed.name),
        })
        .collect()
}

#[test]
fn one_report_for_each_policy_with_a_summary_that_is_true() {
    let store = settled();
    assert_eq!(store.names(), ["cpol-a", "cpol-b"]);
    let report = store.get("cpol-a");
    assert_eq!((report.summary.pass, report.summary.fail), (2, 1));
    assert_eq!(report.metadata.labels["cpol.kyverno.io/a"], "v1");
    assert_eq!(report.metadata.owners, []);
    assert_eq!(
        report.scope, None,
        "or readers would take all entries for one"
    );
}

#[test]
fn a_second_pass_writes_nothing_whenever_it_comes() {
    let store = settled();
    let later = pass(
        &metas(),
        reports(7200),
        &store,
        &Settings::default(),
        at(7200),
    );
    assert_eq!(names(&later), Vec::<String>::new());
}

#[test]
fn what_did_not_change_keeps_its_time_and_process() {
    let mut store = settled();
    let mut later = reports(500);
    let changed = pod(2, "2");
    later[2] = report_of(
        &changed,
        &[(cluster_policy("a"), false), (cluster_policy("b"), true)],
        500,
    );
    let admitted = evaluation(
        cluster_policy("a"),
        "v1",
        &pod(0, "1"),
        GuestVerdict::allowed(),
        Process::Admission,
        at(500),
    );
    later[0] = report_of(&pod(0, "1"), &[(cluster_policy("b"), true)], 500).apply(
        &pod(0, "1"),
        "polity",
        &[admitted],
        [],
    );
    let writes = pass(&metas(), later, &store, &Settings::default(), at(500));
    assert_eq!(names(&writes), ["put cpol-a"]);
    store.carry_out(&writes);
    let entries = &store.get("cpol-a").entries;
    let times: Vec<_> = entries
        .iter()
        .map(|entry| entry.timestamp.unwrap().seconds - at(0).as_second())
        .collect();
    assert_eq!(times, [0, 0, 500]);
    assert_eq!(entries[0].properties["process"], "background scan");
}

#[test]
fn mode_severity_category_and_scored_cost_public_writes_only() {
    let mut store = settled();
    let mut metas = metas();
    metas[0].mode = Mode::Monitor;
    metas[0].scored = false;
    let writes = pass(&metas, reports(0), &store, &Settings::default(), at(60));
    assert_eq!(names(&writes), ["put cpol-a"]);
    store.carry_out(&writes);
    let report = store.get("cpol-a");
    assert_eq!((report.summary.fail, report.summary.warn), (0, 1));
    assert!(
        report
            .entries
            .iter()
            .all(|entry| entry.severity == Some(Severity::Info))
    );
}

#[test]
fn a_policy_that_is_gone_takes_its_report_with_it() {
    let store = settled();
    let writes = pass(
        &metas()[..1],
        reports(0),
        &store,
        &Settings::default(),
        at(60),
    );
    assert_eq!(names(&writes), ["delete cpol-b"]);
    let writes = pass(&metas(), [], &store, &Settings::default(), at(60));
    assert_eq!(names(&writes), ["delete cpol-a", "delete cpol-b"]);
}

#[test]
fn reports_of_others_are_left_alone_and_their_names_avoided() {
    let mut store = settled();
    let mut foreign = store.get("cpol-b").clone();
    foreign.metadata.labels.clear();
    foreign.metadata.name = "cpol-c".to_owned();
    store.put(foreign.clone());
    let mut metas = metas();
    metas.push(meta(cluster_policy("c")));
    let report = report_of(&pod(0, "1"), &[(cluster_policy("c"), true)], 0);
    let writes = pass(
        &metas,
        [report.clone()],
        &store,
        &Settings::default(),
        at(60),
    );
    let names = names(&writes);
    assert!(names[0].starts_with("create cpol-c-h"), "{names:?}");
    assert_eq!(names[1..], ["delete cpol-a", "delete cpol-b"]);
    store.carry_out(&writes);
    assert_eq!(store.get("cpol-c").entries, foreign.entries);
    assert!(pass(&metas, [report], &store, &Settings::default(), at(90)).is_empty());
}

#[test]
fn labels_of_others_survive_and_ours_are_put_right() {
    let mut store = settled();
    let mut report = store.get("cpol-a").clone();
    let labels = &mut report.metadata.labels;
    labels.insert("team".to_owned(), "shop".to_owned());
    labels.insert("cpol.kyverno.io/odd".to_owned(), "1".to_owned());
    report
        .metadata
        .annotations
        .insert("note".to_owned(), "seen".to_owned());
    store.put(report);
    let writes = pass(&metas(), reports(0), &store, &Settings::default(), at(60));
    assert_eq!(names(&writes), ["put cpol-a"]);
    store.carry_out(&writes);
    let metadata = &store.get("cpol-a").metadata;
    assert_eq!(metadata.labels["team"], "shop");
    assert_eq!(metadata.annotations["note"], "seen");
    assert!(!metadata.labels.contains_key("cpol.kyverno.io/odd"));
    assert!(pass(&metas(), reports(0), &store, &Settings::default(), at(90)).is_empty());
}

#[test]
fn what_somebody_changed_by_hand_is_put_right() {
    let changes: [fn(&mut polity_report::public::PublicReport); 5] = [
        |report| report.summary.pass += 1,
        |report| report.entries[0].message = "changed".to_owned(),
        |report| report.entries.truncate(1),
        |report| report.scope = Some(pod(0, "1").reference),
        |report| report.has_scope_selector = true,
    ];
    for change in changes {
        let mut store = settled();
        let mut report = store.get("cpol-a").clone();
        change(&mut report);
        store.put(report);
        let writes = pass(&metas(), reports(0), &store, &Settings::default(), at(60));
        assert_eq!(names(&writes), ["put cpol-a"]);
        store.carry_out(&writes);
        assert!(pass(&metas(), reports(0), &store, &Settings::default(), at(90)).is_empty());
    }
}

#[test]
fn a_chunk_of_several_versions_says_so() {
    let mut store = settled();
    let mut changed = reports(0);
    let newer = evaluation(
        cluster_policy("a"),
        "v2",
        &pod(0, "1"),
        GuestVerdict::allowed(),
        Process::Background,
        at(60),
    );
    changed[0] = changed[0].apply(&pod(0, "1"), "polity", &[newer], []);
    store.carry_out(&pass(
        &metas(),
        changed,
        &store,
        &Settings::default(),
        at(60),
    ));
    assert_eq!(
        store.get("cpol-a").metadata.labels["cpol.kyverno.io/a"],
        MIXED_VERSIONS
    );
}

#[test]
fn another_group_replaces_the_first() {
    let mut store = settled();
    let settings = Settings {
        group: ReportGroup::OpenReports,
        ..Settings::default()
    };
    let writes = pass(&metas(), reports(0), &store, &settings, at(60));
    assert_eq!(
        names(&writes),
        [
            "create cpol-a",
            "create cpol-b",
            "delete cpol-a",
            "delete cpol-b"
        ]
    );
    store.carry_out(&writes);
    assert!(store.all().iter().all(|report| report.source == "polity"));
    let first = store.all()[0].entries[0].timestamp;
    assert_eq!(
        first.unwrap().seconds,
        at(0).as_second(),
        "times are carried over"
    );
    assert!(pass(&metas(), reports(0), &store, &settings, at(90)).is_empty());
}

#[test]
fn only_some_outcomes_can_be_published() {
    let settings = Settings {
        kept: BTreeSet::from([Outcome::Fail]),
        group: ReportGroup::OpenReports,
        ..Settings::default()
    };
    let mut store = Store::default();
    store.carry_out(&pass(&metas(), reports(0), &store, &settings, at(0)));
    assert_eq!(store.names(), ["cpol-a"]);
    let value = store.all()[0].to_value();
    assert_eq!(
        value["configuration"]["limits"]["statusFilter"],
        serde_json::json!(["fail"])
    );
    assert_eq!(value["summary"]["fail"], 1);
    assert!(pass(&metas(), reports(0), &store, &settings, at(90)).is_empty());
}

#[test]
fn the_layout_by_resource_has_scope_and_owner() {
    let mut store = settled();
    let settings = Settings {
        layout: Layout::Resource,
        managed_by: "polity".to_owned(),
        ..Settings::default()
    };
    store.carry_out(&pass(&metas(), reports(0), &store, &settings, at(60)));
    assert_eq!(store.names().len(), 3, "never both layouts");
    let report = &store.all()[0];
    assert_eq!(report.metadata.name, pod(0, "1").reference.uid);
    assert_eq!(report.scope, Some(pod(0, "1").reference));
    assert_eq!(report.metadata.owners[0].uid, report.metadata.name);
    let policies: Vec<_> = report
        .entries
        .iter()
        .map(|entry| entry.policy.as_str())
        .collect();
    assert_eq!(policies, ["clusterwide-a", "clusterwide-b"]);
    assert!(
        report
            .entries
            .iter()
            .all(|entry| entry.resources.is_empty())
    );
    assert!(pass(&metas(), reports(0), &store, &settings, at(90)).is_empty());
}
