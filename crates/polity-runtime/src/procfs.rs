//! Processes of this machine as Linux shows them in `/proc`. Other systems have none of these files: nothing is found.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;

/// The unit of times in `/proc`, on every architecture.
pub const TICKS_PER_SECOND: u64 = 100;

/// The content of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The state: `R` for running, `Z` for a process that has ended and that its parent has not collected.
    pub state: char,
    /// The id of the parent.
    pub parent: i32,
    /// User and system time, including threads that have ended.
    pub cpu_ticks: u64,
    /// When the process started, counted from the boot of the machine.
    pub start_ticks: u64,
}

impl Stat {
    /// Reads it. Returns `None` if the process does not exist. `process` is an id or `self`.
    pub fn read(process: impl Display) -> Option<Self> {
        Self::parse(&read(process, "stat")?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name of the program may contain blanks and parentheses.
        let (_, after_name) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        // `man 5 proc_pid_stat` counts fields from one; the state is field 3.
        let field = |number: usize| fields.get(number - 3).copied();
        let ticks = |number| field(number)?.parse::<u64>().ok();
        Some(Self {
            state: field(3)?.chars().next()?,
            parent: field(4)?.parse().ok()?,
            cpu_ticks: ticks(14)? + ticks(15)?,
            start_ticks: ticks(22)?,
        })
    }
}

/// The ids of all processes.
pub fn ids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Whether a process runs. One that has ended does not, even if its parent has not collected it.
pub fn is_running(process: impl Display) -> bool {
    Stat::read(process).is_some_and(|stat| stat.state != 'Z')
}

/// The command line of a process of this user.
pub fn arguments(process: impl Display) -> Option<Vec<String>> {
    Some(strings(&read(process, "cmdline")?))
}

/// The environment that a process of this user was started with.
pub fn environment(process: impl Display) -> Option<BTreeMap<String, String>> {
    Some(variables(&read(process, "environ")?))
}

/// The resident memory of a process, in bytes.
pub fn resident_bytes(process: impl Display) -> Option<u64> {
    let status = read(process, "status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

fn read(process: impl Display, file: &str) -> Option<String> {
    let bytes = fs::read(format!("/proc/{process}/{file}")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Splits strings that end with a zero byte each.
fn strings(text: &str) -> Vec<String> {
    text.split_terminator('\0').map(str::to_owned).collect()
}

fn variables(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split_terminator('\0');
    let pairs = pairs.filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_arguments_end_with_a_zero_byte() {
        let found = variables("PATH=/bin\0KUBECONFIG=/x=y\0nothing\0");
        assert_eq!(found["PATH"], "/bin");
        assert_eq!(found["KUBECONFIG"], "/x=y");
        assert_eq!(found.len(), 2);
        assert_eq!(strings("polity\0server\0"), ["polity", "server"]);
        assert_eq!(strings(""), Vec::<String>::new());
    }

    #[test]
    fn the_fields_are_found_after_any_name() {
        let fields: Vec<String> = (5..=30).map(|number| number.to_string()).collect();
        let text = format!("12 (a) b (c) S 7 {}", fields.join(" "));
        let expected = Stat {
            state: 'S',
            parent: 7,
            cpu_ticks: 14 + 15,
            start_ticks: 22,
        };
        assert_eq!(Stat::parse(&text), Some(expected));
        assert_eq!(Stat::parse("12 (a) S 7"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found() {
        let id = std::process::id();
        assert!(
            ids()
                .iter()
                .any(|found| found.to_string() == id.to_string())
        );
        assert!(is_running(id));
        assert!(!arguments("self").unwrap().is_empty());
        assert!(environment("self").is_some());
        assert!(resident_bytes("self").unwrap() > 0);
        assert!(!is_running(i32::MAX));
    }
}
