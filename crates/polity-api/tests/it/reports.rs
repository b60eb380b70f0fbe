//! Reports: the definitions are those of the contract, what the report engine writes is what they allow, and reports
//! of other producers decode.

use std::collections::BTreeMap;

use kube::CustomResourceExt as _;
use polity_api::reports::openreports::v1alpha1::{ClusterReport, Report};
use polity_api::reports::policyreports::v1alpha2::{ClusterPolicyReport, PolicyReport};
use polity_api::reports::resourcereports::v1alpha1::ResourceReport as WireResourceReport;
use polity_api::reports::shared_crds;
use polity_report::plan::{Settings, Write, plan};
use polity_report::policy_set::{PolicyMeta, PolicySet};
use polity_report::public::ReportGroup;
use polity_report::resource_report::{Evaluated, Evaluation, Resource, ResourceReport};
use polity_report::verdict::{Evaluator, GuestVerdict, Mode, Process, to_entry};
use polity_report::{Outcome, PolicyKind, ReportingPolicy, ResourceRef, Severity};
use serde_json::{Value, json};

#[test]
fn report_kinds_have_their_names_scopes_and_columns() {
    let shared = shared_crds();
    let own = polity_api::crds();
    for (name, short, scope, version, columns) in [
        (
            "policyreports.wgpolicyk8s.io",
            "polr",
            "Namespaced",
            "v1alpha2",
            8,
        ),
        (
            "clusterpolicyreports.wgpolicyk8s.io",
            "cpolr",
            "Cluster",
            "v1alpha2",
            8,
        ),
        (
            "reports.openreports.io",
            "reps",
            "Namespaced",
            "v1alpha1",
            8,
        ),
        (
            "clusterreports.openreports.io",
            "creps",
            "Cluster",
            "v1alpha1",
            8,
        ),
        (
            "resourcereports.reports.polity.dev",
            "rrep",
            "Namespaced",
            "v1alpha1",
            3,
        ),
        (
            "clusterresourcereports.reports.polity.dev",
            "crrep",
            "Cluster",
            "v1alpha1",
            3,
        ),
    ] {
        let crd = shared
            .iter()
            .chain(&own)
            .find(|crd| crd.metadata.name.as_deref() == Some(name))
            .unwrap_or_else(|| panic!("no definition {name}"));
        assert_eq!(crd.spec.names.short_names, Some(vec![short.to_owned()]));
        assert_eq!(crd.spec.scope, scope, "{name}");
        let [only] = &crd.spec.versions[..] else {
            panic!("{name} has one version");
        };
        assert_eq!(only.name, version);
        assert!(only.subresources.is_none(), "{name} has no status");
        let found = only.additional_printer_columns.as_ref().unwrap();
        assert_eq!(found.len(), columns, "{name}");
        if columns == 8 {
            let names: Vec<_> = found.iter().map(|column| column.name.as_str()).collect();
            assert_eq!(
                names,
                [
                    "Kind", "Name", "Pass", "Fail", "Warn", "Error", "Skip", "Age"
                ]
            );
            let wide: Vec<_> = found
                .iter()
                .map(|column| column.priority == Some(1))
                .collect();
            assert_eq!(wide, [true, true, false, false, false, false, false, false]);
        }
    }
}

#[test]
fn fields_at_the_top_and_words_closed() {
    for crd in shared_crds() {
        let schema = crd.spec.versions[0]
            .schema
            .clone()
            .unwrap()
            .open_api_v3_schema
            .unwrap();
        let schema = serde_json::to_value(schema).unwrap();
        assert_eq!(schema["properties"].get("spec"), None);
        let result = &schema["properties"]["results"]["items"];
        assert_eq!(result["required"], json!(["policy"]));
        assert_eq!(
            result["properties"]["severity"]["enum"],
            json!(["critical", "high", "medium", "low", "info"])
        );
        assert_eq!(
            result["properties"]["result"]["enum"],
            json!(["pass", "fail", "warn", "error", "skip"])
        );
        let stamp = &result["properties"]["timestamp"];
        assert_eq!(stamp["required"], json!(["nanos", "seconds"]));
        let configuration = &schema["properties"]["configuration"];
        if crd.spec.group == "openreports.io" {
            assert_eq!(configuration["required"], json!(["limits"]));
        } else {
            assert_eq!(configuration, &Value::Null);
        }
    }
}

/// A resource report and the public reports of it, as the engine writes them.
fn written(namespace: &str, settings: &Settings) -> (Value, Vec<Value>) {
    let policy =
        ReportingPolicy::new(PolicyKind::ClusterAdmissionPolicy, None, "no-privileged").unwrap();
    let resource = Resource {
        reference: ResourceRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: namespace.to_owned(),
            name: "web-0".to_owned(),
            uid: "6f0f0a52-0000-4000-8000-000000000001".to_owned(),
        },
        hash: "5bd17c64f6929451ef3791c99e680efb".to_owned(),
    };
    let evaluator = Evaluator {
        policy: policy.clone(),
        uid: "u".to_owned(),
        version: "3f9a0c1d2e4b5a67".to_owned(),
        mode: Mode::Monitor,
        mutating: false,
        context_aware: true,
    };
    let now = "2026-11-15T00:00:00Z".parse().unwrap();
    let verdict = GuestVerdict::denied("Privileged container is not allowed").into();
    let evaluation = Evaluation {
        policy: policy.key(),
        version: evaluator.version.clone(),
        evaluated: Evaluated::Object {
            hash: resource.hash.clone(),
        },
        entries: to_entry(&evaluator, &verdict, Process::Admission, now)
            .into_iter()
            .collect(),
    };
    let report =
        ResourceReport::of(&resource, "polity").apply(&resource, "polity", &[evaluation], []);
    let meta = PolicyMeta {
        policy,
        mode: Mode::Monitor,
        severity: Some(Severity::High),
        category: "Pod security".to_owned(),
        scored: true,
        n_templates: 0,
        is_disabled: false,
    };
    let namespace = Some(namespace).filter(|name| !name.is_empty());
    let policies = PolicySet::of_namespace(&[meta], namespace);
    let mut fold = polity_report::fold::Fold::new(&policies, &[]);
    fold.add(report.clone());
    let writes = plan(
        namespace,
        fold.finish("polity"),
        &policies,
        &[],
        settings,
        now,
    );
    let public = writes
        .iter()
        .map(|write| match write {
            Write::Create(report) => report.to_value(),
            other => panic!("{other:?}"),
        })
        .collect();
    (report.to_value(), public)
}

#[test]
fn what_the_engine_writes_is_what_the_types_say() {
    fn through<T: serde::de::DeserializeOwned + serde::Serialize>(value: &Value) {
        let typed: T = serde_json::from_str(&value.to_string()).unwrap();
        assert_eq!(&serde_json::to_value(typed).unwrap(), value);
    }
    let open = Settings {
        group: ReportGroup::OpenReports,
        kept: [Outcome::Fail, Outcome::Warn].into(),
        ..Settings::default()
    };
    let (resource_report, public) = written("shop", &Settings::default());
    through::<WireResourceReport>(&resource_report);
    through::<PolicyReport>(&public[0]);
    through::<ClusterPolicyReport>(&written("", &Settings::default()).1[0]);
    through::<Report>(&written("shop", &open).1[0]);
    through::<ClusterReport>(&written("", &open).1[0]);
}

#[test]
fn reports_of_other_producers_decode() {
    let foreign = json!({
        "apiVersion": "wgpolicyk8s.io/v1alpha2",
        "kind": "PolicyReport",
        "metadata": {"name": "x", "namespace": "n"},
        "scope": {"kind": "Pod", "name": "p", "resourceVersion": "7"},
        "extra": {"unknown": true},
        "results": [{"policy": "p", "resourceSelector": {"matchLabels": {"a": "b"}}, "result": "odd"}],
    });
    let report: PolicyReport = serde_json::from_value(foreign).unwrap();
    assert_eq!(report.body.results[0].result.as_deref(), Some("odd"));
    assert_eq!(report.body.summary, polity_api::reports::Summary::default());
    assert_eq!(report.body.results[0].properties, BTreeMap::new());
    assert_eq!(PolicyReport::crd_name(), "policyreports.wgpolicyk8s.io");
}
