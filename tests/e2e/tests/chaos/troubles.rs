//! The troubles: who is brought down, replaced or given new papers, and in which step of an update.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::eventually::eventually;
use e2e::stage::{NAMESPACE, Stage};
use http::Request;
use jiff::Timestamp;
use polity_pki::Authority;
use polity_runtime::Clock;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::judge::{Outage, Span, Victim};
use crate::ledger::Ledger;
use crate::view::{Step, View};

pub(crate) const N_REPLICAS: usize = 3;
const SERVER: &str = "default";
/// How long a step of an update is waited for. Some are over before they can be seen.
const STEP_PATIENCE: Duration = Duration::from_secs(4);
/// No replica takes longer to come back on any machine.
const PATIENCE: Duration = Duration::from_mins(2);
/// How often a killed process is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Ten seconds and more.
const LOOKS: u32 = 10_000;
const CA_LIFE: Duration = Duration::from_hours(10 * 365 * 24);

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
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

impl Trouble {
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

    /// The n-th trouble, and the step of an update in which it strikes: in time each strikes in each.
    pub(crate) fn nth(n: usize) -> (Self, Step) {
        let (n_troubles, n_steps) = (Self::ALL.len(), Step::ALL.len());
        let round = n / n_troubles;
        (Self::ALL[n % n_troubles], Step::ALL[(n + round) % n_steps])
    }
}

/// Who makes trouble.
pub(crate) struct Troublemaker<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) view: watch::Receiver<View>,
    pub(crate) runtime: Handle,
}

impl Troublemaker<'_> {
    /// Waits for an update in this step, strikes, and waits until everybody is back.
    pub(crate) fn strike(&mut self, trouble: Trouble, step: Step) {
        let is_in_step = self.wait_for_step(step);
        match trouble {
            Trouble::KilledReplica => {
                let nth = self.ledger.n_updates() % N_REPLICAS;
                let victim = self.replicas().into_iter().nth(nth);
                self.kill(victim.into_iter().collect());
            }
            Trouble::KilledLeader => {
                let leader = self.leader();
                let is_it = |(pod, _): &(String, SocketAddr)| *pod == leader;
                let victims = self.replicas().into_iter().filter(is_it).collect();
                self.kill(victims);
            }
            Trouble::KilledEveryReplica => {
                let victims = self.replicas().into_iter().collect();
                self.kill(victims);
            }
            Trouble::KilledController => {
                self.stage.kill_controller();
                self.stage.start_controller();
            }
            Trouble::DeletedPod => self.delete_pod(),
            Trouble::KilledApiServer => self.kill_api_server(),
            Trouble::Scaled => self.scale(),
            Trouble::NewServingCertificate => self.replace_secret("policy-server-default"),
            Trouble::NewSigner => self.replace_secret("cache-signer-default"),
            Trouble::NewAuthority => self.rotate_authority(),
        }
        self.ledger.struck(trouble, is_in_step);
        self.wait("every replica is ready", |view| {
            view.replicas.len() == N_REPLICAS
        });
    }

    /// Whether there was one.
    fn wait_for_step(&mut self, step: Step) -> bool {
        let is_there = |view: &View| view.has_update_in(step, self.ledger.now());
        let seen = self.view.wait_for(is_there);
        let seen = async { tokio::time::timeout(STEP_PATIENCE, seen).await.map(drop) };
        self.runtime.block_on(seen).is_ok()
    }

    fn wait(&mut self, what: &str, holds: impl Fn(&View) -> bool) {
        let seen = self.view.wait_for(|view| holds(view));
        let seen = async { tokio::time::timeout(PATIENCE, seen).await.map(drop) };
        let seen = self.runtime.block_on(seen);
        assert!(
            seen.is_ok(),
            "never happened: {what}; {:#?}",
            *self.view.borrow()
        );
    }

    fn replicas(&self) -> BTreeMap<String, SocketAddr> {
        self.view.borrow().replicas.clone()
    }

    /// SIGKILL for replicas, all at once, until each is ready again.
    fn kill(&mut self, victims: Vec<(String, SocketAddr)>) {
        let n_restarts = self.restarts();
        let from = self.ledger.now();
        for (pod, _) in &victims {
            self.stage.kill_replica(pod);
        }
        for (_, address) in &victims {
            await_end(*address);
        }
        let death = self.since(from);
        for (pod, _) in &victims {
            // One that was killed before would be held back for long: somebody takes its pod away.
            if n_restarts.get(pod).is_some_and(|n| *n > 0) {
                self.delete(&format!(
                    "/api/v1/namespaces/{NAMESPACE}/pods/{pod}?gracePeriodSeconds=0"
                ));
            }
        }
        let is_back = |view: &View, pod: &String, old: &SocketAddr| {
            view.replicas.get(pod).is_some_and(|new| new != old)
        };
        if victims.len() == N_REPLICAS {
            self.wait("a replica is back", |view| {
                victims.iter().any(|(pod, old)| is_back(view, pod, old))
            });
            self.record(Victim::EveryReplica, death);
        }
        for (pod, old) in &victims {
            self.wait(&format!("{pod} is back"), |view| is_back(view, pod, old));
            self.record(Victim::Replica(pod.clone()), death);
        }
    }

    fn since(&self, from: Timestamp) -> Span {
        Span {
            from,
            until: self.ledger.now(),
        }
    }

    /// Somebody is back.
    fn record(&self, victim: Victim, death: Span) {
        let absence = self.since(death.from);
        self.ledger.outage(Outage {
            victim,
            death,
            absence,
        });
    }

    /// How often the process of each pod was started again.
    fn restarts(&self) -> BTreeMap<String, u64> {
        let pods = self.stage.pods(SERVER).into_iter();
        let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        pods.map(|(name, pod)| (name, restarts(&pod).unwrap_or_default()))
            .collect()
    }

    fn leader(&self) -> String {
        let lease = format!(
            "/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/policy-server-{SERVER}"
        );
        eventually("a replica leads", || {
            let lease = self.stage.get(&lease)?;
            let holder = lease["spec"]["holderIdentity"].as_str()?.to_owned();
            let pod = holder.split_once('_')?.0.to_owned();
            self.replicas().contains_key(&pod).then_some(pod)
        })
    }

    fn kill_api_server(&self) {
        self.ledger.api_server_is_down(true);
        let from = self.ledger.now();
        self.stage.kill_api();
        let death = self.since(from);
        self.stage.start_api();
        self.record(Victim::ApiServer, death);
        self.ledger.api_server_is_down(false);
    }

    /// A pod goes in order, and another one comes: nobody may notice.
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

    /// The controller makes another one.
    fn replace_secret(&self, name: &str) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}");
        self.delete(&path);
        eventually(&format!("another {name}"), || self.stage.get(&path));
    }

    /// What the controller does itself when an authority grows old: a new one signs, the old one is trusted on, and
    /// what it signed is due as well. It looks for this when it starts.
    fn rotate_authority(&self) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/kubewarden-ca");
        let current = self.stage.get(&path).expect("there is an authority");
        let now = Clock::system().now();
        let new = Authority::create("kubewarden-controller-ca", CA_LIFE, now).unwrap();
        let key = new.key().to_traditional_pem().unwrap();
        let data = json!({
            "ca.crt": STANDARD.encode(new.certificate().to_pem()),
            "ca.key": STANDARD.encode(key),
            "old-ca.crt": current["data"]["ca.crt"],
        });
        self.stage.kill_controller();
        self.patch(&path, &json!({"data": data}));
        let serving = format!("/api/v1/namespaces/{NAMESPACE}/secrets/policy-server-{SERVER}");
        self.delete(&serving);
        self.stage.start_controller();
        eventually("another serving certificate", || self.stage.get(&serving));
    }

    fn delete(&self, path: &str) {
        let request = Request::delete(path).body(Vec::new()).unwrap();
        self.stage.send(request).unwrap();
    }

    fn patch(&self, path: &str, patch: &Value) {
        // Our own kinds are looked at by the controller, which may be about to listen.
        eventually(&format!("a patch of {path}"), || {
            let request = Request::patch(path)
                .header("content-type", "application/merge-patch+json")
                .body(patch.to_string().into_bytes());
            self.stage.send(request.unwrap()).ok()
        });
    }
}

/// Waits until nobody listens any more: the process is gone, and all its connections with it.
fn await_end(address: SocketAddr) {
    for _ in 0..LOOKS {
        if TcpStream::connect(address).is_err() {
            return;
        }
        thread::sleep(LOOK_EVERY); // tidy: between two looks
    }
    panic!("somebody who was killed still listens on {address}");
}

#[test]
fn in_time_each_trouble_strikes_in_each_step() {
    let n = Trouble::ALL.len() * Step::ALL.len();
    for trouble in Trouble::ALL {
        for step in Step::ALL {
            let mut struck = (0..n).map(Trouble::nth);
            assert!(
                struck.any(|one| one == (trouble, step)),
                "{trouble:?} {step:?}"
            );
        }
    }
}
