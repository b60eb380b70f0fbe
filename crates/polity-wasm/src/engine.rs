//! The Wasm engine: its settings, the slots that instances live in, and the tick that interrupts guests.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
    thread,
    time::Duration,
};

use sha2::{Digest, Sha256};
use wasmtime::{
    Config, EngineWeak, InstanceAllocationStrategy, Linker, PoolingAllocationConfig, Store,
    UpdateDeadline, WasmBacktraceDetails,
};

use crate::{
    Deadline, EngineError, Host, Limits, command,
    guest::{Guest, Stop},
    inspect::{Kind, MAX_TABLES, hex},
    wapc, wasi,
};

/// How long an epoch is: how late after its deadline a guest may be stopped.
const TICK: Duration = Duration::from_millis(10);

/// The number of epochs after which the host checks a running guest.
const SHORT_RUN: u64 = 2;

/// How an engine is made.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// What a guest may take.
    pub limits: Limits,
    /// How many instances may exist at once. Slots are address space, not memory.
    pub instances: u32,
    /// How many idle slots keep a module's memory mapped, ready for its next request.
    pub warm_instances: u32,
    /// How much of an idle slot's memory is zeroed by hand and kept, instead of given back to the
    /// kernel: page faults cost more than writing zeros.
    pub keep_resident: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            instances: 64,
            warm_instances: 32,
            keep_resident: 4 << 20,
        }
    }
}

/// Compiles modules and runs them. A handle: clones are the same engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    engine: wasmtime::Engine,
    limits: Limits,
    instances: u32,
    pooled: bool,
    wapc: Linker<Guest>,
    wasi: Linker<Guest>,
    compatibility: String,
}

impl Engine {
    /// Makes an engine and starts its ticking.
    pub fn new(options: &EngineOptions) -> Result<Self, EngineError> {
        let (engine, pooled) = match wasmtime::Engine::new(&config(options, Allocation::Pooled)) {
            Ok(engine) => (engine, true),
            Err(error) => {
                // A process may be given too little address space for the slots. It still can serve.
                tracing::warn!(error = %error, "no room for instance slots, every request maps its own memory");
                let engine =
                    wasmtime::Engine::new(&config(options, Allocation::OnDemand)).map_err(setup)?;
                (engine, false)
            }
        };
        let wapc = linker(&engine, wapc::link).map_err(setup)?;
        let wasi = linker(&engine, command::link).map_err(setup)?;
        tick(engine.weak())?;
        Ok(Self(Arc::new(Inner {
            compatibility: compatibility(&engine),
            engine,
            limits: options.limits,
            instances: options.instances,
            pooled,
            wapc,
            wasi,
        })))
    }

    /// What a guest may take.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Whether instances live in slots made beforehand.
    pub fn is_pooled(&self) -> bool {
        self.0.pooled
    }

    /// Differs between engines that cannot load the compiled code of each other. Part of the key of a cache.
    pub fn compatibility(&self) -> &str {
        &self.0.compatibility
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.0.engine
    }

    pub(crate) fn instances(&self) -> u32 {
        self.0.instances
    }

    pub(crate) fn linker(&self, kind: Kind) -> &Linker<Guest> {
        match kind {
            Kind::Wapc => &self.0.wapc,
            Kind::Wasi => &self.0.wasi,
        }
    }

    /// A store for one run, with all limits in force.
    pub(crate) fn store(&self, host: Box<dyn Host>, deadline: Deadline) -> Store<Guest> {
        let mut store = Store::new(&self.0.engine, Guest::new(host, deadline, self.0.limits));
        store.limiter(|guest| &mut guest.meter);
        let mut pause = SHORT_RUN;
        store.set_epoch_deadline(ticks(deadline).min(pause));
        // Epochs only say when to look at the clock: the tick may come early or late.
        store.epoch_deadline_callback(move |mut guest| {
            if deadline.is_past() {
                return Err(Stop::Deadline.into());
            }
            guest.data_mut().host.still_running();
            pause = pause.saturating_mul(2);
            Ok(UpdateDeadline::Continue(ticks(deadline).min(pause)))
        });
        store
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("limits", &self.0.limits)
            .field("pooled", &self.0.pooled)
            .finish_non_exhaustive()
    }
}

enum Allocation {
    Pooled,
    OnDemand,
}

/// Only what the allocation says may differ between processes that share compiled code.
fn config(options: &EngineOptions, allocation: Allocation) -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .max_wasm_stack(options.limits.stack)
        .memory_init_cow(true)
        // Modules from Go 1.26 on need it.
        .wasm_function_references(true)
        .wasm_gc(false)
        .wasm_multi_memory(false)
        .wasm_memory64(false)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable);
    if let Allocation::Pooled = allocation {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_core_instances(options.instances)
            .total_memories(options.instances)
            .total_tables(options.instances.saturating_mul(MAX_TABLES))
            .max_memories_per_module(1)
            .max_tables_per_module(MAX_TABLES)
            .table_elements(options.limits.table_elements)
            .max_memory_size(options.limits.memory)
            .max_core_instance_size(4 << 20)
            .max_unused_warm_slots(options.warm_instances)
            .linear_memory_keep_resident(options.keep_resident)
            .table_keep_resident(64 << 10)
            .total_gc_heaps(1);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    }
    config
}

fn linker(
    engine: &wasmtime::Engine,
    link: fn(&mut Linker<Guest>) -> wasmtime::Result<()>,
) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    wasi::link(&mut linker)?;
    link(&mut linker)?;
    Ok(linker)
}

/// Counts epochs until the engine is gone.
fn tick(engine: EngineWeak) -> Result<(), EngineError> {
    thread::Builder::new()
        .name("wasm-ticker".to_owned())
        .spawn(move || {
            // Skip, not burst: after a stall a burst of epochs would make every guest look at the
            // clock for nothing.
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                thread::sleep(TICK);
            }
        })
        .map(drop)
        .map_err(EngineError::Ticker)
}

/// How many epochs pass before a deadline does.
fn ticks(deadline: Deadline) -> u64 {
    let left = deadline.remaining().unwrap_or(Duration::MAX);
    u64::try_from(left.as_nanos() / TICK.as_nanos()).map_or(u64::MAX, |ticks| ticks + 1)
}

/// Everything that compiled code depends on: the compiler's version, its settings, the processor.
fn compatibility(engine: &wasmtime::Engine) -> String {
    struct Into256(Sha256);

    impl Hasher for Into256 {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        fn finish(&self) -> u64 {
            0
        }
    }

    let mut hasher = Into256(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hex(&hasher.0.finalize())
}

fn setup(error: wasmtime::Error) -> EngineError {
    EngineError::Setup(format!("{error:#}"))
}
