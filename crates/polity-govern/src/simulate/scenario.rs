//! The format of a scenario: small and closed. What it does not know it refuses.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A scripted fleet, what happens to it, and what is expected.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// When it begins, as in `2026-11-15T10:00:00Z`.
    pub start: String,
    /// When it ends, if it is not to run until nothing happens any more.
    #[serde(default)]
    pub until: Option<String>,
    /// Policies, bindings, placements and sets: paths of files, or the objects themselves.
    #[serde(default)]
    pub manifests: Vec<Manifest>,
    #[serde(default)]
    pub clusters: Vec<ClusterScript>,
    #[serde(default)]
    pub events: Vec<ScriptedEvent>,
    #[serde(default)]
    pub expect: Vec<Expectation>,
}

/// Where an object comes from.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Manifest {
    /// A file or directory, beside the scenario.
    Path(String),
    Object(serde_json::Map<String, Value>),
}

/// A cluster, or several of a kind.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterScript {
    pub name: String,
    /// So many clusters, named with a number behind: `edge1` to `edge9`, `edge01` to `edge20`.
    #[serde(default)]
    pub count: Option<u32>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub claims: BTreeMap<String, String>,
    /// How long it takes from a change on the hub to the report on it; 1m when absent.
    #[serde(default)]
    pub takes: Option<String>,
    /// What it reports once the policy is there as it is defined.
    #[serde(default)]
    pub outcome: Outcome,
    /// What it reports about the inform copy.
    #[serde(default = "noncompliant")]
    pub before: Outcome,
}

fn noncompliant() -> Outcome {
    Outcome::NonCompliant
}

/// What a cluster reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Outcome {
    #[default]
    Compliant,
    NonCompliant,
    /// It waits for something.
    Pending,
    /// It never reports.
    Silent,
}

/// Something that happens.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedEvent {
    pub at: String,
    #[serde(rename = "do")]
    pub deed: Deed,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Deed {
    /// The clusters report `NonCompliant` about whatever they are given, until they recover.
    Fail(Names),
    /// The clusters report `NonCompliant` about what they have now.
    Drift(Names),
    /// The clusters wait for something: `Pending`.
    Stall(Names),
    /// The clusters stop reporting.
    Silence(Names),
    /// The clusters comply again.
    Recover(Names),
    /// The clusters are cut off, and the hub marks them unreachable.
    Offline(Names),
    Online(Names),
    Join(ClusterScript),
    Leave(Names),
    /// Labels of clusters change; an empty value removes one.
    Label(Labels),
    /// An object changes by a merge patch.
    Edit(Edit),
    /// An object is created or replaced.
    Apply(serde_json::Map<String, Value>),
    Delete(ObjectName),
}

/// One cluster or several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Names {
    One(String),
    Several(Vec<String>),
}

impl Names {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let names = match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names.as_slice(),
        };
        names.iter().map(String::as_str)
    }
}

/// New labels of clusters.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Labels {
    pub clusters: Names,
    pub labels: BTreeMap<String, String>,
}

/// A change of one object.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    pub kind: String,
    pub name: String,
    #[serde(default)]
    pub namespace: Option<String>,
    pub merge: Value,
}

/// One object.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectName {
    pub kind: String,
    pub name: String,
    #[serde(default)]
    pub namespace: Option<String>,
}

/// One of: how it is at some time, what is never so, how it ends.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    #[serde(default)]
    pub at: Option<String>,
    /// How it is `at` that time.
    #[serde(default)]
    pub is: Option<State>,
    #[serde(default)]
    pub never: Option<Never>,
    #[serde(default)]
    pub end: Option<State>,
}

/// How things are. A cluster is `enforcing`, `informing`, `absent`, or has a rollout status such as `Succeeded`; `*`
/// stands for all clusters that the policy is placed on.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct State {
    /// Which policy, `name` or `namespace/name`; needed only when there are several.
    #[serde(default)]
    pub policy: Option<String>,
    /// The rollout status of the root policy; `None` while it has none.
    #[serde(default)]
    pub root: Option<String>,
    /// The compliance of the root policy; `None` while it is not known.
    #[serde(default)]
    pub compliant: Option<String>,
    #[serde(default)]
    pub clusters: BTreeMap<String, String>,
}

/// What must never be so.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Never {
    #[serde(default)]
    pub policy: Option<String>,
    /// More clusters than this have the policy as it is defined and no success yet.
    #[serde(default)]
    pub more_in_flight_than: Option<usize>,
    /// The rollout status of the root policy.
    #[serde(default)]
    pub root: Option<String>,
    /// Any of these clusters is so.
    #[serde(default)]
    pub clusters: BTreeMap<String, String>,
}
