//! A child process with a log file, either tied to our life or set free.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

/// How long a child lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// Until the [`Process`] is dropped or our process ends in whatever way.
    Ours,
    /// Until someone ends it by its pid.
    Detached,
}

/// Runs the program `"$@"` and kills it as soon as standard input is closed. The kernel closes our end of the pipe
/// even when we are killed, so nothing that we start is left behind. The other way, when the program ends, so does the
/// shell, with the same status.
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
    /// Starts `program`, whose output goes to `<logs>/<its name>.log`.
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
            Lifetime::Ours => {
                let mut command = Command::new("sh");
                command
                    .args(["-c", GUARD, "guard"])
                    .arg(program)
                    .stdin(Stdio::piped());
                command
            }
            Lifetime::Detached => {
                let mut command = Command::new(program);
                // A group of its own, so that Ctrl-C in the terminal does not reach it.
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

    /// The process to end; for a detached child only.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The name of the program.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The last lines it wrote.
    pub(crate) fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().rev().take(15).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.lifetime == Lifetime::Ours {
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

    /// A program that holds the other end of a socket: we see its end as the end of the stream, without polling.
    fn start_holding(script: &str) -> (Process, UnixStream) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let arguments = ["-c", script, "python", path.to_str().unwrap()].map(OsString::from);
        let process = Process::start(
            Path::new("python3"),
            &arguments,
            folder.path(),
            Lifetime::Ours,
        )
        .unwrap();
        let (stream, _) = listener.accept().unwrap();
        (process, stream)
    }

    #[test]
    fn a_child_ends_when_it_is_dropped() {
        let script = "import socket,sys,time; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[2]); time.sleep(600)";
        if Command::new("python3").arg("--version").output().is_err() {
            eprintln!("left out: python3 is not there");
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
        let mut process =
            Process::start(Path::new("sh"), &arguments, folder.path(), Lifetime::Ours).unwrap();
        // `wait` closes the pipe first, which would race the program's own end.
        let pipe = process.child.stdin.take();
        let status = process.child.wait().unwrap();
        drop(pipe);
        assert_eq!(status.code(), Some(7));
        assert_eq!(process.last_words(), "so it ends");
        assert!(process.ended().is_some());
    }
}
