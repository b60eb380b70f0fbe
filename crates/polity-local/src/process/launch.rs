//! The first steps of a child, in the child: it ties itself to its parent, then becomes the program it was made for.
//!
//! The program that uses this crate calls [`intercept`] first thing in its `main`, because both kinds of helper
//! are that very program again:
//! - a *child* asks the kernel to be killed when the thread that made it ends, sees that its parent is still the
//!   one it was told, and executes the Pod's binary in its own place;
//! - a *guard* reads from its standard input which process groups there are, and when the other end of that pipe
//!   closes, however that comes about, kills them all. It covers what the kernel's promise does not: processes
//!   that a child started, and systems without that promise.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Signal, getppid, kill_process_group};

/// The first argument of a child; its parent, the name it is called by, the binary and its arguments follow.
pub(super) const CHILD: &str = "__local-child";
/// The first and only argument of a guard.
pub(super) const GUARD: &str = "__local-guard";
/// As shells have it: the program could not be executed.
const NOT_EXECUTED: u8 = 126;

/// Does the work of a helper process if this is one; its exit code then, which `main` returns at once.
pub fn intercept(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let word = args.nth(1)?;
    if word == OsStr::new(CHILD) {
        Some(child(args))
    } else if word == OsStr::new(GUARD) {
        Some(guard())
    } else {
        None
    }
}

/// Becomes the program; returns only when that fails.
fn child(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(parent), Some(called), Some(binary)) = (args.next(), args.next(), args.next()) else {
        return ExitCode::from(NOT_EXECUTED);
    };
    if let Err(error) = tie_to_parent() {
        eprintln!("tying the process to its parent: {error}");
        return ExitCode::from(NOT_EXECUTED);
    }
    // Whoever died before the line above did not take this process along.
    let now = getppid().map(|pid| pid.as_raw_nonzero().to_string());
    let is_orphan = now.is_none_or(|now| parent != OsStr::new(&now));
    if is_orphan {
        return ExitCode::from(NOT_EXECUTED);
    }
    let error = Command::new(&binary).arg0(called).args(args).exec();
    eprintln!("executing {}: {error}", binary.display());
    ExitCode::from(NOT_EXECUTED)
}

#[cfg(target_os = "linux")]
fn tie_to_parent() -> rustix::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "it can fail elsewhere")]
fn tie_to_parent() -> rustix::io::Result<()> {
    Ok(())
}

/// Keeps the list of process groups until its input ends, then kills those on it.
fn guard() -> ExitCode {
    let mut groups = BTreeSet::new();
    let lines = BufReader::new(std::io::stdin()).lines();
    for line in lines.map_while(Result::ok) {
        note(&mut groups, &line);
    }
    for group in groups {
        if let Some(group) = Pid::from_raw(group) {
            // It may be gone by itself.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
    ExitCode::SUCCESS
}

/// `+123` is there, `-123` is gone. Groups 0 and 1 would be everybody's.
fn note(groups: &mut BTreeSet<i32>, line: &str) {
    let Some((sign, Ok(group))) = line
        .split_at_checked(1)
        .map(|(sign, number)| (sign, number.parse::<i32>()))
    else {
        return;
    };
    match sign {
        "+" if group > 1 => {
            groups.insert(group);
        }
        "-" => {
            groups.remove(&group);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_keeps_book() {
        let mut groups = BTreeSet::new();
        for line in [
            "+10", "+20", "-10", "+1", "+0", "+-5", "", "é", "+", "+30", "x40", "-99",
        ] {
            note(&mut groups, line);
        }
        assert_eq!(groups, BTreeSet::from([20, 30]));
    }

    #[test]
    fn others_are_not_intercepted() {
        for words in [vec!["polity"], vec!["polity", "up"], vec![]] {
            assert!(intercept(words.into_iter().map(OsString::from)).is_none());
        }
    }
}
