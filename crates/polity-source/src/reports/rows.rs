//! The results of reports as rows of one table: filtered, counted and ordered.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use polity_report::public::PublicReport;
use polity_report::{Outcome, PublicEntry, ResourceRef, Severity, Summary};
use serde::{Serialize, Serializer};

use crate::manifests::Origin;

/// One result about one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub policy: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rule: String,
    pub result: Option<Outcome>,
    pub severity: Option<Severity>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub category: String,
    pub source: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// The report it stands in: `PolicyReport shop/cpol-no-privileged`.
    pub report: String,
    #[serde(skip)]
    pub origin: Option<Origin>,
}

/// A field that rows are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    Namespace,
    Policy,
    Severity,
    Result,
    Kind,
    Resource,
    Category,
    Source,
}

impl Dimension {
    pub const ALL: [Self; 8] = [
        Self::Namespace,
        Self::Policy,
        Self::Severity,
        Self::Result,
        Self::Kind,
        Self::Resource,
        Self::Category,
        Self::Source,
    ];

    /// The name of the field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Policy => "policy",
            Self::Severity => "severity",
            Self::Result => "result",
            Self::Kind => "kind",
            Self::Resource => "resource",
            Self::Category => "category",
            Self::Source => "source",
        }
    }
}

/// Which rows are shown; an empty list lets everything pass.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub namespaces: Vec<String>,
    /// Names of policies, with or without their namespace.
    pub policies: Vec<String>,
    /// `None` is a result without a severity.
    pub severities: Vec<Option<Severity>>,
    pub results: Vec<Outcome>,
    pub kinds: Vec<String>,
    /// The engines that made the results.
    pub sources: Vec<String>,
}

impl Filter {
    pub fn lets_pass(&self, row: &Row) -> bool {
        let any = |wanted: &[String], found: &str| {
            wanted.is_empty()
                || wanted
                    .iter()
                    .any(|wanted| wanted.eq_ignore_ascii_case(found))
        };
        let policy_name = row.policy.rsplit('/').next().unwrap_or_default();
        any(&self.namespaces, &row.namespace)
            && (any(&self.policies, &row.policy) || any(&self.policies, policy_name))
            && (self.severities.is_empty() || self.severities.contains(&row.severity))
            && (self.results.is_empty()
                || row
                    .result
                    .is_some_and(|result| self.results.contains(&result)))
            && any(&self.kinds, &row.kind)
            && any(&self.sources, &row.source)
    }
}

impl Row {
    /// Whether the result is fail, warn or error.
    pub fn is_violation(&self) -> bool {
        matches!(
            self.result,
            Some(Outcome::Fail | Outcome::Warn | Outcome::Error)
        )
    }

    /// `Pod/web-0`.
    pub fn resource(&self) -> String {
        if self.kind.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.kind, self.name)
        }
    }

    /// `policy`, with the rule behind it where there is one.
    pub fn policy_and_rule(&self) -> String {
        if self.rule.is_empty() {
            self.policy.clone()
        } else {
            format!("{} {}", self.policy, self.rule)
        }
    }

    fn value(&self, dimension: Dimension) -> String {
        match dimension {
            Dimension::Namespace => self.namespace.clone(),
            Dimension::Policy => self.policy_and_rule(),
            Dimension::Severity => severity_word(self.severity).to_owned(),
            Dimension::Result => result_word(self.result).to_owned(),
            Dimension::Kind => self.kind.clone(),
            Dimension::Resource => self.resource(),
            Dimension::Category => self.category.clone(),
            Dimension::Source => self.source.clone(),
        }
    }

    /// The order of rows: the worst first, then by object.
    fn rank(&self) -> impl Ord + '_ {
        let result = match self.result {
            Some(Outcome::Fail) => 0,
            Some(Outcome::Error) => 1,
            Some(Outcome::Warn) => 2,
            Some(Outcome::Skip) | None => 3,
            Some(Outcome::Pass) => 4,
        };
        let severity = severity_rank(self.severity);
        let place = (
            &self.namespace,
            &self.kind,
            &self.name,
            &self.policy,
            &self.rule,
        );
        (!self.is_violation(), severity, result, place, &self.message)
    }
}

/// The worst first; no severity comes last.
fn severity_rank(severity: Option<Severity>) -> usize {
    severity.map_or(Severity::ALL.len(), |severity| severity as usize)
}

pub fn severity_word(severity: Option<Severity>) -> &'static str {
    severity.map_or("none", Severity::as_str)
}

pub fn result_word(result: Option<Outcome>) -> &'static str {
    result.map_or("none", Outcome::as_str)
}

/// Rows of a report, one for each entry and object.
pub(super) fn rows_of(report: &PublicReport, origin: Option<&Origin>) -> Vec<Row> {
    let place = match &report.metadata.namespace {
        Some(namespace) => format!("{} {namespace}/{}", report.kind(), report.metadata.name),
        None => format!("{} {}", report.kind(), report.metadata.name),
    };
    let mut rows = Vec::new();
    for entry in &report.entries {
        let subjects = report.subjects(entry);
        let nothing = [ResourceRef::default()];
        let subjects = if subjects.is_empty() {
            &nothing
        } else {
            subjects
        };
        for subject in subjects {
            rows.push(row(report, entry, subject, &place, origin));
        }
    }
    rows
}

fn row(
    report: &PublicReport,
    entry: &PublicEntry,
    subject: &ResourceRef,
    place: &str,
    origin: Option<&Origin>,
) -> Row {
    let namespace = match (subject.namespace.as_str(), &report.metadata.namespace) {
        ("", Some(of_report)) => of_report,
        (own, _) => own,
    };
    Row {
        namespace: namespace.to_owned(),
        api_version: subject.api_version.clone(),
        kind: subject.kind.clone(),
        name: subject.name.clone(),
        policy: entry.policy.clone(),
        rule: entry.rule.clone(),
        result: entry.result,
        severity: entry.severity,
        category: entry.category.clone(),
        source: report.source_of(entry).to_owned(),
        message: entry.message.clone(),
        timestamp: entry
            .timestamp
            .and_then(|stamp| Timestamp::new(stamp.seconds, stamp.nanos).ok()),
        report: place.to_owned(),
        origin: origin.cloned(),
    }
}

/// A count of rows that have something in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// What they have in common, by field, in the order that was asked for.
    #[serde(serialize_with = "as_map")]
    pub of: Vec<(&'static str, String)>,
    #[serde(flatten)]
    pub summary: Summary,
}

fn as_map<S: Serializer>(fields: &[(&str, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(fields.iter().map(|(field, value)| (field, value)))
}

/// Violations of one policy, over all objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    pub policy: String,
    pub severity: Option<Severity>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub category: String,
    pub violations: usize,
    pub objects: usize,
    pub namespaces: usize,
    /// What it says, of one of the objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub example: String,
}

/// Filtered rows with their counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    pub summary: Summary,
    /// How many reports were read.
    pub reports: usize,
    /// How many results the filters left out.
    pub hidden: usize,
    pub by: Vec<&'static str>,
    pub groups: Vec<Group>,
    pub top_violations: Vec<Violation>,
    pub results: Vec<Row>,
    /// What could not be read, and why.
    pub unreadable: Vec<String>,
}

impl View {
    pub fn new(all: Vec<Row>, filter: &Filter, by: &[Dimension], top: usize) -> Self {
        let n_all = all.len();
        let mut results: Vec<Row> = all
            .into_iter()
            .filter(|row| filter.lets_pass(row))
            .collect();
        let n_passed = results.len();
        results.sort_by(|a, b| a.rank().cmp(&b.rank()));
        // A producer that mirrors its reports into the other group says the same twice.
        results.dedup_by(|a, b| {
            Row {
                report: b.report.clone(),
                origin: b.origin.clone(),
                ..a.clone()
            } == *b
        });
        let mut view = Self {
            summary: counted(&results),
            reports: 0,
            hidden: n_all - n_passed,
            by: by.iter().map(|dimension| dimension.as_str()).collect(),
            groups: groups(&results, by),
            top_violations: top_violations(&results),
            results,
            unreadable: Vec::new(),
        };
        view.top_violations.truncate(top);
        view
    }
}

fn counted<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Summary {
    let mut summary = Summary::default();
    for result in rows.into_iter().filter_map(|row| row.result) {
        summary.add(result);
    }
    summary
}

/// Rows counted by what they have in common.
pub fn groups(rows: &[Row], by: &[Dimension]) -> Vec<Group> {
    let mut groups: BTreeMap<Vec<(usize, String)>, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let key = by.iter().map(|dimension| {
            let rank = match dimension {
                Dimension::Severity => severity_rank(row.severity),
                _ => 0,
            };
            (rank, row.value(*dimension))
        });
        groups.entry(key.collect()).or_default().push(row);
    }
    groups
        .into_iter()
        .map(|(key, rows)| Group {
            of: by
                .iter()
                .zip(key)
                .map(|(dimension, (_, value))| (dimension.as_str(), value))
                .collect(),
            summary: counted(rows),
        })
        .collect()
}

/// Policies with violations, the worst first, then the most.
fn top_violations(rows: &[Row]) -> Vec<Violation> {
    let mut by_policy: BTreeMap<(String, &str), Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.is_violation()) {
        let key = (row.policy_and_rule(), row.source.as_str());
        by_policy.entry(key).or_default().push(row);
    }
    let mut violations: Vec<Violation> = by_policy
        .into_iter()
        .map(|((policy, _), rows)| {
            let objects: BTreeSet<_> = rows
                .iter()
                .map(|row| (&row.namespace, &row.kind, &row.name))
                .collect();
            let namespaces: BTreeSet<_> = rows.iter().map(|row| &row.namespace).collect();
            let worst = rows.iter().min_by_key(|row| severity_rank(row.severity));
            Violation {
                policy,
                severity: worst.and_then(|row| row.severity),
                category: worst.map(|row| row.category.clone()).unwrap_or_default(),
                violations: rows.len(),
                objects: objects.len(),
                namespaces: namespaces.len(),
                example: rows
                    .iter()
                    .map(|row| row.message.clone())
                    .find(|message| !message.is_empty())
                    .unwrap_or_default(),
            }
        })
        .collect();
    violations.sort_by(|a, b| {
        severity_rank(a.severity)
            .cmp(&severity_rank(b.severity))
            .then(b.violations.cmp(&a.violations))
            .then_with(|| a.policy.cmp(&b.policy))
    });
    violations
}
