//! Loads modules by digest: from memory, from the vault, or from their source. Each is compiled once.
//!
//! Bytes are checked in memory, by their digest or by the vault's signature, before they are used. They are never
//! read a second time, so nothing can replace them after the check.

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
use crate::managed::prepare::failure::{Fault, PrepareError};
use crate::metrics::{Phase, ServerMetrics};
use crate::server::beyond_this_machine;

/// How long a compilation may take.
const COMPILATION: Duration = Duration::from_mins(2);
/// How long to wait for a file of a shared cache: network file systems show a rename late.
const LATE_FILE: Duration = Duration::from_secs(5);
/// The delay between two reads of such a file.
const LATE_FILE_PAUSE: Duration = Duration::from_millis(250);

/// The scope of the policy, which decides which sources its modules may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A cluster-wide policy.
    Cluster,
    /// A namespaced policy.
    Namespace,
}

/// A module to load, with its bytes if they were just fetched.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) module: Pinned,
    pub(crate) scope: Scope,
    pub(crate) bytes: Option<Arc<[u8]>>,
}

/// Why a module is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The leader initialises it: it must be in the vault afterwards.
    Initialize,
    /// This replica serves it.
    Serve,
}

/// A read from the vault.
type Look<T> = fn(&dyn Vault, &Pinned, Timestamp) -> Result<Found<T>, VaultError>;

/// Loads modules. Clones share the modules in memory.
#[derive(Clone)]
pub(crate) struct ModuleLoader(Arc<Inner>);

struct Inner {
    engine: Engine,
    fetcher: Fetcher,
    vault: Arc<dyn Vault>,
    clock: Clock,
    metrics: ServerMetrics,
    loaded: Mutex<BTreeMap<Digest, Module>>,
    /// The modules that are being loaded: other callers that need the same one wait.
    turns: Mutex<BTreeMap<Digest, Arc<tokio::sync::Mutex<()>>>>,
    /// Whether the vault had a file that this process did not write: then other replicas write to it too.
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

    /// Resolves a reference to the current digest. Tags are never remembered: each generation resolves them again.
    pub(crate) async fn resolve(
        &self,
        uri: &ModuleUri,
        scope: Scope,
    ) -> Result<Wanted, PrepareError> {
        let started = self.0.clock.moment();
        let fetcher = self.fetcher(uri, scope)?;
        let fetched = fetcher.download(uri, self.0.clock.now(), &()).await;
        self.0.phase(Phase::Pull, started);
        let fetched = fetched.map_err(|error| PrepareError::of_fetch(&error, uri))?;
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

    /// Loads and compiles a module.
    pub(crate) async fn load(
        &self,
        wanted: &Wanted,
        purpose: Purpose,
    ) -> Result<Module, PrepareError> {
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

    /// Drops modules that no policy uses. The last request that runs in a module frees its memory.
    pub(crate) fn forget<'a>(&self, unused: impl IntoIterator<Item = &'a Digest>) {
        let mut loaded = self.loaded();
        for digest in unused {
            loaded.remove(digest);
        }
        drop(loaded);
        self.turns().retain(|_, turn| Arc::strong_count(turn) > 1);
    }

    /// The number of modules in memory.
    pub(crate) fn n_loaded(&self) -> usize {
        self.loaded().len()
    }

    async fn take_up_or_compile(
        &self,
        wanted: &Wanted,
        purpose: Purpose,
    ) -> Result<Module, PrepareError> {
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
            .map_err(|failure| seen.explain(failure))?;
        self.compile_and_keep(wanted, bytes, purpose).await
    }

    /// The module from compiled code in the vault.
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
                warn!(module = %module.uri, %error, "cached code cannot be loaded");
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

    /// Reads from the vault, and counts the result. An error is recorded and treated as a miss.
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
                    warn!(module = %module.uri, reason = absence.detail, "cached file not used");
                }
                seen.absent(absence);
                None
            }
            Err(error) => {
                warn!(module = %module.uri, %error, "cannot read the cache");
                self.0.metrics.module_cache("error");
                seen.fault = Some(error.to_string());
                None
            }
        }
    }

    /// Pulls the recorded digest from its source again.
    async fn pull_again(&self, wanted: &Wanted) -> Result<Arc<[u8]>, PrepareError> {
        let started = self.0.clock.moment();
        let Wanted { module, scope, .. } = wanted;
        let uri = by_digest(module);
        let fetcher = self.fetcher(&uri, *scope)?;
        let fetched = match &uri {
            // The local store keeps pulled modules by digest.
            ModuleUri::Registry(_) => fetcher.fetch(&uri, self.0.clock.now(), &()).await,
            ModuleUri::Web(_) | ModuleUri::File(_) => {
                fetcher.download(&uri, self.0.clock.now(), &()).await
            }
        };
        self.0.phase(Phase::Pull, started);
        let fetched = fetched.map_err(|error| PrepareError::of_fetch(&error, &uri))?;
        if fetched.digest != module.digest {
            return Err(PrepareError::new(
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
    ) -> Result<Module, PrepareError> {
        let module = self.compile(bytes.clone()).await?;
        let kept = self.keep(&wanted.module, Some(bytes), &module).await;
        match (kept, purpose) {
            (Err(error), Purpose::Initialize) => {
                return Err(PrepareError::new(Fault::Cache, error.to_string()));
            }
            // On a full disk the next start has to compile again, nothing worse.
            (Err(error), Purpose::Serve) => {
                warn!(module = %wanted.module.uri, %error, "cannot store the module");
            }
            (Ok(()), _) => {}
        }
        Ok(module)
    }

    async fn compile(&self, bytes: Arc<[u8]>) -> Result<Module, PrepareError> {
        let started = self.0.clock.moment();
        let engine = self.0.engine.clone();
        let compiled = tokio::select! {
            compiled = blocking(move || engine.compile(&bytes, None)) => compiled,
            () = self.0.clock.sleep(COMPILATION) => {
                let message = format!("the module was not compiled within {COMPILATION:?}");
                return Err(PrepareError::new(Fault::Module, message));
            }
        };
        self.0.phase(Phase::Compile, started);
        match compiled {
            Some(Ok(module)) => Ok(module),
            Some(Err(error)) => Err(PrepareError::from(&error)),
            None => Err(PrepareError::new(Fault::Module, "the compiler gave up")),
        }
    }

    /// Puts a module that is in memory into the vault, if it is not there under this reference.
    async fn ensure_kept(&self, wanted: &Wanted, module: &Module) -> Result<(), PrepareError> {
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
            .map_err(|error| PrepareError::new(Fault::Cache, error.to_string()))
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

    /// The fetcher for a scope, which limits the sources.
    fn fetcher(&self, uri: &ModuleUri, scope: Scope) -> Result<Fetcher, PrepareError> {
        if scope == Scope::Namespace {
            if let ModuleUri::File(_) = uri {
                return Err(PrepareError::of_reference(
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

/// The problems of the vault, which are reported only if the module cannot be pulled either.
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

    /// Adds the problems of the vault to the reason why the module could not be pulled.
    fn explain(&self, failure: PrepareError) -> PrepareError {
        let (fault, detail) = match (&self.suspicious, &self.fault) {
            (Some(detail), _) => (Fault::Signature, detail),
            (None, Some(detail)) => (Fault::Cache, detail),
            (None, None) => return failure,
        };
        PrepareError::new(
            fault,
            format!("{detail}; pulling it again: {}", failure.message),
        )
    }
}

/// The reference of exactly these bytes: in a registry, that with the digest of the manifest.
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

/// Runs a blocking function; `None` if it panicked.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

#[cfg(test)]
mod tests;
