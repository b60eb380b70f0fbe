//! Placement: which clusters are wanted, in which order of preference, and in which groups.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::PlacementStatus;

/// Chooses clusters from the sets that are bound to its namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta1",
    kind = "Placement",
    plural = "placements",
    namespaced,
    status = "PlacementStatus",
    derive = "PartialEq",
    doc = "Chooses clusters from the sets that are bound to its namespace."
)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    /// The sets to choose from; all that are bound to the namespace when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub cluster_sets: Vec<String>,

    /// How many clusters are wanted, those with the best scores; all that qualify when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub number_of_clusters: Option<i32>,

    /// A cluster qualifies when one of these holds; all qualify when there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub predicates: Vec<ClusterPredicate>,

    /// What makes one cluster better than another.
    #[serde(default)]
    pub prioritizer_policy: PrioritizerPolicy,

    /// How clusters are spread over regions, zones and the like.
    #[serde(default)]
    pub spread_policy: SpreadPolicy,

    /// Taints in spite of which clusters are chosen. Placements of policies should tolerate
    /// `cluster.open-cluster-management.io/unreachable` and `cluster.open-cluster-management.io/unavailable`: a
    /// cluster that goes offline otherwise loses its policies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub tolerations: Vec<Toleration>,

    /// How the chosen clusters are divided into groups.
    #[serde(default)]
    pub decision_strategy: DecisionStrategy,

    /// The order of clusters inside the groups: `ClusterName`, or `Score` with the best first.
    #[serde(default)]
    pub sort_by: SortBy,

    /// How often changes of scores alone are published, such as `30s` or `5m`.
    #[serde(default = "default_score_rate_limit")]
    #[schemars(regex(pattern = "^[0-9]+[hms]$"))]
    pub score_rate_limit: String,
}

/// Conditions on a cluster that must all hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPredicate {
    /// The conditions.
    #[serde(default)]
    pub required_cluster_selector: ClusterSelector,
}

/// Conditions on labels, claims and the whole object of a cluster that must all hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// Labels of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub label_selector: Option<LabelSelector>,

    /// Claims of the cluster, as if they were labels.
    #[serde(default)]
    pub claim_selector: ClusterClaimSelector,

    /// Expressions over the whole object, `managedCluster`.
    #[serde(default)]
    pub cel_selector: ClusterCelSelector,
}

/// Conditions on claims.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaimSelector {
    /// Conditions that must all hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// Conditions in CEL.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCelSelector {
    /// Expressions that must all be true. One that fails on a cluster does not hold there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub cel_expressions: Vec<String>,
}

/// What makes one cluster better than another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrioritizerPolicy {
    /// `Additive`: `Balance` and `Steady` count too unless given otherwise. `Exact`: only what is listed counts.
    // A text and not an enum: an unknown mode becomes a condition of the placement.
    #[serde(default = "default_mode")]
    #[schemars(schema_with = "prioritizer_mode")]
    pub mode: String,

    /// What counts how much.
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

/// Something that gives scores, and how much they count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrioritizerConfig {
    /// Where the score comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_coordinate: Option<ScoreCoordinate>,

    /// How much the score counts, -10 to 10; 0 switches it off.
    #[serde(default = "default_weight")]
    #[schemars(range(min = -10, max = 10))]
    pub weight: i32,
}

/// Where a score comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScoreCoordinate {
    /// `BuiltIn` or `AddOn`.
    #[serde(rename = "type", default = "default_coordinate_type")]
    #[schemars(schema_with = "coordinate_type")]
    pub type_: String,

    /// With `BuiltIn`: `Balance`, `Steady`, `ResourceAllocatableCPU`, `ResourceAllocatableMemory` or `Spread`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub built_in: String,

    /// With `AddOn`: which score of which AddOnPlacementScore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on: Option<AddOnScore>,
}

/// A score that an add-on gives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnScore {
    /// The name of the AddOnPlacementScore in the namespace of each cluster.
    pub resource_name: String,

    /// The name of the score in it.
    pub score_name: String,
}

/// How clusters are spread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadPolicy {
    /// What clusters are spread over, the most important first; later ones divide what earlier ones set apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub spread_constraints: Vec<SpreadConstraintsTerm>,
}

/// Clusters are spread over the values of a label or claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraintsTerm {
    /// The label or claim.
    pub topology_key: String,

    /// Whether `topologyKey` is a label or a claim.
    pub topology_key_type: TopologyKeyType,

    /// How many more clusters one value may have than the least used one.
    #[serde(default = "default_max_skew")]
    #[schemars(range(min = 1))]
    pub max_skew: i32,

    /// What becomes of a cluster that would exceed the skew.
    #[serde(default)]
    pub when_unsatisfiable: UnsatisfiableMaxSkewAction,
}

/// Where the value of a topology key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TopologyKeyType {
    /// In a label of the cluster.
    Label,
    /// In a claim of the cluster.
    Claim,
}

/// What becomes of a cluster that would exceed the skew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnsatisfiableMaxSkewAction {
    /// It is not chosen.
    DoNotSchedule,
    /// It has a worse score.
    #[default]
    ScheduleAnyway,
}

/// Lets clusters be chosen in spite of a taint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// The key of the taint; any key when absent, which needs `Exists`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 316))]
    pub key: String,

    /// `Equal`: the value must be the same. `Exists`: any value.
    #[serde(default)]
    pub operator: TolerationOperator,

    /// The value of the taint, with `Equal`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,

    /// The effect of the taint; any effect when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<crate::cluster::v1::TaintEffect>,

    /// For how many seconds after the taint was set; for ever when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// How a toleration looks at the value of a taint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// The value must be the same.
    #[default]
    Equal,
    /// Any value.
    Exists,
}

/// How chosen clusters are divided.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionStrategy {
    /// Into which groups.
    #[serde(default)]
    pub group_strategy: GroupStrategy,
}

/// Groups of chosen clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStrategy {
    /// Named groups, in order; a cluster is in the first that it matches. Those that match none follow, without a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub decision_groups: Vec<DecisionGroup>,

    /// The most clusters a group has, as a number or a percentage of the chosen ones; larger groups are cut.
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

/// A named group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionGroup {
    /// The name, which rollout strategies refer to.
    #[schemars(regex(pattern = "^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$"))]
    pub group_name: String,

    /// Which of the chosen clusters are in it.
    #[serde(default)]
    pub group_cluster_selector: GroupClusterSelector,
}

/// Conditions on labels and claims that must both hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupClusterSelector {
    /// Labels of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub label_selector: Option<LabelSelector>,

    /// Claims of the cluster, as if they were labels.
    #[serde(default)]
    pub claim_selector: ClusterClaimSelector,
}

/// The order of clusters inside the groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SortBy {
    /// By name.
    #[default]
    ClusterName,
    /// Best score first.
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
