//! Placements. Their parts are looked at in the order in which a scheduler meets them; the first that makes no sense
//! is what the placement's condition says.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as WireSelector;
use polity_core::duration;
use polity_core::field;
use polity_core::placement::{
    ClusterSelector, GroupRules, Misconfigured, NamedGroup, Placement, PlacementKey,
    PlacementRules, Predicate, Prioritizer, SortBy, SpreadTerm, ToleratedValue, Toleration,
    TopologySource, Unsatisfiable, WeightedPrioritizer,
};
use polity_core::{FieldError, FieldPath};

use super::label_selector;
use super::strategy::threshold;
use crate::cluster::v1beta1::{self as wire, TolerationOperator};

/// How much an even spread counts in the mode `Additive`.
const SPREAD_WEIGHT: i32 = 2;
/// The name under which the weight of the spread is set.
const SPREAD: &str = "Spread";

impl From<&wire::Placement> for Placement {
    fn from(placement: &wire::Placement) -> Self {
        Self {
            key: PlacementKey::new(
                placement.metadata.namespace.clone().unwrap_or_default(),
                placement.metadata.name.clone().unwrap_or_default(),
            ),
            cluster_sets: placement.spec.cluster_sets.clone(),
            rules: rules(&placement.spec),
        }
    }
}

fn rules(spec: &wire::PlacementSpec) -> Result<PlacementRules, Misconfigured> {
    let predicates = spec.predicates.iter().enumerate().map(predicate);
    let predicates = predicates.collect::<Result<_, _>>()?;
    let tolerations = spec.tolerations.iter().map(toleration);
    let tolerations = tolerations.collect::<Result<_, _>>()?;
    let (prioritizers, spread_weight) = prioritizers(&spec.prioritizer_policy)?;
    let spread = spec.spread_policy.spread_constraints.iter();
    Ok(PlacementRules {
        number_of_clusters: spec
            .number_of_clusters
            .map(|n| usize::try_from(n).unwrap_or(0)),
        predicates,
        tolerations,
        prioritizers,
        spread: spread.map(spread_term).collect(),
        spread_weight,
        groups: groups(&spec.decision_strategy.group_strategy)?,
        sort_by: match spec.sort_by {
            wire::SortBy::ClusterName => SortBy::ClusterName,
            wire::SortBy::Score => SortBy::Score,
        },
        score_rate_limit: duration::parse(&spec.score_rate_limit)
            .map_err(|error| Misconfigured::rules(error.to_string()))?,
    })
}

fn predicate(
    (index, predicate): (usize, &wire::ClusterPredicate),
) -> Result<Predicate, Misconfigured> {
    let required = &predicate.required_cluster_selector;
    let path = FieldPath::of("spec").child("predicates").index(index);
    let path = path.child("requiredClusterSelector");
    let selector = cluster_selector(
        required.label_selector.as_ref(),
        &required.claim_selector,
        &path,
    )
    .map_err(|errors| Misconfigured::predicate(field::join(&errors)))?;
    Ok(Predicate {
        selector,
        expressions: required.cel_selector.cel_expressions.clone(),
    })
}

fn cluster_selector(
    labels: Option<&WireSelector>,
    claims: &wire::ClusterClaimSelector,
    path: &FieldPath,
) -> Result<ClusterSelector, Vec<FieldError>> {
    let claims = WireSelector {
        match_expressions: Some(claims.match_expressions.clone()),
        match_labels: None,
    };
    Ok(ClusterSelector {
        labels: label_selector(labels, &path.child("labelSelector"))?,
        claims: label_selector(Some(&claims), &path.child("claimSelector"))?,
    })
}

fn toleration(toleration: &wire::Toleration) -> Result<Toleration, Misconfigured> {
    let is_exists = toleration.operator == TolerationOperator::Exists;
    if toleration.key.is_empty() && !is_exists {
        let message = "If the key is empty, operator must be Exists.";
        return Err(Misconfigured::toleration(message));
    }
    if is_exists && !toleration.value.is_empty() {
        let message = "If the operator is Exists, the value should be empty.";
        return Err(Misconfigured::toleration(message));
    }
    Ok(Toleration {
        key: Some(toleration.key.clone()).filter(|key| !key.is_empty()),
        value: if is_exists {
            ToleratedValue::Any
        } else {
            ToleratedValue::Exactly(toleration.value.clone())
        },
        effect: toleration.effect.map(Into::into),
        seconds: toleration.toleration_seconds,
    })
}

/// The prioritizers that count, and the weight of the spread. What is given twice counts as it was given last.
fn prioritizers(
    policy: &wire::PrioritizerPolicy,
) -> Result<(Vec<WeightedPrioritizer>, i32), Misconfigured> {
    let (mut weighted, mut spread_weight) = match policy.mode.as_str() {
        "" | "Additive" => (PlacementRules::default().prioritizers, SPREAD_WEIGHT),
        "Exact" => (Vec::new(), 0),
        mode => {
            let message = format!("incorrect prioritizer policy mode: {mode}");
            return Err(Misconfigured::rules(message));
        }
    };
    for configuration in &policy.configurations {
        let coordinate = configuration.score_coordinate.as_ref();
        let coordinate =
            coordinate.ok_or_else(|| Misconfigured::rules("scoreCoordinate field is required"))?;
        if coordinate.type_ == "BuiltIn" && coordinate.built_in == SPREAD {
            spread_weight = configuration.weight;
            continue;
        }
        // A switched-off prioritizer may be called anything.
        let Some(prioritizer) = prioritizer(coordinate, configuration.weight)? else {
            continue;
        };
        weighted.retain(|known| known.prioritizer != prioritizer);
        if configuration.weight != 0 {
            weighted.push(WeightedPrioritizer {
                prioritizer,
                weight: configuration.weight,
            });
        }
    }
    Ok((weighted, spread_weight))
}

fn prioritizer(
    coordinate: &wire::ScoreCoordinate,
    weight: i32,
) -> Result<Option<Prioritizer>, Misconfigured> {
    let wrong = |message: String| match weight {
        0 => Ok(None),
        _ => Err(Misconfigured::rules(message)),
    };
    if coordinate.type_ != "BuiltIn" {
        return match &coordinate.add_on {
            None => wrong("addOn should not be empty".to_owned()),
            Some(score) => Ok(Some(Prioritizer::AddOn {
                resource_name: score.resource_name.clone(),
                score_name: score.score_name.clone(),
            })),
        };
    }
    match coordinate.built_in.as_str() {
        "Balance" => Ok(Some(Prioritizer::Balance)),
        "Steady" => Ok(Some(Prioritizer::Steady)),
        "ResourceAllocatableCPU" => Ok(Some(Prioritizer::ResourceAllocatableCpu)),
        "ResourceAllocatableMemory" => Ok(Some(Prioritizer::ResourceAllocatableMemory)),
        name => wrong(format!("incorrect builtin prioritizer: {name}")),
    }
}

fn spread_term(term: &wire::SpreadConstraintsTerm) -> SpreadTerm {
    SpreadTerm {
        key: term.topology_key.clone(),
        source: match term.topology_key_type {
            wire::TopologyKeyType::Label => TopologySource::Label,
            wire::TopologyKeyType::Claim => TopologySource::Claim,
        },
        max_skew: u32::try_from(term.max_skew).unwrap_or(0).max(1),
        when_unsatisfiable: match term.when_unsatisfiable {
            wire::UnsatisfiableMaxSkewAction::DoNotSchedule => Unsatisfiable::DoNotSchedule,
            wire::UnsatisfiableMaxSkewAction::ScheduleAnyway => Unsatisfiable::ScheduleAnyway,
        },
    }
}

fn groups(strategy: &wire::GroupStrategy) -> Result<GroupRules, Misconfigured> {
    let size = threshold(&strategy.clusters_per_decision_group).map_err(|error| {
        Misconfigured::rules(format!(
            "{} invalid type: string is not a percentage",
            error.0
        ))
    })?;
    let named = strategy
        .decision_groups
        .iter()
        .enumerate()
        .map(|(index, group)| {
            let path = FieldPath::of("spec")
                .child("decisionStrategy")
                .child("groupStrategy");
            let path = path
                .child("decisionGroups")
                .index(index)
                .child("groupClusterSelector");
            let selector = &group.group_cluster_selector;
            let labels = selector.label_selector.as_ref();
            Ok(NamedGroup {
                name: group.group_name.clone(),
                selector: cluster_selector(labels, &selector.claim_selector, &path)
                    .map_err(|errors| Misconfigured::rules(field::join(&errors)))?,
            })
        });
    Ok(GroupRules {
        named: named.collect::<Result<_, _>>()?,
        size,
    })
}
