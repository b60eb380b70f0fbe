//! Modules by the bytes they are: from memory, from the vault, or from where they come from; compiled once.
//!
//! Only bytes whose digest was compared, or whose signature the vault has checked, get here; they are in memory by then,
//! and nobody else can change them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use polity_eval::{CompiledCode, Engine, Module};
use polity_fetch::{Digest, Fetcher, ModuleUri};
use polity_runtime::Clock;
use tracing::{info, warn};

use crate::managed::cache::vault::{Absence, Found, Pinned, Vault, VaultError};
use crate::managed::prepare::failure::{Fault, Trouble};
use crate::metrics::{Phase, ServerMetrics};
use crate::process::beyond_this_machine;

/// How long a compilation may take.
const COMPILATION: Duration = Duration::from_mins(2);
/// How long a file of a shared cache may take to show up: network file systems show a rename late.
const LATE_FILE: Duration = Duration::from_secs(5);
/// Between two looks for it.
const LATE_FILE_PAUSE: Duration = Duration::from_millis(250);

/// Whose module it is, which decides from where it may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A policy of the cluster.
    Cluster,
    /// A policy of a namespace.
    Namespace,
}

/// A module that is wanted, and its bytes if they were fetched a moment ago.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) module: Pinned,
    pub(crate) scope: Scope,
    pub(crate) bytes: Option<Arc<[u8]>>,
}

/// What loading is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// For everybody: it must be in the vault afterwards.
    Initialize,
    /// For this process.
    Serve,
}

/// One question to the vault.
type Look<T> = fn(&dyn Vault, &Pinned, Timestamp) -> Result<Found<T>, VaultError>;

/// Loads modules. Clones share everything.
#[derive(Clone)]
pub(crate) struct ModuleLoader(Arc<Inner>);

struct Inner {
    engine: Engine,
    fetcher: Fetcher,
    vault: Arc<dyn Vault>,
    clock: Clock,
    metrics: ServerMetrics,
    loaded: Mutex<BTreeMap<Digest, Module>>,
    /// Who loads a module now: others that want the same one wait.
    turns: Mutex<BTreeMap<Digest, Arc<tokio::sync::Mutex<()>>>>,
    /// Whether the vault had something that this process did not put there: then others write to it too.
    is_shared: AtomicBool,
}

impl ModuleLoader {
    pub(crate) fn new(
        engine: Engine,
        fetcher: Fetcher,
        vault: Arc<dyn Vault>,
        metrics: ServerMetrics,
        clock: Clock,
    ) -> Self {
        Self(Arc::new(Inner {
            engine,
            fetcher,
            vault,
            clock,
            metrics,
            loaded: Mutex::default(),
            turns: Mutex::default(),
            is_shared: AtomicBool::new(false),
        }))
    }

    /// Asks where a reference leads now. A tag is never remembered: each generation asks anew.
    pub(crate) async fn resolve(&self, uri: &ModuleUri, scope: Scope) -> Result<Wanted, Trouble> {
        let started = self.0.clock.moment();
        let fetcher = self.fetcher(uri, scope)?;
        let fetched = fetcher.download(uri, self.0.clock.now(), &()).await;
        self.0.phase(Phase::Pull, started);
        let fetched = fetched.map_err(|error| Trouble::of_fetch(&error, uri))?;
        Ok(Wanted {
            module: Pinned {
                uri: uri.clone(),
                digest: fetched.digest,
                manifest: fetched.manifest,
            },
            scope,
            bytes: Some(fetched.bytes),
        })
    }

    /// Gets a module ready to run.
    pub(crate) async fn load(&self, wanted: &Wanted, purpose: Purpose) -> Result<Module, Trouble> {
        let digest = wanted.module.digest;
        let turn = self.turn(digest);
        let _mine = turn.lock().await;
        let known = self.loaded().get(&digest).cloned();
        if let Some(module) = known {
            self.0.metrics.module_cache("memory");
            if purpose == Purpose::Initialize {
                self.ensure_kept(wanted, &module).await?;
            }
            return Ok(module);
        }
        let module = self.take_up_or_compile(wanted, purpose).await?;
        self.loaded().insert(digest, module.clone());
        Ok(module)
    }

    /// Lets go of modules that nobody uses any more. Their memory goes with the last request that runs in them.
    pub(crate) fn forget<'a>(&self, unused: impl IntoIterator<Item = &'a Digest>) {
        let mut loaded = self.loaded();
        for digest in unused {
            loaded.remove(digest);
        }
        drop(loaded);
        self.turns().retain(|_, turn| Arc::strong_count(turn) > 1);
    }

    /// How many modules are in memory.
    pub(crate) fn n_loaded(&self) -> usize {
        self.loaded().len()
    }

    async fn take_up_or_compile(
        &self,
        wanted: &Wanted,
        purpose: Purpose,
    ) -> Result<Module, Trouble> {
        let mut seen = Seen::default();
        let patience = self.0.clock.moment() + LATE_FILE;
        loop {
            if let Some(module) = self.take_up(&wanted.module, &mut seen).await {
                return Ok(module);
            }
            if let Some(bytes) = &wanted.bytes {
                return self.compile_and_keep(wanted, bytes.clone(), purpose).await;
            }
            if let Some(bytes) = self.original(&wanted.module, &mut seen).await {
                info!(module = %wanted.module.uri, digest = %wanted.module.digest, "compiling from the cached original");
                return self.compile_and_keep(wanted, bytes.into(), purpose).await;
            }
            let is_late = seen.may_pass
                && self.0.is_shared.load(Ordering::Relaxed)
                && self.0.clock.moment() < patience;
            if !is_late {
                break;
            }
            seen.may_pass = false;
            self.0.clock.sleep(LATE_FILE_PAUSE).await;
        }
        let bytes = self
            .pull_again(wanted)
            .await
            .map_err(|trouble| seen.explain(trouble))?;
        self.compile_and_keep(wanted, bytes, purpose).await
    }

    /// The module from code in the vault.
    async fn take_up(&self, module: &Pinned, seen: &mut Seen) -> Option<Module> {
        let started = self.0.clock.moment();
        let code = self
            .look(module, seen, |vault, module, now| {
                vault.compiled(module, now)
            })
            .await?;
        let engine = self.0.engine.clone();
        let loaded = blocking(move || engine.load(&code)).await;
        self.0.phase(Phase::Load, started);
        match loaded? {
            Ok(module) => Some(module),
            Err(error) => {
                warn!(module = %module.uri, %error, "compiled code from the cache is of no use");
                self.0.metrics.module_cache("incompatible");
                None
            }
        }
    }

    async fn original(&self, module: &Pinned, seen: &mut Seen) -> Option<Vec<u8>> {
        self.look(module, seen, |vault, module, now| {
            vault.original(module, now)
        })
        .await
    }

    /// One look into the vault, counted. Faults are seen, and are as good as nothing found.
    async fn look<T: Send + 'static>(
        &self,
        module: &Pinned,
        seen: &mut Seen,
        look: Look<T>,
    ) -> Option<T> {
        let (vault, wanted, now) = (self.0.vault.clone(), module.clone(), self.0.clock.now());
        match blocking(move || look(&*vault, &wanted, now)).await? {
            Ok(Found::Yes(found)) => {
                self.0.is_shared.store(true, Ordering::Relaxed);
                self.0.metrics.module_cache("hit");
                Some(found)
            }
            Ok(Found::No(absence)) => {
                self.0.metrics.module_cache(absence.word);
                if absence.is_suspicious {
                    warn!(module = %module.uri, reason = absence.detail, "a file of the cache is not used");
                }
                seen.absent(absence);
                None
            }
            Err(error) => {
                warn!(module = %module.uri, %error, "the cache cannot be read");
                self.0.metrics.module_cache("error");
                seen.fault = Some(error.to_string());
                None
            }
        }
    }

    /// The very bytes that were initialised, from where they came from.
    async fn pull_again(&self, wanted: &Wanted) -> Result<Arc<[u8]>, Trouble> {
        let started = self.0.clock.moment();
        let Wanted { module, scope, .. } = wanted;
        let uri = by_digest(module);
        let fetcher = self.fetcher(&uri, *scope)?;
        let fetched = match &uri {
            // The local store keeps what was pulled by digest.
            ModuleUri::Registry(_) => fetcher.fetch(&uri, self.0.clock.now(), &()).await,
            ModuleUri::Web(_) | ModuleUri::File(_) => {
                fetcher.download(&uri, self.0.clock.now(), &()).await
            }
        };
        self.0.phase(Phase::Pull, started);
        let fetched = fetched.map_err(|error| Trouble::of_fetch(&error, &uri))?;
        if fetched.digest != module.digest {
            return Err(Trouble::new(
                Fault::Changed,
                format!(
                    "{} has digest {} now, not {}",
                    module.uri, fetched.digest, module.digest
                ),
            ));
        }
        info!(module = %module.uri, digest = %module.digest, "pulled again");
        Ok(fetched.bytes)
    }

    async fn compile_and_keep(
        &self,
        wanted: &Wanted,
        bytes: Arc<[u8]>,
        purpose: Purpose,
    ) -> Result<Module, Trouble> {
        let module = self.compile(bytes.clone()).await?;
        let kept = self.keep(&wanted.module, Some(bytes), &module).await;
        match (kept, purpose) {
            (Err(error), Purpose::Initialize) => {
                return Err(Trouble::new(Fault::Cache, error.to_string()));
            }
            // A full disk costs the next start its head start, nothing more.
            (Err(error), Purpose::Serve) => {
                warn!(module = %wanted.module.uri, %error, "the module cannot be kept");
            }
            (Ok(()), _) => {}
        }
        Ok(module)
    }

    async fn compile(&self, bytes: Arc<[u8]>) -> Result<Module, Trouble> {
        let started = self.0.clock.moment();
        let engine = self.0.engine.clone();
        let compiled = tokio::select! {
            compiled = blocking(move || engine.compile(&bytes, None)) => compiled,
            () = self.0.clock.sleep(COMPILATION) => {
                let message = format!("the module was not compiled within {COMPILATION:?}");
                return Err(Trouble::new(Fault::Module, message));
            }
        };
        self.0.phase(Phase::Compile, started);
        match compiled {
            Some(Ok(module)) => Ok(module),
            Some(Err(error)) => Err(Trouble::from(&error)),
            None => Err(Trouble::new(Fault::Module, "the compiler gave up")),
        }
    }

    /// Puts a module that is in memory into the vault, if it is not there under this reference.
    async fn ensure_kept(&self, wanted: &Wanted, module: &Module) -> Result<(), Trouble> {
        let mut seen = Seen::default();
        let is_there = self
            .look(&wanted.module, &mut seen, |vault, module, now| {
                vault.compiled(module, now)
            })
            .await
            .is_some();
        if is_there {
            return Ok(());
        }
        let kept = self.keep(&wanted.module, wanted.bytes.clone(), module);
        kept.await
            .map_err(|error| Trouble::new(Fault::Cache, error.to_string()))
    }

    async fn keep(
        &self,
        pinned: &Pinned,
        bytes: Option<Arc<[u8]>>,
        module: &Module,
    ) -> Result<(), VaultError> {
        let (vault, pinned, module) = (self.0.vault.clone(), pinned.clone(), module.clone());
        let kept = blocking(move || {
            if let Some(bytes) = bytes {
                vault.keep_original(&pinned, &bytes)?;
            }
            let code: CompiledCode = module
                .compiled_code()
                .map_err(|error| VaultError(error.to_string()))?;
            vault.keep_compiled(&pinned, &code)
        });
        kept.await
            .unwrap_or_else(|| Err(VaultError("writing was given up".to_owned())))
    }

    /// The way a module may be fetched, for whom it is.
    fn fetcher(&self, uri: &ModuleUri, scope: Scope) -> Result<Fetcher, Trouble> {
        if scope == Scope::Namespace {
            if let ModuleUri::File(_) = uri {
                return Err(Trouble::of_reference(
                    "a policy of a namespace cannot name a file of the policy server",
                ));
            }
            return Ok(beyond_this_machine(&self.0.fetcher));
        }
        Ok(self.0.fetcher.clone())
    }

    fn turn(&self, digest: Digest) -> Arc<tokio::sync::Mutex<()>> {
        self.turns().entry(digest).or_default().clone()
    }

    fn loaded(&self) -> MutexGuard<'_, BTreeMap<Digest, Module>> {
        self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turns(&self) -> MutexGuard<'_, BTreeMap<Digest, Arc<tokio::sync::Mutex<()>>>> {
        self.0.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn phase(&self, phase: Phase, started: polity_runtime::Moment) {
        let took = self.clock.moment().since(started);
        self.metrics.revision_phase(phase, took);
    }
}

/// What the vault had to say, for the case that nothing else helps.
#[derive(Debug, Default)]
struct Seen {
    may_pass: bool,
    suspicious: Option<String>,
    fault: Option<String>,
}

impl Seen {
    fn absent(&mut self, absence: Absence) {
        self.may_pass |= absence.may_pass;
        if absence.is_suspicious {
            self.suspicious = Some(absence.detail);
        }
    }

    /// Why there is no module: what is wrong with the vault, and why that could not be helped.
    fn explain(&self, trouble: Trouble) -> Trouble {
        let (fault, detail) = match (&self.suspicious, &self.fault) {
            (Some(detail), _) => (Fault::Signature, detail),
            (None, Some(detail)) => (Fault::Cache, detail),
            (None, None) => return trouble,
        };
        Trouble::new(
            fault,
            format!("{detail}; pulling it again: {}", trouble.message),
        )
    }
}

/// Where exactly these bytes are: in a registry under the digest of their manifest.
fn by_digest(module: &Pinned) -> ModuleUri {
    match (&module.uri, &module.manifest) {
        (ModuleUri::Registry(uri), Some(manifest)) => {
            let mut uri = uri.clone();
            uri.digest = Some(manifest.to_string());
            ModuleUri::Registry(uri)
        }
        (uri, _) => uri.clone(),
    }
}

/// Runs something that blocks; nothing, if it panicked.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

#[cfg(test)]
mod tests;
