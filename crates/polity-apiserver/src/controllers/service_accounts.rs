//! Every namespace has a service account `default` and the cluster's CA in `kube-root-ca.crt`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Actor;
use crate::cluster::Cluster;
use crate::request::query::WriteOptions;
use polity_kinds::status::ApiError;

/// Creates the missing objects of a namespace.
pub async fn ensure_default(cluster: &Arc<Cluster>, namespace: &str) -> Result<(), ApiError> {
    let actor = Actor::named("service-account-controller");
    if cluster
        .get("serviceaccounts", namespace, "default")
        .is_none()
    {
        let account = json!({"metadata": {"name": "default", "namespace": namespace}});
        create(cluster, &actor, "serviceaccounts", namespace, account).await?;
    }
    let authority = cluster.identity().authority_pem();
    if !authority.is_empty()
        && cluster
            .get("configmaps", namespace, "kube-root-ca.crt")
            .is_none()
    {
        let actor = Actor::named("root-ca-cert-publisher");
        let map = json!({
            "metadata": {
                "name": "kube-root-ca.crt", "namespace": namespace,
                "annotations": {"kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."},
            },
            "data": {"ca.crt": authority},
        });
        create(cluster, &actor, "configmaps", namespace, map).await?;
    }
    Ok(())
}

async fn create(
    cluster: &Arc<Cluster>,
    actor: &Actor,
    plural: &str,
    namespace: &str,
    object: Value,
) -> Result<(), ApiError> {
    let registry = cluster.registry();
    let Some(def) = registry.get("", "v1", plural) else {
        return Ok(());
    };
    let call = actor.call(cluster, def, namespace, "");
    match call.create(object.into(), &WriteOptions::internal()).await {
        // It was created in the meantime, or its namespace is being deleted.
        Err(error)
            if !matches!(
                error.reason.as_str(),
                "AlreadyExists" | "Forbidden" | "NotFound"
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}
