//! Sends requests at a constant rate: through the API server, directly to replicas, and for generations that must not
//! be served. The rate does not depend on the outcomes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use e2e::replica_client::{AdmissionOutcome, ReplicaClient};
use e2e::routing::WebhookRoute;
use e2e::test_policies::{TEST_POLICIES, TestPolicy};
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use polity_core::causes::in_one_line;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::recorder::{Recorder, StartedRequest};
use crate::request_check::Destination;
use crate::view::ClusterView;

/// 20, 100 and 10 requests per second. Replicas that share two busy cores shed load only far above this rate.
const TO_API_SERVER_EVERY: Duration = Duration::from_millis(50);
const TO_REPLICAS_EVERY: Duration = Duration::from_millis(10);
const TO_ABSENT_EVERY: Duration = Duration::from_millis(100);
/// Limit for concurrent requests. It is reached only if a component hangs.
const MAX_IN_FLIGHT: usize = 256;
/// Longer than the timeout of any webhook.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long it may take until every replica knows that a generation was disabled.
const PROPAGATION_TIMEOUT: Duration = Duration::from_secs(5);

/// The running streams.
pub(crate) struct Streams {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// What every stream needs to send requests.
#[derive(Clone)]
struct StreamContext {
    client: Client,
    recorder: Arc<Recorder>,
    view: watch::Receiver<ClusterView>,
    in_flight: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
}

impl Streams {
    /// Starts the streams on the current runtime.
    pub(crate) fn start(
        client: &Client,
        recorder: &Arc<Recorder>,
        view: &watch::Receiver<ClusterView>,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let source = || StreamContext {
            client: client.clone(),
            recorder: recorder.clone(),
            view: view.clone(),
            in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            stopped: stopped.clone(),
        };
        let tasks = vec![
            tokio::spawn(source().send_to_api_server()),
            tokio::spawn(source().send_to_replicas()),
            tokio::spawn(source().send_to_absent_generations()),
        ];
        Self { stop, tasks }
    }

    /// Stops the streams after all outstanding requests have an outcome.
    pub(crate) async fn finish(self) {
        self.stop.send(true).unwrap();
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

impl StreamContext {
    async fn send_to_api_server(self) {
        self.flow(TO_API_SERVER_EVERY, |n| {
            let (test_policy, violates) = chosen(n);
            let started = self
                .recorder
                .start(test_policy.name, Destination::ApiServer, violates);
            let client = self.client.clone();
            Some((started, async move {
                review_by_api_server(&client, test_policy, violates).await
            }))
        })
        .await;
    }

    async fn send_to_replicas(self) {
        let mut cached_client = CachedReplicaClient::default();
        self.flow(TO_REPLICAS_EVERY, |n| {
            let (test_policy, violates) = chosen(n);
            let generation = self.view.borrow().routes.get(test_policy.name)?.generation;
            let (pod, address) = self.replica(n / TEST_POLICIES.len())?;
            let destination = Destination::Replica { pod, generation };
            let client = cached_client.get(&self.view.borrow(), test_policy.name)?;
            let started = self.recorder.start(test_policy.name, destination, violates);
            Some((started, async move {
                review_by_replica(&client, address, test_policy, generation, violates).await
            }))
        })
        .await;
    }

    async fn send_to_absent_generations(self) {
        let mut cached_client = CachedReplicaClient::default();
        self.flow(TO_ABSENT_EVERY, |n| {
            let (policy, generation) = self.absent_generation(n)?;
            let test_policy = TestPolicy::of(policy)?;
            let (pod, address) = self.replica(n)?;
            let destination = Destination::AbsentGeneration { pod, generation };
            let client = cached_client.get(&self.view.borrow(), policy)?;
            let started = self.recorder.start(policy, destination, true);
            Some((started, async move {
                review_by_replica(&client, address, test_policy, generation, true).await
            }))
        })
        .await;
    }

    /// Sends requests at a constant rate, and waits for the last outcomes.
    async fn flow<F>(
        &self,
        every: Duration,
        mut next: impl FnMut(usize) -> Option<(StartedRequest, F)>,
    ) where
        F: Future<Output = AdmissionOutcome> + Send + 'static,
    {
        let mut pace = tokio::time::interval(every);
        pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
        for n in 0.. {
            pace.tick().await;
            if *self.stopped.borrow() {
                break;
            }
            let Ok(permit) = self.in_flight.clone().try_acquire_owned() else {
                continue;
            };
            if let Some((started, request)) = next(n) {
                let recorder = self.recorder.clone();
                tokio::spawn(async move {
                    let outcome = tokio::time::timeout(TIMEOUT, request).await;
                    let silence =
                        || AdmissionOutcome::NoResponse(format!("no response in {TIMEOUT:?}"));
                    recorder.finish(started, outcome.unwrap_or_else(|_| silence()));
                    drop(permit);
                });
            }
        }
        let all = u32::try_from(MAX_IN_FLIGHT).unwrap();
        drop(self.in_flight.acquire_many(all).await.unwrap());
    }

    /// Chooses a replica that is ready.
    fn replica(&self, n: usize) -> Option<(String, SocketAddr)> {
        let view = self.view.borrow();
        let n = n.checked_rem(view.replicas.len())?;
        let replica = view.replicas.iter().nth(n);
        replica.map(|(pod, address)| (pod.clone(), *address))
    }

    /// Chooses a generation that must not answer: a broken one, one that never existed, or one that was disabled long
    /// enough ago for every replica to know.
    fn absent_generation(&self, n: usize) -> Option<(&'static str, i64)> {
        match n % 3 {
            0 => self.recorder.recently_broken(n / 3),
            1 => {
                let test_policy = chosen(n).0;
                let view = self.view.borrow();
                let serving = view.routes.get(test_policy.name)?.generation;
                Some((test_policy.name, serving + 1_000_000))
            }
            _ => {
                let propagated = self.recorder.now() - PROPAGATION_TIMEOUT;
                let view = self.view.borrow();
                let retired = view.retired.iter().rev();
                let mut retired = retired.filter(|(_, _, since)| {
                    *since < propagated && self.recorder.api_server_was_up_since(*since)
                });
                retired
                    .next()
                    .map(|(policy, generation, _)| (*policy, *generation))
            }
        }
    }
}

/// Alternates between policies, and between objects that violate them and objects that do not. Two thirds violate,
/// because only denials name the generation that answered.
fn chosen(n: usize) -> (&'static TestPolicy, bool) {
    (
        &TEST_POLICIES[n % TEST_POLICIES.len()],
        !(n / TEST_POLICIES.len()).is_multiple_of(3),
    )
}

/// A client that is replaced when the `caBundle` of the webhook changes.
#[derive(Default)]
struct CachedReplicaClient(Option<(Arc<str>, ReplicaClient)>);

impl CachedReplicaClient {
    fn get(&mut self, view: &ClusterView, policy: &str) -> Option<ReplicaClient> {
        let WebhookRoute { authorities, .. } = view.routes.get(policy)?;
        match &self.0 {
            Some((trusted, client)) if trusted == authorities => Some(client.clone()),
            _ => {
                let client = ReplicaClient::new("default", authorities);
                self.0 = Some((authorities.clone(), client.clone()));
                Some(client)
            }
        }
    }
}

async fn review_by_replica(
    client: &ReplicaClient,
    address: SocketAddr,
    test_policy: &TestPolicy,
    generation: i64,
    violates: bool,
) -> AdmissionOutcome {
    let path = format!("validate/{}/{generation}", test_policy.id());
    let review = test_policy.review(violates).to_string();
    client.send(address, &path, review.into()).await
}

async fn review_by_api_server(
    client: &Client,
    test_policy: &TestPolicy,
    violates: bool,
) -> AdmissionOutcome {
    let body = test_policy.object(violates).to_string().into_bytes();
    let request = http::Request::post(test_policy.path())
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .unwrap();
    let response = match client.send(request).await {
        Ok(response) => response,
        Err(error) => return AdmissionOutcome::NoResponse(in_one_line(&error)),
    };
    let code = response.status().as_u16();
    let body = match response.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return AdmissionOutcome::NoResponse(in_one_line(&error)),
    };
    let text = String::from_utf8_lossy(&body).into_owned();
    match code {
        201 => AdmissionOutcome::Allowed,
        // Errors of the API server itself have a different text.
        400..=499 if text.contains("denied the request: ") => AdmissionOutcome::Denied(text),
        _ => AdmissionOutcome::HttpError { code, text },
    }
}
