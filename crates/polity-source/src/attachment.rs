//! The objects of the policy graph: from manifests, or read from a live cluster.

pub mod admission;
mod families;
mod names;

use std::collections::{BTreeMap, BTreeSet};

use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::discovery::Scope;
use polity_attach::{GATEWAY_GROUP, Graph, ROUTES, put_in_namespace};
use polity_runtime::client::describe;
use serde_json::Value;

pub use self::families::{Family, Missing, only_attached};
pub use self::names::{Kind, NameError, Names};
use crate::manifests::Manifests;

/// How many objects one request asks for.
const PAGE: u32 = 500;

/// Why the objects of a cluster could not be read.
#[derive(Debug, thiserror::Error)]
pub enum AttachmentReadError {
    #[error("cannot discover the kinds of the cluster")]
    Discovery(#[source] Box<kube::Error>),
    #[error("cannot encode an object")]
    Encode(#[source] serde_json::Error),
}

fn discovery(error: kube::Error) -> AttachmentReadError {
    AttachmentReadError::Discovery(Box::new(error))
}

/// The objects of manifests; those without a namespace go to the given one.
pub fn objects_of(manifests: Manifests, namespace: &str) -> Vec<Value> {
    let documents = manifests.documents.into_iter();
    let mut objects: Vec<Value> = documents.map(|document| document.object).collect();
    put_in_namespace(&mut objects, namespace);
    objects
}

/// The objects of a graph, as they were read.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    pub objects: Vec<Value>,
    /// What could not be read, and why.
    pub missing: Vec<Missing>,
}

/// Which objects of a cluster are read besides policies and their targets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// An object of any kind, as `KIND/NAME`.
    object: Option<&'a str>,
    /// Whether to read the objects that workloads own.
    owned: bool,
    /// The namespace to read where the whole cluster may not be read.
    namespace: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    /// Also the objects of the kind of `KIND/NAME`.
    pub fn object(text: &'a str) -> Self {
        Self {
            object: Some(text),
            ..Self::default()
        }
    }

    /// Of kinds that this user may not list in the whole cluster, the objects of this namespace.
    #[must_use]
    pub fn or_namespace(self, namespace: &'a str) -> Self {
        Self {
            namespace: Some(namespace),
            ..self
        }
    }

    /// Also the objects that workloads own.
    #[must_use]
    pub fn with_owned(self, owned: bool) -> Self {
        Self { owned, ..self }
    }
}

/// The kinds that workloads own.
const OWNED: [(&str, &str); 3] = [("apps", "ReplicaSet"), ("batch", "Job"), ("", "Pod")];

/// Reads the policies of a cluster, their targets, and the objects above and below these in the hierarchies.
pub async fn from_cluster(
    client: kube::Client,
    wanted: Wanted<'_>,
) -> Result<Loaded, AttachmentReadError> {
    let mut reader = Reader {
        client,
        namespace: wanted.namespace.map(str::to_owned),
        loaded: Loaded::default(),
        groups: BTreeMap::new(),
        seen: BTreeSet::new(),
    };
    reader
        .list("apiextensions.k8s.io", "CustomResourceDefinition")
        .await?;
    reader.list("polity.dev", "AttachmentConfig").await?;
    // The kinds are known now; what they target and what their hierarchies name comes after them.
    let kinds = Graph::of(reader.loaded.objects.clone());
    let policies: Vec<(String, String)> = kinds
        .kinds()
        .map(|kind| (kind.kind.group.clone(), kind.kind.kind.clone()))
        .collect();
    for (group, kind) in &policies {
        reader.list(group, kind).await?;
    }
    let gateway = ["GatewayClass", "Gateway", "ListenerSet", "ReferenceGrant"];
    for kind in gateway.into_iter().chain(ROUTES) {
        reader.list(GATEWAY_GROUP, kind).await?;
    }
    reader
        .list("gateway.networking.x-k8s.io", "XListenerSet")
        .await?;
    reader.list("", "Namespace").await?;
    reader.list("", "Service").await?;
    for (_, group, kind) in Family::kinds() {
        reader.list(group, kind).await?;
    }
    for (group, kind) in targeted(&reader.loaded.objects)
        .into_iter()
        .chain(in_hierarchies(&reader.loaded.objects))
    {
        reader.list(&group, &kind).await?;
    }
    if let Some((kind, _)) = wanted.object.and_then(|text| text.split_once('/')) {
        reader.list_named(kind).await?;
    }
    // A policy on a workload acts on its Pods only where what is between them is known.
    if wanted.owned || kinds.kinds().any(|kind| kind.hierarchy == "owners") {
        for (group, kind) in OWNED {
            reader.list(group, kind).await?;
        }
    }
    Ok(reader.loaded)
}

struct Reader {
    client: kube::Client,
    namespace: Option<String>,
    loaded: Loaded,
    groups: BTreeMap<String, Option<kube::discovery::ApiGroup>>,
    seen: BTreeSet<(String, String)>,
}

impl Reader {
    /// Reads all objects of a kind. One that is not served has none; one that may not be read is missing.
    async fn list(&mut self, group: &str, kind: &str) -> Result<(), AttachmentReadError> {
        if !self.seen.insert((group.to_owned(), kind.to_owned())) {
            return Ok(());
        }
        let Some((resource, scope)) = self.resource(group, kind).await? else {
            return Ok(());
        };
        let everywhere = Api::all_with(self.client.clone(), &resource);
        let error = match self.pages(&everywhere, &resource).await? {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let is_forbidden = matches!(&error, kube::Error::Api(status) if status.code == 403);
        let mut what = format!("{kind} of group {group:?} cannot be listed");
        if let Some(namespace) = self.namespace.clone()
            && is_forbidden
            && scope == Scope::Namespaced
        {
            let api = Api::namespaced_with(self.client.clone(), &namespace, &resource);
            if self.pages(&api, &resource).await?.is_ok() {
                what = format!(
                    "{kind} of group {group:?} can be listed in namespace {namespace} only"
                );
            }
        }
        self.loaded.missing.push(Missing {
            family: Family::of_kind(group, kind).unwrap_or(Family::Attachment),
            what,
            why: describe(&error).message,
            kind: Some((group.to_owned(), kind.to_owned())),
        });
        Ok(())
    }

    /// Reads a list page by page. The inner error is one of the API server.
    async fn pages(
        &mut self,
        api: &Api<DynamicObject>,
        resource: &ApiResource,
    ) -> Result<Result<(), kube::Error>, AttachmentReadError> {
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = match api.list(&params).await {
                Ok(page) => page,
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            };
            for object in page.items {
                let mut value =
                    serde_json::to_value(object).map_err(AttachmentReadError::Encode)?;
                value["apiVersion"] = Value::from(resource.api_version.as_str());
                value["kind"] = Value::from(resource.kind.as_str());
                self.loaded.objects.push(value);
            }
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                _ => return Ok(Ok(())),
            }
        }
    }

    /// Reads all objects of a kind by any of its names.
    async fn list_named(&mut self, text: &str) -> Result<(), AttachmentReadError> {
        if let Ok((group, kind)) = Names::of_objects(&self.loaded.objects).kind(text) {
            return self.list(&group, &kind).await;
        }
        // No CRD defines it, so the kind may be built in. An unknown name is reported when it is looked up.
        let (name, group) = match text.split_once('.') {
            Some((name, group)) => (name.to_lowercase(), Some(group)),
            None => (text.to_lowercase(), None),
        };
        let served = self.client.list_api_groups().await;
        let served = served.map_err(discovery)?;
        let groups: Vec<String> = served.groups.into_iter().map(|group| group.name).collect();
        for candidate in [String::new()].into_iter().chain(groups) {
            if group.is_some_and(|group| group != candidate) {
                continue;
            }
            for kind in self.kinds_called(&candidate, &name).await? {
                self.list(&candidate, &kind).await?;
            }
        }
        Ok(())
    }

    /// The kinds of a group with this kind or plural.
    async fn kinds_called(
        &mut self,
        group: &str,
        name: &str,
    ) -> Result<BTreeSet<String>, AttachmentReadError> {
        self.discover(group).await?;
        let group = self.groups.get(group).and_then(Option::as_ref);
        let resources = group.map(kube::discovery::ApiGroup::resources_by_stability);
        let called = resources
            .into_iter()
            .flatten()
            .map(|(resource, _)| resource)
            .filter(|resource| resource.plural == name || resource.kind.to_lowercase() == name);
        Ok(called.map(|resource| resource.kind).collect())
    }

    async fn discover(&mut self, group: &str) -> Result<(), AttachmentReadError> {
        if !self.groups.contains_key(group) {
            let found = match kube::discovery::group(&self.client, group).await {
                Ok(found) => Some(found),
                Err(kube::Error::Discovery(_)) => None,
                Err(error) => return Err(discovery(error)),
            };
            self.groups.insert(group.to_owned(), found);
        }
        Ok(())
    }

    async fn resource(
        &mut self,
        group: &str,
        kind: &str,
    ) -> Result<Option<(ApiResource, Scope)>, AttachmentReadError> {
        self.discover(group).await?;
        let group = self.groups.get(group).and_then(Option::as_ref);
        // Not all kinds of a group are served at its preferred version.
        let found = group
            .map(kube::discovery::ApiGroup::resources_by_stability)
            .unwrap_or_default();
        Ok(found
            .into_iter()
            .map(|(resource, capabilities)| (resource, capabilities.scope))
            .find(|(resource, _)| resource.kind == kind))
    }
}

/// The kinds that policies among these objects name as targets.
fn targeted(objects: &[Value]) -> BTreeSet<(String, String)> {
    let references = objects.iter().flat_map(|object| {
        let spec = &object["spec"];
        let many = spec["targetRefs"].as_array().into_iter().flatten();
        many.chain(spec.get("targetRef"))
    });
    references
        .filter_map(|reference| {
            let group = reference["group"].as_str().unwrap_or("");
            Some((group.to_owned(), reference["kind"].as_str()?.to_owned()))
        })
        .collect()
}

/// The kinds that configured hierarchies name.
fn in_hierarchies(objects: &[Value]) -> BTreeSet<(String, String)> {
    let mut kinds = BTreeSet::new();
    let configs = objects
        .iter()
        .filter(|object| object["kind"] == "AttachmentConfig");
    for settings in configs.filter_map(|config| polity_attach::Settings::of(config).ok()) {
        for hierarchy in settings.hierarchies {
            let edges = hierarchy
                .edges
                .into_iter()
                .flat_map(|edge| [edge.child, edge.parent]);
            for kind in hierarchy
                .levels
                .into_iter()
                .chain(edges)
                .filter(|kind| kind.kind != "*")
            {
                kinds.insert((kind.group, kind.kind));
            }
        }
    }
    kinds
}
