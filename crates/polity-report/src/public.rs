//! Public reports: the objects that kubectl and dashboards read, in either of two API groups.
//! See docs/spec/reports.md#2 and docs/spec/reports.md#3.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use polity_api::reports::openreports::v1alpha1::{
    ClusterReport, Configuration, Limits, Report, ReportBody,
};
use polity_api::reports::policyreports::v1alpha2::{ClusterPolicyReport, PolicyReport};
use polity_api::reports::{ReportResult, openreports, policyreports};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::entry::{Outcome, PublicEntry, ResourceRef, Summary};
use crate::read::Metadata;

/// The API groups that public reports are written in; one at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportGroup {
    /// `wgpolicyk8s.io/v1alpha2`: PolicyReport, ClusterPolicyReport.
    #[default]
    PolicyReports,
    /// `openreports.io/v1alpha1`: Report, ClusterReport.
    OpenReports,
}

impl ReportGroup {
    pub const ALL: [Self; 2] = [Self::PolicyReports, Self::OpenReports];

    pub const fn group(self) -> &'static str {
        match self {
            Self::PolicyReports => policyreports::GROUP,
            Self::OpenReports => openreports::GROUP,
        }
    }

    /// The version that is written; others are read.
    pub const fn version(self) -> &'static str {
        match self {
            Self::PolicyReports => "v1alpha2",
            Self::OpenReports => "v1alpha1",
        }
    }

    pub const fn api_version(self) -> &'static str {
        match self {
            Self::PolicyReports => "wgpolicyk8s.io/v1alpha2",
            Self::OpenReports => "openreports.io/v1alpha1",
        }
    }

    /// The namespaced kind and the cluster-scoped one.
    pub const fn kinds(self) -> [&'static str; 2] {
        match self {
            Self::PolicyReports => ["PolicyReport", "ClusterPolicyReport"],
            Self::OpenReports => ["Report", "ClusterReport"],
        }
    }

    /// The names of both in a URL.
    pub const fn plurals(self) -> [&'static str; 2] {
        match self {
            Self::PolicyReports => ["policyreports", "clusterpolicyreports"],
            Self::OpenReports => ["reports", "clusterreports"],
        }
    }
}

/// A public report.
#[derive(Debug, Clone, PartialEq)]
pub struct PublicReport {
    pub group: ReportGroup,
    pub metadata: Metadata,
    /// The one object that the whole report is about.
    pub scope: Option<ResourceRef>,
    /// Whether it has a `scopeSelector`, which Polity never writes.
    pub has_scope_selector: bool,
    /// The engine of all results; only OpenReports has it.
    pub source: String,
    /// The only outcomes that are present; empty means all. Only OpenReports has it.
    pub status_filter: Vec<Outcome>,
    pub summary: Summary,
    pub entries: Vec<PublicEntry>,
}

impl PublicReport {
    /// The kind of this object.
    pub fn kind(&self) -> &'static str {
        let [namespaced, cluster] = self.group.kinds();
        match self.metadata.namespace {
            Some(_) => namespaced,
            None => cluster,
        }
    }

    /// The object as it goes to the API server.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a report is plain data")
    }

    /// The objects of an entry: its own or, without any, the scope of the report. An object without a namespace is in
    /// the namespace of the report.
    pub fn subjects<'a>(&'a self, entry: &'a PublicEntry) -> &'a [ResourceRef] {
        if entry.resources.is_empty() {
            self.scope.as_slice()
        } else {
            &entry.resources
        }
    }

    /// The policy engine that produced an entry.
    pub fn source_of<'a>(&'a self, entry: &'a PublicEntry) -> &'a str {
        if entry.source.is_empty() {
            &self.source
        } else {
            &entry.source
        }
    }
}

impl Serialize for PublicReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_namespaced = self.metadata.namespace.is_some();
        match (self.group, is_namespaced) {
            (ReportGroup::PolicyReports, true) => PolicyReport::from(self).serialize(serializer),
            (ReportGroup::PolicyReports, false) => {
                ClusterPolicyReport::from(self).serialize(serializer)
            }
            (ReportGroup::OpenReports, true) => Report::from(self).serialize(serializer),
            (ReportGroup::OpenReports, false) => ClusterReport::from(self).serialize(serializer),
        }
    }
}

macro_rules! wire_kinds {
    ($($kind:ty),+) => {$(
        impl From<&PublicReport> for $kind {
            fn from(report: &PublicReport) -> Self {
                Self::new((&report.metadata).into(), ReportBody::from(report).into())
            }
        }
    )+};
}

wire_kinds!(PolicyReport, ClusterPolicyReport, Report, ClusterReport);

impl From<&PublicReport> for ReportBody {
    fn from(report: &PublicReport) -> Self {
        let filter = report.status_filter.iter();
        let limits = Limits {
            max_results: None,
            status_filter: filter.map(|outcome| outcome.as_str().to_owned()).collect(),
        };
        Self {
            source: report.source.clone(),
            scope: report.scope.as_ref().map(ObjectReference::from),
            scope_selector: None,
            configuration: (!report.status_filter.is_empty()).then_some(Configuration { limits }),
            summary: (&report.summary).into(),
            results: report.entries.iter().map(ReportResult::from).collect(),
        }
    }
}

/// Metadata as it is written.
impl From<&Metadata> for ObjectMeta {
    fn from(metadata: &Metadata) -> Self {
        let some = |map: &BTreeMap<String, String>| (!map.is_empty()).then(|| map.clone());
        let owners: Vec<_> = metadata.owners.iter().map(OwnerReference::from).collect();
        Self {
            name: Some(metadata.name.clone()),
            namespace: metadata.namespace.clone(),
            resource_version: metadata.resource_version.clone(),
            labels: some(&metadata.labels),
            annotations: some(&metadata.annotations),
            owner_references: (!owners.is_empty()).then_some(owners),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::entry::{Severity, Stamp};
    use crate::read::read_report;

    fn strings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// The example of docs/spec/reports.md#13.
    fn example(group: ReportGroup) -> PublicReport {
        let entry = PublicEntry {
            policy: "no-privileged".to_owned(),
            rule: String::new(),
            source: "polity".to_owned(),
            category: "Pod security".to_owned(),
            severity: Some(Severity::High),
            result: Some(Outcome::Fail),
            scored: true,
            message: "Privileged container is not allowed".to_owned(),
            resources: vec![ResourceRef {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                namespace: "shop".to_owned(),
                name: "web-0".to_owned(),
                uid: "6f0f0a52-0000-4000-8000-000000000001".to_owned(),
            }],
            timestamp: Some(Stamp {
                seconds: 1_794_700_800,
                nanos: 0,
            }),
            properties: strings(&[
                ("process", "background scan"),
                ("policy-name", "no-privileged"),
                ("validating", "true"),
            ]),
        };
        let is_open = group == ReportGroup::OpenReports;
        PublicReport {
            group,
            metadata: Metadata {
                name: "cpol-no-privileged".to_owned(),
                namespace: Some("shop".to_owned()),
                labels: strings(&[
                    ("app.kubernetes.io/managed-by", "polity"),
                    ("cpol.kyverno.io/no-privileged", "3f9a0c1d2e4b5a67"),
                ]),
                ..Metadata::default()
            },
            scope: None,
            has_scope_selector: false,
            source: if is_open {
                "polity".to_owned()
            } else {
                String::new()
            },
            status_filter: Vec::new(),
            summary: Summary::of([&entry]),
            entries: vec![entry],
        }
    }

    fn example_json() -> Value {
        json!({
            "apiVersion": "wgpolicyk8s.io/v1alpha2",
            "kind": "PolicyReport",
            "metadata": {
                "name": "cpol-no-privileged",
                "namespace": "shop",
                "labels": {
                    "app.kubernetes.io/managed-by": "polity",
                    "cpol.kyverno.io/no-privileged": "3f9a0c1d2e4b5a67"
                }
            },
            "results": [{
                "policy": "no-privileged",
                "source": "polity",
                "category": "Pod security",
                "severity": "high",
                "result": "fail",
                "scored": true,
                "message": "Privileged container is not allowed",
                "resources": [{
                    "apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web-0",
                    "uid": "6f0f0a52-0000-4000-8000-000000000001"
                }],
                "timestamp": {"seconds": 1_794_700_800, "nanos": 0},
                "properties": {
                    "process": "background scan", "policy-name": "no-privileged", "validating": "true"
                }
            }],
            "summary": {"pass": 0, "fail": 1, "warn": 0, "error": 0, "skip": 0}
        })
    }

    #[test]
    fn a_report_is_written_as_in_the_example() {
        assert_eq!(
            example(ReportGroup::PolicyReports).to_value(),
            example_json()
        );
    }

    #[test]
    fn the_other_group_differs_in_its_names_and_its_source() {
        let mut expected = example_json();
        expected["apiVersion"] = json!("openreports.io/v1alpha1");
        expected["kind"] = json!("Report");
        expected["source"] = json!("polity");
        assert_eq!(example(ReportGroup::OpenReports).to_value(), expected);
        let mut filtered = example(ReportGroup::OpenReports);
        filtered.status_filter = vec![Outcome::Fail, Outcome::Warn];
        filtered.metadata.namespace = None;
        let value = filtered.to_value();
        assert_eq!(value["kind"], "ClusterReport");
        assert_eq!(
            value["configuration"],
            json!({"limits": {"statusFilter": ["fail", "warn"]}})
        );
    }

    #[test]
    fn what_is_written_reads_back() {
        for group in ReportGroup::ALL {
            let read = read_report(&example(group).to_value()).unwrap();
            assert_eq!(read.report, example(group));
            assert_eq!(read.complaints, Vec::<String>::new());
        }
    }

    #[test]
    fn an_entry_without_objects_is_about_the_scope() {
        let mut report = example(ReportGroup::OpenReports);
        let subject = std::mem::take(&mut report.entries[0].resources);
        report.scope = subject.first().cloned();
        report.entries[0].source.clear();
        let entry = &report.entries[0];
        assert_eq!(report.subjects(entry), subject);
        assert_eq!(report.source_of(entry), "polity");
    }
}
