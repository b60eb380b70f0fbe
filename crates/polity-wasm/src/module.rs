//! A module that is ready to run: compiled, checked and linked.

use std::{fmt, sync::Arc};

use wasmtime::InstancePre;

use crate::{
    CompiledCode, Deadline, Engine, ExecutionMode, Host, Inspection, LoadError, Metadata, RunError,
    command,
    guest::Guest,
    inspect::{self, Kind},
    wapc,
};

/// The operations of a policy module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Evaluates a request.
    Validate,
    /// Validates settings.
    ValidateSettings,
    /// Returns the protocol version; waPC only.
    ProtocolVersion,
}

/// A policy module. Clones share the code.
#[derive(Clone)]
pub struct Module(Arc<Loaded>);

struct Loaded {
    engine: Engine,
    inspection: Inspection,
    module: wasmtime::Module,
    pre: InstancePre<Guest>,
    entry: Entry,
}

enum Entry {
    Wapc(wapc::Entry),
    Wasi(command::Entry),
}

impl Engine {
    /// Checks and compiles a module. This takes a second or two for large ones.
    ///
    /// A given `mode` replaces that of the metadata.
    pub fn compile(&self, wasm: &[u8], mode: Option<ExecutionMode>) -> Result<Module, LoadError> {
        let inspection = inspect::inspect(wasm, self.limits())?;
        let kind = inspection.check(mode, self.limits())?;
        let module = wasmtime::Module::from_binary(self.wasmtime(), wasm).map_err(not_compiled)?;
        self.link(inspection, kind, module)
    }

    /// Loads code that was compiled before, in milliseconds.
    pub fn load(&self, code: &CompiledCode) -> Result<Module, LoadError> {
        let (inspection, kind, module) = code.open(self)?;
        self.link(inspection, kind, module)
    }

    fn link(
        &self,
        inspection: Inspection,
        kind: Kind,
        module: wasmtime::Module,
    ) -> Result<Module, LoadError> {
        let pre = self
            .linker(kind)
            .instantiate_pre(&module)
            .map_err(not_compiled)?;
        let entry = match kind {
            Kind::Wapc => Entry::Wapc(wapc::Entry::find(&module)?),
            Kind::Wasi => Entry::Wasi(command::Entry::find(&module)?),
        };
        Ok(Module(Arc::new(Loaded {
            engine: self.clone(),
            inspection,
            module,
            pre,
            entry,
        })))
    }
}

impl Module {
    /// Creates an instance, passes it one request and returns its result. Blocks until the guest ends, at the latest
    /// a moment after the deadline.
    pub fn run(
        &self,
        operation: Operation,
        payload: Vec<u8>,
        deadline: Deadline,
        host: Box<dyn Host>,
    ) -> Result<Vec<u8>, RunError> {
        let engine = &self.0.engine;
        let mut store = engine.store(host, deadline);
        let outcome = match &self.0.entry {
            Entry::Wapc(entry) => {
                let state = &mut store.data_mut().wapc;
                state.operation = operation.name();
                state.payload = payload;
                wapc::run(&self.0.pre, entry, &mut store)
            }
            Entry::Wasi(entry) => {
                let state = &mut store.data_mut().wasi;
                state.args = operation.arguments().ok_or(RunError::NoSuchOperation {
                    mode: ExecutionMode::Wasi,
                    operation: operation.name(),
                })?;
                state.stdin = payload;
                state.stdout_is_answer = true;
                command::run(&self.0.pre, entry, &mut store)
            }
        };
        let outcome =
            outcome.unwrap_or_else(|error| Err(store.data().explain(&error, engine.instances())));
        store.data_mut().flush();
        outcome
    }

    /// The facts about the module file.
    pub fn inspection(&self) -> &Inspection {
        &self.0.inspection
    }

    /// The policy metadata, if the module has any.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.0.inspection.metadata.as_ref()
    }

    /// SHA-256 of the module's file, in hexadecimal.
    pub fn digest(&self) -> &str {
        &self.0.inspection.digest
    }

    /// The execution mode.
    pub fn execution_mode(&self) -> ExecutionMode {
        self.kind().mode()
    }

    /// The limits of its runs.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The compiled code, to be stored and [loaded](Engine::load) later.
    pub fn compiled_code(&self) -> Result<CompiledCode, LoadError> {
        CompiledCode::of(
            &self.0.inspection,
            self.kind(),
            &self.0.module,
            &self.0.engine,
        )
    }

    fn kind(&self) -> Kind {
        match self.0.entry {
            Entry::Wapc(_) => Kind::Wapc,
            Entry::Wasi(_) => Kind::Wasi,
        }
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module")
            .field("digest", &self.digest())
            .field("mode", &self.execution_mode())
            .finish_non_exhaustive()
    }
}

impl Operation {
    /// The name of the operation in waPC.
    pub fn name(self) -> &'static str {
        match self {
            Self::Validate => "validate",
            Self::ValidateSettings => "validate_settings",
            Self::ProtocolVersion => "protocol_version",
        }
    }

    fn arguments(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Validate => Some(&["policy.wasm", "validate"]),
            Self::ValidateSettings => Some(&["policy.wasm", "validate-settings"]),
            Self::ProtocolVersion => None,
        }
    }
}

fn not_compiled(error: wasmtime::Error) -> LoadError {
    LoadError::Compile(format!("{error:#}"))
}
