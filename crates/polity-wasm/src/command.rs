//! WASI guests: commands that read a request from standard input and print their answer.
//!
//! They call the host by `host.call`; its answer is appended to their standard input.

use wasmtime::{Caller, InstancePre, Linker, ModuleExport, Store};

use crate::{
    LoadError, RunError,
    guest::{Guest, Stop},
    memory,
};

/// The modules that `call` may be imported from: the second is what JavaScript toolchains write.
const MODULES: [&str; 2] = ["host", "kubewarden:javy/host"];

pub(crate) fn is_known(module: &str, name: &str) -> bool {
    MODULES.contains(&module) && name == "call"
}

/// Where a module's entry points are.
pub(crate) struct Entry {
    memory: ModuleExport,
    start: ModuleExport,
}

impl Entry {
    pub(crate) fn find(module: &wasmtime::Module) -> Result<Self, LoadError> {
        let find = |name| {
            module
                .get_export_index(name)
                .ok_or(LoadError::MissingExport { name })
        };
        Ok(Self {
            memory: find("memory")?,
            start: find("_start")?,
        })
    }
}

/// Runs the command with the arguments and the input that the guest's state holds.
pub(crate) fn run(
    pre: &InstancePre<Guest>,
    entry: &Entry,
    store: &mut Store<Guest>,
) -> wasmtime::Result<Result<Vec<u8>, RunError>> {
    let instance = pre.instantiate(&mut *store)?;
    store.data_mut().memory = instance
        .get_module_export(&mut *store, &entry.memory)
        .and_then(wasmtime::Extern::into_memory);
    let start = instance
        .get_module_export(&mut *store, &entry.start)
        .and_then(wasmtime::Extern::into_func)
        .ok_or(Stop::BadPointer("_start"))?
        .typed::<(), ()>(&mut *store)?;
    match start.call(&mut *store, ()) {
        Err(error) if matches!(error.downcast_ref(), Some(Stop::Exit(0))) => {}
        result => result?,
    }
    Ok(Ok(std::mem::take(&mut store.data_mut().wasi.stdout)))
}

/// Provides `call`.
pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    for module in MODULES {
        linker.func_wrap(module, "call", call)?;
    }
    Ok(())
}

/// 0 is success here, the opposite of waPC.
#[expect(clippy::too_many_arguments, reason = "the protocol's signature")]
fn call(
    mut caller: Caller<'_, Guest>,
    binding: i32,
    binding_len: i32,
    namespace: i32,
    namespace_len: i32,
    operation: i32,
    operation_len: i32,
    payload: i32,
    payload_len: i32,
) -> wasmtime::Result<i32> {
    let (memory, guest) = memory::split(&mut caller, "call")?;
    let at = [
        (binding, binding_len),
        (namespace, namespace_len),
        (operation, operation_len),
        (payload, payload_len),
    ];
    let (code, answer) = match guest.host_call(memory, at, "call")? {
        Ok(response) => (0, response),
        Err(error) => (1, error.into_bytes()),
    };
    let state = &mut guest.wasi;
    // What was read is gone, so that only a guest that never reads makes its input grow.
    state.stdin.drain(..state.n_read);
    state.n_read = 0;
    if state.stdin.len() + answer.len() > 2 * guest.limits.host_payload {
        return Err(Stop::HostPayload.into());
    }
    state.stdin.extend_from_slice(&answer);
    Ok(code)
}
