//! Ends what we started when we end, in whatever way.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its standard input, which the kernel closes with our process; then ends the process and
/// removes its folder, which may still be written to for a moment.
const SCRIPT: &str = r#"
read -r word
test "$word" = free && exit
test -n "$1" && kill -9 "$1" 2>/dev/null
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  test -z "$2" || rm -rf "$2" 2>/dev/null && exit
  sleep 0.3
done
"#;

/// While this is held, a process and a folder live. Both end with it, and with us.
#[derive(Debug)]
pub struct Leash {
    watcher: Child,
}

impl Leash {
    /// Ties a process to us.
    pub fn process(pid: u32) -> io::Result<Self> {
        Self::tie(&pid.to_string(), "")
    }

    /// Ties a folder to us, for what is kept in statics and so never dropped.
    pub fn folder(folder: &Path) -> io::Result<Self> {
        Self::tie("", &folder.to_string_lossy())
    }

    fn tie(pid: &str, folder: &str) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, "leash", pid, folder])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Self {
            watcher: command.spawn()?,
        })
    }

    /// Lets go: the process has ended by itself, and its number may be another's soon.
    pub fn release(&mut self) {
        use std::io::Write as _;
        if let Some(mut input) = self.watcher.stdin.take() {
            input.write_all(b"free\n").ok();
        }
        self.watcher.wait().ok();
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        self.watcher.wait().ok();
    }
}
