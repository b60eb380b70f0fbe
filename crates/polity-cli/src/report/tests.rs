//! What `polity report view` shows of files: the samples beside the tests, and reports that are odd.

use std::path::Path;

use clap::Parser;
use jiff::Timestamp;
use serde_json::Value;

use super::filter::FilterArgs;
use super::{csv, html, sarif, table};
use crate::output::Paint;
use polity_source::Manifests;
use polity_source::reports::{Dimension, Filter, View, from_manifests};

#[derive(Debug, Parser)]
struct Filtered {
    #[command(flatten)]
    filter: FilterArgs,
}

const BY: [Dimension; 3] = [Dimension::Namespace, Dimension::Policy, Dimension::Severity];

fn samples() -> Manifests {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/reports");
    Manifests::load([folder]).unwrap()
}

fn view_of(manifests: &Manifests, flags: &str, by: &[Dimension]) -> View {
    let words = std::iter::once("view").chain(flags.split_whitespace());
    let Filtered { filter } = Filtered::try_parse_from(words).unwrap();
    let gathered = from_manifests(manifests);
    let mut view = View::new(gathered.rows, &Filter::from(filter), by, 5);
    view.reports = gathered.n_reports;
    view.unreadable = gathered.unreadable;
    view
}

fn now() -> Timestamp {
    "2026-11-16T03:00:00Z".parse().unwrap()
}

#[test]
fn both_groups_are_one_table() {
    let view = view_of(&samples(), "", &BY);
    assert_eq!(view.unreadable, Vec::<String>::new());
    insta::assert_snapshot!(table::page(&view, false, Paint::plain()));
}

#[test]
fn programs_find_counts_by_the_names_of_the_fields() {
    let view = view_of(&samples(), "-n shop --policy team-label", &BY);
    let json = serde_json::to_value(&view).unwrap();
    assert_eq!(
        json["by"],
        serde_json::json!(["namespace", "policy", "severity"])
    );
    assert_eq!(
        json["groups"],
        serde_json::json!([{
            "of": {"namespace": "shop", "policy": "shop/team-label", "severity": "low"},
            "pass": 4, "fail": 0, "warn": 1, "error": 0, "skip": 0
        }])
    );
    assert_eq!(json["results"][0]["result"], "warn");
    assert_eq!(json["results"][0]["name"], "web-0");
}

#[test]
fn results_are_listed_worst_first() {
    let view = view_of(
        &samples(),
        "-n shop,payments --result fail,warn,skip",
        &[Dimension::Kind],
    );
    insta::assert_snapshot!(table::page(&view, true, Paint::plain()));
}

#[test]
fn filters_add_up() {
    let all = view_of(&samples(), "", &BY);
    for (flags, expected) in [
        ("--policy team-label", 5),
        ("--policy shop/team-label", 5),
        ("--policy other/team-label", 0),
        ("--source image-scanner", 2),
        (
            "--kind pod,Deployment --severity high --result fail,skip -n payments",
            1,
        ),
        ("--severity none", 0),
        ("--kind ClusterRoleBinding", 2),
    ] {
        let view = view_of(&samples(), flags, &BY);
        let found = view.results.len();
        if flags.contains("-n payments") {
            assert!(found >= expected, "{flags}");
        } else {
            assert_eq!(found, expected, "{flags}");
        }
        assert_eq!(view.hidden + found, all.results.len(), "{flags}");
    }
}

#[test]
fn unknown_words_are_refused() {
    for flags in [["--severity", "dreadful"], ["--result", "failed"]] {
        assert!(Filtered::try_parse_from(["view"].into_iter().chain(flags)).is_err());
    }
}

#[test]
fn csv_has_a_line_for_each_result() {
    let view = view_of(&samples(), "--source image-scanner", &BY);
    insta::assert_snapshot!(csv::text(&view.results).replace('\r', ""), @r#"
    namespace,apiVersion,kind,name,policy,rule,result,severity,category,source,timestamp,message
    payments,apps/v1,Deployment,ledger,known-vulnerabilities,CVE-2026-1234,fail,high,Vulnerabilities,image-scanner,2026-11-15T00:00:00Z,openssl 3.0.1 <3.0.9: update & rebuild the image
    payments,apps/v1,Deployment,ledger,known-vulnerabilities,CVE-2025-0007,skip,low,Vulnerabilities,image-scanner,,accepted until 2027-01-01
    "#);
}

#[test]
fn sarif_points_to_the_object_if_it_is_among_the_files() {
    let text = "\
apiVersion: openreports.io/v1alpha1
kind: Report
metadata: {name: r, namespace: shop}
results:
- {policy: p, result: fail, severity: high, message: no, resources: [{kind: Pod, name: web-0}]}
- {policy: p, result: error, resources: [{kind: Pod, name: other}]}
- {policy: p, result: pass, resources: [{kind: Pod, name: fine}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop}
";
    let view = view_of(&Manifests::from_text("all.yaml", text), "", &BY);
    let log: Value =
        serde_json::from_str(&sarif::findings(&view.results).to_sarif().unwrap()).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    let found: Vec<_> = results
        .iter()
        .map(|result| {
            let location = &result["locations"][0];
            (
                location["physicalLocation"]["region"]["startLine"]
                    .as_u64()
                    .unwrap(),
                location["logicalLocations"][0]["fullyQualifiedName"]
                    .as_str()
                    .unwrap(),
                result["level"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (1, "Pod/shop/other", "error"),
            (9, "Pod/shop/web-0", "error")
        ]
    );
}

/// What the schema of SARIF 2.1.0 says about the objects that are written: where they stand, what they must have, and
/// what they may have beside it, as far as it is used. Every one of them refuses other fields.
const SARIF_OBJECTS: &[(&str, &[&str], &[&str])] = &[
    ("", &["version", "runs"], &["$schema"]),
    ("/runs/*", &["tool"], &["columnKind", "results"]),
    ("/runs/*/tool", &["driver"], &[]),
    (
        "/runs/*/tool/driver",
        &["name"],
        &["semanticVersion", "rules"],
    ),
    (
        "/runs/*/tool/driver/rules/*",
        &["id"],
        &["shortDescription", "help"],
    ),
    (
        "/runs/*/tool/driver/rules/*/shortDescription",
        &["text"],
        &[],
    ),
    ("/runs/*/tool/driver/rules/*/help", &["text"], &[]),
    (
        "/runs/*/results/*",
        &["message"],
        &[
            "ruleId",
            "ruleIndex",
            "level",
            "locations",
            "partialFingerprints",
        ],
    ),
    ("/runs/*/results/*/message", &["text"], &[]),
    (
        "/runs/*/results/*/locations/*",
        &[],
        &["physicalLocation", "logicalLocations"],
    ),
    (
        "/runs/*/results/*/locations/*/physicalLocation",
        &["artifactLocation"],
        &["region"],
    ),
    (
        "/runs/*/results/*/locations/*/physicalLocation/artifactLocation",
        &[],
        &["uri"],
    ),
    (
        "/runs/*/results/*/locations/*/physicalLocation/region",
        &[],
        &["startLine"],
    ),
    (
        "/runs/*/results/*/locations/*/logicalLocations/*",
        &[],
        &["fullyQualifiedName", "kind"],
    ),
];

/// Holds every object of a log against the table; fingerprints may have any name.
fn check_sarif(place: &str, value: &Value, checked: &mut usize) {
    match value {
        Value::Array(items) => {
            for item in items {
                check_sarif(&format!("{place}/*"), item, checked);
            }
        }
        Value::Object(fields) if !place.ends_with("/partialFingerprints") => {
            let known = SARIF_OBJECTS.iter().find(|(known, ..)| *known == place);
            let (_, required, optional) =
                known.unwrap_or_else(|| panic!("{place} is in the table"));
            for name in *required {
                assert!(fields.contains_key(*name), "{place} has {name}");
            }
            for (name, field) in fields {
                let allowed =
                    required.contains(&name.as_str()) || optional.contains(&name.as_str());
                assert!(allowed, "{place} may have {name}");
                check_sarif(&format!("{place}/{name}"), field, checked);
            }
            *checked += 1;
        }
        _ => {}
    }
}

#[test]
fn sarif_has_what_its_schema_demands_and_nothing_that_it_forbids() {
    let view = view_of(&samples(), "", &BY);
    let log: Value =
        serde_json::from_str(&sarif::findings(&view.results).to_sarif().unwrap()).unwrap();
    let mut checked = 0;
    check_sarif("", &log, &mut checked);
    assert!(checked > 50, "{checked} objects");
    let rules = log["runs"][0]["tool"]["driver"]["rules"]
        .as_array()
        .unwrap();
    for result in log["runs"][0]["results"].as_array().unwrap() {
        let level = result["level"].as_str().unwrap();
        assert!(["none", "note", "warning", "error"].contains(&level));
        let index = result["ruleIndex"].as_u64().unwrap() as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let region = &result["locations"][0]["physicalLocation"]["region"];
        assert!(region["startLine"].as_u64().unwrap() >= 1);
    }
}

#[test]
fn a_page_needs_nothing_else_and_holds_no_foreign_markup() {
    let text = "\
apiVersion: wgpolicyk8s.io/v1alpha2
kind: PolicyReport
metadata: {name: r, namespace: <i>}
results:
- {policy: '<script>alert(1)</script>', rule: '\"><b>', result: fail, category: '<u>', message: '</td><img src=x onerror=y>'}
";
    let odd = html::page(&view_of(&Manifests::from_text("x", text), "", &BY), now());
    for markup in ["<script", "<i>", "<b>\"", "<img", "<u>"] {
        assert!(!odd.contains(markup), "{markup}");
    }
    let page = html::page(&view_of(&samples(), "", &BY), now());
    for foreign in [
        "http:", "https:", "src=", "href=", "url(", "@import", "<script",
    ] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("as of 2026-11-16 03:00 UTC"));
    assert!(page.contains("openssl 3.0.1 &lt;3.0.9: update &amp; rebuild the image"));
}

#[test]
fn a_report_that_cannot_be_read_is_told_and_the_rest_goes_on() {
    let text = "\
apiVersion: wgpolicyk8s.io/v1alpha2
kind: PolicyReport
metadata: {name: broken}
results: 3
---
apiVersion: wgpolicyk8s.io/v1alpha2
kind: PolicyReport
metadata: {name: half, namespace: n}
results: [7, {policy: p, result: pass}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: unrelated}
";
    let view = view_of(&Manifests::from_text("x.yaml", text), "", &BY);
    assert_eq!(
        view.unreadable,
        [
            "x.yaml:1: results is no list",
            "x.yaml:6: results[0] is left out: it is no object"
        ]
    );
    assert_eq!((view.reports, view.results.len()), (1, 1));
}

#[test]
fn a_mirrored_report_counts_once() {
    let report = |api: &str, kind: &str| {
        format!(
            "apiVersion: {api}\nkind: {kind}\nmetadata: {{name: r, namespace: n}}\n\
             results: [{{policy: p, source: s, result: fail, resources: [{{kind: Pod, name: a}}]}}]\n"
        )
    };
    let text = format!(
        "{}---\n{}",
        report("wgpolicyk8s.io/v1alpha2", "PolicyReport"),
        report("openreports.io/v1alpha1", "Report")
    );
    let view = view_of(&Manifests::from_text("x.yaml", &text), "", &BY);
    assert_eq!(
        (view.reports, view.results.len(), view.summary.fail),
        (2, 1, 1)
    );
    assert_eq!(view.hidden, 0);
}
