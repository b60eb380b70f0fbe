//! The parent of this process, told apart from earlier and later ones.

use std::fs;
use std::os::unix::process::parent_id;

/// Identifies the parent process and the boot of the machine.
///
/// Two processes with the same value were started by the same parent: one of them that is gone ended before its parent
/// did. In a container without an init process this is the container runtime, until the machine restarts.
pub fn identity() -> String {
    let parent = parent_id();
    // Outside Linux the number alone has to do.
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let stat = fs::read_to_string(format!("/proc/{parent}/stat")).unwrap_or_default();
    let started = start_time(&stat).unwrap_or_default();
    format!("{}/{parent}/{started}", boot.trim())
}

/// The start time in `/proc/<pid>/stat`. The name in parentheses may contain blanks and parentheses.
fn start_time(stat: &str) -> Option<&str> {
    let (_, fields) = stat.rsplit_once(") ")?;
    // `man 5 proc`: it is field 22, and the first one after the name is field 3.
    fields.split(' ').nth(22 - 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_stays_the_same() {
        assert_eq!(identity(), identity());
        assert!(identity().contains(&format!("/{}/", parent_id())));
    }

    #[test]
    fn the_start_time_is_found_after_any_name() {
        let fields: Vec<String> = (3..=30).map(|n| format!("f{n}")).collect();
        let stat = format!("12 (a) b (c) {}", fields.join(" "));
        assert_eq!(start_time(&stat), Some("f22"));
        assert_eq!(start_time(""), None);
    }
}
