//! Turns references into loaded modules. Each is fetched once, compiled once, and shared by all callers.

mod in_flight;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use polity_core::causes::in_one_line;
use polity_eval::{GuestConfig, InitError};
use polity_fetch::{CompiledKey, Digest, FetchError, Fetched, Fetcher, ModuleUri, Progress};
use polity_runtime::Clock;
use polity_wasm::{CompiledCode, Engine, ExecutionMode, LoadError, Module};

use self::in_flight::InFlight;

/// The result of [`Modules::load_all`].
pub type LoadedModules = BTreeMap<ModuleUri, Result<Module, ModuleError>>;

/// Why a module could not be loaded. Concurrent callers that need the same module get the same error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ModuleError {
    /// The module could not be fetched.
    #[error("cannot fetch {uri}")]
    Fetch {
        /// The reference of the module.
        uri: String,
        /// The cause.
        #[source]
        source: Arc<FetchError>,
    },
    /// The module was fetched, and cannot be loaded.
    #[error("cannot load {uri}")]
    Load {
        /// The reference of the module.
        uri: String,
        /// The cause.
        #[source]
        source: Arc<LoadError>,
    },
    /// The thread that compiled it ended: the process is stopping.
    #[error("cannot load {uri}: compilation was cancelled")]
    GivenUp {
        /// The reference of the module.
        uri: String,
    },
}

/// Reports the progress of loading a module.
pub trait LoadProgress: Progress {
    /// The module is fetched, and its compiled code is loaded from the store.
    fn takes_up(&self) {}

    /// The module is fetched, and its compilation begins.
    fn compiles(&self) {}
}

impl LoadProgress for () {}

/// Options for loading a module.
#[derive(Clone, Copy)]
pub struct LoadOptions<'a> {
    /// The execution mode, instead of the one in the metadata of the module.
    pub mode: Option<ExecutionMode>,
    /// Receives the progress.
    pub progress: &'a dyn LoadProgress,
}

impl Default for LoadOptions<'_> {
    fn default() -> Self {
        Self {
            mode: None,
            progress: &(),
        }
    }
}

/// Loads modules. Clones share them.
#[derive(Clone)]
pub struct Modules(Arc<Inner>);

struct Inner {
    engine: Engine,
    fetcher: Fetcher,
    clock: Clock,
    keeps_compiled: bool,
    loaded: Mutex<BTreeMap<Code, Module>>,
    fetching: InFlight<String, Result<Fetched, Arc<FetchError>>>,
    compiling: InFlight<Code, Result<Module, NotLoaded>>,
}

/// Identifies compiled code: the digest and the execution mode.
type Code = (Digest, Option<&'static str>);

#[derive(Debug, Clone)]
enum NotLoaded {
    Bad(Arc<LoadError>),
    GivenUp,
}

impl Modules {
    /// Modules for this engine, fetched by this fetcher. Compiled code is kept in the store of the fetcher.
    pub fn new(engine: Engine, fetcher: Fetcher) -> Self {
        Self::with_compiled_code(engine, fetcher, true)
    }

    /// The same, without reading or writing compiled code in the store.
    pub fn compiling_anew(engine: Engine, fetcher: Fetcher) -> Self {
        Self::with_compiled_code(engine, fetcher, false)
    }

    fn with_compiled_code(engine: Engine, fetcher: Fetcher, keeps_compiled: bool) -> Self {
        Self(Arc::new(Inner {
            engine,
            fetcher,
            clock: Clock::system(),
            keeps_compiled,
            loaded: Mutex::default(),
            fetching: InFlight::default(),
            compiling: InFlight::default(),
        }))
    }

    /// The engine that modules are loaded into.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The fetcher of modules.
    pub fn fetcher(&self) -> &Fetcher {
        &self.0.fetcher
    }

    /// Loads a module. Concurrent calls for the same one fetch and compile it once.
    pub async fn load(&self, uri: &ModuleUri) -> Result<Module, ModuleError> {
        self.load_with(uri, LoadOptions::default()).await
    }

    /// [`Self::load`] with options.
    pub async fn load_with(
        &self,
        uri: &ModuleUri,
        options: LoadOptions<'_>,
    ) -> Result<Module, ModuleError> {
        let fetched = self.fetch(uri, options.progress).await?;
        let code = (fetched.digest, options.mode.map(ExecutionMode::as_str));
        if let Some(module) = self.table().get(&code) {
            return Ok(module.clone());
        }
        let compiled = self
            .0
            .compiling
            .once(code, || self.compile(fetched, options));
        compiled.await.map_err(|error| match error {
            NotLoaded::Bad(source) => ModuleError::Load {
                uri: uri.to_string(),
                source,
            },
            NotLoaded::GivenUp => ModuleError::GivenUp {
                uri: uri.to_string(),
            },
        })
    }

    /// Loads many modules, `parallelism` at a time. A failure does not stop the others.
    pub async fn load_all(
        &self,
        uris: impl IntoIterator<Item = ModuleUri>,
        parallelism: usize,
        progress: Arc<dyn LoadProgress>,
    ) -> LoadedModules {
        futures::stream::iter(uris)
            .map(|uri| {
                // Each in its own task, because reading and hashing a module takes a thread, too.
                let (modules, wanted, progress) = (self.clone(), uri.clone(), progress.clone());
                let task = tokio::spawn(async move {
                    let options = LoadOptions {
                        mode: None,
                        progress: &*progress,
                    };
                    modules.load_with(&wanted, options).await
                });
                async move {
                    let given_up = |_| ModuleError::GivenUp {
                        uri: uri.to_string(),
                    };
                    let loaded = task.await.map_err(given_up).and_then(|loaded| loaded);
                    (uri, loaded)
                }
            })
            .buffer_unordered(parallelism.max(1))
            .collect()
            .await
    }

    /// Fetches the content of a module.
    pub async fn fetch(
        &self,
        uri: &ModuleUri,
        progress: &dyn LoadProgress,
    ) -> Result<Fetched, ModuleError> {
        let inner = &self.0;
        let fetched = inner.fetching.once(uri.to_string(), || async {
            let now = inner.clock.now();
            inner
                .fetcher
                .fetch(uri, now, progress)
                .await
                .map_err(Arc::new)
        });
        fetched.await.map_err(|source| ModuleError::Fetch {
            uri: uri.to_string(),
            source,
        })
    }

    /// Drops every module that is not in `in_use`. Compiled code in the store stays.
    pub fn retain<'a>(&self, in_use: impl IntoIterator<Item = &'a Module>) {
        let digests: std::collections::BTreeSet<&str> =
            in_use.into_iter().map(Module::digest).collect();
        self.table()
            .retain(|_, module| digests.contains(module.digest()));
    }

    /// The number of modules in memory.
    pub fn n_loaded(&self) -> usize {
        self.table().len()
    }

    fn table(&self) -> std::sync::MutexGuard<'_, BTreeMap<Code, Module>> {
        self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn compile(
        &self,
        fetched: Fetched,
        options: LoadOptions<'_>,
    ) -> Result<Module, NotLoaded> {
        let code = (fetched.digest, options.mode.map(ExecutionMode::as_str));
        // The first caller may have finished between the lookup above and this one.
        if let Some(module) = self.table().get(&code) {
            return Ok(module.clone());
        }
        let mode = options.mode;
        let key = CompiledKey {
            module: fetched.digest,
            engine: match mode {
                None => self.0.engine.compatibility().to_owned(),
                // A given execution mode skips checks, so such modules are stored separately.
                Some(mode) => format!("{} as {mode}", self.0.engine.compatibility()),
            },
        };
        let module = match self.take_up(&key).await? {
            Some(module) => {
                options.progress.takes_up();
                module
            }
            None => {
                options.progress.compiles();
                let modules = self.clone();
                blocking(move || modules.compile_now(&fetched.bytes, mode, &key)).await??
            }
        };
        self.table().insert(code, module.clone());
        Ok(module)
    }

    /// The module from compiled code that this user stored; `None` if there is none for this engine.
    async fn take_up(&self, key: &CompiledKey) -> Result<Option<Module>, NotLoaded> {
        if !self.0.keeps_compiled {
            return Ok(None);
        }
        let (modules, key) = (self.clone(), key.clone());
        blocking(move || {
            let Inner {
                engine, fetcher, ..
            } = &*modules.0;
            let bytes = fetcher.store.compiled(&key).unwrap_or_else(|error| {
                tracing::warn!(
                    error = &error as &dyn Error,
                    "cannot read compiled code, compiling again"
                );
                None
            })?;
            // The store has checked the MAC of these bytes.
            match engine.load(&CompiledCode::vouched_for(bytes)) {
                Ok(module) => Some(module),
                Err(error) => {
                    tracing::debug!(
                        error = &error as &dyn Error,
                        "compiled code cannot be loaded, compiling again"
                    );
                    None
                }
            }
        })
        .await
    }

    fn compile_now(
        &self,
        wasm: &[u8],
        mode: Option<ExecutionMode>,
        key: &CompiledKey,
    ) -> Result<Module, NotLoaded> {
        let Inner {
            engine,
            fetcher,
            keeps_compiled,
            ..
        } = &*self.0;
        let bad = |error| NotLoaded::Bad(Arc::new(error));
        let module = engine.compile(wasm, mode).map_err(bad)?;
        if *keeps_compiled {
            let code = module.compiled_code().map_err(bad)?;
            // With a full disk or a read-only store the next start compiles again, nothing worse.
            if let Err(error) = fetcher.store.keep_compiled(key, code.as_bytes()) {
                tracing::warn!(
                    error = &error as &dyn Error,
                    "cannot store compiled code, the next start compiles again"
                );
            }
        }
        Ok(module)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NotLoaded> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| NotLoaded::GivenUp)
}

/// The loaded module of one guest, in the form that [`polity_eval::Policy::prepare`] needs.
pub fn module_of(
    loaded: &LoadedModules,
    policy: &str,
    member: Option<&str>,
    guest: &GuestConfig,
) -> Result<Module, InitError> {
    let name = member.unwrap_or(policy);
    let not_downloaded = |reason: String| InitError::Download {
        name: name.to_owned(),
        uri: guest.module.clone(),
        reason,
    };
    let uri: ModuleUri = guest
        .module
        .parse()
        .map_err(|error: polity_fetch::UriError| not_downloaded(error.to_string()))?;
    match loaded.get(&uri) {
        Some(Ok(module)) => Ok(module.clone()),
        Some(Err(ModuleError::Fetch { source, .. })) => Err(not_downloaded(in_one_line(&**source))),
        Some(Err(ModuleError::Load { source, .. })) => Err(InitError::Load(in_one_line(&**source))),
        Some(Err(error @ ModuleError::GivenUp { .. })) => Err(InitError::Load(error.to_string())),
        None => Err(not_downloaded("it was not asked for".to_owned())),
    }
}
