//! Deletes the objects of a definition that is being deleted, and removes its finalizer when none is left.

use std::sync::Arc;

use serde_json::{Value, json};
use tracing::warn;

use super::Actor;
use crate::cluster::Cluster;
use crate::custom::{CLEANUP_FINALIZER, DEFINITIONS, bucket_of};
use crate::engine::delete::DeleteOptions;
use crate::object::conditions::Condition;
use crate::object::meta;
use crate::request::query::WriteOptions;
use polity_kinds::Subresource;
use polity_kinds::status::ApiError;

pub async fn run(cluster: Arc<Cluster>) {
    for stored in cluster.store().current().range(DEFINITIONS, None, None) {
        if stored.index.is_deleting() {
            cluster
                .signals
                .definitions
                .push(stored.key.name.to_string());
        }
    }
    let actor = Actor::named("crd-finalizer");
    loop {
        let name = cluster.signals.definitions.next().await;
        if let Err(error) = clean_up(&cluster, &actor, &name).await {
            warn!(
                cluster = cluster.name(),
                name,
                error = &error as &dyn std::error::Error,
                "objects of a deleted definition remain"
            );
            cluster
                .clock()
                .sleep(std::time::Duration::from_secs(1))
                .await;
            cluster.signals.definitions.push(name);
        }
    }
}

async fn clean_up(cluster: &Arc<Cluster>, actor: &Actor, name: &str) -> Result<(), ApiError> {
    let Some(definition) = cluster.get(DEFINITIONS, "", name) else {
        return Ok(());
    };
    if !definition.index.is_deleting() || !definition.index.has_finalizer(CLEANUP_FINALIZER) {
        return Ok(());
    }
    let bucket = bucket_of(name);
    let snapshot = cluster.store().current();
    let remaining: Vec<_> = snapshot.range(&bucket, None, None).cloned().collect();
    if !remaining.is_empty() {
        tell(cluster, actor, name, TAKING_ALONG).await?;
        let def = cluster.stored_kind(name)?;
        for stored in &remaining {
            let call = actor.call(cluster, &def, &stored.key.namespace, &stored.key.name);
            match call.delete(&DeleteOptions::default()).await {
                Ok(_) => {}
                Err(error) if error.reason == "NotFound" => {}
                Err(error) => return Err(error),
            }
        }
    }
    let snapshot = cluster.store().current();
    if snapshot.count(&bucket, None) > 0 {
        return Ok(());
    }
    release(cluster, actor, name).await
}

/// How far the clean-up of a definition is: status, reason and message of its condition.
type ConditionState = (bool, &'static str, &'static str);

const TAKING_ALONG: ConditionState = (
    true,
    "InstanceDeletionInProgress",
    "CustomResource deletion is in progress",
);
const DONE: ConditionState = (false, "InstanceDeletionCompleted", "removed all instances");

async fn tell(
    cluster: &Arc<Cluster>,
    actor: &Actor,
    name: &str,
    stage: ConditionState,
) -> Result<(), ApiError> {
    change(cluster, actor, name, stage, |_| ()).await
}

/// Removes our finalizer, and with it the definition unless others wait too.
async fn release(cluster: &Arc<Cluster>, actor: &Actor, name: &str) -> Result<(), ApiError> {
    change(cluster, actor, name, DONE, |next| {
        let rest: Vec<String> = meta::finalizers(next)
            .into_iter()
            .filter(|finalizer| *finalizer != CLEANUP_FINALIZER)
            .map(str::to_owned)
            .collect();
        meta::set(next, "finalizers", json!(rest));
    })
    .await
}

/// Writes a condition together with the fields that change with it.
async fn change(
    cluster: &Arc<Cluster>,
    actor: &Actor,
    name: &str,
    stage: ConditionState,
    more: impl Fn(&mut Value) + Sync,
) -> Result<(), ApiError> {
    let registry = cluster.registry();
    let Some(def) = registry.of_kind("apiextensions.k8s.io", "CustomResourceDefinition") else {
        return Ok(());
    };
    let mut call = actor.call(cluster, def, "", name);
    call.subresource = Some(Subresource::Status);
    let (now, (status, reason, message)) = (call.now, stage);
    let changed = call
        .change(&WriteOptions::internal(), |live| {
            let mut next = live.clone();
            more(&mut next);
            Condition {
                kind: "Terminating",
                status,
                reason,
                message: message.into(),
            }
            .set(&mut next, now);
            meta::of_mut(&mut next).remove("resourceVersion");
            Ok(Some(next))
        })
        .await;
    match changed {
        Err(error) if error.reason != "NotFound" => Err(error),
        _ => Ok(()),
    }
}
