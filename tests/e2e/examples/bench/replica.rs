//! The replicas as processes: how much memory they have, and when they are ready.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use polity_runtime::admin;

/// What Linux counts the start of processes in for everybody outside of it.
const TICKS_PER_SECOND: f64 = 100.0;
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A running replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replica {
    pid: u32,
    readiness: u16,
}

impl Replica {
    /// The process behind a pod of the Polity that has its data in a folder.
    pub(crate) fn find(data_dir: &Path, pod: &str) -> Option<Self> {
        let processes = fs::read_dir("/proc")
            .expect("a system with /proc")
            .flatten();
        let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.find_map(|pid: u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let environment = String::from_utf8_lossy(&environment);
            let value = |name: &str| {
                let mut all = environment
                    .split('\0')
                    .filter_map(|one| one.split_once('='));
                all.find(|(found, _)| *found == name)
                    .map(|(_, value)| value)
            };
            let is_ours = value("POD_NAME") == Some(pod)
                && value("POLITY_CACHE_DIR")
                    .is_some_and(|path| Path::new(path).starts_with(data_dir));
            let readiness = value("KUBEWARDEN_READINESS_PROBE_PORT")?.parse().ok()?;
            is_ours.then_some(Self { pid, readiness })
        })
    }

    /// Waits until it says that it is ready; the time since its start.
    pub(crate) fn time_to_ready(self) -> Duration {
        let readiness = SocketAddr::from((Ipv4Addr::LOCALHOST, self.readiness));
        while !admin::is_ready(readiness, "/readiness") {
            std::thread::park_timeout(LOOK_EVERY);
        }
        self.age()
    }

    /// Resident memory in megabytes.
    pub(crate) fn resident_mb(self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid));
        let kilobytes = status.expect("the process runs");
        let kilobytes = kilobytes
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|number| number.parse::<f64>().ok());
        kilobytes.expect("it has memory") / 1000.0
    }

    fn age(self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid));
        let stat = stat.expect("the process runs");
        // The name in parentheses may hold anything; the start is the 20th field after it.
        let (_, fields) = stat.rsplit_once(')').expect("a name");
        let started = fields.split_whitespace().nth(19);
        let started: f64 = started
            .and_then(|field| field.parse().ok())
            .expect("a number");
        let uptime = fs::read_to_string("/proc/uptime").expect("a system with /proc");
        let uptime = uptime.split_whitespace().next();
        let uptime: f64 = uptime
            .and_then(|field| field.parse().ok())
            .expect("a number");
        Duration::from_secs_f64((uptime - started / TICKS_PER_SECOND).max(0.0))
    }
}
