//! Finds replica processes, and reads their memory and the time until they are ready.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use polity_runtime::admin;
use polity_runtime::procfs::{self, Stat, TICKS_PER_SECOND};

const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A running replica process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replica {
    pid: i32,
    readiness: u16,
}

impl Replica {
    /// Finds the process of a Pod of the instance with this data directory.
    pub(crate) fn find(data_dir: &Path, pod: &str) -> Option<Self> {
        procfs::ids().into_iter().find_map(|pid| {
            let environment = procfs::environment(pid)?;
            let is_ours = environment.get("POD_NAME")? == pod
                && Path::new(environment.get("POLITY_CACHE_DIR")?).starts_with(data_dir);
            let readiness = environment.get("KUBEWARDEN_READINESS_PROBE_PORT")?;
            let readiness = readiness.parse().ok()?;
            is_ours.then_some(Self { pid, readiness })
        })
    }

    /// Waits until the replica is ready, and returns the time since its start.
    pub(crate) fn time_to_ready(self) -> Duration {
        let readiness = SocketAddr::from((Ipv4Addr::LOCALHOST, self.readiness));
        while !admin::is_ready(readiness, "/readiness") {
            std::thread::park_timeout(LOOK_EVERY);
        }
        self.age()
    }

    /// Resident memory in megabytes.
    pub(crate) fn resident_mb(self) -> f64 {
        procfs::resident_bytes(self.pid).expect("the process runs") as f64 / 1024.0 / 1000.0
    }

    fn age(self) -> Duration {
        let stat = Stat::read(self.pid).expect("the process runs");
        let started = stat.start_ticks as f64 / TICKS_PER_SECOND as f64;
        let uptime = fs::read_to_string("/proc/uptime").expect("a system with /proc");
        let uptime = uptime.split_whitespace().next();
        let uptime: f64 = uptime
            .and_then(|field| field.parse().ok())
            .expect("a number");
        Duration::from_secs_f64((uptime - started).max(0.0))
    }
}
