//! From references to loaded modules: fetched once, compiled once, shared by everybody who asks.

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

/// What [`Modules::load_all`] gives.
pub type LoadedModules = BTreeMap<ModuleUri, Result<Module, ModuleError>>;

/// Why there is no module. Whoever asked for the same one at the same time gets the same error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ModuleError {
    /// It could not be had.
    #[error("cannot fetch {uri}")]
    Fetch {
        /// What was asked for.
        uri: String,
        /// Why not.
        #[source]
        source: Arc<FetchError>,
    },
    /// It is here, and no good.
    #[error("cannot load {uri}")]
    Load {
        /// What was asked for.
        uri: String,
        /// Why not.
        #[source]
        source: Arc<LoadError>,
    },
    /// The thread that compiled it is gone: the process is about to end.
    #[error("cannot load {uri}: compilation was given up")]
    GivenUp {
        /// What was asked for.
        uri: String,
    },
}

/// Told how a module gets here; every call may be ignored.
pub trait LoadProgress: Progress {
    /// The module is here, and code that was made of it before is taken up.
    fn takes_up(&self) {}

    /// The module is here, and its compilation begins.
    fn compiles(&self) {}
}

impl LoadProgress for () {}

/// How a module is loaded.
#[derive(Clone, Copy)]
pub struct LoadOptions<'a> {
    /// The kind of guest, said by hand instead of by the module's metadata.
    pub mode: Option<ExecutionMode>,
    /// Whom to tell.
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

/// Loads modules. A handle: clones share everything.
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

/// One piece of compiled code: the same content run as another kind of guest is another one.
type Code = (Digest, Option<&'static str>);

#[derive(Debug, Clone)]
enum NotLoaded {
    Bad(Arc<LoadError>),
    GivenUp,
}

impl Modules {
    /// Modules for this engine, got by this fetcher; compiled code is kept in the fetcher's store.
    pub fn new(engine: Engine, fetcher: Fetcher) -> Self {
        Self::with_compiled_code(engine, fetcher, true)
    }

    /// The same, without a look at compiled code of the store, and without adding to it.
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

    /// How modules are got.
    pub fn fetcher(&self) -> &Fetcher {
        &self.0.fetcher
    }

    /// Gets a module ready to run. Asked for twice at once, it is fetched and compiled once.
    pub async fn load(&self, uri: &ModuleUri) -> Result<Module, ModuleError> {
        self.load_with(uri, LoadOptions::default()).await
    }

    /// [`Self::load`] with a say in how.
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

    /// Gets many modules ready, so many at a time. One that cannot be had does not keep the others.
    pub async fn load_all(
        &self,
        uris: impl IntoIterator<Item = ModuleUri>,
        parallelism: usize,
        progress: Arc<dyn LoadProgress>,
    ) -> LoadedModules {
        futures::stream::iter(uris)
            .map(|uri| {
                // Each on a task of its own: reading and hashing a module takes a thread, too.
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

    /// Gets the content of a module.
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

    /// Lets go of every module that is not among these. Compiled code in the store stays.
    pub fn retain<'a>(&self, in_use: impl IntoIterator<Item = &'a Module>) {
        let digests: std::collections::BTreeSet<&str> =
            in_use.into_iter().map(Module::digest).collect();
        self.table()
            .retain(|_, module| digests.contains(module.digest()));
    }

    /// How many modules are held.
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
        // Whoever was first may have finished between our look at the table and this.
        if let Some(module) = self.table().get(&code) {
            return Ok(module.clone());
        }
        let mode = options.mode;
        let key = CompiledKey {
            module: fetched.digest,
            engine: match mode {
                None => self.0.engine.compatibility().to_owned(),
                // A mode given by hand skips checks: what passed without them is kept apart.
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

    /// The module from compiled code that this user made; none if there is none that fits.
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
                    "compiled code cannot be read, compiling again"
                );
                None
            })?;
            // The store has checked the MAC over these very bytes.
            match engine.load(&CompiledCode::vouched_for(bytes)) {
                Ok(module) => Some(module),
                Err(error) => {
                    tracing::debug!(
                        error = &error as &dyn Error,
                        "compiled code is of no use, compiling again"
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
            // A full disk or a read-only store costs the next start its head start, nothing more.
            if let Err(error) = fetcher.store.keep_compiled(key, code.as_bytes()) {
                tracing::warn!(
                    error = &error as &dyn Error,
                    "compiled code cannot be kept, the next start compiles again"
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

/// The module of one guest among those that were loaded, in the form [`polity_eval::Policy::prepare`] asks for it.
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
