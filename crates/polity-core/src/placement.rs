//! Placements: which clusters are wanted, in which order of preference, and in which groups.
//!
//! What a user got wrong is part of the value ([`Placement::rules`]): the scheduler answers it with a condition.

use std::fmt;

use jiff::SignedDuration;

use crate::cluster::{ClusterName, ManagedCluster, TaintEffect};
use crate::rollout_strategy::{GroupKey, Threshold};
use crate::selector::LabelSelector;

/// Which placement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlacementKey {
    pub namespace: String,
    pub name: String,
}

impl PlacementKey {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for PlacementKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A wish for clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub key: PlacementKey,
    /// The sets to choose from, as written; none means every set that is bound to the namespace.
    pub cluster_sets: Vec<String>,
    /// What is asked for, or why it makes no sense.
    pub rules: Result<PlacementRules, Misconfigured>,
}

/// What a placement asks for. The default is what an empty spec means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementRules {
    /// How many clusters; all that qualify without it.
    pub number_of_clusters: Option<usize>,
    /// A cluster qualifies when one of these holds; none means that all qualify.
    pub predicates: Vec<Predicate>,
    pub tolerations: Vec<Toleration>,
    /// What counts how much, each prioritizer once and none with weight 0.
    pub prioritizers: Vec<WeightedPrioritizer>,
    pub spread: Vec<SpreadTerm>,
    /// How much an even spread counts against the other scores.
    pub spread_weight: i32,
    pub groups: GroupRules,
    pub sort_by: SortBy,
    /// How often changes of scores alone are published.
    pub score_rate_limit: SignedDuration,
}

impl Default for PlacementRules {
    fn default() -> Self {
        let weighted = |prioritizer| WeightedPrioritizer {
            prioritizer,
            weight: 1,
        };
        Self {
            number_of_clusters: None,
            predicates: Vec::new(),
            tolerations: Vec::new(),
            prioritizers: vec![
                weighted(Prioritizer::Balance),
                weighted(Prioritizer::Steady),
            ],
            spread: Vec::new(),
            spread_weight: 2,
            groups: GroupRules::default(),
            sort_by: SortBy::default(),
            score_rate_limit: SignedDuration::from_mins(1),
        }
    }
}

/// A placement that makes no sense: the part of the scheduler that found out, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{plugin}:{message}")]
pub struct Misconfigured {
    /// `Predicate`, `TaintToleration`, or empty for everything else.
    pub plugin: &'static str,
    pub message: String,
}

impl Misconfigured {
    /// In a predicate.
    pub fn predicate(message: impl Into<String>) -> Self {
        Self::of("Predicate", message)
    }

    /// In a toleration.
    pub fn toleration(message: impl Into<String>) -> Self {
        Self::of("TaintToleration", message)
    }

    /// Anywhere else: prioritizers and groups belong to no plugin.
    pub fn rules(message: impl Into<String>) -> Self {
        Self::of("", message)
    }

    fn of(plugin: &'static str, message: impl Into<String>) -> Self {
        Self {
            plugin,
            message: message.into(),
        }
    }
}

/// Conditions on a cluster that must all hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Predicate {
    pub selector: ClusterSelector,
    /// Expressions over the whole cluster object, `managedCluster`.
    pub expressions: Vec<String>,
}

/// Conditions on the labels and claims of a cluster that must both hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterSelector {
    pub labels: LabelSelector,
    pub claims: LabelSelector,
}

impl ClusterSelector {
    /// Whether a cluster meets both.
    pub fn matches(&self, cluster: &ManagedCluster) -> bool {
        self.labels.matches(&cluster.labels) && self.claims.matches(&cluster.claims)
    }
}

/// Lets a placement choose clusters in spite of a taint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toleration {
    /// Any key without it.
    pub key: Option<String>,
    pub value: ToleratedValue,
    /// Any effect without it.
    pub effect: Option<TaintEffect>,
    /// For how long after the taint was set; for ever without it.
    pub seconds: Option<i64>,
}

/// Which values of a taint a toleration accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToleratedValue {
    /// `Exists`.
    Any,
    /// `Equal`.
    Exactly(String),
}

impl Toleration {
    /// `Exists` for one key, any effect, for ever.
    pub fn exists(key: impl Into<String>) -> Self {
        Self {
            key: Some(key.into()),
            value: ToleratedValue::Any,
            effect: None,
            seconds: None,
        }
    }
}

/// Something that gives clusters scores between -100 and 100.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prioritizer {
    /// Clusters that few other placements have chosen.
    Balance,
    /// Clusters that this placement has already.
    Steady,
    /// Clusters with most processors to give.
    ResourceAllocatableCpu,
    /// Clusters with most memory to give.
    ResourceAllocatableMemory,
    /// What an add-on says.
    AddOn {
        resource_name: String,
        score_name: String,
    },
}

impl fmt::Display for Prioritizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Balance => f.write_str("Balance"),
            Self::Steady => f.write_str("Steady"),
            Self::ResourceAllocatableCpu => f.write_str("ResourceAllocatableCPU"),
            Self::ResourceAllocatableMemory => f.write_str("ResourceAllocatableMemory"),
            Self::AddOn {
                resource_name,
                score_name,
            } => write!(f, "AddOn/{resource_name}/{score_name}"),
        }
    }
}

/// A prioritizer and how much it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightedPrioritizer {
    pub prioritizer: Prioritizer,
    pub weight: i32,
}

/// Clusters are to be spread evenly over the values of a label or claim. Later terms divide what earlier ones set
/// apart: regions first, zones inside each region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpreadTerm {
    pub key: String,
    pub source: TopologySource,
    /// How many more clusters one value may have than the least used one.
    pub max_skew: u32,
    pub when_unsatisfiable: Unsatisfiable,
}

/// Where the topology value of a cluster stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TopologySource {
    Label,
    Claim,
}

/// What becomes of a cluster whose choice would exceed the skew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

/// How the chosen clusters are divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRules {
    /// Named groups, in order; a cluster is in the first that it matches.
    pub named: Vec<NamedGroup>,
    /// The most clusters a group has, as a number or a part of the chosen ones.
    pub size: Threshold,
}

impl Default for GroupRules {
    fn default() -> Self {
        Self {
            named: Vec::new(),
            size: Threshold::Percent(100),
        }
    }
}

/// A group and who is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedGroup {
    pub name: String,
    pub selector: ClusterSelector,
}

/// The order of clusters inside the groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SortBy {
    #[default]
    ClusterName,
    /// Best first, and each decision carries its score.
    Score,
}

/// Clusters that a placement has chosen, as far as they stand in one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementDecision {
    pub placement: PlacementKey,
    /// The name of the object.
    pub name: String,
    pub group: GroupKey,
    pub clusters: Vec<ClusterName>,
}
