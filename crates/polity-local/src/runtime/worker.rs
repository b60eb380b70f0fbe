//! The worker of one Pod: carries out what its [`Machine`] asks for, and tells what came of it.

mod prepare;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::{Patch, PatchParams};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt as _};
use polity_runtime::Shutdown;
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tracing::{debug, info};

use super::{RETRY, Running, Shared, WRITE_PATIENCE, events};
use crate::access::Purse;
use crate::ask;
use crate::container::Ports;
use crate::pod::{Action, Exit, Input, Kind, Machine, Unready, Verdict, container, grace};
use crate::process::Signals;
use prepare::Written;

/// The process of a Pod. It ends when this is dropped: a worker that fails leaves nothing behind.
struct Live {
    process: u32,
    signals: Signals,
    ended: oneshot::Receiver<Exit>,
    ports: Ports,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.signals.kill();
    }
}

/// The worker of one Pod.
pub(super) struct Worker {
    shared: Arc<Shared>,
    key: ObjectRef<Pod>,
    namespace: String,
    name: String,
    uid: String,
    machine: Machine,
    live: Option<Live>,
    probes: JoinSet<Input>,
    purse: Purse,
    volumes: Written,
    /// The status this worker wrote last: what is watched comes a little later.
    status: Option<PodStatus>,
    /// When a write that failed is tried again.
    retry_at: Option<Timestamp>,
    /// Why it is not run, as the last Event about it says.
    refused: Option<String>,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, pod: &Pod) -> Self {
        let now = shared.now();
        Self {
            shared,
            key: ObjectRef::from_obj(pod),
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            machine: Machine::new(pod, now),
            live: None,
            probes: JoinSet::new(),
            purse: Purse::default(),
            volumes: Written::default(),
            status: None,
            retry_at: None,
            refused: None,
        }
    }

    /// Works until the Pod is gone or the runtime ends; then no process of it is left.
    pub(super) async fn run(mut self, shutdown: Shutdown) {
        let mut changes = self.shared.objects.changes();
        let mut input = Input::Look;
        loop {
            changes.borrow_and_update();
            let Some(pod) = self.pod() else {
                return self.clear().await;
            };
            self.retry_at = None;
            self.take_in(&pod, input).await;
            self.keep_up(&pod).await;
            self.publish();
            self.write_status(&pod).await;
            let next = tokio::select! {
                () = shutdown.triggered() => None,
                next = self.next(&mut changes) => Some(next),
            };
            let Some(next) = next else {
                return self.stop().await;
            };
            input = next;
        }
    }

    /// The Pod as it was last seen; `None` once it, or what had its name, is another.
    fn pod(&self) -> Option<Arc<Pod>> {
        let pod = self.shared.objects.pods.get(&self.key)?;
        (pod.metadata.uid.as_ref() == Some(&self.uid)).then_some(pod)
    }

    /// Waits for something to happen.
    async fn next(&mut self, changes: &mut watch::Receiver<u64>) -> Input {
        let renew_at = self.live.as_ref().and_then(|_| self.purse.renew_at());
        let wake_at = [self.machine.look_again_at(), renew_at, self.retry_at];
        let wake_at = wake_at.into_iter().flatten().min();
        let ended = async {
            match &mut self.live {
                Some(live) => {
                    let exit = (&mut live.ended).await.unwrap_or(Exit::Code(-1));
                    let process = live.process;
                    Input::Exited { process, exit }
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            exited = ended => exited,
            Some(answer) = self.probes.join_next() => answer.unwrap_or(Input::Look),
            _ = changes.changed() => Input::Look,
            () = self.shared.sleep_until(wake_at) => Input::Look,
        }
    }

    /// Tells the machine, and does what it asks for, until it asks for nothing.
    async fn take_in(&mut self, pod: &Pod, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            if let Input::Exited { exit, .. } = &input {
                info!(
                    namespace = self.namespace,
                    name = self.name,
                    ?exit,
                    "process ended"
                );
                self.live = None;
                self.probes.abort_all();
            }
            for action in self.machine.step(pod, input, self.shared.now()) {
                next = self.carry_out(pod, action).await.or(next);
            }
        }
    }

    async fn carry_out(&mut self, pod: &Pod, action: Action) -> Option<Input> {
        match action {
            Action::Start { restarts } => Some(match self.start(pod, restarts).await {
                Ok(live) => {
                    let process = live.process;
                    info!(
                        namespace = self.namespace,
                        name = self.name,
                        process,
                        "process started"
                    );
                    self.live = Some(live);
                    Input::Started { process }
                }
                Err(problem) => {
                    debug!(
                        namespace = self.namespace,
                        name = self.name,
                        ?problem,
                        "process not started"
                    );
                    self.tell_refusal(pod, &problem).await;
                    Input::NotStarted(problem)
                }
            }),
            Action::Terminate => {
                self.signals().into_iter().for_each(Signals::terminate);
                None
            }
            Action::Kill => {
                self.signals().into_iter().for_each(Signals::kill);
                None
            }
            Action::Probe(kind) => {
                self.probe(pod, kind);
                None
            }
            Action::Remove => {
                self.remove(pod).await;
                None
            }
        }
    }

    /// Writes an Event about a Pod that is not run on this machine, once for each reason.
    async fn tell_refusal(&mut self, pod: &Pod, problem: &Unready) {
        if problem.reason == Unready::FORBIDDEN && self.refused.as_ref() != Some(&problem.message) {
            events::forbidden(&self.shared, pod, &problem.message).await;
            self.refused = Some(problem.message.clone());
        }
    }

    fn signals(&self) -> Option<&Signals> {
        self.live.as_ref().map(|live| &live.signals)
    }

    fn probe(&mut self, pod: &Pod, kind: Kind) {
        let probe = container(pod).and_then(|container| kind.of(container));
        let (Some(probe), Some(live)) = (probe, &self.live) else {
            return;
        };
        let process = live.process;
        let answered = move |verdict| Input::Probed {
            process,
            kind,
            verdict,
        };
        let prober = self.shared.prober.clone();
        let (target, timeout) = (ask::target(probe, &live.ports), ask::timeout(probe));
        self.probes.spawn(async move {
            match target {
                Some(target) => answered(prober.ask(target, timeout).await),
                None => answered(Verdict::Failure),
            }
        });
    }

    /// Nothing is left of the Pod: the API may forget it.
    async fn remove(&mut self, pod: &Pod) {
        if !self.shared.forget(pod).await {
            self.machine.not_removed();
            self.retry_at = self.shared.now().checked_add(RETRY).ok();
        }
    }

    fn publish(&self) {
        let running = self.live.as_ref().map(|live| Running {
            ports: live.ports.clone(),
            is_ready: self.machine.is_ready(),
        });
        self.shared.publish(&self.uid, running);
    }

    async fn write_status(&mut self, pod: &Pod) {
        let mut pod = pod.clone();
        if self.status.is_some() {
            pod.status.clone_from(&self.status);
        }
        let status = self.machine.status(&pod, self.shared.now());
        if pod.status.as_ref() == Some(&status) {
            return;
        }
        // With the uid: another Pod of this name has another status.
        let patch = Patch::Merge(json!({"metadata": {"uid": self.uid}, "status": status}));
        let api = self.api();
        let params = PatchParams::default();
        let write = api.patch_status(&self.name, &params, &patch);
        match tokio::time::timeout(WRITE_PATIENCE, write).await {
            Ok(Ok(_)) => self.status = Some(status),
            // It is gone, and the watch is about to say so.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {}
            Ok(Err(_)) | Err(_) => self.retry_at = self.shared.now().checked_add(RETRY).ok(),
        }
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.shared.client.clone(), &self.namespace)
    }

    /// The Pod is gone from the API: so is everything of it here.
    async fn clear(mut self) {
        if let Some(mut live) = self.live.take() {
            live.signals.kill();
            (&mut live.ended).await.ok();
        }
        self.shared.publish(&self.uid, None);
        self.shared
            .logs
            .remove(&self.namespace, &self.name, &self.uid);
        let place = self.shared.places.pod(&self.uid);
        tokio::fs::remove_dir_all(place).await.ok();
    }

    /// The runtime ends: the process may finish what it does, for a while.
    async fn stop(mut self) {
        let grace = self.pod().map(|pod| grace(&pod)).unwrap_or_default();
        let grace = grace.min(self.shared.options.stop_grace);
        if let Some(mut live) = self.live.take() {
            live.signals.terminate();
            tokio::select! {
                _ = &mut live.ended => return,
                () = self.shared.options.clock.sleep(grace) => live.signals.kill(),
            }
            (&mut live.ended).await.ok();
        }
    }
}
