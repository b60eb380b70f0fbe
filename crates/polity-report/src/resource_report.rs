//! Resource reports: the results of all policies for one object, named by its UID and owned by it.
//! See docs/spec/reports.md#5-4.
//!
//! Several processes write them: every replica that admits, and the background pass. Entries stand in a map, so each
//! writer sends one merge patch with its own keys and never loses what another wrote. A merge patch merges maps but
//! replaces lists: the properties of an entry are a list for that reason, or those of an older verdict would stay.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use polity_api::reports::resourcereports::v1alpha1::{
    self as wire, Property, ResourceReportBody, ResourceReportSpec, ResourceResult,
};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::decide::Why;
use crate::entry::{Entry, Outcome, ResourceRef, Stamp};
use crate::hash::short;
use crate::read::{Metadata, ReadError, read_metadata};
use crate::shard::{BUCKET_LABEL, bucket};
use crate::source::{ReportKey, is_own_key};
use crate::verdict::{Evaluator, GuestVerdict, Process, Verdict, to_entry};

pub const UID_LABEL: &str = "audit.kyverno.io/resource.uid";
/// The hash that the last writer saw; informational.
pub const HASH_LABEL: &str = "audit.kyverno.io/resource.hash";
pub const NAME_ANNOTATION: &str = "audit.kyverno.io/resource.name";

/// Stands for the hash of an object that was seen in another version than the watched one.
const OTHER_VERSION: &str = "-";

/// An object that is reported about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub reference: ResourceRef,
    /// The hash of [`crate::hash::resource_hash`].
    pub hash: String,
}

/// The version of the object that was evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evaluated {
    /// The object with this hash.
    Object { hash: String },
    /// Another version of its kind: it is never outdated by a change of the object.
    OtherVersion,
    /// Nothing was evaluated, the entry was taken from a status.
    Status,
}

/// The results of one policy for the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    pub policy: ReportKey,
    pub version: String,
    pub evaluated: Evaluated,
    /// None at all when the policy applies and has nothing to say; its label is written nevertheless, else it would
    /// be evaluated for ever.
    pub entries: Vec<Entry>,
}

/// A resource report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceReport {
    pub metadata: Metadata,
    /// By `<policy key>/<rule>`.
    pub entries: BTreeMap<String, Entry>,
}

/// What a background pass has to write.
#[derive(Debug, Clone, PartialEq)]
pub enum AuditWrite {
    Nothing,
    Create(Value),
    /// A merge patch that carries the resourceVersion it was decided on.
    Patch(Value),
    Delete,
}

impl Evaluation {
    /// The evaluation of a policy that did not respond. A current entry is kept; otherwise the result is an error.
    pub fn without_answer(
        evaluator: &Evaluator,
        evaluated: Evaluated,
        why: Why,
        message: &str,
        now: jiff::Timestamp,
    ) -> Option<Self> {
        if why == Why::Elapsed {
            return None;
        }
        let verdict = Verdict::from(GuestVerdict::failed(message));
        let entry = to_entry(evaluator, &verdict, Process::Background, now);
        Some(Self {
            policy: evaluator.policy.key(),
            version: evaluator.version.clone(),
            evaluated,
            entries: entry.into_iter().collect(),
        })
    }

    fn annotations(&self) -> impl Iterator<Item = (String, String)> {
        let hash = match &self.evaluated {
            Evaluated::Object { hash } => Some(short(hash).to_owned()),
            Evaluated::OtherVersion => Some(OTHER_VERSION.to_owned()),
            Evaluated::Status => None,
        };
        let hash = hash.map(|hash| (self.policy.hash_key(), hash));
        hash.into_iter().chain(self.policy.full_name())
    }
}

/// Whether an annotation says that an entry was computed for this object.
pub(crate) fn is_current(annotation: Option<&str>, hash: &str) -> bool {
    annotation.is_some_and(|found| found == OTHER_VERSION || found == short(hash))
}

impl ResourceReport {
    /// The report of an object about which nothing was said yet.
    pub fn of(resource: &Resource, managed_by: &str) -> Self {
        let mut report = Self::default();
        report.identify(resource, managed_by);
        report
    }

    /// The report after an evaluation: what is kept, what is new, and nothing of the policies that go.
    ///
    /// A verdict that did not change keeps its time and the way it was found. Nothing is ever merged over what was
    /// there before: entries of policies that stopped matching would stay for ever.
    #[must_use]
    pub fn apply(
        &self,
        resource: &Resource,
        managed_by: &str,
        evaluations: &[Evaluation],
        dropped: impl IntoIterator<Item = ReportKey>,
    ) -> Self {
        let mut next = self.clone();
        for policy in dropped {
            next.forget(&policy);
        }
        for evaluation in evaluations {
            next.forget(&evaluation.policy);
            next.metadata
                .labels
                .insert(evaluation.policy.label_key(), evaluation.version.clone());
            next.metadata.annotations.extend(evaluation.annotations());
            for entry in &evaluation.entries {
                let key = entry.policy.entry_key(&entry.rule);
                let stored = self
                    .entries
                    .get(&key)
                    .filter(|stored| stored.says_the_same(entry));
                next.entries.insert(key, stored.unwrap_or(entry).clone());
            }
        }
        next.identify(resource, managed_by);
        next
    }

    /// What turns the stored report into this one.
    pub fn write_over(&self, stored: Option<&Self>) -> AuditWrite {
        match stored {
            None if self.is_empty() => AuditWrite::Nothing,
            None => AuditWrite::Create(self.to_value()),
            Some(_) if self.is_empty() => AuditWrite::Delete,
            Some(stored) => match stored.patch_to(self) {
                Some(patch) => AuditWrite::Patch(patch),
                None => AuditWrite::Nothing,
            },
        }
    }

    /// Whether no policy has an entry or a label left.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && !self.metadata.labels.keys().any(|key| is_own_key(key))
    }

    /// The object as it goes to the API server.
    pub fn to_value(&self) -> Value {
        let metadata = ObjectMeta::from(&self.metadata);
        let results = self.entries.iter();
        let body = ResourceReportBody {
            spec: ResourceReportSpec {
                results: results
                    .map(|(key, entry)| (key.clone(), entry.into()))
                    .collect(),
            },
        };
        let value = if metadata.namespace.is_some() {
            serde_json::to_value(wire::ResourceReport::new(metadata, body))
        } else {
            serde_json::to_value(wire::ClusterResourceReport::new(metadata, body))
        };
        value.expect("a report is plain data")
    }

    /// Reads a stored report. Entries with an unknown key or result are left out.
    pub fn read(object: &Value) -> Result<Self, ReadError> {
        let metadata = read_metadata(object)?;
        let spec = object.get("spec").filter(|spec| spec.is_object());
        let spec = spec.map(ResourceReportSpec::deserialize).transpose();
        let spec = spec.map_err(|_| ReadError::WrongType {
            field: "spec.results",
            expected: "map",
        })?;
        Ok(Self::lower(metadata, &spec.unwrap_or_default()))
    }

    fn lower(metadata: Metadata, spec: &ResourceReportSpec) -> Self {
        let results = spec.results.iter();
        Self {
            metadata,
            entries: results
                .filter_map(|(key, result)| Some((key.clone(), lower_result(key, result)?)))
                .collect(),
        }
    }

    /// What makes it the report of this object: name, owner, labels that are looked for.
    fn identify(&mut self, resource: &Resource, managed_by: &str) {
        let Resource { reference, hash } = resource;
        let namespace = Some(reference.namespace.clone()).filter(|name| !name.is_empty());
        self.metadata.name.clone_from(&reference.uid);
        self.metadata.owners = vec![ResourceRef {
            namespace: String::new(),
            ..reference.clone()
        }];
        let labels = [
            (crate::MANAGED_BY, managed_by.to_owned()),
            (UID_LABEL, reference.uid.clone()),
            (HASH_LABEL, hash.clone()),
            (BUCKET_LABEL, bucket(&reference.namespace).to_string()),
        ];
        for (key, value) in labels {
            self.metadata.labels.insert(key.to_owned(), value);
        }
        self.metadata
            .annotations
            .insert(NAME_ANNOTATION.to_owned(), reference.name.clone());
        self.metadata.namespace = namespace;
    }

    fn forget(&mut self, policy: &ReportKey) {
        let label = policy.label_key();
        self.metadata.labels.remove(&label);
        self.metadata.annotations.remove(&policy.hash_key());
        if let Some((key, _)) = policy.full_name() {
            self.metadata.annotations.remove(&key);
        }
        self.entries
            .retain(|_, entry| entry.policy.label_key() != label);
    }

    /// A merge patch to another state, if there is a difference.
    fn patch_to(&self, next: &Self) -> Option<Value> {
        let mut metadata = Map::new();
        let labels = map_patch(&self.metadata.labels, &next.metadata.labels, |value| {
            json!(value)
        });
        let annotations = map_patch(
            &self.metadata.annotations,
            &next.metadata.annotations,
            |value| json!(value),
        );
        let results = map_patch(&self.entries, &next.entries, entry_patch);
        for (field, patch) in [("labels", labels), ("annotations", annotations)] {
            if !patch.is_empty() {
                metadata.insert(field.to_owned(), Value::Object(patch));
            }
        }
        if self.metadata.owners != next.metadata.owners {
            let owners = next.metadata.owners.iter().map(OwnerReference::from);
            let owners: Vec<_> = owners.collect();
            metadata.insert("ownerReferences".to_owned(), json!(owners));
        }
        if metadata.is_empty() && results.is_empty() {
            return None;
        }
        if let Some(version) = &self.metadata.resource_version {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
        let mut patch = Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]);
        if !results.is_empty() {
            patch.insert("spec".to_owned(), json!({ "results": results }));
        }
        Some(Value::Object(patch))
    }
}

/// The merge patch of a replica that admitted the object: unconditional, and without having read what is stored.
/// When there is no report yet, [`ResourceReport::apply`] on an empty one is created instead.
pub fn admission_patch(resource: &Resource, evaluations: &[Evaluation]) -> Value {
    let mut labels = Map::from_iter([(HASH_LABEL.to_owned(), json!(resource.hash))]);
    let mut annotations = Map::new();
    let mut results = Map::new();
    for evaluation in evaluations {
        labels.insert(evaluation.policy.label_key(), json!(evaluation.version));
        let of_policy = evaluation.annotations();
        annotations.extend(of_policy.map(|(key, value)| (key, json!(value))));
        // The entry of an earlier verdict goes when there is none now.
        results.insert(evaluation.policy.entry_key(""), Value::Null);
        for entry in &evaluation.entries {
            results.insert(entry.policy.entry_key(&entry.rule), entry_patch(entry));
        }
    }
    json!({
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"results": results},
    })
}

fn map_patch<T: PartialEq>(
    old: &BTreeMap<String, T>,
    new: &BTreeMap<String, T>,
    write: impl Fn(&T) -> Value,
) -> Map<String, Value> {
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    let changed = new
        .iter()
        .filter(|(key, value)| old.get(*key) != Some(value));
    gone.chain(changed.map(|(key, value)| (key.clone(), write(value))))
        .collect()
}

/// An entry as it is written.
impl From<&Entry> for ResourceResult {
    fn from(entry: &Entry) -> Self {
        let properties = entry.properties.iter();
        Self {
            result: entry.result.as_str().to_owned(),
            message: (!entry.message.is_empty()).then(|| entry.message.clone()),
            timestamp: Some(entry.timestamp.into()),
            properties: properties
                .map(|(name, value)| Property {
                    name: name.clone(),
                    value: value.clone(),
                })
                .collect(),
        }
    }
}

/// An entry that replaces the stored entry under its key: a field that it lacks is removed.
fn entry_patch(entry: &Entry) -> Value {
    let mut patch = json!(ResourceResult::from(entry));
    for (field, absent) in [("message", Value::Null), ("properties", json!([]))] {
        if patch.get(field).is_none() {
            patch[field] = absent;
        }
    }
    patch
}

fn lower_result(key: &str, result: &ResourceResult) -> Option<Entry> {
    let (policy, rule) = ReportKey::from_entry_key(key)?;
    let properties = result.properties.iter();
    Some(Entry {
        policy,
        rule: rule.to_owned(),
        result: Outcome::parse(&result.result)?,
        message: result.message.clone().unwrap_or_default(),
        timestamp: result.timestamp.map(Stamp::from).unwrap_or_default(),
        properties: properties
            .filter(|property| !property.name.is_empty())
            .map(|property| (property.name.clone(), property.value.clone()))
            .collect(),
    })
}

impl TryFrom<&wire::ResourceReport> for ResourceReport {
    type Error = ReadError;

    fn try_from(stored: &wire::ResourceReport) -> Result<Self, ReadError> {
        let metadata = Metadata::try_from(&stored.metadata)?;
        Ok(Self::lower(metadata, &stored.body.spec))
    }
}

impl TryFrom<&wire::ClusterResourceReport> for ResourceReport {
    type Error = ReadError;

    fn try_from(stored: &wire::ClusterResourceReport) -> Result<Self, ReadError> {
        let metadata = Metadata::try_from(&stored.metadata)?;
        Ok(Self::lower(metadata, &stored.body.spec))
    }
}
