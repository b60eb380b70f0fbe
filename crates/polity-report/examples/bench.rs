//! Measures the aggregation of reports on this machine: `cargo run --release -p polity-report --example bench
//! [RESULTS]`.
//!
//! Each line is a name, a number and a unit, separated by tabs. There are a hundred thousand results (or the given
//! number) of objects in one namespace, with twenty policies each. The second pass over the same results must write
//! nothing.

#![expect(clippy::print_stdout, reason = "the figures are this program's output")]

use std::alloc::System;
use std::time::Instant;

use polity_report::fold::Fold;
use polity_report::hash::{HashOptions, resource_hash};
use polity_report::plan::{Settings, Write, plan};
use polity_report::policy_set::{PolicyMeta, PolicySet};
use polity_report::public::PublicReport;
use polity_report::resource_report::{Evaluated, Evaluation, Resource, ResourceReport};
use polity_report::verdict::{Evaluator, GuestVerdict, Mode, Process, to_entry};
use polity_report::{PolicyKind, ReportingPolicy, ResourceRef, Severity};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const NAMESPACE: &str = "shop";
const POLICIES: usize = 20;
const PAGE: usize = 500;

fn main() {
    let n_results = std::env::args()
        .nth(1)
        .and_then(|count| count.parse().ok())
        .unwrap_or(100_000);
    let metas: Vec<PolicyMeta> = (0..POLICIES).map(meta).collect();
    let policies = PolicySet::of_namespace(&metas, Some(NAMESPACE));
    let reports: Vec<ResourceReport> = (0..n_results / POLICIES)
        .map(|n| report(n, &metas, 0))
        .collect();
    let later: Vec<ResourceReport> = (0..n_results / POLICIES)
        .map(|n| report(n, &metas, 3600))
        .collect();
    println!("results\t{n_results}\t");

    let writes = measured("first fold", n_results, reports, |reports| {
        pass(&policies, reports, &[])
    });
    let stored = carried_out(&writes);
    let bytes: usize = stored
        .iter()
        .map(|report| report.to_value().to_string().len())
        .sum();
    println!("objects written\t{}\t", writes.len());
    println!("bytes written\t{bytes}\tB");

    let writes = measured(
        "second fold, an hour later",
        n_results,
        later.clone(),
        |reports| pass(&policies, reports, &stored),
    );
    println!("objects written again\t{}\t", writes.len());
    assert!(writes.is_empty(), "nothing changed");

    let mut changed = later;
    changed[0] = report(usize::MAX, &metas, 3600);
    let writes = measured(
        "third fold, one object replaced",
        n_results,
        changed,
        |reports| pass(&policies, reports, &stored),
    );
    println!("objects written for it\t{}\t", writes.len());
    measure_hash();
}

/// One pass over the namespace, page by page as the API lists it.
fn pass(policies: &PolicySet, reports: Vec<ResourceReport>, stored: &[PublicReport]) -> Vec<Write> {
    let settings = Settings::default();
    let mut fold = Fold::new(policies, stored);
    let mut reports = reports.into_iter().peekable();
    while reports.peek().is_some() {
        fold.add_page(reports.by_ref().take(PAGE));
    }
    let folded = fold.finish(&settings.source);
    plan(
        Some(NAMESPACE),
        folded,
        policies,
        stored,
        &settings,
        at(7200),
    )
}

/// Measures `work` on an input that it consumes.
fn measured<I, T>(name: &str, n_results: usize, input: I, work: impl Fn(I) -> T) -> T {
    let region = Region::new(ALLOCATOR);
    let start = now();
    let answer = work(input);
    let took = start.elapsed();
    let change = region.change();
    println!("{name}\t{:.0}\tms", took.as_secs_f64() * 1000.0);
    println!(
        "{name}, each result\t{:.2}\tµs",
        took.as_secs_f64() * 1e6 / n_results as f64
    );
    println!(
        "{name}, allocations for each result\t{:.1}\t",
        change.allocations as f64 / n_results as f64
    );
    answer
}

fn measure_hash() {
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-0", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "example.test/web:1", "args": ["--verbose", "--port=8080"]}]},
    });
    let options = HashOptions::default();
    let start = now();
    for _ in 0..10_000 {
        std::hint::black_box(resource_hash(&pod, &options));
    }
    println!(
        "hash of a small object\t{:.2}\tµs",
        start.elapsed().as_secs_f64() * 100.0
    );
}

fn carried_out(writes: &[Write]) -> Vec<PublicReport> {
    writes
        .iter()
        .filter_map(|write| match write {
            Write::Create(report) | Write::Put(report) => Some(report.clone()),
            Write::Delete(_) => None,
        })
        .collect()
}

fn policy(n: usize) -> ReportingPolicy {
    ReportingPolicy::new(
        PolicyKind::ClusterAdmissionPolicy,
        None,
        &format!("policy-{n}"),
    )
    .expect("a cluster policy has no namespace")
}

fn meta(n: usize) -> PolicyMeta {
    PolicyMeta {
        policy: policy(n),
        mode: Mode::Protect,
        severity: Some(Severity::High),
        category: "Pod security".to_owned(),
        scored: true,
        n_templates: 0,
        is_disabled: false,
    }
}

fn report(n: usize, metas: &[PolicyMeta], seconds: i64) -> ResourceReport {
    let resource = Resource {
        reference: ResourceRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: NAMESPACE.to_owned(),
            name: format!("web-{n}"),
            uid: format!("6f0f0a52-0000-4000-8000-{n:012x}"),
        },
        hash: format!("{n:032x}"),
    };
    let evaluations: Vec<Evaluation> = metas
        .iter()
        .enumerate()
        .map(|(m, meta)| evaluation(&resource, meta, n.wrapping_add(m) % 7 != 0, seconds))
        .collect();
    ResourceReport::of(&resource, "polity").apply(&resource, "polity", &evaluations, [])
}

fn evaluation(
    resource: &Resource,
    meta: &PolicyMeta,
    is_allowed: bool,
    seconds: i64,
) -> Evaluation {
    let evaluator = Evaluator {
        policy: meta.policy.clone(),
        uid: "0a52".to_owned(),
        version: "3f9a0c1d2e4b5a67".to_owned(),
        mode: meta.mode,
        mutating: false,
        context_aware: false,
    };
    let answer = if is_allowed {
        GuestVerdict::allowed()
    } else {
        GuestVerdict::denied("Privileged container is not allowed")
    };
    let entry = to_entry(&evaluator, &answer.into(), Process::Background, at(seconds));
    Evaluation {
        policy: meta.policy.key(),
        version: evaluator.version,
        evaluated: Evaluated::Object {
            hash: resource.hash.clone(),
        },
        entries: entry.into_iter().collect(),
    }
}

fn at(seconds: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(1_794_700_800 + seconds).expect("a moment of this century")
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
