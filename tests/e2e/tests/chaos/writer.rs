//! Changes one policy again and again. The denial message of each generation contains its number. Some generations are
//! broken on purpose.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use e2e::test_policies::TestPolicy;
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::recorder::Recorder;
use crate::view::{ClusterView, Update, kind};

/// Delay before a failed write is retried. The API server or the controller may be down.
const PAUSE: Duration = Duration::from_millis(100);
/// Upper limit for an update, including lease expiry and replica restarts.
const TIMEOUT: Duration = Duration::from_mins(2);
/// How long to wait until a broken generation is reported as failed.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(2);

/// What kind of generation to write next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GenerationKind {
    /// Works, and the writer waits until it serves.
    Good,
    /// Works, and is superseded by the next one immediately.
    Superseded,
    NoModule,
    BadSettings,
    /// Its registry accepts the connection and never responds.
    SilentRegistry,
}

impl GenerationKind {
    fn of(n: usize) -> Self {
        match n % 12 {
            3 => Self::NoModule,
            5 => Self::Superseded,
            7 => Self::BadSettings,
            11 => Self::SilentRegistry,
            _ => Self::Good,
        }
    }

    fn is_broken(self) -> bool {
        !matches!(self, Self::Good | Self::Superseded)
    }
}

/// Changes one policy until it is stopped.
pub(crate) struct Writer {
    pub(crate) test_policy: &'static TestPolicy,
    /// The URI of the policy's module.
    pub(crate) module: String,
    pub(crate) client: Client,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) view: watch::Receiver<ClusterView>,
    /// Accepts connections and never responds.
    pub(crate) silent_registry: Arc<TcpListener>,
}

impl Writer {
    /// Creates the first generation and waits until it serves.
    pub(crate) async fn create(&mut self) {
        let policy = json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
            "metadata": {"name": self.test_policy.name},
            "spec": self.test_policy.spec(&self.module, 1),
        });
        let policy: DynamicObject = serde_json::from_value(policy).unwrap();
        while let Err(error) = self.api().create(&PostParams::default(), &policy).await {
            assert!(is_transient(&error), "{error}");
            tokio::time::sleep(PAUSE).await; // tidy: between two attempts
        }
        self.serves(1).await;
    }

    /// Changes the policy until it is stopped, and waits until the last generation serves.
    pub(crate) async fn run(mut self, stopped: watch::Receiver<bool>) {
        for n in 0.. {
            let is_last = *stopped.borrow();
            // An offset, so that writers are in different steps.
            let n = n + self.test_policy.name.len();
            let generation_kind = if is_last {
                GenerationKind::Good
            } else {
                GenerationKind::of(n)
            };
            self.change(generation_kind, n).await;
            if is_last {
                return;
            }
        }
    }

    async fn change(&mut self, generation_kind: GenerationKind, n: usize) {
        let generation = self.write(generation_kind).await;
        self.recorder.updated();
        match generation_kind {
            GenerationKind::Good => self.serves(generation).await,
            GenerationKind::Superseded => {
                let pause = Duration::from_millis((n as u64 * 37) % 400);
                tokio::time::sleep(pause).await; // tidy: so that it is overtaken anywhere on its way
            }
            GenerationKind::NoModule
            | GenerationKind::BadSettings
            | GenerationKind::SilentRegistry => {
                let failed = self.view.wait_for(|view| {
                    let update = view.updates.get(self.test_policy.name);
                    update.is_some_and(|now| now.generation == generation && now.has_failed)
                });
                // A generation that still waits for a registry or a leader is superseded too.
                tokio::time::timeout(FAILURE_TIMEOUT, failed).await.ok();
            }
        }
    }

    /// Writes the next generation and returns its number.
    async fn write(&self, generation_kind: GenerationKind) -> i64 {
        let mut wanted = None;
        loop {
            if let Ok(mut policy) = self.api().get(self.test_policy.name).await {
                let found = policy.metadata.generation.unwrap();
                // An earlier attempt may have succeeded although its response was lost.
                if wanted == Some(found) {
                    return found;
                }
                let next = found + 1;
                assert!(wanted.is_none_or(|wanted| wanted == next), "{policy:?}");
                wanted = Some(next);
                if generation_kind.is_broken() {
                    self.recorder.mark_broken(self.test_policy.name, next);
                }
                policy.data["spec"] = self.spec(generation_kind, next);
                let params = PostParams::default();
                match self
                    .api()
                    .replace(self.test_policy.name, &params, &policy)
                    .await
                {
                    Ok(written) => {
                        assert_eq!(written.metadata.generation, Some(next), "{written:?}");
                        return next;
                    }
                    Err(error) => assert!(is_transient(&error), "{error}"),
                }
            }
            tokio::time::sleep(PAUSE).await; // tidy: between two attempts
        }
    }

    fn spec(&self, generation_kind: GenerationKind, generation: i64) -> Value {
        let mut spec = self.test_policy.spec(&self.module, generation);
        match generation_kind {
            GenerationKind::Good | GenerationKind::Superseded => {}
            GenerationKind::NoModule => spec["module"] = json!("file:///nowhere/module.wasm"),
            GenerationKind::BadSettings => spec["settings"] = json!({"nonsense": generation}),
            GenerationKind::SilentRegistry => {
                let address = self.silent_registry.local_addr().unwrap();
                spec["module"] = json!(format!("registry://{address}/silent:v{generation}"));
            }
        }
        spec
    }

    async fn serves(&mut self, generation: i64) {
        let name = self.test_policy.name;
        let serves =
            |update: Option<&Update>| update.is_some_and(|now| now.serving == Some(generation));
        let seen = self.view.wait_for(|view| serves(view.updates.get(name)));
        let seen = tokio::time::timeout(TIMEOUT, seen).await.map(drop);
        if seen.is_err() {
            let policy = self.api().get(name).await;
            panic!("generation {generation} of {name} never serves: {policy:#?}");
        }
    }

    fn api(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &kind("ClusterAdmissionPolicy"))
    }
}

/// Whether a retry may succeed: a component is down, or another writer was faster.
fn is_transient(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 409 || status.code >= 500,
        _ => true,
    }
}
