//! `cluster.open-cluster-management.io/v1alpha1`: scores of add-ons, claims, and the rollout strategy that other kinds
//! embed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a change is rolled out to clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategy {
    /// Type of the rollout: `All` (all clusters at once), `Progressive` (a limited number of clusters at a time) or
    /// `ProgressivePerGroup` (one decision group of the placement at a time).
    // A text and not an enum: an unknown type is refused where the strategy is carried out, with words for the user.
    #[serde(rename = "type", default = "default_type")]
    #[schemars(schema_with = "strategy_type")]
    pub type_: String,

    /// Settings of the type `All`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<RolloutAll>,

    /// Settings of the type `Progressive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive: Option<RolloutProgressive>,

    /// Settings of the type `ProgressivePerGroup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive_per_group: Option<RolloutProgressivePerGroup>,
}

/// Timing and failure settings of a rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutConfig {
    /// Time that a cluster must have succeeded before the rollout continues, such as `5m` or `1h30m`. Ignored by the
    /// type `All`.
    #[serde(default = "default_min_success_time")]
    pub min_success_time: String,

    /// Time after which a cluster that has not succeeded is considered failed, such as `90s`, `5m30s` or `2h`. `None`
    /// means no deadline.
    #[serde(default = "default_progress_deadline")]
    #[schemars(regex(pattern = r"^(([0-9])+[h|m|s])|None$"))]
    pub progress_deadline: String,

    /// Number or percentage of clusters that may fail before the rollout stops; a percentage is rounded up. It is
    /// counted over all placed clusters for `Progressive` and over each group for `ProgressivePerGroup`. A number
    /// larger than the number of clusters counts as 0; use `100%` to tolerate all failures.
    #[serde(default = "default_max_failures")]
    #[schemars(schema_with = "threshold")]
    pub max_failures: IntOrString,
}

impl Default for RolloutConfig {
    fn default() -> Self {
        Self {
            min_success_time: default_min_success_time(),
            progress_deadline: default_progress_deadline(),
            max_failures: default_max_failures(),
        }
    }
}

/// Settings of the type `All`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutAll {
    #[serde(flatten)]
    pub config: RolloutConfig,
}

/// Settings of the type `Progressive`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgressive {
    #[serde(flatten)]
    pub config: RolloutConfig,

    /// Number of clusters that may be updated at the same time, as a number or as a percentage, rounded up, of the
    /// clusters outside the mandatory groups. If not set, policies are rolled out to one cluster at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "threshold")]
    pub max_concurrency: Option<IntOrString>,

    /// Decision groups that are rolled out first. All clusters of such a group are updated at once, and no failure is
    /// tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
}

/// Settings of the type `ProgressivePerGroup`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgressivePerGroup {
    #[serde(flatten)]
    pub config: RolloutConfig,

    /// Decision groups that are rolled out first. No failure is tolerated in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
}

/// Reference to a decision group by name or index. The name takes precedence; an empty reference means index 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MandatoryDecisionGroup {
    /// Name of the decision group. Refers to all groups with this name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group_name: String,

    /// Index of the decision group. Prefer the name, because the index changes when a group before it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_index: Option<i32>,
}

/// AddOnPlacementScore holds scores that an add-on assigns to a cluster. It is in the namespace of the cluster. It has
/// only a status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1alpha1",
    kind = "AddOnPlacementScore",
    plural = "addonplacementscores",
    namespaced,
    no_spec,
    status = "AddOnPlacementScoreStatus",
    derive = "PartialEq",
    doc = "AddOnPlacementScore holds scores that an add-on assigns to a cluster. It is in the namespace of the cluster."
)]
pub struct AddOnPlacementScoreFields {}

/// Scores that an add-on assigns to a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnPlacementScoreStatus {
    /// Conditions of the add-on that computes the scores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// Scores by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub scores: Vec<AddOnPlacementScoreItem>,

    /// Time after which the scores count as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Time>,
}

/// A named score.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnPlacementScoreItem {
    /// Name of the score, as used in placements.
    pub name: String,

    /// Score from -100 to 100. Clusters with higher scores are preferred.
    #[schemars(range(min = -100, max = 100))]
    pub value: i32,
}

/// ClusterClaim holds a claim that a managed cluster reports about itself. It exists on the managed cluster.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, CustomResource, KubeSchema,
)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1alpha1",
    kind = "ClusterClaim",
    plural = "clusterclaims",
    derive = "PartialEq",
    doc = "ClusterClaim holds a claim that a managed cluster reports about itself. It exists on the managed cluster."
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaimSpec {
    /// Value of the claim. The name of the object is the name of the claim.
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
}

fn default_type() -> String {
    "All".to_owned()
}

fn default_min_success_time() -> String {
    "0".to_owned()
}

fn default_progress_deadline() -> String {
    "None".to_owned()
}

fn default_max_failures() -> IntOrString {
    IntOrString::Int(0)
}

fn strategy_type(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string",
        "enum": ["All", "Progressive", "ProgressivePerGroup"],
    })
}

fn threshold(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "x-kubernetes-int-or-string": true,
        "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$",
    })
}
