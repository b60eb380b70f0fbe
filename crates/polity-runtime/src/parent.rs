//! Identifies the parent of this process, even if its process id is reused.

use std::fs;
use std::os::unix::process::parent_id;

use crate::procfs::Stat;

/// Identifies the parent process and the boot of the machine.
///
/// Two processes with the same value were started by the same parent: one of them that is gone ended before its parent
/// did. In a container without an init process this is the container runtime, until the machine restarts.
pub fn identity() -> String {
    let parent = parent_id();
    // Outside Linux the number alone has to do.
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let started = Stat::read(parent).map(|stat| stat.start_ticks.to_string());
    format!("{}/{parent}/{}", boot.trim(), started.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_stays_the_same() {
        assert_eq!(identity(), identity());
        assert!(identity().contains(&format!("/{}/", parent_id())));
    }
}
