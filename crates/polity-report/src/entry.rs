//! Entries of reports: the result of one policy for one object, in resource reports and in public reports.
//! See docs/spec/reports.md#10.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use polity_api::reports::{self as wire, ReportResult};
use serde::{Serialize, Serializer};

use crate::ReportingKind;
use crate::source::{ReportKey, prefix_of};

/// Longer texts are cut: a count of entries alone does not keep a report small.
pub const TEXT_MAX: usize = 1024;
/// What is put behind a text that was cut.
const CUT_MARK: &str = "…";

/// The result of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    Pass,
    Fail,
    /// Not met, by a policy that is not scored.
    Warn,
    /// Could not be evaluated.
    Error,
    /// Exempted, or not decided yet.
    Skip,
}

impl Outcome {
    pub const ALL: [Self; 5] = [Self::Pass, Self::Fail, Self::Warn, Self::Error, Self::Skip];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Skip => "skip",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The severity of a violation, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    Critical,
    High,
    Medium,
    Low,
    Info,
}

impl Severity {
    pub const ALL: [Self; 5] = [
        Self::Critical,
        Self::High,
        Self::Medium,
        Self::Low,
        Self::Info,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
            Self::Info => "info",
        }
    }

    /// Any other word would be refused by the definition of the kind, so it is none.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|known| known.as_str().eq_ignore_ascii_case(word))
    }
}

impl Serialize for Severity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A point in time, as reports store it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    pub seconds: i64,
    pub nanos: i32,
}

impl From<jiff::Timestamp> for Stamp {
    /// Whole seconds: reports need no more.
    fn from(moment: jiff::Timestamp) -> Self {
        Self {
            seconds: moment.as_second(),
            nanos: 0,
        }
    }
}

/// The object that an entry is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceRef {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// The result of one policy for one object, as stored in its resource report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub policy: ReportKey,
    pub rule: String,
    pub result: Outcome,
    pub message: String,
    /// When this verdict first appeared.
    pub timestamp: Stamp,
    pub properties: BTreeMap<String, String>,
}

impl Entry {
    /// Whether another entry has the same content, at any time and from any process.
    ///
    /// Only admission produces warnings, so a background pass with the same verdict does not change the entry.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let counted =
            |(name, _): &(&String, &String)| !matches!(name.as_str(), "process" | "warnings");
        self.policy == other.policy
            && self.rule == other.rule
            && self.result == other.result
            && self.message == other.message
            && self
                .properties
                .iter()
                .filter(counted)
                .eq(other.properties.iter().filter(counted))
    }
}

/// An entry of a public report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicEntry {
    pub policy: String,
    pub rule: String,
    pub source: String,
    pub category: String,
    pub severity: Option<Severity>,
    pub result: Option<Outcome>,
    pub scored: bool,
    pub message: String,
    pub resources: Vec<ResourceRef>,
    pub timestamp: Option<Stamp>,
    pub properties: BTreeMap<String, String>,
}

/// An entry as it is written.
impl From<&PublicEntry> for ReportResult {
    fn from(entry: &PublicEntry) -> Self {
        let given = |text: &String| (!text.is_empty()).then(|| text.clone());
        Self {
            policy: entry.policy.clone(),
            rule: given(&entry.rule),
            source: entry.source.clone(),
            category: given(&entry.category),
            severity: entry.severity.map(|severity| severity.as_str().to_owned()),
            result: entry.result.map(|result| result.as_str().to_owned()),
            scored: entry.scored,
            message: given(&entry.message),
            resources: entry.resources.iter().map(ObjectReference::from).collect(),
            timestamp: entry.timestamp.map(wire::Timestamp::from),
            properties: entry.properties.clone(),
            ..Self::default()
        }
    }
}

impl Serialize for PublicEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ReportResult::from(self).serialize(serializer)
    }
}

impl From<&ResourceRef> for ObjectReference {
    fn from(resource: &ResourceRef) -> Self {
        let given = |text: &String| (!text.is_empty()).then(|| text.clone());
        Self {
            api_version: given(&resource.api_version),
            kind: given(&resource.kind),
            namespace: given(&resource.namespace),
            name: given(&resource.name),
            uid: given(&resource.uid),
            ..Self::default()
        }
    }
}

impl From<&ResourceRef> for OwnerReference {
    fn from(resource: &ResourceRef) -> Self {
        Self {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            name: resource.name.clone(),
            uid: resource.uid.clone(),
            ..Self::default()
        }
    }
}

impl From<Stamp> for wire::Timestamp {
    fn from(Stamp { seconds, nanos }: Stamp) -> Self {
        Self { seconds, nanos }
    }
}

impl PublicEntry {
    /// The order of entries in a report, byte-wise and independent of their time.
    pub fn report_order(&self, other: &Self) -> Ordering {
        let uids = |entry: &Self| entry.resources.len();
        (&self.policy, &self.rule, uids(self))
            .cmp(&(&other.policy, &other.rule, uids(other)))
            .then_with(|| {
                let ours = self.resources.iter().map(|resource| &resource.uid);
                ours.cmp(other.resources.iter().map(|resource| &resource.uid))
            })
            .then_with(|| self.source.cmp(&other.source))
            .then_with(|| self.resources.cmp(&other.resources))
            .then_with(|| self.prefix().cmp(other.prefix()))
    }

    /// Whether another entry has the same content. Its time and its process do not count.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let counted = |(name, _): &(&String, &String)| name.as_str() != "process";
        self.policy == other.policy
            && self.rule == other.rule
            && self.source == other.source
            && self.category == other.category
            && self.severity == other.severity
            && self.result == other.result
            && self.scored == other.scored
            && self.message == other.message
            && self.resources == other.resources
            && self
                .properties
                .iter()
                .filter(counted)
                .eq(other.properties.iter().filter(counted))
    }

    /// The uid of the one object it is about.
    pub fn uid(&self) -> &str {
        self.resources
            .first()
            .map_or("", |resource| resource.uid.as_str())
    }

    fn prefix(&self) -> &str {
        self.properties
            .get("policy-kind")
            .and_then(|kind| ReportingKind::parse(kind))
            .map_or("", ReportingKind::report_prefix)
    }
}

/// How many entries there are of each outcome; always all five.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Summary {
    pub pass: u64,
    pub fail: u64,
    pub warn: u64,
    pub error: u64,
    pub skip: u64,
}

impl From<&Summary> for wire::Summary {
    fn from(summary: &Summary) -> Self {
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        Self {
            pass: count(summary.pass),
            fail: count(summary.fail),
            warn: count(summary.warn),
            error: count(summary.error),
            skip: count(summary.skip),
        }
    }
}

impl Summary {
    /// Counts entries; one without a result counts nowhere.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a PublicEntry>) -> Self {
        let mut summary = Self::default();
        for outcome in entries.into_iter().filter_map(|entry| entry.result) {
            *summary.slot(outcome) += 1;
        }
        summary
    }

    pub fn get(&self, outcome: Outcome) -> u64 {
        match outcome {
            Outcome::Pass => self.pass,
            Outcome::Fail => self.fail,
            Outcome::Warn => self.warn,
            Outcome::Error => self.error,
            Outcome::Skip => self.skip,
        }
    }

    pub fn add(&mut self, outcome: Outcome) {
        *self.slot(outcome) += 1;
    }

    pub fn total(&self) -> u64 {
        Outcome::ALL.iter().map(|outcome| self.get(*outcome)).sum()
    }

    fn slot(&mut self, outcome: Outcome) -> &mut u64 {
        match outcome {
            Outcome::Pass => &mut self.pass,
            Outcome::Fail => &mut self.fail,
            Outcome::Warn => &mut self.warn,
            Outcome::Error => &mut self.error,
            Outcome::Skip => &mut self.skip,
        }
    }
}

/// A text of at most `max` bytes, cut on a character boundary and marked.
pub fn cut(mut text: String, max: usize) -> String {
    if text.len() > max {
        text.truncate(prefix_of(&text, max.saturating_sub(CUT_MARK.len())).len());
        text.push_str(CUT_MARK);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(policy: &str, rule: &str, uids: &[&str]) -> PublicEntry {
        PublicEntry {
            policy: policy.to_owned(),
            rule: rule.to_owned(),
            source: "polity".to_owned(),
            category: String::new(),
            severity: None,
            result: Some(Outcome::Pass),
            scored: true,
            message: String::new(),
            resources: uids
                .iter()
                .map(|uid| ResourceRef {
                    uid: (*uid).to_owned(),
                    ..ResourceRef::default()
                })
                .collect(),
            timestamp: None,
            properties: BTreeMap::new(),
        }
    }

    #[test]
    fn entries_are_ordered_by_policy_rule_and_resources() {
        let kind = |kind: &str| PublicEntry {
            properties: BTreeMap::from([("policy-kind".to_owned(), kind.to_owned())]),
            ..entry("b", "r", &["1", "2"])
        };
        let in_order = [
            entry("A", "z", &["9"]),
            entry("a", "", &["1"]),
            entry("a", "r", &[]),
            entry("a", "r", &["2"]),
            entry("a", "r", &["1", "9"]),
            entry("a", "r", &["2", "1"]),
            entry("b", "r", &["1", "2"]),
            kind("ClusterAdmissionPolicy"),
            kind("ClusterAdmissionPolicyGroup"),
        ];
        for (index, left) in in_order.iter().enumerate() {
            for (other, right) in in_order.iter().enumerate() {
                assert_eq!(
                    left.report_order(right),
                    index.cmp(&other),
                    "{left:?} {right:?}"
                );
            }
        }
    }

    #[test]
    fn a_new_time_or_process_is_no_change() {
        let mut a = entry("a", "", &["1"]);
        let mut b = a.clone();
        a.timestamp = Some(Stamp {
            seconds: 1,
            nanos: 0,
        });
        a.properties
            .insert("process".into(), "admission review".into());
        b.properties
            .insert("process".into(), "background scan".into());
        assert!(a.says_the_same(&b));
        b.properties.insert("mutated".into(), "true".into());
        assert!(!a.says_the_same(&b));
        let c = PublicEntry {
            result: Some(Outcome::Fail),
            ..a.clone()
        };
        assert!(!a.says_the_same(&c));
    }

    proptest! {
        #[test]
        fn cut_texts_fit_and_stay_cut(text: String, max in 3_usize..40) {
            let once = cut(text.clone(), max);
            prop_assert!(once.len() <= max);
            prop_assert_eq!(text.len() > max, once != text);
            prop_assert_eq!(cut(once.clone(), max), once);
        }

        #[test]
        fn a_summary_counts_every_entry(words in proptest::collection::vec(0_usize..5, 0..50)) {
            let entries: Vec<_> = words.iter().map(|word| PublicEntry {
                result: Some(Outcome::ALL[*word]),
                ..entry("p", "", &["1"])
            }).collect();
            let summary = Summary::of(&entries);
            prop_assert_eq!(summary.total(), entries.len() as u64);
            for outcome in Outcome::ALL {
                let n = entries.iter().filter(|entry| entry.result == Some(outcome)).count();
                prop_assert_eq!(summary.get(outcome), n as u64);
            }
        }
    }
}
