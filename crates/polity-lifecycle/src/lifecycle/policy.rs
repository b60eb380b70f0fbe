//! A policy of any of the four kinds, as it was read.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::api::DynamicObject;
use polity_api::policies::names;
use polity_api::policies::v1::{
    AdmissionPolicyGroupSpec, AdmissionPolicySpec, ClusterAdmissionPolicyGroupSpec,
    ClusterAdmissionPolicySpec, ClusterScope, Enforcement, Module, PolicyStatus,
};
use polity_core::PolicyKind;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Why an object is no policy the controller can act on.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The API server always sets these; an object without them was never stored.
    #[error("the object has no {0}")]
    Missing(&'static str),
    /// Its specification or status is not of this kind.
    #[error("reading the object")]
    Decode(#[from] serde_json::Error),
}

/// A policy, with everything that was stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Which of the four kinds it is.
    pub kind: PolicyKind,
    /// The object, whole: what is written back must not lose a field that this release does not know.
    pub object: DynamicObject,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// G: the generation of its specification.
    pub generation: i64,
    /// When it was created.
    pub created: Timestamp,
    /// What its specification says.
    pub content: Content,
    /// Its status, unless it has none yet.
    pub status: Option<PolicyStatus>,
}

impl Policy {
    /// Reads a stored object.
    pub fn read(kind: PolicyKind, object: DynamicObject) -> Result<Self, PolicyError> {
        let metadata = &object.metadata;
        let name = metadata.name.clone().ok_or(PolicyError::Missing("name"))?;
        let uid = metadata.uid.clone().ok_or(PolicyError::Missing("UID"))?;
        let generation = metadata
            .generation
            .ok_or(PolicyError::Missing("generation"))?;
        let created = metadata
            .creation_timestamp
            .as_ref()
            .ok_or(PolicyError::Missing("time of creation"))?
            .0;
        let spec = object.data.get("spec").and_then(Value::as_object);
        let content = Content::read(kind, spec.ok_or(PolicyError::Missing("spec"))?)?;
        let status = match object.data.get("status") {
            Some(Value::Object(status)) if !status.is_empty() => {
                Some(serde_json::from_value(Value::Object(status.clone()))?)
            }
            _ => None,
        };
        Ok(Self {
            kind,
            object,
            name,
            uid,
            generation,
            created,
            content,
            status,
        })
    }

    /// Its namespace, for namespaced kinds.
    pub fn namespace(&self) -> Option<&str> {
        self.object.metadata.namespace.as_deref()
    }

    /// Its specification as stored.
    pub fn spec(&self) -> Map<String, Value> {
        let spec = self.object.data.get("spec").and_then(Value::as_object);
        spec.cloned().unwrap_or_default()
    }

    /// One of its annotations.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.object.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(key)).map(String::as_str)
    }

    /// Since when it is being deleted.
    pub fn deleted_at(&self) -> Option<Timestamp> {
        let deletion = self.object.metadata.deletion_timestamp.as_ref();
        deletion.map(|time| time.0)
    }

    /// Whether it carries this finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        let finalizers = self.object.metadata.finalizers.iter().flatten();
        finalizers.into_iter().any(|one| one == finalizer)
    }

    /// The generation that this one returns to, if a rollback made it.
    pub fn rollback_of(&self) -> Option<i64> {
        let (made, from) = self.rolled_back()?;
        (made == self.generation).then_some(from)
    }

    /// The last rollback of this policy: the generation it made, and the one it returned to.
    pub fn rolled_back(&self) -> Option<(i64, i64)> {
        let (made, from) = self.annotation(names::ROLLED_BACK)?.split_once('=')?;
        Some((made.parse().ok()?, from.parse().ok()?))
    }

    /// Who made the specification differ from what it was, by the books of the API server: these tell whose a field is,
    /// and when, to the second, its owner last changed something.
    pub fn writer_since(&self, before: &Map<String, Value>) -> Option<&str> {
        let spec = self.spec();
        let changed: Vec<String> = spec
            .iter()
            .filter(|(key, value)| before.get(*key) != Some(value))
            .map(|(key, _)| format!("f:{key}"))
            .collect();
        let entries = self.object.metadata.managed_fields.iter().flatten();
        entries
            .filter(|entry| entry.subresource.as_deref().unwrap_or_default().is_empty())
            .filter_map(|entry| Some((entry, entry.fields_v1.as_ref()?.0.get("f:spec")?)))
            .max_by_key(|(entry, fields)| {
                let has_changed = changed.iter().any(|key| fields.get(key).is_some());
                (has_changed, entry.time.as_ref().map(|time| time.0))
            })
            .and_then(|(entry, _)| entry.manager.as_deref())
    }
}

/// What a specification says, as far as the controller acts on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    /// When the policy is asked, and what its answer is worth.
    pub enforcement: Enforcement,
    /// What only cluster-wide kinds have.
    pub cluster: Option<ClusterScope>,
    /// Whether it may change objects.
    pub mutating: bool,
    /// The modules it runs.
    pub modules: Modules,
}

/// The modules of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Modules {
    /// One.
    One(String),
    /// One for each member.
    Members(BTreeMap<String, String>),
}

impl Content {
    /// Reads the specification of a policy of this kind.
    pub fn read(kind: PolicyKind, spec: &Map<String, Value>) -> Result<Self, serde_json::Error> {
        Ok(match kind {
            PolicyKind::AdmissionPolicy => {
                Self::of_policy(decode::<AdmissionPolicySpec>(spec)?, None)
            }
            PolicyKind::ClusterAdmissionPolicy => {
                let spec = decode::<ClusterAdmissionPolicySpec>(spec)?;
                Self::of_policy(spec.policy, Some(spec.cluster))
            }
            PolicyKind::AdmissionPolicyGroup => {
                let spec = decode::<AdmissionPolicyGroupSpec>(spec)?;
                Self::of_group(spec.enforcement, None, spec.policies)
            }
            PolicyKind::ClusterAdmissionPolicyGroup => {
                let spec = decode::<ClusterAdmissionPolicyGroupSpec>(spec)?;
                let members = spec
                    .policies
                    .into_iter()
                    .map(|(name, member)| (name, member.module));
                Self::of_group(spec.enforcement, Some(spec.cluster), members)
            }
        })
    }

    fn of_policy(spec: AdmissionPolicySpec, cluster: Option<ClusterScope>) -> Self {
        Self {
            enforcement: spec.enforcement,
            cluster,
            mutating: spec.mutating,
            modules: Modules::One(spec.module.module),
        }
    }

    fn of_group(
        enforcement: Enforcement,
        cluster: Option<ClusterScope>,
        members: impl IntoIterator<Item = (String, Module)>,
    ) -> Self {
        let members = members
            .into_iter()
            .map(|(name, member)| (name, member.module));
        Self {
            enforcement,
            cluster,
            // A group only looks: members that change something count as denying.
            mutating: false,
            modules: Modules::Members(members.collect()),
        }
    }
}

fn decode<T: DeserializeOwned>(spec: &Map<String, Value>) -> Result<T, serde_json::Error> {
    serde_json::from_value(Value::Object(spec.clone()))
}
