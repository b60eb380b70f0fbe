//! waPC guests: functions that read their request from the host and pass back their result.

use wasmtime::{Caller, InstancePre, Linker, ModuleExport, Store};

use crate::{
    LoadError, RunError, Stream,
    guest::{Guest, Stop},
    memory,
};

/// The module that the protocol's functions are imported from.
const MODULE: &str = "wapc";

/// The protocol's functions.
const FUNCTIONS: [&str; 9] = [
    "__guest_request",
    "__guest_response",
    "__guest_error",
    "__host_call",
    "__host_response_len",
    "__host_response",
    "__host_error_len",
    "__host_error",
    "__console_log",
];

/// The start functions, called in this order after instantiation if they exist.
const STARTS: [&str; 3] = ["_initialize", "_start", "wapc_init"];

pub(crate) fn is_known(module: &str, name: &str) -> bool {
    module == MODULE && FUNCTIONS.contains(&name)
}

/// The entry points of a module.
pub(crate) struct Entry {
    memory: ModuleExport,
    call: ModuleExport,
    starts: Vec<ModuleExport>,
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
            call: find("__guest_call")?,
            starts: STARTS
                .iter()
                .filter_map(|name| module.get_export_index(name))
                .collect(),
        })
    }
}

/// Runs the call that the guest's state holds.
pub(crate) fn run(
    pre: &InstancePre<Guest>,
    entry: &Entry,
    store: &mut Store<Guest>,
) -> wasmtime::Result<Result<Vec<u8>, RunError>> {
    let instance = pre.instantiate(&mut *store)?;
    store.data_mut().memory = instance
        .get_module_export(&mut *store, &entry.memory)
        .and_then(wasmtime::Extern::into_memory);
    let function = |store: &mut Store<Guest>, export| {
        instance
            .get_module_export(store, export)
            .and_then(wasmtime::Extern::into_func)
            .ok_or(Stop::BadPointer("export"))
    };
    for start in &entry.starts {
        let start = function(store, start)?.typed::<(), ()>(&mut *store)?;
        match start.call(&mut *store, ()) {
            // A command exits after its `main`; its exports can still be called.
            Err(error) if matches!(error.downcast_ref(), Some(Stop::Exit(0))) => {}
            result => result?,
        }
    }
    let call = function(store, &entry.call)?.typed::<(i32, i32), i32>(&mut *store)?;
    let state = &store.data().wapc;
    let lengths = (state.operation.len() as i32, state.payload.len() as i32);
    let code = call.call(&mut *store, lengths)?;
    let state = &mut store.data_mut().wapc;
    Ok(match (code, state.error.take()) {
        (0, Some(error)) => Err(RunError::Guest(error)),
        (0, None) => Err(RunError::Guest("no reason given".to_owned())),
        _ => Ok(std::mem::take(&mut state.response)),
    })
}

/// Provides the protocol's functions.
pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "__guest_request", guest_request)?;
    linker.func_wrap(MODULE, "__guest_response", guest_response)?;
    linker.func_wrap(MODULE, "__guest_error", guest_error)?;
    linker.func_wrap(MODULE, "__host_call", host_call)?;
    linker.func_wrap(
        MODULE,
        "__host_response_len",
        |caller: Caller<'_, Guest>| caller.data().wapc.host_response.len() as i32,
    )?;
    linker.func_wrap(MODULE, "__host_response", host_response)?;
    linker.func_wrap(MODULE, "__host_error_len", |caller: Caller<'_, Guest>| {
        caller.data().wapc.host_error.len() as i32
    })?;
    linker.func_wrap(MODULE, "__host_error", host_error)?;
    linker.func_wrap(MODULE, "__console_log", console_log)?;
    Ok(())
}

fn guest_request(
    mut caller: Caller<'_, Guest>,
    operation: i32,
    payload: i32,
) -> wasmtime::Result<()> {
    let (memory, guest) = memory::split(&mut caller, "__guest_request")?;
    let state = &guest.wapc;
    memory::write(memory, operation, state.operation.as_bytes())
        .and_then(|()| memory::write(memory, payload, &state.payload))
        .ok_or(Stop::BadPointer("__guest_request"))?;
    Ok(())
}

fn guest_response(mut caller: Caller<'_, Guest>, ptr: i32, len: i32) -> wasmtime::Result<()> {
    let (memory, guest) = memory::split(&mut caller, "__guest_response")?;
    let bytes = memory::slice(memory, ptr, len).ok_or(Stop::BadPointer("__guest_response"))?;
    if bytes.len() > guest.limits.output {
        return Err(Stop::Output.into());
    }
    guest.wapc.response = bytes.to_vec();
    Ok(())
}

fn guest_error(mut caller: Caller<'_, Guest>, ptr: i32, len: i32) -> wasmtime::Result<()> {
    let (memory, guest) = memory::split(&mut caller, "__guest_error")?;
    let bytes = memory::slice(memory, ptr, len).ok_or(Stop::BadPointer("__guest_error"))?;
    // An error is a short message, so the limit of a log entry is enough.
    let bytes = &bytes[..bytes.len().min(guest.limits.log_entry)];
    guest.wapc.error = Some(String::from_utf8_lossy(bytes).into_owned());
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the protocol's signature")]
fn host_call(
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
    let (memory, guest) = memory::split(&mut caller, "__host_call")?;
    let at = [
        (binding, binding_len),
        (namespace, namespace_len),
        (operation, operation_len),
        (payload, payload_len),
    ];
    let answer = guest.host_call(memory, at, "__host_call")?;
    let state = &mut guest.wapc;
    Ok(match answer {
        Ok(response) => {
            state.host_response = response;
            state.host_error.clear();
            1
        }
        Err(error) => {
            state.host_error = error.into_bytes();
            state.host_response.clear();
            0
        }
    })
}

fn host_response(mut caller: Caller<'_, Guest>, ptr: i32) -> wasmtime::Result<()> {
    let (memory, guest) = memory::split(&mut caller, "__host_response")?;
    memory::write(memory, ptr, &guest.wapc.host_response)
        .ok_or(Stop::BadPointer("__host_response"))?;
    Ok(())
}

fn host_error(mut caller: Caller<'_, Guest>, ptr: i32) -> wasmtime::Result<()> {
    let (memory, guest) = memory::split(&mut caller, "__host_error")?;
    memory::write(memory, ptr, &guest.wapc.host_error).ok_or(Stop::BadPointer("__host_error"))?;
    Ok(())
}

fn console_log(mut caller: Caller<'_, Guest>, ptr: i32, len: i32) -> wasmtime::Result<()> {
    let (memory, guest) = memory::split(&mut caller, "__console_log")?;
    let bytes = memory::slice(memory, ptr, len).ok_or(Stop::BadPointer("__console_log"))?;
    let bytes = &bytes[..bytes.len().min(guest.limits.log_entry)];
    let text = String::from_utf8_lossy(bytes);
    guest.print(Stream::Console, &text);
    Ok(())
}
