//! The processes of policy servers: children of this process, each known by the uid of its Pod in its environment.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// The process of a Pod; `None` while it has none.
pub(super) fn process_of(pod_uid: &str) -> Option<Pid> {
    let wanted = format!("POD_UID={pod_uid}");
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|id| is_our_child(*id))
        .find(|id| has_variable(*id, &wanted))
        .and_then(Pid::from_raw)
}

/// Signals it, if it is still there.
pub(super) fn signal(process: Pid, signal: Signal) {
    kill_process(process, signal).ok();
}

fn is_our_child(id: i32) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(id.to_string()).join("status"));
    let parent = format!("PPid:\t{}", std::process::id());
    status.is_ok_and(|status| status.lines().any(|line| line == parent))
}

fn has_variable(id: i32, variable: &str) -> bool {
    let environment = fs::read(Path::new("/proc").join(id.to_string()).join("environ"));
    environment.is_ok_and(|all| {
        all.split(|byte| *byte == 0)
            .any(|one| one == variable.as_bytes())
    })
}
