//! Keeps the rules of aggregating ClusterRoles.

use std::sync::Arc;

use serde_json::{Value, json};
use tracing::warn;

use super::Actor;
use crate::cluster::Cluster;
use crate::object::meta;
use crate::request::query::WriteOptions;
use polity_auth::rbac::settle_aggregates;

const BUCKET: &str = "clusterroles.rbac.authorization.k8s.io";

pub async fn run(cluster: Arc<Cluster>) {
    let actor = Actor::named("clusterrole-aggregation-controller");
    loop {
        settle(&cluster, &actor).await;
        cluster.signals.roles.next().await;
    }
}

async fn settle(cluster: &Arc<Cluster>, actor: &Actor) {
    let snapshot = cluster.store().current();
    let roles: Vec<Value> = snapshot
        .range(BUCKET, None, None)
        .filter_map(|stored| serde_json::from_slice(&stored.bytes).ok())
        .collect();
    let registry = cluster.registry();
    let Some(def) = registry.get("rbac.authorization.k8s.io", "v1", "clusterroles") else {
        return;
    };
    for (name, rules) in settle_aggregates(&roles) {
        let call = actor.call(cluster, def, "", &name);
        let changed = call
            .change(&WriteOptions::internal(), |live| {
                let mut next = live.clone();
                next["rules"] = json!(rules);
                meta::of_mut(&mut next).remove("resourceVersion");
                Ok(Some(next))
            })
            .await;
        if let Err(error) = changed
            && error.reason != "NotFound"
        {
            warn!(
                cluster = cluster.name(),
                name,
                error = &error as &dyn std::error::Error,
                "aggregated role reconcile failed"
            );
        }
    }
}
