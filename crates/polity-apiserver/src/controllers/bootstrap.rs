//! Creates the initial objects of a cluster: namespaces, default roles and the `kubernetes` Service.

use std::sync::Arc;

use futures::future::try_join_all;
use serde_json::{Value, json};

use super::{Actor, service_accounts};
use crate::cluster::{Cluster, RBAC_BUCKETS};
use crate::engine::delete::DeleteOptions;
use crate::object::meta;
use crate::request::query::WriteOptions;
use polity_auth::bootstrap::{self, Change};
use polity_kinds::status::ApiError;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates missing objects. On an existing cluster there are none, except those that a newer version adds.
pub async fn run(cluster: &Arc<Cluster>) -> Result<(), ApiError> {
    let actor = Actor::named("bootstrap");
    for name in NAMESPACES {
        if cluster.namespace(name).is_none() {
            create(
                cluster,
                &actor,
                "",
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            )
            .await?;
        }
    }
    settle_roles(cluster, &actor).await?;
    if cluster.get("services", "default", "kubernetes").is_none() {
        create(cluster, &actor, "default", kubernetes_service()).await?;
    }
    for name in NAMESPACES {
        service_accounts::ensure_default(cluster, name).await?;
    }
    cluster.mark_ready();
    Ok(())
}

async fn settle_roles(cluster: &Arc<Cluster>, actor: &Actor) -> Result<(), ApiError> {
    let stored: Vec<Value> = RBAC_BUCKETS
        .iter()
        .flat_map(|bucket| cluster.values(bucket))
        .map(|(_, value)| value)
        .collect();
    let find = |kind: &str, namespace: &str, name: &str| {
        stored.iter().find(|role| {
            role["kind"] == kind && meta::namespace(role) == namespace && meta::name(role) == name
        })
    };
    // Waiting together, they share the store's transactions.
    try_join_all(
        bootstrap::reconcile(find)
            .into_iter()
            .map(|change| make(cluster, actor, change)),
    )
    .await?;
    Ok(())
}

async fn make(cluster: &Arc<Cluster>, actor: &Actor, change: Change) -> Result<(), ApiError> {
    match change {
        Change::Create(object) => {
            let namespace = meta::namespace(&object).to_owned();
            create(cluster, actor, &namespace, object).await
        }
        Change::Update(object) => replace(cluster, actor, &object).await,
        Change::Recreate(object) => {
            let def = def_of(cluster, &object)?;
            let namespace = meta::namespace(&object).to_owned();
            actor
                .call(cluster, &def, &namespace, meta::name(&object))
                .delete(&DeleteOptions::default())
                .await?;
            create(cluster, actor, &namespace, object).await
        }
    }
}

fn kubernetes_service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.96.0.1", "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    })
}

async fn create(
    cluster: &Arc<Cluster>,
    actor: &Actor,
    namespace: &str,
    object: Value,
) -> Result<(), ApiError> {
    let def = def_of(cluster, &object)?;
    let call = actor.call(cluster, &def, namespace, "");
    match call.create(object.into(), &WriteOptions::internal()).await {
        Err(error) if error.reason != "AlreadyExists" => Err(error),
        _ => Ok(()),
    }
}

async fn replace(cluster: &Arc<Cluster>, actor: &Actor, object: &Value) -> Result<(), ApiError> {
    let def = def_of(cluster, object)?;
    let call = actor.call(cluster, &def, meta::namespace(object), meta::name(object));
    call.change(&WriteOptions::internal(), |_| {
        let mut next = object.clone();
        meta::of_mut(&mut next).remove("resourceVersion");
        Ok(Some(next))
    })
    .await
    .map(|_| ())
}

fn def_of(
    cluster: &Cluster,
    object: &Value,
) -> Result<Arc<crate::served::ServedResource>, ApiError> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let gv: polity_core::GroupVersion = api_version.parse().map_err(ApiError::internal)?;
    let kind = object["kind"].as_str().unwrap_or_default();
    cluster
        .registry()
        .of_kind(&gv.group, kind)
        .cloned()
        .ok_or_else(|| ApiError::internal(format!("{kind} is not served")))
}
