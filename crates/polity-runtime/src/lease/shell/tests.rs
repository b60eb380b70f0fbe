//! The shell with an API server that hangs, loses responses and recovers.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::lease::LeaseTiming;

/// How the server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerBehaviour {
    Honest,
    /// Accepts requests and neither processes them nor responds.
    Hanging,
    /// Processes writes and never responds.
    Mute,
    /// Responds to everything with an error.
    Broken,
    /// Responds to every write with a conflict.
    Refusing,
    /// Responds to reads with the Lease as it was when this behaviour began.
    Stale,
}

#[derive(Debug)]
struct Server {
    behaviour: ServerBehaviour,
    lease: Option<Value>,
    stale: Option<Value>,
    version: u64,
}

#[derive(Debug, Clone)]
struct FakeCluster {
    server: Arc<Mutex<Server>>,
    clock: Clock,
}

impl FakeCluster {
    fn new() -> Self {
        let server = Server {
            behaviour: ServerBehaviour::Honest,
            lease: None,
            stale: None,
            version: 0,
        };
        Self {
            server: Arc::new(Mutex::new(server)),
            clock: Clock::manual(Timestamp::UNIX_EPOCH),
        }
    }

    fn client(&self) -> Client {
        let server = self.server.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let answer = server.lock().unwrap().answer(&parts.method, &body);
                match answer {
                    None => std::future::pending().await,
                    Some((code, value)) => Ok::<_, Infallible>(
                        Response::builder()
                            .status(code)
                            .body(Body::from(value.to_string().into_bytes()))
                            .unwrap(),
                    ),
                }
            }
        });
        Client::new(service, "default")
    }

    fn candidate(&self, identity: &str) -> Candidate {
        let elector = Elector::new(identity, LeaseTiming::default()).unwrap();
        let api = Api::default_namespaced(self.client());
        let (election, leadership) = Election::new(api, "the-lease", elector, self.clock.clone());
        let shutdown = Shutdown::new();
        let task = tokio::spawn(election.run(shutdown.clone()));
        Candidate {
            leadership,
            shutdown,
            task,
        }
    }

    fn behaviour(&self, behaviour: ServerBehaviour) {
        let mut server = self.server.lock().unwrap();
        server.behaviour = behaviour;
        server.stale = server.lease.clone();
    }

    fn spec(&self) -> Value {
        self.server.lock().unwrap().lease.as_ref().unwrap()["spec"].clone()
    }

    /// Advances time in small steps and lets all tasks run. Two candidates must never lead at the same time.
    async fn pass(&self, seconds: u64, candidates: &[&Candidate]) {
        for _ in 0..seconds * 4 {
            self.clock.advance(Duration::from_millis(250));
            settle().await;
            let n_leaders = candidates
                .iter()
                .filter(|candidate| candidate.leads())
                .count();
            assert!(n_leaders <= 1, "{candidates:?}");
        }
    }
}

impl Server {
    fn answer(&mut self, method: &Method, body: &[u8]) -> Option<(u16, Value)> {
        match self.behaviour {
            ServerBehaviour::Hanging => None,
            ServerBehaviour::Broken => Some(status(500, "InternalError")),
            ServerBehaviour::Refusing if *method != Method::GET => Some(status(409, "Conflict")),
            ServerBehaviour::Stale if *method == Method::GET => {
                self.stale.clone().map(|lease| (200, lease))
            }
            ServerBehaviour::Mute => {
                self.carry_out(method, body);
                None
            }
            ServerBehaviour::Honest | ServerBehaviour::Refusing | ServerBehaviour::Stale => {
                Some(self.carry_out(method, body))
            }
        }
    }

    fn carry_out(&mut self, method: &Method, body: &[u8]) -> (u16, Value) {
        let held = self
            .lease
            .as_ref()
            .map(|lease| lease["metadata"]["resourceVersion"].clone());
        if *method == Method::GET {
            return self
                .lease
                .clone()
                .map_or_else(|| status(404, "NotFound"), |lease| (200, lease));
        }
        let mut sent: Value = serde_json::from_slice(body).unwrap();
        match (*method == Method::POST, held) {
            (true, Some(_)) => return status(409, "AlreadyExists"),
            (false, None) => return status(404, "NotFound"),
            (false, Some(held)) if sent["metadata"]["resourceVersion"] != held => {
                return status(409, "Conflict");
            }
            (true, None) | (false, Some(_)) => {}
        }
        self.version += 1;
        sent["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(sent.clone());
        (200, sent)
    }
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason,
    });
    (code, body)
}

/// Nothing here waits for anything outside the process, so a few turns let all tasks get on.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[derive(Debug)]
struct Candidate {
    leadership: watch::Receiver<Leadership>,
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

impl Candidate {
    /// The published value, regardless of the clock.
    fn leads(&self) -> bool {
        matches!(*self.leadership.borrow(), Leadership::Leading { .. })
    }
}

#[tokio::test]
async fn one_leads_and_the_other_follows() {
    let cluster = FakeCluster::new();
    let first = cluster.candidate("first");
    settle().await;
    assert!(first.leads());
    let mut second = cluster.candidate("second");
    settle().await;
    assert_eq!(
        *second.leadership.borrow_and_update(),
        Leadership::Following {
            leader: Some("first".to_owned())
        }
    );
    cluster.pass(120, &[&first, &second]).await;
    assert!(first.leads());
    assert!(
        !second.leadership.has_changed().unwrap(),
        "renewals do not wake watchers"
    );
    assert_eq!(cluster.spec()["holderIdentity"], "first");
    assert_eq!(cluster.spec()["leaseTransitions"], 0);
    assert_eq!(cluster.spec()["acquireTime"], "1970-01-01T00:00:00.000000Z");
}

#[tokio::test]
async fn a_clean_end_hands_over_at_once() {
    let cluster = FakeCluster::new();
    let first = cluster.candidate("first");
    settle().await;
    let second = cluster.candidate("second");
    cluster.pass(10, &[&first, &second]).await;
    first.shutdown.trigger();
    first.task.await.unwrap();
    assert_eq!(cluster.spec()["holderIdentity"], "");
    cluster.pass(5, &[&second]).await;
    assert!(second.leads());
    assert_eq!(cluster.spec()["leaseTransitions"], 1);
}

#[tokio::test]
async fn a_leader_steps_down_when_the_server_is_away_and_comes_back_with_it() {
    for behaviour in [
        ServerBehaviour::Hanging,
        ServerBehaviour::Broken,
        ServerBehaviour::Refusing,
        ServerBehaviour::Mute,
    ] {
        let cluster = FakeCluster::new();
        let candidate = cluster.candidate("me");
        settle().await;
        cluster.pass(4, &[&candidate]).await;
        cluster.behaviour(behaviour);
        // The last renewal was sent at most two seconds ago.
        cluster.pass(7, &[&candidate]).await;
        assert!(candidate.leads(), "{behaviour:?}");
        cluster.pass(3, &[&candidate]).await;
        assert!(!candidate.leads(), "{behaviour:?}");
        cluster.pass(60, &[&candidate]).await;
        assert!(!candidate.leads(), "{behaviour:?}");
        cluster.behaviour(ServerBehaviour::Honest);
        cluster.pass(10, &[&candidate]).await;
        assert!(candidate.leads(), "{behaviour:?}");
    }
}

#[tokio::test]
async fn a_follower_with_a_stale_view_does_not_take_over() {
    let cluster = FakeCluster::new();
    let first = cluster.candidate("first");
    settle().await;
    let second = cluster.candidate("second");
    settle().await;
    cluster.behaviour(ServerBehaviour::Stale);
    cluster.pass(120, &[&first, &second]).await;
    assert!(first.leads(), "its writes go through");
    assert_eq!(cluster.spec()["holderIdentity"], "first");
}

#[tokio::test]
async fn without_a_responsive_server_no_candidate_leads() {
    let cluster = FakeCluster::new();
    let first = cluster.candidate("first");
    settle().await;
    let second = cluster.candidate("second");
    settle().await;
    cluster.behaviour(ServerBehaviour::Hanging);
    cluster.pass(60, &[&first, &second]).await;
    assert!(!first.leads() && !second.leads());
    cluster.behaviour(ServerBehaviour::Honest);
    cluster.pass(30, &[&first, &second]).await;
    assert!(first.leads() || second.leads());
}

#[tokio::test]
async fn a_crashed_leader_is_succeeded_after_the_lease_duration() {
    let cluster = FakeCluster::new();
    let first = cluster.candidate("first");
    settle().await;
    let second = cluster.candidate("second");
    settle().await;
    first.task.abort();
    drop(first);
    cluster.pass(14, &[&second]).await;
    assert!(!second.leads());
    cluster.pass(6, &[&second]).await;
    assert!(second.leads());
}

#[tokio::test]
async fn a_release_that_hangs_is_given_up() {
    let cluster = FakeCluster::new();
    let candidate = cluster.candidate("me");
    settle().await;
    cluster.behaviour(ServerBehaviour::Hanging);
    candidate.shutdown.trigger();
    settle().await;
    assert!(!candidate.leads());
    cluster.pass(10, &[&candidate]).await;
    candidate.task.await.unwrap();
}

#[tokio::test]
async fn fields_of_others_on_the_lease_are_kept() {
    let cluster = FakeCluster::new();
    let candidate = cluster.candidate("me");
    settle().await;
    {
        let mut server = cluster.server.lock().unwrap();
        server.version += 1;
        let version = server.version.to_string();
        let lease = server.lease.as_mut().unwrap();
        lease["metadata"]["labels"] = json!({ "team": "a" });
        lease["metadata"]["resourceVersion"] = json!(version);
    }
    cluster.pass(10, &[&candidate]).await;
    assert!(candidate.leads());
    let lease = cluster.server.lock().unwrap().lease.clone().unwrap();
    assert_eq!(lease["metadata"]["labels"]["team"], "a");
    assert_eq!(lease["spec"]["renewTime"], "1970-01-01T00:00:10.000000Z");
}
