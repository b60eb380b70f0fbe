//! Reading stored reports: ours, those of older releases and those of other producers.
//!
//! What can be understood is kept. A report that cannot be read at all is an error of its own, so that the caller can
//! tell it and go on; an entry that cannot be read is told beside the others.

use std::collections::BTreeMap;

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

/// What every object says about itself.
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

/// Whether a document claims to be a public report, of whichever version.
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
    let mut entries = Vec::with_capacity(results.len());
    let mut complaints = Vec::new();
    for (index, result) in results.iter().enumerate() {
        match read_entry(result) {
            Ok(entry) => entries.push(entry),
            Err(error) => complaints.push(format!("results[{index}] is left out: {error}")),
        }
    }
    let report = PublicReport {
        group,
        metadata,
        scope: fields
            .get("scope")
            .filter(|scope| scope.is_object())
            .map(read_resource),
        has_scope_selector: fields.get("scopeSelector").is_some_and(Value::is_object),
        source: text(fields, "source").to_owned(),
        status_filter: read_status_filter(fields),
        summary: read_summary(fields.get("summary")),
        entries,
    };
    Ok(ReadReport { report, complaints })
}

/// Reads what an object says about itself; only its name must be there.
pub fn read_metadata(object: &Value) -> Result<Metadata, ReadError> {
    let fields = fields_of(object, "the document")?;
    let metadata = match fields.get("metadata") {
        Some(metadata) => fields_of(metadata, "metadata")?,
        None => return Err(ReadError::NoName),
    };
    let name = text(metadata, "name");
    if name.is_empty() {
        return Err(ReadError::NoName);
    }
    let optional = |field| Some(text(metadata, field).to_owned()).filter(|text| !text.is_empty());
    let owners = metadata.get("ownerReferences").and_then(Value::as_array);
    Ok(Metadata {
        namespace: optional("namespace"),
        name: name.to_owned(),
        resource_version: optional("resourceVersion"),
        created: text(metadata, "creationTimestamp").parse().ok(),
        labels: strings(metadata.get("labels")),
        annotations: strings(metadata.get("annotations")),
        owners: owners.into_iter().flatten().map(read_resource).collect(),
    })
}

fn report_group(object: &Value) -> Option<ReportGroup> {
    let (group, _) = object.get("apiVersion")?.as_str()?.split_once('/')?;
    let kind = object.get("kind")?.as_str()?;
    ReportGroup::ALL
        .into_iter()
        .find(|known| known.group() == group && known.kinds().contains(&kind))
}

fn read_entry(result: &Value) -> Result<PublicEntry, ReadError> {
    let fields = fields_of(result, "it")?;
    let policy = text(fields, "policy");
    if policy.is_empty() {
        return Err(ReadError::WrongType {
            field: "policy",
            expected: "text",
        });
    }
    // The second names are those of v1alpha1.
    let either = |name, old| match text(fields, name) {
        "" => text(fields, old),
        found => found,
    };
    let resources = fields.get("resources").and_then(Value::as_array);
    Ok(PublicEntry {
        policy: policy.to_owned(),
        rule: text(fields, "rule").to_owned(),
        source: text(fields, "source").to_owned(),
        category: text(fields, "category").to_owned(),
        severity: Severity::parse(text(fields, "severity")),
        result: Outcome::parse(&either("result", "status").to_ascii_lowercase()),
        scored: fields
            .get("scored")
            .and_then(Value::as_bool)
            .unwrap_or(false),
        message: either("message", "description").to_owned(),
        resources: resources.into_iter().flatten().map(read_resource).collect(),
        timestamp: fields.get("timestamp").and_then(read_stamp),
        properties: strings(fields.get("properties").or_else(|| fields.get("data"))),
    })
}

pub(crate) fn read_resource(reference: &Value) -> ResourceRef {
    let of = |field: &str| {
        let found = reference.get(field).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    ResourceRef {
        api_version: of("apiVersion"),
        kind: of("kind"),
        namespace: of("namespace"),
        name: of("name"),
        uid: of("uid"),
    }
}

pub(crate) fn read_stamp(stamp: &Value) -> Option<Stamp> {
    Some(Stamp {
        seconds: stamp.get("seconds")?.as_i64()?,
        nanos: stamp
            .get("nanos")
            .and_then(Value::as_i64)
            .and_then(|nanos| nanos.try_into().ok())
            .unwrap_or(0),
    })
}

fn read_summary(summary: Option<&Value>) -> Summary {
    let of = |outcome: Outcome| {
        let found = summary.and_then(|summary| summary.get(outcome.as_str())?.as_u64());
        found.unwrap_or(0)
    };
    Summary {
        pass: of(Outcome::Pass),
        fail: of(Outcome::Fail),
        warn: of(Outcome::Warn),
        error: of(Outcome::Error),
        skip: of(Outcome::Skip),
    }
}

fn read_status_filter(fields: &Map<String, Value>) -> Vec<Outcome> {
    let filter = fields
        .get("configuration")
        .and_then(|configuration| configuration.pointer("/limits/statusFilter")?.as_array());
    filter
        .into_iter()
        .flatten()
        .filter_map(|word| Outcome::parse(word.as_str()?))
        .collect()
}

fn fields_of<'a>(
    value: &'a Value,
    what: &'static str,
) -> Result<&'a Map<String, Value>, ReadError> {
    value.as_object().ok_or(ReadError::NoObject { what })
}

/// A text field; one that is absent, or no text, is empty.
pub(crate) fn text<'a>(fields: &'a Map<String, Value>, field: &str) -> &'a str {
    fields
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A map of texts; other values are left out.
fn strings(map: Option<&Value>) -> BTreeMap<String, String> {
    map.and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
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
