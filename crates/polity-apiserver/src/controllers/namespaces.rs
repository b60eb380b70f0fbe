//! Namespaces: empties a namespace that is being deleted, Pods first, and then removes it; a new one gets
//! its service account.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tracing::warn;

use super::{Actor, service_accounts};
use crate::cluster::Cluster;
use crate::engine::delete::{DeleteOptions, Propagation};
use crate::object::conditions::Condition;
use crate::object::meta;
use crate::request::query::WriteOptions;
use crate::served::ServedResource;
use polity_kinds::Subresource;
use polity_kinds::status::ApiError;

/// How soon a namespace that cannot be emptied is checked again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

pub async fn run(cluster: Arc<Cluster>) {
    for stored in cluster.store().current().range("namespaces", None, None) {
        cluster.signals.namespaces.push(stored.key.name.to_string());
    }
    let actor = Actor::named("namespace-controller");
    loop {
        let name = cluster.signals.namespaces.next().await;
        let Some(namespace) = cluster.namespace(&name) else {
            continue;
        };
        let done = if namespace.index.is_deleting() {
            empty(&cluster, &actor, &name).await
        } else {
            service_accounts::ensure_default(&cluster, &name).await
        };
        if let Err(error) = done {
            warn!(
                cluster = cluster.name(),
                namespace = name,
                error = &error as &dyn std::error::Error,
                "namespace reconcile failed, retrying"
            );
            let (cluster, name) = (cluster.clone(), name);
            tokio::spawn(async move {
                cluster.clock().sleep(LOOK_AGAIN).await;
                cluster.signals.namespaces.push(name);
            });
        }
    }
}

/// The remaining content of a namespace: objects by resource, and finalizers by name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Remaining {
    objects: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

async fn empty(cluster: &Arc<Cluster>, actor: &Actor, name: &str) -> Result<(), ApiError> {
    let registry = cluster.registry();
    let kinds: Vec<Arc<ServedResource>> = registry
        .stored()
        .into_iter()
        .filter(|def| def.is_namespaced())
        .cloned()
        .collect();
    let (pods, others): (Vec<_>, Vec<_>) = kinds.iter().partition(|def| &*def.bucket == "pods");
    let mut failure = None;
    for step in [pods, others] {
        for def in &step {
            if let Err(error) = delete_all(cluster, actor, def, name).await {
                failure.get_or_insert(error);
            }
        }
        // Pods are deleted before the objects that they may still use.
        if count(cluster, &step, name) > 0 {
            break;
        }
    }
    let remaining = remaining(cluster, &kinds, name);
    if remaining == Remaining::default() && failure.is_none() {
        return finish(cluster, actor, name).await;
    }
    report(cluster, actor, name, &remaining, failure.as_ref()).await?;
    failure.map_or(Ok(()), Err)
}

fn count(cluster: &Cluster, kinds: &[&Arc<ServedResource>], namespace: &str) -> usize {
    let snapshot = cluster.store().current();
    kinds
        .iter()
        .map(|def| snapshot.count(&def.bucket, Some(namespace)))
        .sum()
}

async fn delete_all(
    cluster: &Arc<Cluster>,
    actor: &Actor,
    def: &Arc<ServedResource>,
    namespace: &str,
) -> Result<(), ApiError> {
    let snapshot = cluster.store().current();
    let options = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    for stored in snapshot
        .range(&def.bucket, Some(namespace), None)
        .filter(|stored| !stored.index.is_deleting())
    {
        let call = actor.call(cluster, def, &stored.key.namespace, &stored.key.name);
        match call.delete(&options).await {
            Ok(_) => {}
            Err(error) if error.reason == "NotFound" => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn remaining(cluster: &Cluster, kinds: &[Arc<ServedResource>], namespace: &str) -> Remaining {
    let snapshot = cluster.store().current();
    let mut remaining = Remaining::default();
    for def in kinds {
        for stored in snapshot.range(&def.bucket, Some(namespace), None) {
            *remaining
                .objects
                .entry(format!("{}.{}", def.plural, def.gvk.group))
                .or_default() += 1;
            for finalizer in &stored.index.finalizers {
                *remaining.finalizers.entry(finalizer.clone()).or_default() += 1;
            }
        }
    }
    remaining
}

/// Removes `kubernetes` from `spec.finalizers`, which deletes the object unless it has other finalizers.
async fn finish(cluster: &Arc<Cluster>, actor: &Actor, name: &str) -> Result<(), ApiError> {
    write(cluster, actor, name, Subresource::Finalize, |live| {
        let mut next = live.clone();
        let rest: Vec<&str> = meta::strings(live.pointer("/spec/finalizers"))
            .into_iter()
            .filter(|finalizer| *finalizer != "kubernetes")
            .collect();
        if rest.is_empty() {
            next["spec"] = json!({});
        } else {
            next["spec"]["finalizers"] = json!(rest);
        }
        next
    })
    .await
}

/// Writes conditions that explain why the deletion waits.
async fn report(
    cluster: &Arc<Cluster>,
    actor: &Actor,
    name: &str,
    remaining: &Remaining,
    failure: Option<&ApiError>,
) -> Result<(), ApiError> {
    let now = cluster.now();
    write(cluster, actor, name, Subresource::Status, |live| {
        let mut next = live.clone();
        for condition in conditions(remaining, failure) {
            condition.set(&mut next, now);
        }
        next
    })
    .await
}

fn conditions(remaining: &Remaining, failure: Option<&ApiError>) -> [Condition; 5] {
    let listed = |map: &BTreeMap<String, usize>, what: &str| {
        map.iter()
            .map(|(name, n)| format!("{name} {what} {n} resource instances"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let condition = |kind, status, reason, message: String| Condition {
        kind,
        status,
        reason,
        message,
    };
    [
        condition(
            "NamespaceDeletionDiscoveryFailure",
            false,
            "ResourcesDiscovered",
            "All resources successfully discovered".into(),
        ),
        condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".into(),
        ),
        match failure {
            None => condition(
                "NamespaceDeletionContentFailure",
                false,
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization".into(),
            ),
            Some(error) => condition(
                "NamespaceDeletionContentFailure",
                true,
                "ContentDeletionFailed",
                format!("Failed to delete all resource types: {}", error.message),
            ),
        },
        if remaining.objects.is_empty() {
            condition(
                "NamespaceContentRemaining",
                false,
                "ContentRemoved",
                "All content successfully removed".into(),
            )
        } else {
            let message = format!(
                "Some resources are remaining: {}",
                listed(&remaining.objects, "has")
            );
            condition(
                "NamespaceContentRemaining",
                true,
                "SomeResourcesRemain",
                message,
            )
        },
        if remaining.finalizers.is_empty() {
            let message = "All content-preserving finalizers finished".into();
            condition(
                "NamespaceFinalizersRemaining",
                false,
                "ContentHasNoFinalizers",
                message,
            )
        } else {
            let message = format!(
                "Some content in the namespace has finalizers remaining: {}",
                listed(&remaining.finalizers, "in")
            );
            condition(
                "NamespaceFinalizersRemaining",
                true,
                "SomeFinalizersRemain",
                message,
            )
        },
    ]
}

async fn write(
    cluster: &Arc<Cluster>,
    actor: &Actor,
    name: &str,
    subresource: Subresource,
    next: impl Fn(&Value) -> Value + Sync,
) -> Result<(), ApiError> {
    let registry = cluster.registry();
    let Some(def) = registry.get("", "v1", "namespaces") else {
        return Ok(());
    };
    let mut call = actor.call(cluster, def, "", name);
    call.subresource = Some(subresource);
    let changed = call
        .change(&WriteOptions::internal(), |live| {
            let mut next = next(live);
            meta::of_mut(&mut next).remove("resourceVersion");
            Ok(Some(next))
        })
        .await;
    match changed {
        Err(error) if error.reason != "NotFound" => Err(error),
        _ => Ok(()),
    }
}
