//! PlacementDecisions as they stand, or as a scheduler would write them.

use polity_api::cluster::names;
use polity_core::ClusterName;
use polity_core::placement::{Placement, PlacementDecision};
use polity_core::rollout_strategy::GroupKey;
use polity_rollout::placement::Explanation;
use serde_json::{Value, json};

use polity_source::Document;

/// A decision as it stands.
pub(super) fn standing_object(decision: &PlacementDecision) -> Value {
    let clusters = decision.clusters.iter().map(|cluster| (cluster, None));
    let placement = &decision.placement;
    decision_object(
        &decision.name,
        &placement.namespace,
        &placement.name,
        &decision.group,
        clusters,
    )
}

/// The decisions that a scheduler would write, owned by the placement where its UID is known.
pub(super) fn written_objects(
    document: &Document,
    placement: &Placement,
    explanation: &Explanation,
) -> Vec<Value> {
    let key = &placement.key;
    let objects = explanation.schedule.decision_objects(&key.name);
    let object = objects.iter().map(|object| {
        let clusters = object.clusters.iter();
        let clusters = clusters.map(|decision| (&decision.cluster, decision.score));
        let mut written = decision_object(
            &object.name,
            &key.namespace,
            &key.name,
            object.group,
            clusters,
        );
        if let Some(uid) = document.object["metadata"]["uid"].as_str() {
            written["metadata"]["ownerReferences"] = json!([{
                "apiVersion": format!("{}/v1beta1", names::GROUP), "kind": "Placement",
                "name": key.name, "uid": uid, "controller": true, "blockOwnerDeletion": true,
            }]);
        }
        written
    });
    object.collect()
}

fn decision_object<'a>(
    name: &str,
    namespace: &str,
    placement: &str,
    group: &GroupKey,
    clusters: impl Iterator<Item = (&'a ClusterName, Option<i32>)>,
) -> Value {
    let decisions = clusters.map(|(cluster, score)| {
        let mut decision = json!({"clusterName": cluster, "reason": ""});
        if let Some(score) = score {
            decision["score"] = json!(score);
        }
        decision
    });
    json!({
        "apiVersion": format!("{}/v1beta1", names::GROUP),
        "kind": "PlacementDecision",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                names::PLACEMENT: placement,
                names::DECISION_GROUP_INDEX: group.index.to_string(),
                names::DECISION_GROUP_NAME: &*group.name,
            },
        },
        "status": {"decisions": decisions.collect::<Vec<_>>()},
    })
}
