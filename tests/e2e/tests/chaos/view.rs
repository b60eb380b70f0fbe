//! The observed state of the cluster, kept current by watches: webhook routes, ready replicas and the progress of
//! updates.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use e2e::routing::{WebhookRoute, ready_replica};
use e2e::test_policies::TestPolicy;
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch::{Receiver, Sender};

use crate::DRAIN;
use crate::faults::N_REPLICAS;
use crate::recorder::Recorder;
use crate::request_check::Switch;

/// Delay before a broken watch is retried.
const PAUSE: Duration = Duration::from_millis(20);
const SERVICE: &str = "policy-server-default";

/// The observed state at a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClusterView {
    /// By policy.
    pub(crate) routes: BTreeMap<&'static str, WebhookRoute>,
    /// Ready replicas by Pod name.
    pub(crate) replicas: BTreeMap<String, SocketAddr>,
    /// By policy.
    pub(crate) updates: BTreeMap<&'static str, Update>,
    /// The progress of the newest revision of each policy, read from the revision. The status of the policy follows a
    /// little later.
    pub(crate) steps: BTreeMap<&'static str, (i64, Step)>,
    /// Disabled generations, and when each was first seen disabled.
    pub(crate) retired: Vec<(&'static str, i64, Timestamp)>,
}

/// The part of a policy's status that tests wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) generation: i64,
    pub(crate) serving: Option<i64>,
    pub(crate) has_failed: bool,
}

/// The observable steps of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Created,
    Scheduled,
    Initialized,
    PartlyReady,
    /// The webhook has just switched to the generation, and the previous generation drains.
    Switched,
}

impl Step {
    pub(crate) const ALL: [Self; 5] = [
        Self::Created,
        Self::Scheduled,
        Self::Initialized,
        Self::PartlyReady,
        Self::Switched,
    ];

    /// The step of a revision, from its status. A revision that is ready on every replica is about to be switched to.
    fn of(status: &Value) -> Self {
        let conditions = status["conditions"].as_array();
        let n_true = |kind: &str| {
            let conditions = conditions.into_iter().flatten();
            let is_true = |one: &&Value| one["type"] == kind && one["status"] == "True";
            conditions.filter(is_true).count()
        };
        match (n_true("Scheduled"), n_true("Initialized"), n_true("Ready")) {
            (0, _, _) => Self::Created,
            (_, 0, _) => Self::Scheduled,
            (_, _, 0) => Self::Initialized,
            (_, _, n) if n < N_REPLICAS => Self::PartlyReady,
            _ => Self::Switched,
        }
    }
}

impl ClusterView {
    /// Whether any update is in this step.
    pub(crate) fn has_update_in(&self, step: Step, now: Timestamp) -> bool {
        match step {
            Step::Switched => {
                let mut routes = self.routes.values();
                routes.any(|route| now < route.switched_at + DRAIN)
            }
            _ => self.steps.values().any(|(_, seen)| *seen == step),
        }
    }

    /// Starts the watches on the current runtime. Switches are also recorded.
    pub(crate) fn follow(client: &Client, recorder: &Arc<Recorder>) -> Receiver<Self> {
        let (sender, receiver) = tokio::sync::watch::channel(Self::default());
        let sender = Arc::new(sender);
        tokio::spawn(follow_webhooks(
            client.clone(),
            sender.clone(),
            recorder.clone(),
        ));
        tokio::spawn(follow_replicas(client.clone(), sender.clone()));
        tokio::spawn(follow_policies(client.clone(), sender.clone()));
        tokio::spawn(follow_revisions(client.clone(), sender, recorder.clone()));
        receiver
    }
}

/// Runs one watch forever. After an error the watcher resumes from where it was.
async fn follow<K>(api: Api<K>, config: watcher::Config, mut see: impl FnMut(Event<K>))
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut events = Box::pin(kube::runtime::watcher(api, config));
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => see(event),
            Err(_) => tokio::time::sleep(PAUSE).await, // tidy: before the next attempt
        }
    }
}

async fn follow_webhooks(client: Client, view: Arc<Sender<ClusterView>>, recorder: Arc<Recorder>) {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client);
    follow(api, watcher::Config::default(), |event| {
        let (Event::Apply(object) | Event::InitApply(object)) = event else {
            return;
        };
        let seen = test_policy_of(&object.name_any()).zip(WebhookRoute::read(&object));
        if let Some((test_policy, route)) = seen {
            let (generation, at) = (route.generation, route.switched_at);
            recorder.switched(test_policy.name, Switch { generation, at });
            view.send_modify(|view| drop(view.routes.insert(test_policy.name, route)));
        }
    })
    .await;
}

fn test_policy_of(id: &str) -> Option<&'static TestPolicy> {
    TestPolicy::of(id.strip_prefix("clusterwide-")?)
}

async fn follow_replicas(client: Client, view: Arc<Sender<ClusterView>>) {
    let api: Api<EndpointSlice> = Api::namespaced(client, e2e::installation::NAMESPACE);
    let config =
        watcher::Config::default().labels(&format!("kubernetes.io/service-name={SERVICE}"));
    let mut slices: BTreeMap<String, Option<(String, SocketAddr)>> = BTreeMap::new();
    follow(api, config, |event| {
        match event {
            Event::Init => slices.clear(),
            Event::InitApply(slice) | Event::Apply(slice) => {
                slices.insert(slice.name_any(), ready_replica(&slice));
            }
            Event::Delete(slice) => drop(slices.remove(&slice.name_any())),
            Event::InitDone => {}
        }
        let replicas: BTreeMap<_, _> = slices.values().flatten().cloned().collect();
        view.send_if_modified(|view| {
            let is_new = view.replicas != replicas;
            view.replicas = replicas;
            is_new
        });
    })
    .await;
}

/// The API resource of one of our kinds.
pub(crate) fn kind(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("policies.kubewarden.io", "v1", kind))
}

async fn follow_policies(client: Client, view: Arc<Sender<ClusterView>>) {
    let api: Api<DynamicObject> = Api::all_with(client, &kind("ClusterAdmissionPolicy"));
    follow(api, watcher::Config::default(), |event| {
        let (Event::Apply(object) | Event::InitApply(object)) = event else {
            return;
        };
        let seen = TestPolicy::of(&object.name_any()).zip(Update::read(&object));
        if let Some((test_policy, update)) = seen {
            view.send_modify(|view| {
                view.updates.insert(test_policy.name, update);
            });
        }
    })
    .await;
}

impl Update {
    fn read(object: &DynamicObject) -> Option<Self> {
        let generation = object.metadata.generation?;
        let status = &object.data["status"];
        Some(Self {
            generation,
            serving: status["servingGeneration"].as_i64(),
            has_failed: status["phase"] == "Failed" && status["observedGeneration"] == generation,
        })
    }
}

async fn follow_revisions(client: Client, view: Arc<Sender<ClusterView>>, recorder: Arc<Recorder>) {
    let kind = kind("PolicyRevision");
    let api: Api<DynamicObject> = Api::namespaced_with(client, e2e::installation::NAMESPACE, &kind);
    follow(api, watcher::Config::default(), |event| {
        let (Event::Apply(object) | Event::InitApply(object)) = event else {
            return;
        };
        let spec = &object.data["spec"];
        let policy = spec["objectReference"]["name"].as_str();
        let seen = policy
            .and_then(TestPolicy::of)
            .zip(spec["policyGeneration"].as_i64());
        let Some((test_policy, generation)) = seen else {
            return;
        };
        let (policy, is_enabled) = (test_policy.name, spec["enabled"] == true);
        view.send_modify(|view| {
            let newest = view.steps.get(policy).map_or(0, |(newest, _)| *newest);
            if is_enabled && generation >= newest {
                let step = Step::of(&object.data["status"]);
                view.steps.insert(policy, (generation, step));
            }
            let mut retired = view.retired.iter();
            let is_known =
                retired.any(|(name, number, _)| (*name, *number) == (policy, generation));
            if !is_enabled && !is_known {
                view.retired.push((policy, generation, recorder.now()));
            }
        });
    })
    .await;
}
