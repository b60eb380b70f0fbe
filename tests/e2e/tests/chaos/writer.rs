//! The writer of one policy: changes it again and again, so that each generation's words carry its number. Some
//! generations are broken on purpose.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use e2e::subjects::Subject;
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::ledger::Ledger;
use crate::view::{Update, View, kind};

/// Before a write that failed is tried again: the API server or the controller is away.
const PAUSE: Duration = Duration::from_millis(100);
/// No update takes longer, whatever happens meanwhile: a lease has to run out, replicas have to come back.
const PATIENCE: Duration = Duration::from_mins(2);
/// What a broken generation has to show what it is made of, when nothing comes of it.
const GLANCE: Duration = Duration::from_secs(2);

/// What the next generation is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Make {
    /// It works, and the writer waits until it serves.
    Good,
    /// It works, and the next one follows at once.
    Hasty,
    NoModule,
    BadSettings,
    /// Its registry takes the call and says nothing.
    SilentRegistry,
}

impl Make {
    fn of(n: usize) -> Self {
        match n % 12 {
            3 => Self::NoModule,
            5 => Self::Hasty,
            7 => Self::BadSettings,
            11 => Self::SilentRegistry,
            _ => Self::Good,
        }
    }

    fn is_broken(self) -> bool {
        !matches!(self, Self::Good | Self::Hasty)
    }
}

/// The writer of one policy.
pub(crate) struct Writer {
    pub(crate) subject: &'static Subject,
    /// The URI of its module.
    pub(crate) module: String,
    pub(crate) client: Client,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) view: watch::Receiver<View>,
    /// Takes calls and never answers.
    pub(crate) silent_registry: Arc<TcpListener>,
}

impl Writer {
    /// The first generation, which must serve before anything is asked.
    pub(crate) async fn create(&mut self) {
        let policy = json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
            "metadata": {"name": self.subject.name},
            "spec": self.subject.spec(&self.module, 1),
        });
        let policy: DynamicObject = serde_json::from_value(policy).unwrap();
        while let Err(error) = self.api().create(&PostParams::default(), &policy).await {
            assert!(is_passing(&error), "{error}");
            tokio::time::sleep(PAUSE).await; // tidy: between two attempts
        }
        self.serves(1).await;
    }

    /// Changes the policy until it is told to stop; the last generation serves.
    pub(crate) async fn run(mut self, stopped: watch::Receiver<bool>) {
        for n in 0.. {
            let is_last = *stopped.borrow();
            // Writers do not walk in step.
            let n = n + self.subject.name.len();
            let make = if is_last { Make::Good } else { Make::of(n) };
            self.change(make, n).await;
            if is_last {
                return;
            }
        }
    }

    async fn change(&mut self, make: Make, n: usize) {
        let generation = self.write(make).await;
        self.ledger.updated();
        match make {
            Make::Good => self.serves(generation).await,
            Make::Hasty => {
                let pause = Duration::from_millis((n as u64 * 37) % 400);
                tokio::time::sleep(pause).await; // tidy: so that it is overtaken anywhere on its way
            }
            Make::NoModule | Make::BadSettings | Make::SilentRegistry => {
                let failed = self.view.wait_for(|view| {
                    let update = view.updates.get(self.subject.name);
                    update.is_some_and(|now| now.generation == generation && now.has_failed)
                });
                // Whoever waits for a registry, or for a leader, is overtaken too.
                tokio::time::timeout(GLANCE, failed).await.ok();
            }
        }
    }

    /// Writes the next generation; its number.
    async fn write(&self, make: Make) -> i64 {
        let mut wanted = None;
        loop {
            if let Ok(mut policy) = self.api().get(self.subject.name).await {
                let found = policy.metadata.generation.unwrap();
                // The answer to an earlier attempt may be what was lost.
                if wanted == Some(found) {
                    return found;
                }
                let next = found + 1;
                assert!(wanted.is_none_or(|wanted| wanted == next), "{policy:?}");
                wanted = Some(next);
                if make.is_broken() {
                    self.ledger.breaks(self.subject.name, next);
                }
                policy.data["spec"] = self.spec(make, next);
                let params = PostParams::default();
                match self
                    .api()
                    .replace(self.subject.name, &params, &policy)
                    .await
                {
                    Ok(written) => {
                        assert_eq!(written.metadata.generation, Some(next), "{written:?}");
                        return next;
                    }
                    Err(error) => assert!(is_passing(&error), "{error}"),
                }
            }
            tokio::time::sleep(PAUSE).await; // tidy: between two attempts
        }
    }

    fn spec(&self, make: Make, generation: i64) -> Value {
        let mut spec = self.subject.spec(&self.module, generation);
        match make {
            Make::Good | Make::Hasty => {}
            Make::NoModule => spec["module"] = json!("file:///nowhere/module.wasm"),
            Make::BadSettings => spec["settings"] = json!({"nonsense": generation}),
            Make::SilentRegistry => {
                let address = self.silent_registry.local_addr().unwrap();
                spec["module"] = json!(format!("registry://{address}/silent:v{generation}"));
            }
        }
        spec
    }

    async fn serves(&mut self, generation: i64) {
        let name = self.subject.name;
        let serves =
            |update: Option<&Update>| update.is_some_and(|now| now.serving == Some(generation));
        let seen = self.view.wait_for(|view| serves(view.updates.get(name)));
        let seen = tokio::time::timeout(PATIENCE, seen).await.map(drop);
        if seen.is_err() {
            let policy = self.api().get(name).await;
            panic!("generation {generation} of {name} never serves: {policy:#?}");
        }
    }

    fn api(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &kind("ClusterAdmissionPolicy"))
    }
}

/// Whether it may be otherwise the next time: somebody is away, or was quicker.
fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 409 || status.code >= 500,
        _ => true,
    }
}
