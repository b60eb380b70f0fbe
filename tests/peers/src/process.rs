//! A child process with a log file, guarded or detached.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

/// When a child process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// When the [`Process`] is dropped, or when our process ends for any reason.
    Guarded,
    /// When another process kills it by its id.
    Detached,
}

/// Runs the program `"$@"` and kills it as soon as standard input is closed. The kernel closes our end of the pipe
/// even when our process is killed, so no child is left running. When the program exits, the shell exits with the same
/// status.
const GUARD: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
program=$!
{ read -r _ <&3; kill -9 "$program"; } 2>/dev/null &
watcher=$!
wait "$program"
status=$?
kill "$watcher" 2>/dev/null
exit "$status"
"#;

/// A running program.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    lifetime: Lifetime,
    log: PathBuf,
}

impl Process {
    /// Starts `program`. Its output goes to `<logs>/<its name>.log`.
    pub(crate) fn start(
        program: &Path,
        arguments: &[OsString],
        logs: &Path,
        lifetime: Lifetime,
    ) -> Result<Self> {
        let name = program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        fs::create_dir_all(logs)?;
        let log = logs.join(format!("{name}.log"));
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let mut command = match lifetime {
            Lifetime::Guarded => {
                let mut command = Command::new("sh");
                command
                    .args(["-c", GUARD, "guard"])
                    .arg(program)
                    .stdin(Stdio::piped());
                command
            }
            Lifetime::Detached => {
                let mut command = Command::new(program);
                // A separate process group, so that Ctrl-C in the terminal does not reach it.
                command.stdin(Stdio::null()).process_group(0);
                command
            }
        };
        command
            .args(arguments)
            .stdout(output.try_clone()?)
            .stderr(output);
        let child = command
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        Ok(Self {
            name,
            child,
            lifetime,
            log,
        })
    }

    /// The id of the process. For detached children only.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The name of the program.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The exit status, if the process has exited.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The last lines of the log.
    pub(crate) fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().rev().take(15).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.lifetime == Lifetime::Guarded {
            drop(self.child.stdin.take());
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Starts a program that holds the other end of a socket. The stream ends when the program exits, so the test
    /// needs no polling.
    fn start_holding(script: &str) -> (Process, UnixStream) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let arguments = ["-c", script, "python", path.to_str().unwrap()].map(OsString::from);
        let process = Process::start(
            Path::new("python3"),
            &arguments,
            folder.path(),
            Lifetime::Guarded,
        )
        .unwrap();
        let (stream, _) = listener.accept().unwrap();
        (process, stream)
    }

    #[test]
    fn a_child_ends_when_it_is_dropped() {
        let script = "import socket,sys,time; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[2]); time.sleep(600)";
        if Command::new("python3").arg("--version").output().is_err() {
            eprintln!("skipped: python3 does not exist");
            return;
        }
        let (process, mut stream) = start_holding(script);
        drop(process);
        assert_eq!(
            stream.read(&mut [0]).unwrap(),
            0,
            "the stream ends with the program"
        );
    }

    #[test]
    fn the_end_of_a_child_is_seen_with_its_status_and_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["-c", "echo so it ends; exit 7"].map(OsString::from);
        let mut process = Process::start(
            Path::new("sh"),
            &arguments,
            folder.path(),
            Lifetime::Guarded,
        )
        .unwrap();
        // `wait` closes the pipe first, which would race with the exit of the program.
        let pipe = process.child.stdin.take();
        let status = process.child.wait().unwrap();
        drop(pipe);
        assert_eq!(status.code(), Some(7));
        assert_eq!(process.log_tail(), "so it ends");
        assert!(process.exit_status().is_some());
    }
}
