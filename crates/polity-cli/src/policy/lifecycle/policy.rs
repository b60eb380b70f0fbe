//! A policy of any of the four kinds, as far as its owner asks about its lifecycle.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use polity_api::policies::names;
use polity_api::policies::v1::{DEFAULT_POLICY_SERVER, ObservedMode, Phase, PolicyStatus};
use serde_json::Value;

use super::kind::PolicyKind;

/// The status of a policy is not one.
#[derive(Debug, thiserror::Error)]
#[error("reading the status of {policy}")]
pub(crate) struct StatusError {
    policy: String,
    #[source]
    error: serde_json::Error,
}

/// A policy, as it was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Policy {
    pub(crate) kind: PolicyKind,
    /// Absent for cluster kinds.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) resource_version: Option<String>,
    /// G: the generation of its specification.
    pub(crate) generation: i64,
    pub(crate) created: Option<Timestamp>,
    /// When the specification was last changed, as far as the API server records it.
    pub(crate) changed: Option<Timestamp>,
    pub(crate) is_being_deleted: bool,
    pub(crate) policy_server: String,
    pub(crate) mode: String,
    pub(crate) modules: Modules,
    /// The generation of a rollback that the controller has not processed yet.
    pub(crate) rollback_to: Option<String>,
    /// The last rollback the controller made.
    pub(crate) rolled_back: Option<RolledBack>,
    /// Absent until a controller has seen the policy.
    pub(crate) status: Option<PolicyStatus>,
}

/// What a policy runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Modules {
    One(String),
    /// By member of the group.
    Members(BTreeMap<String, String>),
}

/// A rollback that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RolledBack {
    /// The generation it made.
    pub(crate) made: i64,
    /// The generation it returned to.
    pub(crate) to: i64,
}

impl Policy {
    pub(crate) fn read(kind: PolicyKind, object: &DynamicObject) -> Result<Self, StatusError> {
        let metadata = &object.metadata;
        let annotation = |name: &str| object.annotations().get(name).cloned();
        let spec = &object.data["spec"];
        let text = |field: &str, default: &str| {
            let given = spec[field].as_str();
            given.unwrap_or(default).to_owned()
        };
        let mut policy = Self {
            kind,
            namespace: metadata.namespace.clone(),
            name: object.name_any(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            changed: changed(object),
            is_being_deleted: metadata.deletion_timestamp.is_some(),
            policy_server: text("policyServer", DEFAULT_POLICY_SERVER),
            mode: text("mode", "protect"),
            modules: Modules::of(spec),
            rollback_to: annotation(names::ROLLBACK_TO_GENERATION),
            rolled_back: annotation(names::ROLLED_BACK).and_then(|text| RolledBack::parse(&text)),
            status: None,
        };
        match object.data.get("status") {
            None | Some(Value::Null) => {}
            Some(status) => {
                let status = serde_json::from_value(status.clone());
                policy.status = Some(status.map_err(|error| StatusError {
                    policy: policy.to_string(),
                    error,
                })?);
            }
        }
        Ok(policy)
    }

    /// Whether the status speaks of the current generation, and not of one before.
    pub(crate) fn is_observed(&self) -> bool {
        let observed = self
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        observed == Some(self.generation)
    }

    /// Where the current generation stands. What a status says about an older one is no answer.
    pub(crate) fn phase(&self) -> Option<Phase> {
        self.status.as_ref().filter(|_| self.is_observed())?.phase
    }

    /// S: the generation that is served, in whatever mode.
    pub(crate) fn serving(&self) -> Option<i64> {
        self.status.as_ref()?.serving_generation
    }

    /// What the generation that is served does: only in protect mode is it enforced.
    pub(crate) fn in_force(&self) -> &'static str {
        let observed = self.status.as_ref().and_then(|status| status.mode);
        let is_monitor = match observed {
            Some(ObservedMode::Monitor) => true,
            Some(ObservedMode::Protect) => false,
            Some(ObservedMode::Unknown) | None => self.mode == "monitor",
        };
        if is_monitor {
            "is active in monitor mode"
        } else {
            "is enforced"
        }
    }

    /// The controller's sentence, else what can be said without it.
    pub(crate) fn message(&self) -> String {
        let said = self
            .status
            .as_ref()
            .and_then(|status| status.message.clone());
        match said {
            Some(said) if self.is_observed() => said,
            _ if self.status.is_none() => "No controller has seen the policy yet.".to_owned(),
            _ => {
                let in_force = match self.serving() {
                    Some(serving) => format!("generation {serving} {}", self.in_force()),
                    None => "nothing is enforced".to_owned(),
                };
                let generation = self.generation;
                format!("The controller has not acted on generation {generation} yet; {in_force}.")
            }
        }
    }
}

/// `AdmissionPolicy shop/team-label`.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind.as_str())?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// The last time at which a field manager wrote the specification.
fn changed(object: &DynamicObject) -> Option<Timestamp> {
    let managers = object.managed_fields().iter();
    let of_spec = managers.filter(|entry| {
        let fields = entry.fields_v1.as_ref();
        entry.subresource.is_none() && fields.is_some_and(|fields| fields.0.get("f:spec").is_some())
    });
    of_spec
        .filter_map(|entry| entry.time.as_ref())
        .map(|time| time.0)
        .max()
}

impl Modules {
    fn of(spec: &Value) -> Self {
        let module = |value: &Value| value["module"].as_str().unwrap_or_default().to_owned();
        match spec["policies"].as_object() {
            Some(members) => {
                let members = members
                    .iter()
                    .map(|(name, member)| (name.clone(), module(member)));
                Self::Members(members.collect())
            }
            None => Self::One(module(spec)),
        }
    }
}

impl RolledBack {
    fn parse(text: &str) -> Option<Self> {
        let (made, to) = text.split_once('=')?;
        Some(Self {
            made: made.parse().ok()?,
            to: to.parse().ok()?,
        })
    }
}
