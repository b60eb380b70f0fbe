//! Kills child processes and removes folders when the test process ends, even if it is killed.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Reads standard input until the kernel closes it, which happens when the test process ends. Then kills the child
/// process and removes its folder. The removal is retried because the child may still write files for a moment.
const SCRIPT: &str = r#"
read -r word
test "$word" = free && exit
test -n "$1" && kill -9 "$1" 2>/dev/null
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  test -z "$2" || rm -rf "$2" 2>/dev/null && exit
  sleep 0.3
done
"#;

/// Kills a process or removes a folder when the guard is dropped, or when the test process ends.
#[derive(Debug)]
pub struct CleanupGuard {
    watcher: Child,
}

impl CleanupGuard {
    /// Guards a child process.
    pub fn process(pid: u32) -> io::Result<Self> {
        Self::spawn(&pid.to_string(), "")
    }

    /// Guards a folder. Needed for values in statics, which Rust never drops.
    pub fn folder(folder: &Path) -> io::Result<Self> {
        Self::spawn("", &folder.to_string_lossy())
    }

    fn spawn(pid: &str, folder: &str) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, "cleanup", pid, folder])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Self {
            watcher: command.spawn()?,
        })
    }

    /// Disarms the guard: the process has exited, and another process may soon reuse its id.
    pub fn release(&mut self) {
        use std::io::Write as _;
        if let Some(mut input) = self.watcher.stdin.take() {
            input.write_all(b"free\n").ok();
        }
        self.watcher.wait().ok();
    }
}

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        self.watcher.wait().ok();
    }
}
