//! WASI preview 1 for guests that get nothing but clocks, random bytes and three streams.
//!
//! There are no files, no directories, no environment and no sockets, so most functions return a constant. The rest
//! is small enough to be implemented here: it needs no async runtime, no context that costs more than a small guest,
//! and it bounds what a guest prints, reads and waits for.

use std::time::Duration;

use wasmtime::{Caller, FuncType, Linker, Val, ValType};

use crate::{
    Host, clock,
    guest::{Guest, Stop},
    memory::{self, read_u32, read_u64},
};

/// The module that the interface is imported from.
pub(crate) const MODULE: &str = "wasi_snapshot_preview1";

/// Error numbers of the interface.
mod errno {
    pub(super) const SUCCESS: i32 = 0;
    pub(super) const BADF: i32 = 8;
    pub(super) const FAULT: i32 = 21;
    pub(super) const INVAL: i32 = 28;
    pub(super) const NOTSUP: i32 = 58;
    pub(super) const SPIPE: i32 = 70;
}

/// The most buffers in one call: each costs a memory access.
const MAX_BUFFERS: i32 = 1024;

/// How long a guest sleeps before its host is notified.
const FIRST_SLEEP: Duration = Duration::from_millis(5);

/// How many random bytes are generated between two checks of the deadline.
const RANDOM_CHUNK: usize = 64 << 10;

/// The functions with a constant result: name, parameters (`i` or `I` for 32 or 64 bits), result.
const FIXED: [(&str, &str, i32); 30] = [
    ("fd_advise", "iIIi", errno::BADF),
    ("fd_allocate", "iII", errno::BADF),
    ("fd_datasync", "i", errno::BADF),
    ("fd_fdstat_set_rights", "iII", errno::BADF),
    ("fd_filestat_set_size", "iI", errno::BADF),
    ("fd_filestat_set_times", "iIIi", errno::BADF),
    ("fd_pread", "iiiIi", errno::BADF),
    ("fd_prestat_get", "ii", errno::BADF),
    ("fd_prestat_dir_name", "iii", errno::BADF),
    ("fd_pwrite", "iiiIi", errno::BADF),
    ("fd_readdir", "iiiIi", errno::BADF),
    ("fd_renumber", "ii", errno::BADF),
    ("fd_sync", "i", errno::BADF),
    ("fd_tell", "ii", errno::SPIPE),
    ("path_create_directory", "iii", errno::BADF),
    ("path_filestat_get", "iiiii", errno::BADF),
    ("path_filestat_set_times", "iiiiIIi", errno::BADF),
    ("path_link", "iiiiiii", errno::BADF),
    ("path_open", "iiiiiIIii", errno::BADF),
    ("path_readlink", "iiiiii", errno::BADF),
    ("path_remove_directory", "iii", errno::BADF),
    ("path_rename", "iiiiii", errno::BADF),
    ("path_symlink", "iiiii", errno::BADF),
    ("path_unlink_file", "iii", errno::BADF),
    ("proc_raise", "i", errno::NOTSUP),
    ("sched_yield", "", errno::SUCCESS),
    ("sock_accept", "iii", errno::BADF),
    ("sock_recv", "iiiiii", errno::BADF),
    ("sock_send", "iiiii", errno::BADF),
    ("sock_shutdown", "ii", errno::BADF),
];

/// The functions that are implemented below.
const DONE: [&str; 16] = [
    "args_get",
    "args_sizes_get",
    "clock_res_get",
    "clock_time_get",
    "environ_get",
    "environ_sizes_get",
    "fd_close",
    "fd_fdstat_get",
    "fd_fdstat_set_flags",
    "fd_filestat_get",
    "fd_read",
    "fd_seek",
    "fd_write",
    "poll_oneoff",
    "proc_exit",
    "random_get",
];

pub(crate) fn is_known(name: &str) -> bool {
    DONE.contains(&name) || FIXED.iter().any(|(fixed, ..)| *fixed == name)
}

/// Provides the interface.
pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    for (name, parameters, answer) in FIXED {
        let parameters = parameters.chars().map(|letter| match letter {
            'I' => ValType::I64,
            _ => ValType::I32,
        });
        let signature = FuncType::new(linker.engine(), parameters, [ValType::I32]);
        linker.func_new(MODULE, name, signature, move |_, _, results| {
            results[0] = Val::I32(answer);
            Ok(())
        })?;
    }
    linker.func_wrap(MODULE, "args_get", args_get)?;
    linker.func_wrap(MODULE, "args_sizes_get", args_sizes_get)?;
    linker.func_wrap(MODULE, "clock_res_get", clock_res_get)?;
    linker.func_wrap(MODULE, "clock_time_get", clock_time_get)?;
    linker.func_wrap(
        MODULE,
        "environ_get",
        |_: Caller<'_, Guest>, _: i32, _: i32| errno::SUCCESS,
    )?;
    linker.func_wrap(MODULE, "environ_sizes_get", environ_sizes_get)?;
    linker.func_wrap(MODULE, "fd_close", |_: Caller<'_, Guest>, fd: i32| {
        on_stream(fd)
    })?;
    linker.func_wrap(MODULE, "fd_fdstat_get", fd_fdstat_get)?;
    linker.func_wrap(
        MODULE,
        "fd_fdstat_set_flags",
        |_: Caller<'_, Guest>, fd: i32, _: i32| on_stream(fd),
    )?;
    linker.func_wrap(MODULE, "fd_filestat_get", fd_filestat_get)?;
    linker.func_wrap(MODULE, "fd_read", fd_read)?;
    linker.func_wrap(
        MODULE,
        "fd_seek",
        |_: Caller<'_, Guest>, fd: i32, _: i64, _: i32, _: i32| match on_stream(fd) {
            errno::SUCCESS => errno::SPIPE,
            other => other,
        },
    )?;
    linker.func_wrap(MODULE, "fd_write", fd_write)?;
    linker.func_wrap(MODULE, "poll_oneoff", poll_oneoff)?;
    linker.func_wrap(
        MODULE,
        "proc_exit",
        |_: Caller<'_, Guest>, code: i32| -> wasmtime::Result<()> { Err(Stop::Exit(code).into()) },
    )?;
    linker.func_wrap(MODULE, "random_get", random_get)?;
    Ok(())
}

/// The three standard streams exist, nothing else.
fn on_stream(fd: i32) -> i32 {
    match fd {
        0..=2 => errno::SUCCESS,
        _ => errno::BADF,
    }
}

/// An address outside memory is an error of the guest, which gets an error number.
fn or_fault(outcome: Option<()>) -> i32 {
    match outcome {
        Some(()) => errno::SUCCESS,
        None => errno::FAULT,
    }
}

fn args_sizes_get(mut caller: Caller<'_, Guest>, count: i32, size: i32) -> wasmtime::Result<i32> {
    let (memory, guest) = memory::split(&mut caller, "args_sizes_get")?;
    let args = guest.wasi.args;
    let bytes: usize = args.iter().map(|arg| arg.len() + 1).sum();
    Ok(or_fault(
        memory::write(memory, count, &(args.len() as u32).to_le_bytes())
            .and_then(|()| memory::write(memory, size, &(bytes as u32).to_le_bytes())),
    ))
}

fn args_get(mut caller: Caller<'_, Guest>, pointers: i32, buffer: i32) -> wasmtime::Result<i32> {
    let (memory, guest) = memory::split(&mut caller, "args_get")?;
    let mut pointer = pointers;
    let mut place = buffer;
    for arg in guest.wasi.args {
        let written = memory::write(memory, pointer, &place.to_le_bytes())
            .and_then(|()| memory::write(memory, place, arg.as_bytes()))
            .and_then(|()| memory::write(memory, place.wrapping_add(arg.len() as i32), &[0]));
        if written.is_none() {
            return Ok(errno::FAULT);
        }
        pointer = pointer.wrapping_add(4);
        place = place.wrapping_add(arg.len() as i32 + 1);
    }
    Ok(errno::SUCCESS)
}

fn environ_sizes_get(
    mut caller: Caller<'_, Guest>,
    count: i32,
    size: i32,
) -> wasmtime::Result<i32> {
    let (memory, _) = memory::split(&mut caller, "environ_sizes_get")?;
    Ok(or_fault(
        memory::write(memory, count, &[0; 4]).and_then(|()| memory::write(memory, size, &[0; 4])),
    ))
}

fn clock_res_get(mut caller: Caller<'_, Guest>, clock: i32, result: i32) -> wasmtime::Result<i32> {
    if !(0..=3).contains(&clock) {
        return Ok(errno::INVAL);
    }
    let (memory, _) = memory::split(&mut caller, "clock_res_get")?;
    Ok(or_fault(memory::write(
        memory,
        result,
        &1_000_u64.to_le_bytes(),
    )))
}

/// 0 is the time of day; the others count from when the guest was started.
fn clock_time_get(
    mut caller: Caller<'_, Guest>,
    clock: i32,
    _: i64,
    result: i32,
) -> wasmtime::Result<i32> {
    let (memory, guest) = memory::split(&mut caller, "clock_time_get")?;
    let nanos = match clock {
        0 => clock::realtime_nanos(),
        1..=3 => u64::try_from(guest.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
        _ => return Ok(errno::INVAL),
    };
    Ok(or_fault(memory::write(
        memory,
        result,
        &nanos.to_le_bytes(),
    )))
}

/// A stream of unknown type with all rights and no flags.
fn fd_fdstat_get(mut caller: Caller<'_, Guest>, fd: i32, result: i32) -> wasmtime::Result<i32> {
    if on_stream(fd) != errno::SUCCESS {
        return Ok(errno::BADF);
    }
    let (memory, _) = memory::split(&mut caller, "fd_fdstat_get")?;
    let mut stat = [0; 24];
    stat[8..24].fill(0xff);
    Ok(or_fault(memory::write(memory, result, &stat)))
}

fn fd_filestat_get(mut caller: Caller<'_, Guest>, fd: i32, result: i32) -> wasmtime::Result<i32> {
    if on_stream(fd) != errno::SUCCESS {
        return Ok(errno::BADF);
    }
    let (memory, _) = memory::split(&mut caller, "fd_filestat_get")?;
    Ok(or_fault(memory::write(memory, result, &[0; 64])))
}

/// The buffers of a call, as addresses and lengths.
fn buffers(memory: &[u8], list: i32, count: i32) -> Result<Vec<(i32, i32)>, i32> {
    if !(0..=MAX_BUFFERS).contains(&count) {
        return Err(errno::INVAL);
    }
    (0..count.cast_unsigned())
        .map(|n| {
            let ptr = read_u32(memory, list, n * 8)?.cast_signed();
            let len = read_u32(memory, list, n * 8 + 4)?.cast_signed();
            memory::slice(memory, ptr, len).map(|_| (ptr, len))
        })
        .collect::<Option<_>>()
        .ok_or(errno::FAULT)
}

fn fd_read(
    mut caller: Caller<'_, Guest>,
    fd: i32,
    list: i32,
    count: i32,
    result: i32,
) -> wasmtime::Result<i32> {
    if fd != 0 {
        return Ok(errno::BADF);
    }
    let (memory, guest) = memory::split(&mut caller, "fd_read")?;
    let buffers = match buffers(memory, list, count) {
        Ok(buffers) => buffers,
        Err(errno) => return Ok(errno),
    };
    let state = &mut guest.wasi;
    let before = state.n_read;
    for (ptr, len) in buffers {
        let left = &state.stdin[state.n_read..];
        let Some(buffer) = memory::slice_mut(memory, ptr, len) else {
            return Ok(errno::FAULT);
        };
        let n = left.len().min(buffer.len());
        buffer[..n].copy_from_slice(&left[..n]);
        state.n_read += n;
    }
    let n_read = (state.n_read - before) as u32;
    Ok(or_fault(memory::write(
        memory,
        result,
        &n_read.to_le_bytes(),
    )))
}

fn fd_write(
    mut caller: Caller<'_, Guest>,
    fd: i32,
    list: i32,
    count: i32,
    result: i32,
) -> wasmtime::Result<i32> {
    let (memory, guest) = memory::split(&mut caller, "fd_write")?;
    let answer_limit = guest.limits.output;
    let log_limit = guest.limits.log_total;
    let (stream, limit) = match fd {
        1 if guest.wasi.stdout_is_answer => (&mut guest.wasi.stdout, None),
        1 => (&mut guest.wasi.stdout, Some(log_limit)),
        2 => (&mut guest.wasi.stderr, Some(log_limit)),
        _ => return Ok(errno::BADF),
    };
    let buffers = match buffers(memory, list, count) {
        Ok(buffers) => buffers,
        Err(errno) => return Ok(errno),
    };
    let mut n_written: u32 = 0;
    for (ptr, len) in buffers {
        let Some(bytes) = memory::slice(memory, ptr, len) else {
            return Ok(errno::FAULT);
        };
        let room = limit.unwrap_or(answer_limit).saturating_sub(stream.len());
        if limit.is_none() && bytes.len() > room {
            return Err(Stop::Output.into());
        }
        // Output beyond the log budget is dropped; the guest gets no error.
        stream.extend_from_slice(&bytes[..bytes.len().min(room)]);
        n_written = n_written.saturating_add(bytes.len() as u32);
    }
    Ok(or_fault(memory::write(
        memory,
        result,
        &n_written.to_le_bytes(),
    )))
}

/// Waits until the first of the clocks asked for, but never past the deadline. Streams are always ready.
fn poll_oneoff(
    mut caller: Caller<'_, Guest>,
    subscriptions: i32,
    events: i32,
    count: i32,
    result: i32,
) -> wasmtime::Result<i32> {
    let (memory, guest) = memory::split(&mut caller, "poll_oneoff")?;
    if !(1..=MAX_BUFFERS).contains(&count) {
        return Ok(errno::INVAL);
    }
    let elapsed = u64::try_from(guest.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let waits: Option<Vec<Subscription>> = (0..count.cast_unsigned())
        .map(|n| Subscription::read(memory, subscriptions, n * 48, elapsed))
        .collect();
    let Some(waits) = waits else {
        return Ok(errno::FAULT);
    };
    let wait = waits
        .iter()
        .map(|subscription| subscription.wait)
        .min()
        .unwrap_or_default();
    let left = guest.bounds.deadline.remaining().unwrap_or(Duration::MAX);
    sleep(&mut *guest.host, wait.min(left));
    if guest.bounds.deadline.is_past() {
        return Err(Stop::Deadline.into());
    }
    let mut n_events: u32 = 0;
    for due in waits
        .iter()
        .filter(|subscription| subscription.wait <= wait)
    {
        let at = events.wrapping_add((n_events * 32).cast_signed());
        if memory::write(memory, at, &due.event()).is_none() {
            return Ok(errno::FAULT);
        }
        n_events += 1;
    }
    Ok(or_fault(memory::write(
        memory,
        result,
        &n_events.to_le_bytes(),
    )))
}

/// Sleeps in growing steps, and notifies the host between them.
fn sleep(host: &mut dyn Host, mut left: Duration) {
    let mut step = FIRST_SLEEP;
    while left > step {
        std::thread::sleep(step);
        host.still_running();
        left -= step;
        step *= 2;
    }
    std::thread::sleep(left);
}

/// A subscription of `poll_oneoff`.
struct Subscription {
    userdata: u64,
    tag: u8,
    wait: Duration,
}

impl Subscription {
    /// Reads the subscription at `offset` bytes after `list`.
    fn read(memory: &[u8], list: i32, offset: u32, elapsed: u64) -> Option<Self> {
        const CLOCK: u8 = 0;
        const ABSOLUTE: u32 = 1;
        let userdata = read_u64(memory, list, offset)?;
        let tag = read_u32(memory, list, offset + 8)?.to_le_bytes()[0];
        let wait = if tag == CLOCK {
            let clock = read_u32(memory, list, offset + 16)?;
            let timeout = read_u64(memory, list, offset + 24)?;
            let flags = read_u32(memory, list, offset + 40)? & 0xffff;
            let now = if clock == 0 {
                clock::realtime_nanos()
            } else {
                elapsed
            };
            Duration::from_nanos(if flags & ABSOLUTE == 0 {
                timeout
            } else {
                timeout.saturating_sub(now)
            })
        } else {
            Duration::ZERO
        };
        Some(Self {
            userdata,
            tag,
            wait,
        })
    }

    fn event(&self) -> [u8; 32] {
        let mut event = [0; 32];
        event[..8].copy_from_slice(&self.userdata.to_le_bytes());
        event[10] = self.tag;
        // How much can be read or written at least.
        event[16] = u8::from(self.tag != 0);
        event
    }
}

fn random_get(mut caller: Caller<'_, Guest>, ptr: i32, len: i32) -> wasmtime::Result<i32> {
    let (memory, guest) = memory::split(&mut caller, "random_get")?;
    let Some(buffer) = memory::slice_mut(memory, ptr, len) else {
        return Ok(errno::FAULT);
    };
    for chunk in buffer.chunks_mut(RANDOM_CHUNK) {
        if guest.bounds.deadline.is_past() {
            return Err(Stop::Deadline.into());
        }
        aws_lc_rs::rand::fill(chunk)
            .map_err(|_| wasmtime::Error::msg("the system has no random numbers"))?;
    }
    Ok(errno::SUCCESS)
}
