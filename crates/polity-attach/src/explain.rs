//! Which policies act on an object, why, and to what effect: the attachment family of an Explanation.
//!
//! The form is shared by all policy families; what does not concern attachment is absent or empty here.

mod entry;
mod owned;
mod picture;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::effective::Resultant;
use crate::finding::Finding;
use crate::graph::ids::ObjId;
use crate::graph::lattice::Part;
use crate::graph::{Graph, Held};
use crate::merge::Rule;
use crate::object::{ObjectRef, generation, text};
pub use owned::{OwnedEntry, OwnedPolicy};

/// What acts on one object.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub object: Explained,
    pub as_of: String,
    pub via: &'static str,
    pub complete: bool,
    pub policies: Vec<PolicyEntry>,
    pub resultants: Vec<ResultantEntry>,
    /// What acts on the objects it owns, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owned: Option<Vec<OwnedEntry>>,
    pub foreign: Vec<Value>,
    pub findings: Vec<Finding>,
    pub missing: Vec<Value>,
}

/// The object that is explained.
#[derive(Debug, Clone, Serialize)]
pub struct Explained {
    pub group: String,
    pub version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    pub stored: bool,
}

/// One policy and what it does to the object.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyEntry {
    pub family: &'static str,
    #[serde(rename = "ref")]
    pub reference: PolicyRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    pub generation: Generations,
    /// `override`, `default` or `direct`.
    pub mode: &'static str,
    /// `yes` or `no`.
    pub acts: &'static str,
    pub operations: Vec<String>,
    pub why: Vec<Why>,
    pub effect: Effect,
    pub settings: Vec<SettingEntry>,
    /// With regard to whom something is said about it: `Gateway/infra/edge`.
    pub ancestors: Vec<String>,
    pub provenance: Vec<Provenance>,
    pub verdict: VerdictEntry,
    pub redacted: Vec<String>,
}

/// A policy by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PolicyRef {
    #[serde(flatten)]
    pub object: ObjectRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Which generation there is, and which one acts.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Generations {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acting: Option<i64>,
}

/// A step of the decision whether a policy acts.
#[derive(Debug, Clone, Serialize)]
pub struct Why {
    pub step: &'static str,
    pub result: &'static str,
    pub detail: String,
}

/// What a policy does.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    pub kind: &'static str,
    pub blocks_on_outage: bool,
    pub text: String,
}

/// One field that a policy sets, in one or more contexts with the same outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingEntry {
    pub field: String,
    pub value: Value,
    pub stanza: &'static str,
    /// `Kind/ns/name#section` of the level it is attached to.
    pub level: String,
    /// The paths, each as `A > B > C`.
    pub contexts: Vec<String>,
    pub won: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beaten_by: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
}

/// Where a policy comes to bear.
#[derive(Debug, Clone, Serialize)]
pub struct Provenance {
    pub role: &'static str,
    #[serde(rename = "ref")]
    pub reference: ObjectRef,
}

/// What is said about the policy as a whole.
#[derive(Debug, Clone, Serialize)]
pub struct VerdictEntry {
    pub result: String,
    pub message: String,
    pub state: &'static str,
    pub source: &'static str,
}

/// A result, usable as the spec of its kind.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultantEntry {
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    pub contexts: Vec<String>,
    pub spec: Value,
}

impl Explained {
    /// `Kind/ns/name`, as the steps of paths are written.
    fn short(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}/{namespace}/{}", self.kind, self.name),
            None => format!("{}/{}", self.kind, self.name),
        }
    }
}

impl Explanation {
    /// How many policies act.
    pub fn n_acting(&self) -> usize {
        self.policies
            .iter()
            .filter(|policy| policy.acts == "yes")
            .count()
    }
}

impl Graph {
    /// Explains an object that is in the graph; `None` when it is not. With `field`, only settings of that field and what
    /// is below it.
    pub fn explain(
        &self,
        object: &ObjectRef,
        field: Option<&str>,
        now: Timestamp,
    ) -> Option<Explanation> {
        self.explanation(object, field, None, now)
    }

    /// Explains what one policy does to an object, also where it does nothing.
    pub fn explain_policy(
        &self,
        object: &ObjectRef,
        policy: &ObjectRef,
        field: Option<&str>,
        now: Timestamp,
    ) -> Option<Explanation> {
        self.explanation(object, field, Some(policy), now)
    }

    fn explanation(
        &self,
        object: &ObjectRef,
        field: Option<&str>,
        policy: Option<&ObjectRef>,
        now: Timestamp,
    ) -> Option<Explanation> {
        let id = self.refs.get(object).filter(|id| self.exists(*id))?;
        let results = self.effective(object, None);
        let mut settings = settings_by_policy(&results);
        let n_contexts = results
            .iter()
            .map(|result| result.contexts.len())
            .max()
            .unwrap_or(0);
        if let Some(field) = field {
            for entries in settings.values_mut() {
                entries.retain(|entry| is_within(&entry.field, field));
            }
        }
        let mut involved = self.involved(id);
        let asked = policy.and_then(|policy| self.refs.get(policy));
        if policy.is_some() {
            involved = asked.into_iter().collect();
        }
        let mut policies: Vec<PolicyEntry> = involved
            .into_iter()
            .filter_map(|policy| self.policy_entry(id, policy, &mut settings, n_contexts))
            .filter(|entry| field.is_none() || policy.is_some() || !entry.settings.is_empty())
            .collect();
        policies.sort_by(|a, b| {
            let key = |entry: &PolicyEntry| {
                let reference = &entry.reference.object;
                (
                    entry.acts != "yes",
                    reference.kind.clone(),
                    reference.namespace.clone(),
                    reference.name.clone(),
                    reference.group.clone(),
                )
            };
            key(a).cmp(&key(b))
        });
        let value = self.objects.get(&id).map(|stored| stored.value.as_ref());
        let own: BTreeSet<&ObjectRef> = policies
            .iter()
            .map(|entry| &entry.reference.object)
            .collect();
        let findings = self
            .findings()
            .into_iter()
            .filter(|finding| {
                finding
                    .refs
                    .iter()
                    .any(|about| about == object || own.contains(about))
            })
            .collect();
        Some(Explanation {
            api_version: "polity.dev/v1alpha1",
            kind: "Explanation",
            object: Explained {
                group: object.group.clone(),
                version: self.version_of(object).unwrap_or_else(|| "v1".to_owned()),
                kind: object.kind.clone(),
                namespace: object.namespace.clone(),
                name: object.name.clone(),
                uid: value
                    .and_then(|value| text(value, &["metadata", "uid"]))
                    .map(str::to_owned),
                generation: value.and_then(generation),
                stored: value.is_some(),
            },
            as_of: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            via: "client",
            complete: true,
            policies,
            resultants: results.iter().map(resultant_entry).collect(),
            owned: None,
            foreign: Vec::new(),
            findings,
            missing: Vec::new(),
        })
    }

    /// Policies that reach the object, and those that target it or something above it and are not accepted there.
    fn involved(&self, id: ObjId) -> BTreeSet<ObjId> {
        let mut found: BTreeSet<ObjId> = self
            .contributions
            .get(&id)
            .into_iter()
            .flatten()
            .map(|contribution| contribution.policy)
            .collect();
        let mut above: BTreeSet<ObjId> = BTreeSet::from([id]);
        for host in self.hosts.values() {
            let mut open: Vec<u32> = host
                .nodes
                .get(&id)
                .into_iter()
                .flatten()
                .map(|(_, node)| *node)
                .collect();
            let mut seen: BTreeSet<u32> = BTreeSet::new();
            while let Some(node) = open.pop() {
                if seen.insert(node) {
                    let entry = host.lattice.node(node);
                    above.insert(entry.object);
                    let levels = entry
                        .levels
                        .iter()
                        .map(|level| self.level_names.value(*level).0);
                    above.extend(levels);
                    open.extend(entry.parents.iter().copied());
                }
            }
        }
        for object in above {
            for policy in self.policies_on(object) {
                let held = &self.policies[&policy];
                let itself = object == id;
                if itself || (!held.is_direct && self.is_refused_at(policy, held, object)) {
                    found.insert(policy);
                }
            }
        }
        found
    }

    fn is_refused_at(&self, id: ObjId, held: &Held, object: ObjId) -> bool {
        held.verdicts.iter().any(|verdict| {
            let about = self.refs.get(&verdict.object) == Some(object);
            let conflicted = verdict.outcome.as_ref().is_ok_and(|level| {
                let at = self
                    .levels
                    .get(level)
                    .and_then(|groups| groups.get(&held.group));
                at.is_some_and(|at| at.conflicted.contains_key(&id))
            });
            about && (verdict.outcome.is_err() || conflicted)
        })
    }

    /// The names of the sections that an object has for people, in order.
    pub fn section_names(&self, object: &ObjectRef) -> Vec<String> {
        let Some(id) = self.refs.get(object) else {
            return Vec::new();
        };
        let parts: Vec<Part> = self
            .sections(id)
            .into_iter()
            .map(|(part, _)| part)
            .collect();
        parts
            .iter()
            .filter_map(|part| self.section_name(id, part))
            .collect()
    }
}

fn settings_by_policy(results: &[Resultant]) -> BTreeMap<ObjectRef, Vec<SettingEntry>> {
    let mut found: BTreeMap<ObjectRef, Vec<SettingEntry>> = BTreeMap::new();
    for result in results {
        let contexts = context_texts(result);
        for setting in &result.settings {
            let entries = found.entry(setting.policy.clone()).or_default();
            let mut entry = SettingEntry {
                field: setting.field.clone(),
                value: setting.value.clone(),
                stanza: setting.stanza,
                level: setting.level.short(),
                contexts: Vec::new(),
                won: setting.won,
                beaten_by: setting.beaten_by.clone(),
                rule: setting.rule,
            };
            match entries.iter_mut().find(|present| {
                let bare = SettingEntry {
                    contexts: Vec::new(),
                    ..(*present).clone()
                };
                bare == entry
            }) {
                Some(present) => present.contexts.extend(contexts.iter().cloned()),
                None => {
                    entry.contexts.clone_from(&contexts);
                    entries.push(entry);
                }
            }
        }
    }
    found
}

fn context_texts(result: &Resultant) -> Vec<String> {
    result
        .contexts
        .iter()
        .map(|context| {
            let steps: Vec<String> = context
                .path
                .iter()
                .map(crate::graph::paths::Step::short)
                .collect();
            steps.join(" > ")
        })
        .collect()
}

fn resultant_entry(result: &Resultant) -> ResultantEntry {
    let kind = polity_core::GroupKind::new(result.group.as_str(), result.kind.as_str());
    ResultantEntry {
        kind: kind.to_string(),
        section_name: result.section_name.clone(),
        contexts: context_texts(result),
        spec: result.spec.clone(),
    }
}

fn is_within(field: &str, asked: &str) -> bool {
    field == asked
        || field
            .strip_prefix(asked)
            .is_some_and(|rest| rest.starts_with(['.', '[']))
}
