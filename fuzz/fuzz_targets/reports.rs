//! Any JSON may be stored as a report; what is understood reads back as it was written, and a plan over it settles.
//!
//! The input is a list of documents: resource reports and public reports of any producer.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polity_report::fold::Fold;
use polity_report::plan::{Settings, Write, plan};
use polity_report::policy_set::{PolicyMeta, PolicySet};
use polity_report::public::PublicReport;
use polity_report::read::read_report;
use polity_report::resource_report::ResourceReport;
use polity_report::verdict::Mode;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Ok(documents) = serde_json::from_slice::<Vec<Value>>(data) else { return };
    let mut stored: Vec<PublicReport> = Vec::new();
    let mut reports: Vec<ResourceReport> = Vec::new();
    for document in &documents {
        if let Ok(read) = read_report(document) {
            let again = read_report(&read.report.to_value()).expect("what is written can be read");
            assert_eq!(again.report.entries, read.report.entries);
            let is_new = stored.iter().all(|other| other.metadata.name != read.report.metadata.name);
            if is_new {
                stored.push(read.report);
            }
        } else if let Ok(report) = ResourceReport::read(document) {
            let again = ResourceReport::read(&report.to_value()).expect("what is written can be read");
            assert_eq!(again.entries, report.entries);
            reports.push(report);
        }
    }
    let metas: Vec<PolicyMeta> = reports
        .iter()
        .flat_map(|report| report.entries.values())
        .filter_map(|entry| entry.policy.policy_in(Some("n")).ok())
        .map(|policy| PolicyMeta {
            policy,
            mode: Mode::Monitor,
            severity: None,
            category: String::new(),
            scored: false,
            n_templates: 3,
            is_disabled: false,
        })
        .collect();
    let policies = PolicySet::of_namespace(&metas, Some("n"));
    let settings = Settings::default();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let pass = |stored: &[PublicReport]| {
        let mut fold = Fold::new(&policies, stored);
        fold.add_page(reports.clone());
        plan(Some("n"), fold.finish("polity"), &policies, stored, &settings, now)
    };
    let writes = pass(&stored);
    for write in writes {
        match write {
            Write::Create(report) => stored.push(report),
            Write::Put(report) => {
                stored.retain(|other| other.metadata.name != report.metadata.name);
                stored.push(report);
            }
            Write::Delete(doomed) => stored.retain(|other| {
                (other.group, &other.metadata.name) != (doomed.group, &doomed.name)
            }),
        }
    }
    assert_eq!(pass(&stored), [], "a second pass has nothing to write");
});
