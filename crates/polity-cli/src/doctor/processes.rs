//! Processes of Pods that an earlier run left behind.

use std::path::{Path, PathBuf};

use polity_runtime::env;
use polity_runtime::procfs::{self, Stat};

/// A process of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    /// The variable KUBECONFIG that it was started with.
    pub(super) kubeconfig: Option<PathBuf>,
}

/// The processes of Pods of a data directory that do not belong to the instance that runs there.
///
/// A Pod is recognised by its kubeconfig, which is in the directory of a cluster; the user's own is not.
pub(super) fn orphans<'a>(
    processes: &'a [Process],
    data_dir: &Path,
    instance: Option<i32>,
) -> Vec<&'a Process> {
    let pods = data_dir.join("clusters");
    let is_pod = |process: &&Process| {
        let kubeconfig = process.kubeconfig.as_ref();
        kubeconfig.is_some_and(|kubeconfig| kubeconfig.starts_with(&pods))
    };
    processes
        .iter()
        .filter(is_pod)
        .filter(|process| instance.is_none_or(|instance| !descends(processes, process, instance)))
        .collect()
}

fn descends(processes: &[Process], process: &Process, ancestor: i32) -> bool {
    let parent_of = |process: &&Process| {
        let parent = process.parent;
        processes.iter().find(|process| process.pid == parent)
    };
    // A cycle cannot be, but pids are reused while the list is read.
    std::iter::successors(Some(process), parent_of)
        .take(64)
        .any(|process| process.pid == ancestor)
}

/// All processes of this user; none where the system does not list them.
pub(super) fn all() -> Option<Vec<Process>> {
    let processes: Vec<Process> = procfs::ids().into_iter().filter_map(read).collect();
    (!processes.is_empty()).then_some(processes)
}

fn read(pid: i32) -> Option<Process> {
    let mut environment = procfs::environment(pid).unwrap_or_default();
    Some(Process {
        pid,
        parent: Stat::read(pid)?.parent,
        kubeconfig: environment.remove(env::KUBECONFIG).map(PathBuf::from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, kubeconfig: &str) -> Process {
        Process {
            pid,
            parent,
            kubeconfig: (!kubeconfig.is_empty()).then(|| kubeconfig.into()),
        }
    }

    #[test]
    fn pods_of_the_running_instance_are_no_orphans() {
        let pod = "/data/clusters/hub/local/pods/x/kubeconfig";
        let processes = [
            process(1, 0, ""),
            process(10, 1, "/data/kubeconfig"),
            process(20, 10, pod),
            process(21, 20, pod),
            process(30, 1, pod),
            process(40, 1, "/other/clusters/hub/local/pods/x/kubeconfig"),
        ];
        let pids = |instance| -> Vec<i32> {
            let found = orphans(&processes, Path::new("/data"), instance);
            found.iter().map(|process| process.pid).collect()
        };
        assert_eq!(pids(Some(10)), [30]);
        assert_eq!(pids(None), [20, 21, 30]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_among_all() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(all().unwrap().iter().any(|process| process.pid == own));
    }
}
