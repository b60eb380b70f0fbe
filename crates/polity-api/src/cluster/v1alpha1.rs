//! `cluster.open-cluster-management.io/v1alpha1`: scores of add-ons, claims, and the rollout strategy that other kinds
//! embed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How something new goes from cluster to cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategy {
    /// `All`: every cluster at once. `Progressive`: so many clusters at a time. `ProgressivePerGroup`: one decision
    /// group of the placement at a time.
    // A text and not an enum: an unknown type is refused where the strategy is carried out, with words for the user.
    #[serde(rename = "type", default = "default_type")]
    #[schemars(schema_with = "strategy_type")]
    pub type_: String,

    /// The rules of the type `All`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<RolloutAll>,

    /// The rules of the type `Progressive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive: Option<RolloutProgressive>,

    /// The rules of the type `ProgressivePerGroup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive_per_group: Option<RolloutProgressivePerGroup>,
}

/// What every type of strategy says about time and failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutConfig {
    /// How long a cluster must have succeeded before the rollout goes on, such as `5m` or `1h30m`. The type `All`
    /// ignores it.
    #[serde(default = "default_min_success_time")]
    pub min_success_time: String,

    /// How long a cluster may take before it counts as failed, such as `90s`, `5m30s` or `2h`; `None` is for ever.
    #[serde(default = "default_progress_deadline")]
    #[schemars(regex(pattern = r"^(([0-9])+[h|m|s])|None$"))]
    pub progress_deadline: String,

    /// How many clusters may fail without stopping the rollout, as a number or a percentage, which is rounded up. More
    /// than there are clusters means 0; write `100%` to tolerate all. The base is every placed cluster for
    /// `Progressive` and each group for `ProgressivePerGroup`.
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

/// The rules of `All`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutAll {
    #[serde(flatten)]
    pub config: RolloutConfig,
}

/// The rules of `Progressive`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgressive {
    #[serde(flatten)]
    pub config: RolloutConfig,

    /// How many clusters may be in flight, as a number or a percentage of those outside the mandatory groups, rounded
    /// up. Policies go on one by one when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "threshold")]
    pub max_concurrency: Option<IntOrString>,

    /// The groups that come first, all clusters of one at once, and with no failure tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
}

/// The rules of `ProgressivePerGroup`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgressivePerGroup {
    #[serde(flatten)]
    pub config: RolloutConfig,

    /// The groups that come first, with no failure tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
}

/// A decision group, by name or by index. The name wins; nothing at all means index 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MandatoryDecisionGroup {
    /// The name of the group; every index that carries it is meant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group_name: String,

    /// The index of the group. It shifts when a named group before it is empty, so prefer names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_index: Option<i32>,
}

/// Scores that an add-on gives a cluster, in the namespace of the cluster. It has a status only.
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
    doc = "Scores that an add-on gives a cluster, in the namespace of the cluster."
)]
pub struct AddOnPlacementScoreFields {}

/// The scores.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnPlacementScoreStatus {
    /// How the add-on fares in giving scores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The scores by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub scores: Vec<AddOnPlacementScoreItem>,

    /// From here on the scores count 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Time>,
}

/// One score.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnPlacementScoreItem {
    /// The name that placements ask for.
    pub name: String,

    /// The score; more is better.
    #[schemars(range(min = -100, max = 100))]
    pub value: i32,
}

/// What a managed cluster says of itself, on that cluster.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, CustomResource, KubeSchema,
)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1alpha1",
    kind = "ClusterClaim",
    plural = "clusterclaims",
    derive = "PartialEq",
    doc = "What a managed cluster says of itself, on that cluster."
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaimSpec {
    /// What the cluster says about the thing that the object's name names.
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
