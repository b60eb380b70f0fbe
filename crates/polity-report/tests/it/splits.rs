//! Splitting (docs/spec/reports.md#4): no chunk is too large, no entry is lost, and one entry more changes one chunk.

use std::collections::BTreeMap;

use polity_report::plan::{CHUNKS_ANNOTATION, Settings};
use polity_report::split::{Chunks, Limits, split};
use polity_report::verdict::GuestVerdict;
use polity_report::{Outcome, PublicEntry, ResourceRef};
use proptest::prelude::*;

use crate::world::{Store, at, cluster_policy, meta, pass, pod, report_of, scanned};

const ENVELOPE: usize = 500;

fn entry(uid: &str, rule: &str, message_bytes: usize) -> PublicEntry {
    PublicEntry {
        policy: "p".to_owned(),
        rule: rule.to_owned(),
        source: "polity".to_owned(),
        category: String::new(),
        severity: None,
        result: Some(Outcome::Fail),
        scored: true,
        message: "m".repeat(message_bytes),
        resources: vec![ResourceRef {
            uid: uid.to_owned(),
            ..ResourceRef::default()
        }],
        timestamp: None,
        properties: BTreeMap::new(),
    }
}

fn weight(entries: &[PublicEntry]) -> usize {
    serde_json::to_vec(entries).unwrap().len()
}

fn sorted(mut entries: Vec<PublicEntry>) -> Vec<PublicEntry> {
    entries.sort_by(PublicEntry::report_order);
    entries.dedup_by(|a, b| a.report_order(b).is_eq());
    entries
}

fn any_entries() -> impl Strategy<Value = Vec<PublicEntry>> {
    let entry = ("[a-f0-9]{6}", 0_usize..3, 0_usize..2000)
        .prop_map(|(uid, rule, bytes)| entry(&uid, &rule.to_string(), bytes));
    proptest::collection::vec(entry, 0..120).prop_map(sorted)
}

fn check(chunks: &Chunks, entries: &[PublicEntry], limits: &Limits) {
    assert!(chunks.n_chunks.is_power_of_two());
    for chunk in chunks.chunks.values() {
        assert!(!chunk.is_empty());
        assert!(limits.max_results().is_none_or(|max| chunk.len() <= max));
        assert!(weight(chunk) + ENVELOPE <= limits.max_bytes());
        assert!(chunk.is_sorted_by(|a, b| a.report_order(b).is_le()));
    }
    let all = sorted(chunks.chunks.values().flatten().cloned().collect());
    assert_eq!(all, entries, "no entry is lost or doubled");
}

proptest! {
    #[test]
    fn chunks_fit_and_nothing_is_lost(
        entries in any_entries(),
        max_results in 0_usize..40,
        stored in 0_u32..40,
    ) {
        let limits = Limits::new(max_results, 0);
        let chunks = split(entries.clone(), &limits, ENVELOPE, stored);
        check(&chunks, &entries, &limits);
        let again = split(entries, &limits, ENVELOPE, chunks.n_chunks);
        prop_assert_eq!(again, chunks, "it settles at once");
    }

    #[test]
    fn one_entry_more_changes_one_chunk(entries in any_entries(), uid in "[a-f0-9]{6}") {
        let limits = Limits::new(30, 0);
        let before = split(entries.clone(), &limits, ENVELOPE, 1);
        let mut more = entries;
        more.push(entry(&uid, "9", 10));
        let after = split(sorted(more), &limits, ENVELOPE, before.n_chunks);
        if after.n_chunks == before.n_chunks {
            let changed = after
                .chunks
                .iter()
                .filter(|(chunk, entries)| before.chunks.get(chunk) != Some(entries))
                .count();
            prop_assert_eq!(changed, 1);
        }
    }
}

#[test]
fn many_rules_of_one_object_are_spread_too() {
    let entries = sorted((0..500).map(|n| entry("u", &n.to_string(), 10)).collect());
    let limits = Limits::new(20, 0);
    let chunks = split(entries.clone(), &limits, ENVELOPE, 1);
    assert!(chunks.chunks.len() >= 25);
    check(&chunks, &entries, &limits);
}

#[test]
fn entries_that_no_hash_tells_apart_spill_over() {
    let same: Vec<_> = (0..50).map(|_| entry("u", "r", 10)).collect();
    let limits = Limits::new(20, 0);
    let chunks = split(same, &limits, ENVELOPE, 1);
    let sizes: Vec<_> = chunks.chunks.values().map(Vec::len).collect();
    assert_eq!(sizes, [20, 20, 10]);
}

#[test]
fn chunks_shrink_only_when_there_is_much_room() {
    let limits = Limits::new(100, 0);
    let entries = |n: usize| sorted((0..n).map(|n| entry(&format!("{n:04x}"), "", 10)).collect());
    let n_chunks = |n: usize, stored: u32| split(entries(n), &limits, ENVELOPE, stored).n_chunks;
    assert_eq!(n_chunks(90, 1), 1);
    let grown = n_chunks(300, 1);
    assert!(grown >= 4, "{grown}");
    assert_eq!(n_chunks(200, grown), grown, "half full");
    assert!(n_chunks(10, grown) < grown, "nearly empty");
    assert_eq!(n_chunks(0, grown), 1);
}

#[test]
fn five_thousand_long_messages_are_never_too_large() {
    let long = "x".repeat(3000);
    let reports: Vec<_> = (0..5000)
        .map(|n| {
            let pod = pod(n, "1");
            let evaluation = scanned(
                cluster_policy("p"),
                &pod,
                GuestVerdict::denied(long.clone()),
                0,
            );
            report_of(&pod, &[], 0).apply(&pod, "polity", &[evaluation], [])
        })
        .collect();
    let metas = [meta(cluster_policy("p")), meta(cluster_policy("p-1"))];
    let settings = Settings::default();
    let mut store = Store::default();
    store.carry_out(&pass(&metas, reports.clone(), &store, &settings, at(0)));
    let mut n_entries = 0;
    for report in store.all() {
        let bytes = serde_json::to_vec(&report.to_value()).unwrap().len();
        assert!(
            bytes <= 1_000_000,
            "{} weighs {bytes}",
            report.metadata.name
        );
        assert!(report.entries.len() <= 1000);
        assert!(report.metadata.annotations.contains_key(CHUNKS_ANNOTATION));
        n_entries += report.entries.len();
    }
    assert_eq!(n_entries, 5000);
    assert!(
        !store.names().contains(&"cpol-p-1"),
        "that is the report of p-1"
    );
    assert!(pass(&metas, reports, &store, &settings, at(60)).is_empty());
}
