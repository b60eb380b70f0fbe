//! Faults to inject during policy updates: killed processes, deleted Pods, scaling and replaced certificates.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::eventually::eventually;
use e2e::installation::{Installation, NAMESPACE};
use http::Request;
use jiff::Timestamp;
use polity_pki::Authority;
use polity_runtime::Clock;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::recorder::Recorder;
use crate::request_check::{FaultTarget, Outage, Span};
use crate::view::{ClusterView, Step};

pub(crate) const N_REPLICAS: usize = 3;
const SERVER: &str = "default";
/// How long to wait for an update in a given step. Some steps are too short to be observed.
const STEP_TIMEOUT: Duration = Duration::from_secs(4);
/// Upper limit for a replica to become ready again, also on a slow machine.
const TIMEOUT: Duration = Duration::from_mins(2);
/// How often to check whether a killed process still listens.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// At least ten seconds in total.
const ATTEMPTS: u32 = 10_000;
const CA_LIFE: Duration = Duration::from_hours(10 * 365 * 24);

/// A fault in the installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    KilledReplica,
    KilledController,
    DeletedPod,
    KilledApiServer,
    NewServingCertificate,
    KilledLeader,
    Scaled,
    NewSigner,
    NewAuthority,
    KilledEveryReplica,
}

impl Fault {
    pub(crate) const ALL: [Self; 10] = [
        Self::KilledReplica,
        Self::KilledController,
        Self::DeletedPod,
        Self::KilledApiServer,
        Self::NewServingCertificate,
        Self::KilledLeader,
        Self::Scaled,
        Self::NewSigner,
        Self::NewAuthority,
        Self::KilledEveryReplica,
    ];

    /// The n-th fault and the update step in which to inject it. Over time, each fault occurs in each step.
    pub(crate) fn nth(n: usize) -> (Self, Step) {
        let (n_faults, n_steps) = (Self::ALL.len(), Step::ALL.len());
        let round = n / n_faults;
        (Self::ALL[n % n_faults], Step::ALL[(n + round) % n_steps])
    }
}

/// Injects faults into an installation.
pub(crate) struct FaultInjector<'a> {
    pub(crate) installation: &'a Installation,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) view: watch::Receiver<ClusterView>,
    pub(crate) runtime: Handle,
}

impl FaultInjector<'_> {
    /// Waits for an update in this step, injects the fault, and waits until every replica is ready again.
    pub(crate) fn inject(&mut self, fault: Fault, step: Step) {
        let is_in_step = self.wait_for_step(step);
        match fault {
            Fault::KilledReplica => {
                let nth = self.recorder.n_updates() % N_REPLICAS;
                let target = self.replicas().into_iter().nth(nth);
                self.kill(target.into_iter().collect());
            }
            Fault::KilledLeader => {
                let leader = self.leader();
                let is_target = |(pod, _): &(String, SocketAddr)| *pod == leader;
                let targets = self.replicas().into_iter().filter(is_target).collect();
                self.kill(targets);
            }
            Fault::KilledEveryReplica => {
                let targets = self.replicas().into_iter().collect();
                self.kill(targets);
            }
            Fault::KilledController => {
                self.installation.kill_controller();
                self.installation.start_controller();
            }
            Fault::DeletedPod => self.delete_pod(),
            Fault::KilledApiServer => self.kill_api_server(),
            Fault::Scaled => self.scale(),
            Fault::NewServingCertificate => self.replace_secret("policy-server-default"),
            Fault::NewSigner => self.replace_secret("cache-signer-default"),
            Fault::NewAuthority => self.rotate_authority(),
        }
        self.recorder.fault_injected(fault, is_in_step);
        self.wait("every replica is ready", |view| {
            view.replicas.len() == N_REPLICAS
        });
    }

    /// Returns whether an update was seen in this step before the timeout.
    fn wait_for_step(&mut self, step: Step) -> bool {
        let is_there = |view: &ClusterView| view.has_update_in(step, self.recorder.now());
        let seen = self.view.wait_for(is_there);
        let seen = async { tokio::time::timeout(STEP_TIMEOUT, seen).await.map(drop) };
        self.runtime.block_on(seen).is_ok()
    }

    fn wait(&mut self, what: &str, holds: impl Fn(&ClusterView) -> bool) {
        let seen = self.view.wait_for(|view| holds(view));
        let seen = async { tokio::time::timeout(TIMEOUT, seen).await.map(drop) };
        let seen = self.runtime.block_on(seen);
        assert!(
            seen.is_ok(),
            "timed out waiting until {what}; {:#?}",
            *self.view.borrow()
        );
    }

    fn replicas(&self) -> BTreeMap<String, SocketAddr> {
        self.view.borrow().replicas.clone()
    }

    /// Sends SIGKILL to replicas at the same time, and waits until each is ready again.
    fn kill(&mut self, targets: Vec<(String, SocketAddr)>) {
        let n_restarts = self.restarts();
        let from = self.recorder.now();
        for (pod, _) in &targets {
            self.installation.kill_replica(pod);
        }
        for (_, address) in &targets {
            wait_until_closed(*address);
        }
        let termination = self.since(from);
        for (pod, _) in &targets {
            // A replica that was killed before would wait in restart back-off, so its Pod is deleted.
            if n_restarts.get(pod).is_some_and(|n| *n > 0) {
                self.delete(&format!(
                    "/api/v1/namespaces/{NAMESPACE}/pods/{pod}?gracePeriodSeconds=0"
                ));
            }
        }
        let is_back = |view: &ClusterView, pod: &String, old: &SocketAddr| {
            view.replicas.get(pod).is_some_and(|new| new != old)
        };
        if targets.len() == N_REPLICAS {
            self.wait("a replica is back", |view| {
                targets.iter().any(|(pod, old)| is_back(view, pod, old))
            });
            self.record(FaultTarget::EveryReplica, termination);
        }
        for (pod, old) in &targets {
            self.wait(&format!("{pod} is back"), |view| is_back(view, pod, old));
            self.record(FaultTarget::Replica(pod.clone()), termination);
        }
    }

    fn since(&self, from: Timestamp) -> Span {
        Span {
            from,
            until: self.recorder.now(),
        }
    }

    /// Records an outage that has just ended.
    fn record(&self, target: FaultTarget, termination: Span) {
        let downtime = self.since(termination.from);
        self.recorder.outage(Outage {
            target,
            termination,
            downtime,
        });
    }

    /// The restart count of each Pod.
    fn restarts(&self) -> BTreeMap<String, u64> {
        let pods = self.installation.pods(SERVER).into_iter();
        let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        pods.map(|(name, pod)| (name, restarts(&pod).unwrap_or_default()))
            .collect()
    }

    fn leader(&self) -> String {
        let lease = format!(
            "/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/policy-server-{SERVER}"
        );
        eventually("a replica leads", || {
            let lease = self.installation.get(&lease)?;
            let holder = lease["spec"]["holderIdentity"].as_str()?.to_owned();
            let pod = holder.split_once('_')?.0.to_owned();
            self.replicas().contains_key(&pod).then_some(pod)
        })
    }

    fn kill_api_server(&self) {
        self.recorder.api_server_is_down(true);
        let from = self.recorder.now();
        self.installation.kill_api();
        let termination = self.since(from);
        self.installation.start_api();
        self.record(FaultTarget::ApiServer, termination);
        self.recorder.api_server_is_down(false);
    }

    /// Deletes a Pod gracefully and waits for its successor. No request may fail meanwhile.
    fn delete_pod(&mut self) {
        let n_restarts = self.restarts();
        let Some((pod, _)) = n_restarts.into_iter().max_by_key(|(_, n)| *n) else {
            return;
        };
        let old = self.replicas().get(&pod).copied();
        self.delete(&format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}"));
        self.wait(&format!("another {pod}"), |view| {
            let new = view.replicas.get(&pod);
            new.is_some() && new != old.as_ref()
        });
    }

    fn scale(&mut self) {
        for n in [N_REPLICAS - 1, N_REPLICAS] {
            self.patch(
                &format!("/apis/policies.kubewarden.io/v1/policyservers/{SERVER}"),
                &json!({"spec": {"replicas": n}}),
            );
            self.wait(&format!("{n} replicas"), |view| view.replicas.len() == n);
        }
    }

    /// Deletes a Secret and waits until the controller creates a new one.
    fn replace_secret(&self, name: &str) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}");
        self.delete(&path);
        eventually(&format!("another {name}"), || self.installation.get(&path));
    }

    /// Rotates the CA as the controller does before a CA expires: a new CA signs, the old CA stays trusted, and
    /// certificates of the old CA are replaced. The controller detects this when it starts.
    fn rotate_authority(&self) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/kubewarden-ca");
        let current = self.installation.get(&path).expect("there is an authority");
        let now = Clock::system().now();
        let new = Authority::create("kubewarden-controller-ca", CA_LIFE, now).unwrap();
        let key = new.key().to_traditional_pem().unwrap();
        let data = json!({
            "ca.crt": STANDARD.encode(new.certificate().to_pem()),
            "ca.key": STANDARD.encode(key),
            "old-ca.crt": current["data"]["ca.crt"],
        });
        self.installation.kill_controller();
        self.patch(&path, &json!({"data": data}));
        let serving = format!("/api/v1/namespaces/{NAMESPACE}/secrets/policy-server-{SERVER}");
        self.delete(&serving);
        self.installation.start_controller();
        eventually("another serving certificate", || {
            self.installation.get(&serving)
        });
    }

    fn delete(&self, path: &str) {
        let request = Request::delete(path).body(Vec::new()).unwrap();
        self.installation.send(request).unwrap();
    }

    fn patch(&self, path: &str, patch: &Value) {
        // The controller's webhook reviews our own kinds, and the controller may still be starting.
        eventually(&format!("a patch of {path}"), || {
            let request = Request::patch(path)
                .header("content-type", "application/merge-patch+json")
                .body(patch.to_string().into_bytes());
            self.installation.send(request.unwrap()).ok()
        });
    }
}

/// Waits until the address refuses connections, which means that the process and its connections are gone.
fn wait_until_closed(address: SocketAddr) {
    for _ in 0..ATTEMPTS {
        if TcpStream::connect(address).is_err() {
            return;
        }
        thread::sleep(POLL_INTERVAL); // tidy: between two looks
    }
    panic!("a killed process still listens on {address}");
}

#[test]
fn each_fault_is_injected_in_each_step_over_time() {
    let n = Fault::ALL.len() * Step::ALL.len();
    for fault in Fault::ALL {
        for step in Step::ALL {
            let mut injected = (0..n).map(Fault::nth);
            assert!(
                injected.any(|one| one == (fault, step)),
                "{fault:?} {step:?}"
            );
        }
    }
}
