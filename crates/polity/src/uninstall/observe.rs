//! Reads what is left of an installation. Kinds that the cluster does not serve have no objects.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, PersistentVolumeClaim, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt as _};
use polity_api::policies::names;
use polity_api::policies::v1::PolicyRevision;
use polity_lifecycle::certificates::{CA_SECRET, WEBHOOK_SECRET};
use polity_lifecycle::install::{CONTROLLER, Installation};
use polity_lifecycle::webhooks::{Verb, configuration_name};
use polity_lifecycle::{CONTROLLER_LEASE, OwnedKey, OwnedKind};
use serde_json::Value;

use super::found::{Defined, Found, Home, Object, Owned};
use crate::{defaults, hub, install};

/// The field managers of an installation: `polity install`, and `kubectl apply --server-side`.
const INSTALLERS: [&str; 2] = [install::MANAGER, "kubectl"];

/// Whether the cluster is the hub of a `polity up`. Earlier versions only left the marker of the sample policies.
pub(super) async fn is_local_hub(client: &Client) -> kube::Result<bool> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), hub::NAMESPACE);
    for marker in [hub::MARKER, defaults::MARKER] {
        if maps.get_metadata_opt(marker).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What is left in a cluster.
pub(super) async fn found(client: &Client, namespace: &str) -> anyhow::Result<Found> {
    let (policy_webhooks, own_webhooks) = webhooks(client).await?;
    Ok(Found {
        namespace: namespace.to_owned(),
        home: home(client, namespace).await?,
        policy_webhooks,
        own_webhooks,
        objects: objects(client, namespace).await?,
        owned: owned(client).await?,
        definitions: definitions(client).await?,
    })
}

/// Those of policies, and those of the controller. Configurations of others may have our label, too.
async fn webhooks(client: &Client) -> kube::Result<(Vec<Object>, Vec<Object>)> {
    let (mut of_policies, mut own) = (Vec::new(), Vec::new());
    let own_names = [Verb::Mutate, Verb::Validate].map(configuration_name);
    for kind in [
        ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
        ApiResource::erase::<MutatingWebhookConfiguration>(&()),
    ] {
        for object in labelled(client, None, &kind).await? {
            let is_of_policy = object
                .annotations()
                .contains_key(names::WEBHOOK_POLICY_NAME);
            let found = Object {
                kind: kind.clone(),
                namespace: None,
                name: object.name_any(),
            };
            if own_names.contains(&found.name) {
                own.push(found);
            } else if is_of_policy {
                of_policies.push(found);
            }
        }
    }
    Ok((of_policies, own))
}

/// The namespace is ours if an installation created it and the controller has an object in it, or if it is being deleted.
async fn home(client: &Client, namespace: &str) -> kube::Result<Home> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let Some(found) = namespaces.get_opt(namespace).await? else {
        return Ok(Home::Absent);
    };
    let is_ours = is_installed(&found.metadata)
        && has_our_label(found.labels())
        && (found.metadata.deletion_timestamp.is_some()
            || has_controller(client, namespace).await?);
    Ok(if is_ours { Home::Ours } else { Home::Shared })
}

/// Whether the Deployment or the ServiceAccount of the controller is in a namespace.
async fn has_controller(client: &Client, namespace: &str) -> kube::Result<bool> {
    for kind in [
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<ServiceAccount>(&()),
    ] {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
        let found = api.get_metadata_opt(CONTROLLER).await?;
        if found.is_some_and(|found| has_our_label(found.labels())) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_our_label(labels: &BTreeMap<String, String>) -> bool {
    labels
        .get(names::PART_OF)
        .is_some_and(|value| value == names::PART_OF_VALUE)
}

/// Whether an object is the ServiceAccount of the controller.
pub(super) fn is_account(object: &Object) -> bool {
    object.kind == ApiResource::erase::<ServiceAccount>(&()) && object.name == CONTROLLER
}

/// Whether only an installation has set the fields of an object.
fn is_installed(metadata: &ObjectMeta) -> bool {
    let fields = metadata.managed_fields.iter().flatten();
    let mut managers = fields
        .filter(|entry| entry.subresource.as_deref().unwrap_or_default().is_empty())
        .filter_map(|entry| entry.manager.as_deref())
        .peekable();
    managers.peek().is_some() && managers.all(|manager| INSTALLERS.contains(&manager))
}

/// The objects of the manifests that are there, and in the namespace everything with our label.
async fn objects(client: &Client, namespace: &str) -> anyhow::Result<Vec<Object>> {
    let installation = Installation {
        namespace: namespace.to_owned(),
        image: String::new(),
        replicas: 0,
    };
    let mut manifests = installation.controller();
    manifests.extend(installation.roles());
    let mut found = Vec::new();
    for manifest in &manifests {
        let object = named(manifest)?;
        if object
            .api(client)
            .get_metadata_opt(&object.name)
            .await?
            .is_some()
        {
            found.push(object);
        }
    }
    let there = |kind: &ApiResource, name: String| Object {
        kind: kind.clone(),
        namespace: Some(namespace.to_owned()),
        name,
    };
    for kind in made_kinds() {
        for object in labelled(client, Some(namespace), &kind).await? {
            let object = there(&kind, object.name_any());
            if !found.contains(&object) {
                found.push(object);
            }
        }
    }
    found.extend(context_bindings(client).await?);
    let secrets = ApiResource::erase::<Secret>(&());
    let leases = ApiResource::erase::<Lease>(&());
    let unlabelled = [
        (&secrets, CA_SECRET),
        (&secrets, WEBHOOK_SECRET),
        (&leases, CONTROLLER_LEASE),
    ];
    for (kind, name) in unlabelled {
        let object = there(kind, name.to_owned());
        if object.api(client).get_metadata_opt(name).await?.is_some() {
            found.push(object);
        }
    }
    let revisions: Api<PolicyRevision> = Api::namespaced(client.clone(), namespace);
    let kind = ApiResource::erase::<PolicyRevision>(&());
    let revisions = if_served(revisions.list_metadata(&ListParams::default()).await)?;
    let revisions = revisions.into_iter().flat_map(|list| list.items);
    found.extend(revisions.map(|one| there(&kind, one.name_any())));
    Ok(found)
}

/// The ClusterRoleBindings that let policy servers read the cluster. They belong to PolicyServers, which are kept.
async fn context_bindings(client: &Client) -> kube::Result<impl Iterator<Item = Object>> {
    let kind = ApiResource::erase::<ClusterRoleBinding>(&());
    let bindings = labelled(client, None, &kind).await?.into_iter();
    let of_servers = bindings.filter(|binding| {
        let mut owners = binding.owner_references().iter();
        owners.any(|owner| owner.kind == OwnedKind::Server.api_resource().kind)
    });
    Ok(of_servers.map(move |binding| Object {
        kind: kind.clone(),
        namespace: None,
        name: binding.name_any(),
    }))
}

/// `None` where the kind is not served.
fn if_served<T>(answer: kube::Result<T>) -> kube::Result<Option<T>> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        other => other.map(Some),
    }
}

/// The kinds of what the controller makes for policy servers, in the order in which they are removed.
fn made_kinds() -> [ApiResource; 10] {
    [
        ApiResource::erase::<StatefulSet>(&()),
        ApiResource::erase::<PodDisruptionBudget>(&()),
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<Secret>(&()),
        ApiResource::erase::<PersistentVolumeClaim>(&()),
        ApiResource::erase::<Lease>(&()),
        ApiResource::erase::<RoleBinding>(&()),
        ApiResource::erase::<Role>(&()),
        ApiResource::erase::<ServiceAccount>(&()),
    ]
}

/// The object that a manifest is about.
fn named(manifest: &Value) -> anyhow::Result<Object> {
    let object: DynamicObject = serde_json::from_value(manifest.clone())?;
    let types = object.types.clone().unwrap_or_default();
    Ok(Object {
        kind: ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?),
        namespace: object.namespace(),
        name: object.name_any(),
    })
}

/// The objects of a kind with the label of an installation, as metadata.
async fn labelled(
    client: &Client,
    namespace: Option<&str>,
    kind: &ApiResource,
) -> kube::Result<Vec<kube::core::PartialObjectMeta<DynamicObject>>> {
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, kind),
        None => Api::all_with(client.clone(), kind),
    };
    let selector = format!("{}={}", names::PART_OF, names::PART_OF_VALUE);
    let list = api
        .list_metadata(&ListParams::default().labels(&selector))
        .await?;
    Ok(list.items)
}

/// Policies and policy servers of all namespaces.
pub(super) async fn owned(client: &Client) -> kube::Result<Vec<Owned>> {
    let mut all = Vec::new();
    for kind in OwnedKind::all() {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.api_resource());
        let objects = if_served(api.list(&ListParams::default()).await)?;
        let objects = objects.into_iter().flat_map(|list| list.items);
        all.extend(objects.map(|object| described(kind, &object)));
    }
    Ok(all)
}

fn described(kind: OwnedKind, object: &DynamicObject) -> Owned {
    let is_ours = |one: &&String| [names::FINALIZER, names::OLD_FINALIZER].contains(&one.as_str());
    let finalizers = object.finalizers();
    let others = finalizers.iter().filter(|one| !is_ours(one)).cloned();
    let is_policy = kind != OwnedKind::Server;
    Owned {
        key: OwnedKey {
            kind,
            namespace: object.namespace(),
            name: object.name_any(),
        },
        resource_version: object.resource_version().unwrap_or_default(),
        is_protecting: is_policy && object.data["spec"]["mode"] != "monitor",
        has_status: object
            .data
            .get("status")
            .is_some_and(|status| !status.is_null()),
        released: finalizers
            .iter()
            .any(|one| is_ours(&one))
            .then(|| others.collect()),
    }
}

/// The definitions of our kinds that are there.
async fn definitions(client: &Client) -> kube::Result<Vec<Defined>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let own: Vec<String> = polity_api::crds()
        .iter()
        .map(kube::ResourceExt::name_any)
        .collect();
    let list = api.list_metadata(&ListParams::default()).await?;
    let ours = list
        .items
        .into_iter()
        .filter(|one| own.contains(&one.name_any()));
    let definitions = ours.map(|one| Defined {
        name: one.name_any(),
        is_shared: !is_installed(&one.metadata),
    });
    Ok(definitions.collect())
}
