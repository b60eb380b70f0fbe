//! Reading stored reports: ours, those of older releases and those of other producers.
//!
//! The fields are those of [`polity_api::reports`]; here they are lowered. A field of the wrong type counts as absent.
//! A report that cannot be read is an error, which the caller reports before it continues with the next one. An entry
//! that cannot be read is left out and listed in [`ReadReport::complaints`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use polity_api::reports::openreports::v1alpha1::{ClusterReport, Report, ReportBody};
use polity_api::reports::policyreports::v1alpha2::{ClusterPolicyReport, PolicyReport};
use polity_api::reports::{self as wire, ReportResult, decode_metadata};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::entry::{Outcome, PublicEntry, ResourceRef, Severity, Stamp, Summary};
use crate::public::{PublicReport, ReportGroup};

/// Why a document is no report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("{what} is no object")]
    NoObject { what: &'static str },
    #[error("{kind} of {api_version:?} is no report")]
    NoReport { api_version: String, kind: String },
    #[error("the report has no name")]
    NoName,
    #[error("{field} is no {expected}")]
    WrongType {
        field: &'static str,
        expected: &'static str,
    },
}

/// A report, and what could not be read of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadReport {
    pub report: PublicReport,
    /// A sentence for each entry that was left out.
    pub complaints: Vec<String>,
}

/// The metadata that reports need, of any object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    pub namespace: Option<String>,
    pub name: String,
    pub resource_version: Option<String>,
    pub created: Option<jiff::Timestamp>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub owners: Vec<ResourceRef>,
}

/// Whether a document is a public report by its group and kind, in any version.
pub fn is_report(object: &Value) -> bool {
    report_group(object).is_some()
}

/// Reads a public report of either group.
pub fn read_report(object: &Value) -> Result<ReadReport, ReadError> {
    let fields = fields_of(object, "the report")?;
    let group = report_group(object).ok_or_else(|| ReadError::NoReport {
        api_version: text(fields, "apiVersion").to_owned(),
        kind: text(fields, "kind").to_owned(),
    })?;
    let metadata = read_metadata(object)?;
    let results = match fields.get("results") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(results)) => results,
        Some(_) => {
            return Err(ReadError::WrongType {
                field: "results",
                expected: "list",
            });
        }
    };
    // Results are decoded one by one, so that one that is no result costs only itself.
    let rest: Map<String, Value> = fields
        .iter()
        .filter(|(name, _)| *name != "results")
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let body = ReportBody::deserialize(&rest).unwrap_or_default();
    let results = results.iter().map(|result| {
        let fields = fields_of(result, "it")?;
        ReportResult::deserialize(fields).map_err(|_| NO_POLICY)
    });
    Ok(lower(group, metadata, &body, results))
}

macro_rules! lower_kinds {
    ($($kind:ty => $group:expr),+) => {$(
        impl TryFrom<$kind> for ReadReport {
            type Error = ReadError;

            fn try_from(stored: $kind) -> Result<Self, ReadError> {
                let metadata = Metadata::try_from(&stored.metadata)?;
                let mut body = ReportBody::from(stored.body);
                let results = std::mem::take(&mut body.results);
                Ok(lower($group, metadata, &body, results.into_iter().map(Ok)))
            }
        }
    )+};
}

lower_kinds! {
    PolicyReport => ReportGroup::PolicyReports,
    ClusterPolicyReport => ReportGroup::PolicyReports,
    Report => ReportGroup::OpenReports,
    ClusterReport => ReportGroup::OpenReports
}

/// Lowers a report; its results are given apart.
fn lower(
    group: ReportGroup,
    metadata: Metadata,
    body: &ReportBody,
    results: impl Iterator<Item = Result<ReportResult, ReadError>>,
) -> ReadReport {
    let mut entries = Vec::with_capacity(results.size_hint().0);
    let mut complaints = Vec::new();
    for (index, result) in results.enumerate() {
        match result.and_then(lower_result) {
            Ok(entry) => entries.push(entry),
            Err(error) => complaints.push(format!("results[{index}] is left out: {error}")),
        }
    }
    let filter = body.configuration.iter();
    let report = PublicReport {
        group,
        metadata,
        scope: body.scope.as_ref().map(ResourceRef::from),
        has_scope_selector: body.scope_selector.is_some(),
        source: body.source.clone(),
        status_filter: filter
            .flat_map(|configuration| &configuration.limits.status_filter)
            .filter_map(|word| Outcome::parse(word))
            .collect(),
        summary: Summary::from(&body.summary),
        entries,
    };
    ReadReport { report, complaints }
}

/// An entry must name its policy.
const NO_POLICY: ReadError = ReadError::WrongType {
    field: "policy",
    expected: "text",
};

fn lower_result(result: ReportResult) -> Result<PublicEntry, ReadError> {
    if result.policy.is_empty() {
        return Err(NO_POLICY);
    }
    let either = |text: Option<String>, old: Option<String>| {
        let text = text.filter(|text| !text.is_empty());
        text.or(old).unwrap_or_default()
    };
    Ok(PublicEntry {
        policy: result.policy,
        rule: result.rule.unwrap_or_default(),
        source: result.source,
        category: result.category.unwrap_or_default(),
        severity: Severity::parse(&result.severity.unwrap_or_default()),
        result: Outcome::parse(&either(result.result, result.status).to_ascii_lowercase()),
        scored: result.scored,
        message: either(result.message, result.description),
        resources: result.resources.iter().map(ResourceRef::from).collect(),
        timestamp: result.timestamp.map(Stamp::from),
        properties: if result.properties.is_empty() {
            result.data
        } else {
            result.properties
        },
    })
}

/// Reads the metadata of an object; only its name is required.
pub fn read_metadata(object: &Value) -> Result<Metadata, ReadError> {
    let fields = fields_of(object, "the document")?;
    let metadata = match fields.get("metadata") {
        Some(metadata) => fields_of(metadata, "metadata")?,
        None => return Err(ReadError::NoName),
    };
    Metadata::try_from(&decode_metadata(metadata))
}

impl TryFrom<&ObjectMeta> for Metadata {
    type Error = ReadError;

    fn try_from(metadata: &ObjectMeta) -> Result<Self, ReadError> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let owners = metadata.owner_references.iter().flatten();
        Ok(Self {
            namespace: given(&metadata.namespace),
            name: given(&metadata.name).ok_or(ReadError::NoName)?,
            resource_version: given(&metadata.resource_version),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            owners: owners.map(ResourceRef::from).collect(),
        })
    }
}

impl From<&ObjectReference> for ResourceRef {
    fn from(reference: &ObjectReference) -> Self {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self {
            api_version: text(&reference.api_version),
            kind: text(&reference.kind),
            namespace: text(&reference.namespace),
            name: text(&reference.name),
            uid: text(&reference.uid),
        }
    }
}

impl From<&OwnerReference> for ResourceRef {
    fn from(owner: &OwnerReference) -> Self {
        Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            namespace: String::new(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        }
    }
}

impl From<wire::Timestamp> for Stamp {
    fn from(wire::Timestamp { seconds, nanos }: wire::Timestamp) -> Self {
        Self { seconds, nanos }
    }
}

impl From<&wire::Summary> for Summary {
    /// A count below zero counts as zero.
    fn from(summary: &wire::Summary) -> Self {
        let count = |n: i64| u64::try_from(n).unwrap_or(0);
        Self {
            pass: count(summary.pass),
            fail: count(summary.fail),
            warn: count(summary.warn),
            error: count(summary.error),
            skip: count(summary.skip),
        }
    }
}

fn report_group(object: &Value) -> Option<ReportGroup> {
    let (group, _) = object.get("apiVersion")?.as_str()?.split_once('/')?;
    let kind = object.get("kind")?.as_str()?;
    ReportGroup::ALL
        .into_iter()
        .find(|known| known.group() == group && known.kinds().contains(&kind))
}

fn fields_of<'a>(
    value: &'a Value,
    what: &'static str,
) -> Result<&'a Map<String, Value>, ReadError> {
    value.as_object().ok_or(ReadError::NoObject { what })
}

/// A text field; one that is absent, or no text, is empty.
fn text<'a>(fields: &'a Map<String, Value>, field: &str) -> &'a str {
    fields
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(object: Value) -> Result<ReadReport, ReadError> {
        read_report(&object)
    }

    #[test]
    fn old_forms_are_understood() {
        let old = read(json!({
            "apiVersion": "wgpolicyk8s.io/v1alpha1", "kind": "ClusterPolicyReport",
            "metadata": {"name": "r"},
            "results": [{
                "policy": "p", "status": "Fail", "data": {"k": "v", "n": 3},
                "severity": "dreadful", "timestamp": "yesterday", "message": 7,
            }],
        }))
        .unwrap();
        let entry = &old.report.entries[0];
        assert_eq!(entry.result, Some(Outcome::Fail));
        assert_eq!(
            entry.properties,
            BTreeMap::from([("k".to_owned(), "v".to_owned())])
        );
        assert_eq!((entry.severity, entry.timestamp), (None, None));
        assert_eq!(old.complaints, Vec::<String>::new());
    }

    #[test]
    fn a_typed_report_reads_like_its_document() {
        let object = json!({
            "apiVersion": "openreports.io/v1alpha1", "kind": "ClusterReport",
            "metadata": {"name": "r", "labels": {"a": "b"}},
            "source": "scanner", "scope": {"kind": "Node", "name": "n"}, "summary": {"fail": 1},
            "results": [{"rule": "no policy"}, {"policy": "p", "result": "fail", "scored": "yes"}],
        });
        let from_document = read(object.clone()).unwrap();
        let typed: ClusterReport = serde_json::from_value(json!({
            "metadata": object["metadata"], "source": "scanner", "scope": object["scope"],
            "summary": object["summary"],
            "results": [{"policy": ""}, {"policy": "p", "result": "fail", "scored": "yes"}],
        }))
        .unwrap();
        assert_eq!(ReadReport::try_from(typed), Ok(from_document));
        assert_eq!(
            ReadReport::try_from(PolicyReport::default()),
            Err(ReadError::NoName)
        );
    }

    #[test]
    fn metadata_of_the_wrong_type_counts_as_absent() {
        let metadata = read_metadata(&json!({"metadata": {
            "name": "r", "namespace": 7, "creationTimestamp": "yesterday",
            "labels": {"a": "b", "n": 3}, "annotations": [],
            "ownerReferences": [3, {"kind": "Pod", "name": "p", "controller": "yes"}],
        }}))
        .unwrap();
        assert_eq!((metadata.namespace, metadata.created), (None, None));
        assert_eq!(
            metadata.labels,
            BTreeMap::from([("a".to_owned(), "b".to_owned())])
        );
        let owners: Vec<_> = metadata.owners.iter().map(|owner| &*owner.name).collect();
        assert_eq!(owners, ["", "p"]);
    }

    #[test]
    fn an_entry_that_cannot_be_read_costs_only_itself() {
        let read = read(json!({
            "apiVersion": "openreports.io/v1alpha1", "kind": "Report",
            "metadata": {"name": "r", "namespace": "n"},
            "source": "scanner",
            "configuration": {"limits": {"statusFilter": ["fail", "odd"]}},
            "results": [7, {"rule": "r"}, {"policy": "p", "result": "odd"}],
        }))
        .unwrap();
        assert_eq!(read.report.entries.len(), 1);
        assert_eq!(read.report.entries[0].result, None);
        assert_eq!(read.report.source, "scanner");
        assert_eq!(read.report.status_filter, [Outcome::Fail]);
        assert_eq!(
            read.complaints,
            [
                "results[0] is left out: it is no object",
                "results[1] is left out: policy is no text"
            ]
        );
    }

    #[test]
    fn what_is_no_report_is_told() {
        for (object, expected) in [
            (json!(3), "the report is no object"),
            (
                json!({"kind": "Pod", "apiVersion": "v1"}),
                "Pod of \"v1\" is no report",
            ),
            (
                json!({"kind": "Report", "apiVersion": "wgpolicyk8s.io/v1alpha2"}),
                "Report of \"wgpolicyk8s.io/v1alpha2\" is no report",
            ),
            (
                json!({"kind": "PolicyReport", "apiVersion": "wgpolicyk8s.io/v1alpha2"}),
                "the report has no name",
            ),
            (
                json!({"kind": "PolicyReport", "apiVersion": "wgpolicyk8s.io/v1alpha2",
                       "metadata": {"name": "r"}, "results": {}}),
                "results is no list",
            ),
        ] {
            assert_eq!(read(object).unwrap_err().to_string(), expected);
        }
    }
}
