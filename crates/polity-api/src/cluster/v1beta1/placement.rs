//! Placement: which clusters are wanted, in which order of preference, and in which groups.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::PlacementStatus;

/// Placement selects clusters from the ManagedClusterSets that are bound to its namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta1",
    kind = "Placement",
    plural = "placements",
    namespaced,
    status = "PlacementStatus",
    derive = "PartialEq",
    doc = "Placement selects clusters from the ManagedClusterSets that are bound to its namespace."
)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    /// ManagedClusterSets to select from. Defaults to all that are bound to the namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub cluster_sets: Vec<String>,

    /// Number of clusters to select; those with the highest scores are selected. Defaults to all matching clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub number_of_clusters: Option<i32>,

    /// A cluster matches when at least one predicate matches. If empty, all clusters match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub predicates: Vec<ClusterPredicate>,

    /// How clusters are scored.
    #[serde(default)]
    pub prioritizer_policy: PrioritizerPolicy,

    /// How selected clusters are spread over topologies such as regions and zones.
    #[serde(default)]
    pub spread_policy: SpreadPolicy,

    /// Taints that the Placement tolerates. Placements of policies should tolerate
    /// `cluster.open-cluster-management.io/unreachable` and `cluster.open-cluster-management.io/unavailable`; otherwise
    /// policies are removed from a cluster that is offline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub tolerations: Vec<Toleration>,

    /// How the selected clusters are divided into groups.
    #[serde(default)]
    pub decision_strategy: DecisionStrategy,

    /// Order of clusters inside a group: `ClusterName`, or `Score` for the highest score first.
    #[serde(default)]
    pub sort_by: SortBy,

    /// Minimum time between updates that only change scores, such as `30s` or `5m`.
    #[serde(default = "default_score_rate_limit")]
    #[schemars(regex(pattern = "^[0-9]+[hms]$"))]
    pub score_rate_limit: String,
}

/// Requirements that a cluster must meet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPredicate {
    /// Selectors that must all match.
    #[serde(default)]
    pub required_cluster_selector: ClusterSelector,
}

/// Selects clusters by labels, claims and CEL expressions. All must match.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// Selects clusters by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub label_selector: Option<LabelSelector>,

    /// Selects clusters by claim, as by label.
    #[serde(default)]
    pub claim_selector: ClusterClaimSelector,

    /// Selects clusters by CEL expressions over the variable `managedCluster`.
    #[serde(default)]
    pub cel_selector: ClusterCelSelector,
}

/// Selects clusters by claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaimSelector {
    /// Requirements on claims that must all be met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// Selects clusters by CEL expressions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCelSelector {
    /// Expressions that must all be true. An expression that fails for a cluster does not match it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub cel_expressions: Vec<String>,
}

/// How clusters are scored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrioritizerPolicy {
    /// `Additive` adds the prioritizers `Balance` and `Steady` to the configured ones. `Exact` uses only the configured
    /// ones.
    // A text and not an enum: an unknown mode becomes a condition of the placement.
    #[serde(default = "default_mode")]
    #[schemars(schema_with = "prioritizer_mode")]
    pub mode: String,

    /// Prioritizers and their weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub configurations: Vec<PrioritizerConfig>,
}

impl Default for PrioritizerPolicy {
    fn default() -> Self {
        Self {
            mode: default_mode(),
            configurations: Vec::new(),
        }
    }
}

/// A prioritizer and its weight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrioritizerConfig {
    /// Source of the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_coordinate: Option<ScoreCoordinate>,

    /// Weight of the score, -10 to 10. 0 disables the prioritizer.
    #[serde(default = "default_weight")]
    #[schemars(range(min = -10, max = 10))]
    pub weight: i32,
}

/// Source of a score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScoreCoordinate {
    /// Type of the source: `BuiltIn` or `AddOn`.
    #[serde(rename = "type", default = "default_coordinate_type")]
    #[schemars(schema_with = "coordinate_type")]
    pub type_: String,

    /// Built-in prioritizer: `Balance`, `Steady`, `ResourceAllocatableCPU`, `ResourceAllocatableMemory` or `Spread`.
    /// Used with the type `BuiltIn`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub built_in: String,

    /// Score of an AddOnPlacementScore. Used with the type `AddOn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on: Option<AddOnScore>,
}

/// Reference to a score of an AddOnPlacementScore.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnScore {
    /// Name of the AddOnPlacementScore in the namespace of each cluster.
    pub resource_name: String,

    /// Name of the score in the AddOnPlacementScore.
    pub score_name: String,
}

/// How selected clusters are spread over topologies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadPolicy {
    /// Spread constraints, the most important first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub spread_constraints: Vec<SpreadConstraintsTerm>,
}

/// Spreads clusters over the values of a label or claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraintsTerm {
    /// Label or claim whose values are the topologies.
    pub topology_key: String,

    /// Whether `topologyKey` is a label or a claim.
    pub topology_key_type: TopologyKeyType,

    /// Maximum difference between the number of clusters of a topology and the smallest number of any topology.
    #[serde(default = "default_max_skew")]
    #[schemars(range(min = 1))]
    pub max_skew: i32,

    /// How a cluster that would exceed the skew is handled: `DoNotSchedule` does not select it, `ScheduleAnyway` lowers
    /// its score.
    #[serde(default)]
    pub when_unsatisfiable: UnsatisfiableMaxSkewAction,
}

/// Whether a topology key is a label or a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TopologyKeyType {
    /// A label of the cluster.
    Label,
    /// A claim of the cluster.
    Claim,
}

/// How a cluster that would exceed the skew is handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnsatisfiableMaxSkewAction {
    /// The cluster is not selected.
    DoNotSchedule,
    /// The cluster has a lower score.
    #[default]
    ScheduleAnyway,
}

/// Tolerates a taint of clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Key of the taint. If empty, all keys match; the operator must then be `Exists`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 316))]
    pub key: String,

    /// `Equal` requires the same value; `Exists` matches every value.
    #[serde(default)]
    pub operator: TolerationOperator,

    /// Value of the taint. Used with `Equal`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,

    /// Effect of the taint. If not set, all effects match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<crate::cluster::v1::TaintEffect>,

    /// Seconds after the taint was added during which it is tolerated. Defaults to no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// How a toleration compares the value of a taint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// The value must be equal.
    #[default]
    Equal,
    /// Every value matches.
    Exists,
}

/// How selected clusters are divided into groups.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionStrategy {
    /// Groups of selected clusters.
    #[serde(default)]
    pub group_strategy: GroupStrategy,
}

/// Groups of selected clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStrategy {
    /// Named groups in order. A cluster belongs to the first group that it matches; clusters that match no group form
    /// unnamed groups at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub decision_groups: Vec<DecisionGroup>,

    /// Maximum number of clusters in a group, as a number or a percentage of the selected clusters. Larger groups are
    /// split.
    #[serde(default = "default_clusters_per_decision_group")]
    #[schemars(schema_with = "clusters_per_decision_group")]
    pub clusters_per_decision_group: IntOrString,
}

impl Default for GroupStrategy {
    fn default() -> Self {
        Self {
            decision_groups: Vec::new(),
            clusters_per_decision_group: default_clusters_per_decision_group(),
        }
    }
}

/// A named group of selected clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionGroup {
    /// Name of the group, as used in rollout strategies.
    #[schemars(regex(pattern = "^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$"))]
    pub group_name: String,

    /// Selects the clusters of the group.
    #[serde(default)]
    pub group_cluster_selector: GroupClusterSelector,
}

/// Selects clusters by labels and claims. Both must match.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupClusterSelector {
    /// Selects clusters by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub label_selector: Option<LabelSelector>,

    /// Selects clusters by claim, as by label.
    #[serde(default)]
    pub claim_selector: ClusterClaimSelector,
}

/// Order of clusters inside a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SortBy {
    /// By cluster name.
    #[default]
    ClusterName,
    /// By score, the highest first.
    Score,
}

fn default_mode() -> String {
    "Additive".to_owned()
}

fn default_weight() -> i32 {
    1
}

fn default_coordinate_type() -> String {
    "BuiltIn".to_owned()
}

fn default_max_skew() -> i32 {
    1
}

fn default_score_rate_limit() -> String {
    "1m".to_owned()
}

fn default_clusters_per_decision_group() -> IntOrString {
    IntOrString::String("100%".to_owned())
}

fn prioritizer_mode(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "enum": ["Exact", "Additive", ""] })
}

fn coordinate_type(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "enum": ["BuiltIn", "AddOn"] })
}

fn clusters_per_decision_group(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "x-kubernetes-int-or-string": true,
        "pattern": "^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$",
    })
}
