//! Sends requests directly to replicas at a constant rate while policies change, and counts lost and wrong responses.
//! The rate does not depend on the responses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use e2e::replica_client::{AdmissionOutcome, ReplicaClient};
use e2e::routing::{WebhookRoute, ready_replica};
use e2e::test_policies::{TEST_POLICIES, TestPolicy, denying_generation};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use peers::Tool;
use polity_runtime::Clock;
use tokio::sync::{Semaphore, watch};
use tokio::time::MissedTickBehavior;

use crate::hub::{Hub, NAMESPACE, SET};
use crate::{SETTLED_AFTER, shown};

const N_REPLICAS: usize = 3;
/// Limit for concurrent requests. It is reached only if the replicas are too slow; then fewer requests are sent.
const MOST_UNDER_WAY: u32 = 4096;
/// Time before the first change.
const UNDISTURBED: Duration = Duration::from_secs(3);

/// The webhook routes by policy.
type WebhookRoutes = BTreeMap<&'static str, WebhookRoute>;

/// The result of a stream.
pub(crate) struct Stream {
    /// Intended number of requests per second.
    pub(crate) pace: u32,
    took: Duration,
    counts: OutcomeCounts,
}

/// Number of responses by outcome.
#[derive(Debug, Default)]
struct OutcomeCounts {
    took: Vec<Duration>,
    n_not_found: usize,
    n_errors: usize,
    n_other: usize,
    n_no_response: usize,
    /// Denials of objects that every generation allows.
    n_refused: usize,
    /// Objects that every generation denies, but that were allowed.
    n_allowed: usize,
    /// Denials by a generation other than the requested one.
    n_by_others: usize,
    /// The first wrong outcome.
    example: Option<String>,
}

/// What a stream needs to send requests.
struct StreamContext {
    clock: Clock,
    client: ReplicaClient,
    replicas: Vec<SocketAddr>,
    routes: watch::Receiver<WebhookRoutes>,
    counts: Arc<Mutex<OutcomeCounts>>,
}

/// A request for one generation of a policy.
struct ReviewRequest {
    test_policy: &'static TestPolicy,
    violates: bool,
    generation: i64,
    replica: SocketAddr,
}

pub(crate) async fn measure(hub: &Hub, (pace, n_changes): (u32, usize)) -> Stream {
    hub.scale(N_REPLICAS).await;
    for test_policy in &TEST_POLICIES {
        hub.create_with(test_policy.name, test_policy.spec(&module(test_policy), 1))
            .await;
    }
    let (seen, routes) = watch::channel(WebhookRoutes::new());
    tokio::spawn(follow(hub.client.clone(), seen));
    let source = StreamContext::open(hub, routes).await;
    let counts = source.counts.clone();
    let (stop, stopped) = watch::channel(false);
    let began = hub.clock.moment();
    let stream = tokio::spawn(source.flow(pace, stopped));
    hub.clock.sleep(UNDISTURBED).await;
    let mut changes = Vec::new();
    for n in 0..n_changes {
        let test_policy = &TEST_POLICIES[n % TEST_POLICIES.len()];
        let generation = 2 + (n / TEST_POLICIES.len()) as i64;
        let spec = test_policy.spec(&module(test_policy), generation);
        changes.push(hub.change_to(test_policy.name, spec).await);
    }
    // Replaced generations are also unloaded while requests are sent.
    hub.clock.sleep(SETTLED_AFTER).await;
    stop.send_replace(true);
    let took = hub.clock.moment().since(began);
    stream.await.expect("the stream flows to its end");
    let counts = std::mem::take(&mut *counts.lock().unwrap_or_else(PoisonError::into_inner));
    let stream = Stream { pace, took, counts };
    stream.print(&mut changes);
    hub.delete_all().await;
    stream
}

fn module(test_policy: &TestPolicy) -> String {
    let folder = Tool::Policies.find();
    let folder = folder.unwrap_or_else(|missing| panic!("run: {}", missing.install_command));
    let path = folder.join(test_policy.module).with_extension("wasm");
    format!("file://{}", path.display())
}

/// Watches the webhooks of the test policies.
async fn follow(client: Client, routes: watch::Sender<WebhookRoutes>) {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let changes = watcher(api, watcher::Config::default()).default_backoff();
    let mut changes = changes.applied_objects().boxed();
    while let Ok(Some(object)) = changes.try_next().await {
        let name = object.name_any();
        let test_policy = name.strip_prefix("clusterwide-").and_then(TestPolicy::of);
        if let Some((test_policy, route)) = test_policy.zip(WebhookRoute::read(&object)) {
            routes.send_modify(|routes| drop(routes.insert(test_policy.name, route)));
        }
    }
}

impl StreamContext {
    /// Waits until all webhooks exist.
    async fn open(hub: &Hub, mut routes: watch::Receiver<WebhookRoutes>) -> Self {
        let all = routes
            .wait_for(|routes| routes.len() == TEST_POLICIES.len())
            .await;
        let authorities = all.expect("webhooks are watched")[TEST_POLICIES[0].name]
            .authorities
            .clone();
        let slices: Api<EndpointSlice> = Api::namespaced(hub.client.clone(), NAMESPACE);
        let of_set = ListParams::default().labels(&format!("kubernetes.io/service-name={SET}"));
        let slices = slices.list(&of_set).await.expect("a list");
        let replicas = slices.iter().filter_map(ready_replica);
        let replicas: Vec<SocketAddr> = replicas.map(|(_, address)| address).collect();
        assert_eq!(replicas.len(), N_REPLICAS, "all take requests");
        Self {
            clock: hub.clock.clone(),
            client: ReplicaClient::new("default", &authorities),
            replicas,
            routes,
            counts: Arc::default(),
        }
    }

    /// Sends requests at a constant rate and waits for the last outcomes.
    async fn flow(self, pace: u32, stopped: watch::Receiver<bool>) {
        let under_way = Arc::new(Semaphore::new(MOST_UNDER_WAY as usize));
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / pace);
        // Ticks that were missed under load are caught up, so that the average rate is kept.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for n in 0.. {
            ticks.tick().await;
            if *stopped.borrow() {
                break;
            }
            let place = under_way.clone().acquire_owned().await;
            let (request, client) = (self.request(n), self.client.clone());
            let (clock, counts) = (self.clock.clone(), self.counts.clone());
            tokio::spawn(async move {
                let began = clock.moment();
                let outcome = request.send(&client).await;
                let took = clock.moment().since(began);
                let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                counts.note(&request, &outcome, took);
                drop(place);
            });
        }
        drop(under_way.acquire_many(MOST_UNDER_WAY).await);
    }

    /// Alternates between policies, between violating and other objects, and between replicas. The webhook determines
    /// the generation.
    fn request(&self, n: usize) -> ReviewRequest {
        let test_policy = &TEST_POLICIES[n % TEST_POLICIES.len()];
        let n = n / TEST_POLICIES.len();
        ReviewRequest {
            test_policy,
            violates: n.is_multiple_of(2),
            generation: self.routes.borrow()[test_policy.name].generation,
            replica: self.replicas[n / 2 % self.replicas.len()],
        }
    }
}

impl ReviewRequest {
    async fn send(&self, client: &ReplicaClient) -> AdmissionOutcome {
        let path = format!("validate/{}/{}", self.test_policy.id(), self.generation);
        let review = self.test_policy.review(self.violates).to_string();
        client.send(self.replica, &path, review.into()).await
    }
}

impl OutcomeCounts {
    fn note(&mut self, request: &ReviewRequest, outcome: &AdmissionOutcome, took: Duration) {
        self.took.push(took);
        let ReviewRequest {
            test_policy,
            violates,
            ..
        } = request;
        let wrong = match outcome {
            AdmissionOutcome::Allowed if *violates => &mut self.n_allowed,
            AdmissionOutcome::Denied(_) if !violates => &mut self.n_refused,
            AdmissionOutcome::Denied(words)
                if denying_generation(test_policy.name, words) != Some(request.generation) =>
            {
                &mut self.n_by_others
            }
            AdmissionOutcome::Allowed | AdmissionOutcome::Denied(_) => return,
            AdmissionOutcome::HttpError { code: 404, .. } => &mut self.n_not_found,
            AdmissionOutcome::HttpError { code: 500.., .. } => &mut self.n_errors,
            AdmissionOutcome::HttpError { .. } => &mut self.n_other,
            AdmissionOutcome::NoResponse(_) => &mut self.n_no_response,
        };
        *wrong += 1;
        self.example
            .get_or_insert_with(|| format!("{}: {outcome:?}", test_policy.name));
    }

    /// The number of wrong outcomes by kind.
    fn wrong(&self) -> [(&'static str, usize); 7] {
        [
            ("404", self.n_not_found),
            ("5xx", self.n_errors),
            ("other responses", self.n_other),
            ("no response", self.n_no_response),
            ("what both allow refused", self.n_refused),
            ("what both refuse allowed", self.n_allowed),
            ("answered by another generation", self.n_by_others),
        ]
    }
}

impl Stream {
    /// Number of requests per second that were sent.
    pub(crate) fn rate(&self) -> f64 {
        self.n_answered() as f64 / self.took.as_secs_f64()
    }

    /// Number of requests that were sent. Each has an outcome.
    pub(crate) fn n_answered(&self) -> usize {
        self.counts.took.len()
    }

    pub(crate) fn n_wrong(&self) -> usize {
        self.counts.wrong().iter().map(|(_, n)| n).sum()
    }

    fn print(&self, changes: &mut [Duration]) {
        let mut took = self.counts.took.clone();
        took.sort();
        changes.sort();
        let at = |all: &[Duration], part: usize| {
            let found = all.get((all.len() * part / 1000).min(all.len().saturating_sub(1)));
            shown_finely(found.copied().unwrap_or_default())
        };
        println!("### Requests while policies change\n\n| | |\n|---|---|");
        println!(
            "| sent straight to {N_REPLICAS} replicas | {} in {:.1} s, {:.0} each second |",
            self.n_answered(),
            self.took.as_secs_f64(),
            self.rate()
        );
        println!(
            "| changes meanwhile | {}, each active after {} (p50) |",
            changes.len(),
            shown(changes.get(changes.len() / 2).copied().unwrap_or_default())
        );
        println!(
            "| answered after | {} (p50), {} (p99), {} (max) |",
            at(&took, 500),
            at(&took, 990),
            at(&took, 1000)
        );
        for (what, n) in self.counts.wrong() {
            println!("| {what} | {n} |");
        }
        println!();
        if let Some(example) = &self.counts.example {
            eprintln!("  the first that was wrong: {example}");
        }
    }
}

fn shown_finely(took: Duration) -> String {
    format!("{:.1} ms", took.as_secs_f64() * 1000.0)
}
