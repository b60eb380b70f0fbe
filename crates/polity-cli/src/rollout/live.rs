//! The objects of one rollout on a live hub.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use anyhow::Context as _;
use futures::future::try_join4;
use kube::api::{ListParams, PartialObjectMeta};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use polity_api::apps::v1::PlacementRule;
use polity_api::cluster;
use polity_api::cluster::v1::ManagedClusterConditionType;
use polity_api::policy::{v1, v1beta1};
use polity_core::governance::names;
use polity_core::placement::PlacementDecision;
use polity_core::{ClusterName, ObjectKey};
use polity_govern::hub::Hub;
use polity_govern::objects::{Binding, PlacementKind, PlacementRef, Policy, PolicySet};
use polity_govern::place::Decisions;
use polity_rollout::DecisionGroups;
use polity_runtime::args::ClientArgs;
use serde::de::DeserializeOwned;

use crate::exit::Hinted;

/// How many objects one request lists.
const PAGE: u32 = 500;

/// Which root policy, on which hub.
#[derive(Debug, clap::Args)]
pub(super) struct NamedRollout {
    /// The root policy
    name: String,
    /// Its namespace, when several have a policy of this name
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
}

/// A root policy on a hub.
pub(super) struct LiveRollout {
    client: Client,
    pub(super) key: ObjectKey,
    namespace: String,
}

impl NamedRollout {
    pub(super) async fn find(&self) -> anyhow::Result<LiveRollout> {
        let client = crate::connect(&self.client).await?;
        LiveRollout::find(client, &self.name, self.namespace.as_deref()).await
    }
}

impl LiveRollout {
    /// Finds the root policy of a name, in one namespace or in all.
    pub(super) async fn find(
        client: Client,
        name: &str,
        namespace: Option<&str>,
    ) -> anyhow::Result<Self> {
        let roots: Api<v1::Policy> = Api::all(client.clone());
        let params = ListParams::default().labels(&format!("!{}", names::ROOT_POLICY));
        let listed = match roots.list_metadata(&params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                return Err(Hinted::new(
                    "the cluster serves no kind Policy, so it is not a hub",
                    "choose the hub with --context or --kubeconfig",
                )
                .into());
            }
            listed => listed.context("listing the root policies")?,
        };
        let known: Vec<(String, String)> = listed.items.iter().map(place_of).collect();
        let fits = |(found_in, found): &&(String, String)| {
            found == name && namespace.is_none_or(|wanted| wanted == found_in)
        };
        let found: Vec<_> = known.iter().filter(fits).collect();
        match found.as_slice() {
            [(namespace, name)] => Ok(Self {
                client,
                key: ObjectKey::namespaced(namespace.as_str(), name.as_str()),
                namespace: namespace.clone(),
            }),
            [] => Err(absent(name, namespace, &known).into()),
            several => {
                let options: Vec<String> = several
                    .iter()
                    .map(|(namespace, _)| format!("-n {namespace}"))
                    .collect();
                let message = format!("several namespaces have a policy {name}");
                Err(Hinted::new(message, options.join(" or ")).into())
            }
        }
    }

    /// Reads the objects that the rollout depends on. The root is missing from them once it is deleted.
    pub(super) async fn read(&self) -> anyhow::Result<Hub> {
        let replicas: Api<v1::Policy> = Api::all(self.client.clone());
        let root_label = names::replica_name(&self.namespace, &self.key.name);
        let of_root = ListParams::default().labels(&format!("{}={root_label}", names::ROOT_POLICY));
        let clusters: Api<cluster::v1::ManagedCluster> = Api::all(self.client.clone());
        let sets: Api<v1beta1::PolicySet> = Api::all(self.client.clone());
        let every = ListParams::default;
        let (replicas, clusters, sets, rules) = try_join4(
            list(&replicas, of_root),
            list(&clusters, every()),
            list(&sets, every()),
            list(&self.here::<PlacementRule>(), every()),
        )
        .await?;
        let bindings = self.here::<v1::PlacementBinding>();
        let placements = self.here::<cluster::v1beta1::Placement>();
        let decisions = self.here::<cluster::v1beta1::PlacementDecision>();
        let roots = self.here::<v1::Policy>();
        let root = async {
            let root = roots.get_opt(&self.key.name).await;
            root.with_context(|| format!("reading policy {}", self.key))
        };
        let (bindings, placements, decisions, root) = try_join4(
            list(&bindings, every()),
            list(&placements, every()),
            list(&decisions, every()),
            root,
        )
        .await?;
        let mut hub = Hub {
            bindings: bindings.iter().map(Binding::from).collect(),
            policy_sets: sets.iter().map(PolicySet::from).collect(),
            decisions: rules.iter().map(Decisions::from).collect(),
            clock_is_off: clocks_off(&clusters),
            ..Hub::default()
        };
        hub.decisions.extend(decided(&placements, &decisions));
        if let Some(root) = root {
            hub.policies.insert(self.key.clone(), Policy::from(&root));
        }
        let replicas: BTreeMap<_, _> = replicas
            .iter()
            .map(Policy::from)
            .map(|replica| (ClusterName::from(replica.namespace.as_str()), replica))
            .collect();
        hub.replicas.insert(self.key.clone(), replicas);
        Ok(hub)
    }

    /// The objects of a kind in the namespace of the root policy.
    fn here<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn place_of(object: &PartialObjectMeta<v1::Policy>) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn absent(name: &str, namespace: Option<&str>, known: &[(String, String)]) -> Hinted {
    let place = namespace.map(|namespace| format!(" in namespace {namespace}"));
    let message = format!("there is no policy {name}{}", place.unwrap_or_default());
    let known: Vec<String> = known
        .iter()
        .map(|(namespace, name)| format!("{namespace}/{name}"))
        .collect();
    let hint = if known.is_empty() {
        "the hub has no root policy".to_owned()
    } else {
        format!("the hub has {}", known.join(", "))
    };
    Hinted::new(message, hint)
}

/// All objects of a kind, page by page; none of a kind that is not served.
async fn list<K>(api: &Api<K>, params: ListParams) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let mut params = params.limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = match api.list(&params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(all),
            page => page.with_context(|| format!("listing {}", K::plural(&())))?,
        };
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// What every placement has decided. One without decisions has chosen no cluster: the scheduler of the hub decides.
fn decided<'a>(
    placements: &'a [cluster::v1beta1::Placement],
    decisions: &[cluster::v1beta1::PlacementDecision],
) -> impl Iterator<Item = Decisions> + use<'a> {
    let lowered: Vec<PlacementDecision> = decisions
        .iter()
        .filter_map(|decision| PlacementDecision::try_from(decision).ok())
        .collect();
    placements.iter().map(move |placement| {
        let name = placement.name_any();
        let namespace = placement.namespace().unwrap_or_default();
        let of_placement = |decision: &&PlacementDecision| {
            decision.placement.name == name && decision.placement.namespace == namespace
        };
        let found: Vec<_> = lowered.iter().filter(of_placement).collect();
        let n_decided: usize = found.iter().map(|decision| decision.clusters.len()).sum();
        let groups = found
            .iter()
            .map(|decision| (decision.group.clone(), decision.clusters.iter().cloned()));
        Decisions {
            groups: DecisionGroups::gather(groups),
            settled: placement.status.as_ref().is_none_or(|status| {
                usize::try_from(status.number_of_selected_clusters) == Ok(n_decided)
            }),
            placement: PlacementRef {
                name,
                kind: PlacementKind::Placement,
            },
            namespace,
        }
    })
}

fn clocks_off(clusters: &[cluster::v1::ManagedCluster]) -> BTreeSet<ClusterName> {
    let synced = ManagedClusterConditionType::ManagedClusterConditionClockSynced.as_str();
    let is_off = |cluster: &&cluster::v1::ManagedCluster| {
        let status = cluster.status.as_ref();
        status.is_some_and(|status| {
            let mut conditions = status.conditions.iter();
            conditions.any(|condition| condition.type_ == synced && condition.status == "False")
        })
    };
    clusters
        .iter()
        .filter(is_off)
        .map(|cluster| ClusterName::from(cluster.name_any().as_str()))
        .collect()
}
