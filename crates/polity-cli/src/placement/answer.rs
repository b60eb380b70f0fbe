//! What `polity placement explain` says, for people and for programs.

mod objects;

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use polity_core::ClusterName;
use polity_core::placement::{Placement, PlacementDecision};
use polity_core::rollout_strategy::GroupKey;
use polity_rollout::placement::{Condition, Explanation, Fate, Miss, Scores};
use serde::Serialize;
use serde_json::Value;

use self::objects::{standing_object, written_objects};
use crate::output::{Paint, columns};
use polity_source::Document;

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Selection {
    placement: String,
    /// Whether the groups are those of decisions among the files.
    as_decided: bool,
    selected: usize,
    cluster_sets: Vec<String>,
    conditions: Vec<ConditionAnswer>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    look_again_at: Option<Timestamp>,
    clusters: Vec<ClusterAnswer>,
    placement_decisions: Vec<Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConditionAnswer {
    #[serde(rename = "type")]
    type_: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterAnswer {
    name: ClusterName,
    /// `Selected`, or what dropped it.
    fate: &'static str,
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<GroupAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<i64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    scores: BTreeMap<String, PartAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tolerated_until: Option<Timestamp>,
    /// The decisions that stand and the scheduler do not agree.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    differs: bool,
}

#[derive(Debug, Serialize)]
struct GroupAnswer {
    index: u32,
    name: String,
}

#[derive(Debug, Serialize)]
struct PartAnswer {
    score: i32,
    weight: i32,
}

impl Selection {
    /// `standing` are the placement's decisions among the files, which are then taken as they are.
    pub(super) fn new(
        document: &Document,
        placement: &Placement,
        explanation: &Explanation,
        standing: &[&PlacementDecision],
    ) -> Self {
        let schedule = &explanation.schedule;
        let as_decided = !standing.is_empty();
        let mut decided: HashMap<&ClusterName, &GroupKey> = HashMap::new();
        for decision in standing {
            decided.extend(
                decision
                    .clusters
                    .iter()
                    .map(|cluster| (cluster, &decision.group)),
            );
        }
        let clusters = explanation.clusters.iter();
        let mut clusters: Vec<_> = clusters
            .map(|cluster| {
                let answer = ClusterAnswer::new(&cluster.cluster, &cluster.fate);
                match as_decided {
                    true => answer.with_decision(decided.remove(&cluster.cluster)),
                    false => answer,
                }
            })
            .collect();
        clusters.extend(decided.into_iter().map(ClusterAnswer::unknown));
        clusters.sort_by(|a, b| a.name.cmp(&b.name));
        Self {
            placement: placement.key.to_string(),
            as_decided,
            selected: clusters
                .iter()
                .filter(|cluster| cluster.group.is_some())
                .count(),
            cluster_sets: explanation.eligible_sets.clone(),
            conditions: [&schedule.satisfied, &schedule.misconfigured]
                .map(ConditionAnswer::from)
                .into(),
            warnings: schedule.warnings.clone(),
            look_again_at: schedule.look_again_at,
            clusters,
            placement_decisions: if as_decided {
                standing
                    .iter()
                    .map(|decision| standing_object(decision))
                    .collect()
            } else {
                written_objects(document, placement, explanation)
            },
        }
    }

    pub(super) fn is_satisfied(&self) -> bool {
        self.conditions[0].status == "True"
    }

    pub(super) fn table(&self, paint: Paint) -> String {
        let how = if self.as_decided { ", as decided" } else { "" };
        let mut text = format!(
            "placement {}: {} of {} clusters selected{how}\n",
            paint.bold(&self.placement),
            self.selected,
            self.clusters.len()
        );
        for condition in &self.conditions {
            let ConditionAnswer {
                type_,
                status,
                reason,
                message,
            } = condition;
            let is_good = (*type_ == "PlacementSatisfied") == (*status == "True");
            let status = if is_good {
                paint.good(status)
            } else {
                paint.bad(status)
            };
            text.push_str(&format!("  {type_}={status} {reason}: {message}\n"));
        }
        if !self.cluster_sets.is_empty() {
            text.push_str(&format!(
                "  chosen from the sets {}\n",
                self.cluster_sets.join(", ")
            ));
        }
        for warning in &self.warnings {
            text.push_str(&format!("  {} {warning}\n", paint.warn("warning:")));
        }
        if let Some(time) = self.look_again_at {
            text.push_str(&format!("  changes by itself at {time}\n"));
        }
        if self.clusters.is_empty() {
            return text;
        }
        let header = ["CLUSTER", "FATE", "GROUP", "RANK", "SCORE", "WHY"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        rows.extend(self.clusters.iter().map(|cluster| cluster.row(paint)));
        format!("{text}\n{}", columns(&rows))
    }
}

impl From<&Condition> for ConditionAnswer {
    fn from(condition: &Condition) -> Self {
        Self {
            type_: condition.kind.as_str(),
            status: if condition.is_true { "True" } else { "False" },
            reason: condition.reason,
            message: condition.message.clone(),
        }
    }
}

impl From<&GroupKey> for GroupAnswer {
    fn from(group: &GroupKey) -> Self {
        Self {
            index: group.index,
            name: group.name.as_ref().to_owned(),
        }
    }
}

impl ClusterAnswer {
    fn new(name: &ClusterName, fate: &Fate) -> Self {
        let plain = |fate, why| Self {
            name: name.clone(),
            fate,
            why,
            group: None,
            rank: None,
            score: None,
            scores: BTreeMap::new(),
            tolerated_until: None,
            differs: false,
        };
        match fate {
            Fate::Deleting => plain("Deleting", "is being deleted".to_owned()),
            Fate::NotInBoundSet { sets } => {
                let why = format!(
                    "is in {} only, which the placement cannot choose from",
                    sets.join(", ")
                );
                plain("NotInBoundSet", why)
            }
            Fate::NotConsidered => {
                plain("NotConsidered", "the placement makes no sense".to_owned())
            }
            Fate::NoPredicate { misses } => {
                let misses = misses.iter().map(missed).collect::<Vec<_>>();
                plain("NoPredicate", misses.join("; or "))
            }
            Fate::Tainted { taint } => {
                let value = Some(&taint.value).filter(|value| !value.is_empty());
                let value = value.map(|value| format!("={value}")).unwrap_or_default();
                let why = format!("does not tolerate {}{value}:{}", taint.key, taint.effect);
                plain("Tainted", why)
            }
            Fate::PassedOver { rank, scores } => Self {
                rank: Some(*rank),
                ..plain("PassedOver", String::new()).scored(scores)
            },
            Fate::Selected {
                rank,
                scores,
                group,
                tolerated_until,
            } => Self {
                rank: Some(*rank),
                group: Some(group.into()),
                tolerated_until: *tolerated_until,
                ..plain("Selected", String::new()).scored(scores)
            },
        }
    }

    /// A cluster that was decided for and is not among the files.
    fn unknown((name, group): (&ClusterName, &GroupKey)) -> Self {
        let why = "decided, but there is no such cluster in these files";
        Self {
            fate: "Selected",
            why: why.to_owned(),
            group: Some(group.into()),
            differs: true,
            ..Self::new(name, &Fate::NotConsidered)
        }
    }

    fn scored(self, scores: &Scores) -> Self {
        let parts = scores.parts.iter();
        let shown = parts.clone().map(|part| match part.weight {
            1 => format!("{} {}", part.prioritizer, part.score),
            weight => format!("{} {}×{weight}", part.prioritizer, part.score),
        });
        Self {
            why: shown.collect::<Vec<_>>().join(", "),
            score: Some(scores.total),
            scores: parts
                .map(|part| {
                    let answer = PartAnswer {
                        score: part.score,
                        weight: part.weight,
                    };
                    (part.prioritizer.clone(), answer)
                })
                .collect(),
            ..self
        }
    }

    /// The same cluster where decisions stand: they say whether it is selected, the scheduler says why.
    fn with_decision(self, decided: Option<&GroupKey>) -> Self {
        let group = decided.map(GroupAnswer::from);
        match (decided, self.fate) {
            (Some(_), "Selected") => Self { group, ..self },
            (Some(_), _) => Self {
                fate: "Selected",
                why: format!("decided, but would be dropped: {}", self.why),
                group,
                differs: true,
                ..self
            },
            (None, "Selected") => Self {
                fate: "NotDecided",
                why: format!("would be selected: {}", self.why),
                group,
                differs: true,
                ..self
            },
            (None, _) => self,
        }
    }

    fn row(&self, paint: Paint) -> Vec<String> {
        let fate = match (self.differs, self.fate) {
            (true, fate) => paint.warn(&format!("{fate}*")),
            (false, "Selected") => paint.good("Selected"),
            (false, fate) => fate.to_owned(),
        };
        let group = self.group.as_ref().map_or_else(String::new, |group| {
            GroupKey::new(group.index, group.name.as_str()).to_string()
        });
        let number = |number: Option<i64>| number.map_or_else(String::new, |n| n.to_string());
        let mut why = self.why.clone();
        if let Some(until) = self.tolerated_until {
            why.push_str(&format!(" (taints tolerated until {until})"));
        }
        vec![
            self.name.to_string(),
            fate,
            group,
            number(self.rank.map(|rank| rank as i64)),
            number(self.score),
            why,
        ]
    }
}

fn missed(miss: &Miss) -> String {
    match miss {
        Miss::Labels(selector) => format!("labels are not {selector}"),
        Miss::Claims(selector) => format!("claims are not {selector}"),
        Miss::Expression {
            expression,
            error: None,
        } => format!("not true: {expression}"),
        Miss::Expression {
            expression,
            error: Some(error),
        } => format!("fails: {expression}: {error}"),
    }
}

#[cfg(test)]
mod tests;
