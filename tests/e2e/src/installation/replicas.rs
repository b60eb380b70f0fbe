//! Finds the processes of policy servers. They are children of the test process and have the uid of their Pod in their
//! environment.

use polity_runtime::procfs::{self, Stat};
use rustix::process::{Pid, Signal, kill_process};

/// The process of a Pod, or `None` while the Pod has none.
pub(super) fn process_of(pod_uid: &str) -> Option<Pid> {
    let us = std::process::id().cast_signed();
    let is_our_child = |id: &i32| Stat::read(id).is_some_and(|stat| stat.parent == us);
    let is_of_pod = |id: &i32| {
        let environment = procfs::environment(id).unwrap_or_default();
        environment.get("POD_UID").map(String::as_str) == Some(pod_uid)
    };
    let mut children = procfs::ids().into_iter().filter(is_our_child);
    children.find(is_of_pod).and_then(Pid::from_raw)
}

/// Signals a process, if it still exists.
pub(super) fn signal(process: Pid, signal: Signal) {
    kill_process(process, signal).ok();
}
