//! Reads everything that a decision about one policy depends on, from the API server and not from a cache: a plan must
//! see what the last one wrote.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client, ResourceExt};
use polity_api::policies::v1::{PolicyRevision, PolicyServer};
use polity_api::policies::{api_resource, names};
use polity_core::policy::{dotted_name, unique_name};
use serde_json::Value;

use super::{PolicyKey, ReconcileError};
use crate::lifecycle::{
    self, Observed, Pod, Policy, PolicyKind, Server, Settings, Webhook, WebhookKind, Write, claim,
};
use crate::names::{Claim, stateful_set};

/// Reads a policy and what belongs to it; `None` when the policy does not exist. `rivals` are the other policies that have the same
/// classic id, without what their revisions record.
pub(super) async fn observe(
    client: &Client,
    key: &PolicyKey,
    settings: &Settings,
    rivals: &[PolicyKey],
) -> Result<Option<Observed>, ReconcileError> {
    let Some(policy) = policy(client, key).await? else {
        return Ok(None);
    };
    let revisions = revisions(client, &settings.namespace, &policy.uid).await?;
    let mut observed = Observed {
        webhooks: webhooks(client, &policy).await?,
        servers: BTreeMap::new(),
        rivals: claims(client, &settings.namespace, rivals).await?,
        refusal: None,
        settings: settings.clone(),
        policy,
        revisions,
    };
    for name in server_names(&observed) {
        if let Some(server) = server(client, &settings.namespace, &name).await? {
            observed.servers.insert(name, server);
        }
    }
    Ok(Some(observed))
}

/// The revisions and webhooks of policies that no longer exist. The policies are read last, so that one that was just
/// created is seen.
pub(super) async fn orphans(
    client: &Client,
    namespace: &str,
) -> Result<Vec<Write>, ReconcileError> {
    let all = ListParams::default();
    let revisions: Api<PolicyRevision> = Api::namespaced(client.clone(), namespace);
    let revisions = revisions.list(&all).await?.items;
    let ours = all
        .clone()
        .labels(&format!("{}={}", names::PART_OF, names::PART_OF_VALUE));
    let mut webhooks = Vec::new();
    for kind in [WebhookKind::Validating, WebhookKind::Mutating] {
        let found = configurations(client, kind).list(&ours).await?;
        webhooks.extend(found.into_iter().map(|object| read_webhook(kind, object)));
    }
    let mut live = BTreeSet::new();
    for kind in PolicyKind::ALL {
        let policies: Api<DynamicObject> = Api::all_with(client.clone(), &api_resource(kind));
        live.extend(
            policies
                .list_metadata(&all)
                .await?
                .iter()
                .filter_map(ResourceExt::uid),
        );
    }
    Ok(lifecycle::orphans(&live, &revisions, &webhooks))
}

/// The policies of a kind, in one namespace or in the cluster.
pub(super) fn policies(client: &Client, key: &PolicyKey) -> Api<DynamicObject> {
    let resource = api_resource(key.kind);
    match &key.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn policy(client: &Client, key: &PolicyKey) -> Result<Option<Policy>, ReconcileError> {
    match policies(client, key).get_opt(&key.name).await? {
        Some(object) => Ok(Some(Policy::read(key.kind, object)?)),
        None => Ok(None),
    }
}

async fn revisions(
    client: &Client,
    namespace: &str,
    policy_uid: &str,
) -> Result<Vec<PolicyRevision>, ReconcileError> {
    let selector = format!("{}={policy_uid}", names::POLICY_UID);
    let api: Api<PolicyRevision> = Api::namespaced(client.clone(), namespace);
    Ok(api
        .list(&ListParams::default().labels(&selector))
        .await?
        .items)
}

/// Under either id and of either kind: that is where a webhook of this policy can be.
async fn webhooks(client: &Client, policy: &Policy) -> Result<Vec<Webhook>, ReconcileError> {
    let ids =
        [unique_name, dotted_name].map(|id| id(policy.kind, policy.namespace(), &policy.name));
    let mut found = Vec::new();
    for kind in [WebhookKind::Validating, WebhookKind::Mutating] {
        for id in &ids {
            if let Some(object) = configurations(client, kind).get_opt(id).await? {
                found.push(read_webhook(kind, object));
            }
        }
    }
    Ok(found)
}

/// Webhook configurations of a kind.
pub(crate) fn configurations(client: &Client, kind: WebhookKind) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &configuration_resource(kind))
}

pub(crate) fn configuration_resource(kind: WebhookKind) -> ApiResource {
    let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind.as_str());
    ApiResource::from_gvk(&gvk)
}

fn read_webhook(kind: WebhookKind, object: DynamicObject) -> Webhook {
    let hooks = object.data.get("webhooks").and_then(Value::as_array);
    Webhook {
        kind,
        hooks: hooks.cloned().unwrap_or_default(),
        name: object.name_any(),
        uid: object.metadata.uid,
        resource_version: object.metadata.resource_version,
        labels: object.metadata.labels.unwrap_or_default(),
        annotations: object.metadata.annotations.unwrap_or_default(),
    }
}

async fn claims(
    client: &Client,
    namespace: &str,
    rivals: &[PolicyKey],
) -> Result<Vec<Claim>, ReconcileError> {
    let mut claims = Vec::new();
    for key in rivals {
        if let Some(rival) = policy(client, key)
            .await?
            .filter(|rival| rival.deleted_at().is_none())
        {
            let revisions = revisions(client, namespace, &rival.uid).await?;
            claims.push(claim(&rival, &revisions));
        }
    }
    Ok(claims)
}

/// The servers that the policy and its revisions name.
fn server_names(observed: &Observed) -> BTreeSet<String> {
    let policy = observed.policy.content.enforcement.policy_server.clone();
    let revisions = observed.revisions.iter().filter_map(|revision| {
        let server = revision.spec.data.get("spec")?.get("policyServer")?;
        server.as_str().map(str::to_owned)
    });
    let names = revisions.chain([policy]);
    names.filter(|name| !name.is_empty()).collect()
}

async fn server(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Server>, ReconcileError> {
    let servers: Api<PolicyServer> = Api::all(client.clone());
    let Some(object) = servers.get_opt(name).await? else {
        return Ok(None);
    };
    let workloads: Api<StatefulSet> = Api::namespaced(client.clone(), namespace);
    let workload = workloads.get_opt(&stateful_set(name)).await?;
    let pods: Api<ApiPod> = Api::namespaced(client.clone(), namespace);
    let selector = format!("{}={name}", names::WORKLOAD_POLICY_SERVER);
    let pods = pods
        .list(&ListParams::default().labels(&selector))
        .await?
        .items;
    Ok(Some(read_server(&object, workload.as_ref(), &pods)))
}

fn read_server(server: &PolicyServer, workload: Option<&StatefulSet>, pods: &[ApiPod]) -> Server {
    let limit = server.spec.revision_history_limit;
    let expected = workload.map(|workload| {
        let start = workload
            .spec
            .ordinals
            .as_ref()
            .and_then(|ordinals| ordinals.start);
        let start = start.unwrap_or_default();
        start..start.saturating_add(workload.spec.replicas.unwrap_or(1))
    });
    let name = workload.map(ResourceExt::name_any).unwrap_or_default();
    Server {
        is_deleting: server.metadata.deletion_timestamp.is_some(),
        expected,
        pods: pods
            .iter()
            .filter_map(|pod| Some((ordinal(&name, pod)?, read_pod(pod)?)))
            .collect(),
        n_deployment_pods: pods
            .iter()
            .filter(|pod| is_owned_by_replica_set(pod))
            .count(),
        history_limit: limit.and_then(|limit| usize::try_from(limit).ok()),
        asks_for_signatures: server.spec.verification_config.is_some(),
    }
}

/// The number of a pod of a StatefulSet: what follows its name.
fn ordinal(workload: &str, pod: &ApiPod) -> Option<i32> {
    let name = pod.metadata.name.as_deref()?;
    name.strip_prefix(workload)?.strip_prefix('-')?.parse().ok()
}

fn is_owned_by_replica_set(pod: &ApiPod) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| owner.kind == "ReplicaSet")
}

/// One that is being deleted takes no new requests, whatever its conditions still say.
fn read_pod(pod: &ApiPod) -> Option<Pod> {
    let is_going = pod.metadata.deletion_timestamp.is_some();
    let status = pod.status.as_ref();
    let is_ready = status
        .and_then(|status| status.conditions.as_ref())
        .is_some_and(|all| {
            all.iter()
                .any(|one| one.type_ == "Ready" && one.status == "True")
        });
    let is_running = status.and_then(|status| status.phase.as_deref()) == Some("Running");
    Some(Pod {
        created: pod.metadata.creation_timestamp.as_ref()?.0,
        is_running: is_running && !is_going,
        is_ready: is_ready && !is_going,
    })
}
