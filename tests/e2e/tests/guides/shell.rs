//! The bash that runs one page, with a home, a search path and a working folder of its own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use e2e::cleanup::CleanupGuard;
use e2e::polity;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

use crate::variables;

/// Upper limit for a command, including a small compilation.
const TIMEOUT: Duration = Duration::from_mins(3);
/// The names under which the binary is called.
const NAMES: [&str; 4] = ["polity", "kubectl-polity", "kwctl", "policy-server"];

/// A shell. Its processes are killed when this value is dropped, or when the test process ends for any reason.
pub(crate) struct Shell {
    bash: Child,
    stdin: ChildStdin,
    codes: Receiver<String>,
    folder: TempDir,
    n_commands: usize,
    cleanup: CleanupGuard,
    /// The background instance that `polity up -d` started.
    local: Option<CleanupGuard>,
}

/// The result of a command.
pub(crate) struct CommandResult {
    pub(crate) code: i32,
    /// Standard output and standard error as a terminal shows them.
    pub(crate) output: String,
}

impl Shell {
    /// Starts in a folder with the parts of a repository clone that pages use.
    pub(crate) fn start(repository: &Path, kubectl: &Path) -> Self {
        let folder = polity::folder();
        let path = |name: &str| folder.path().join(name);
        for name in ["home", "bin", "clone", "commands"] {
            fs::create_dir(path(name)).expect("there is room for a folder");
        }
        let program = polity::binary();
        let target = program.ancestors().nth(2).expect("it lies in target/debug");
        let link = |from: &Path, to: PathBuf| symlink(from, to).expect("a link can be made");
        link(&repository.join("docs"), path("clone/docs"));
        link(target, path("clone/target"));
        link(kubectl, path("bin/kubectl"));
        for name in NAMES {
            link(&program, path("bin").join(name));
        }
        let cargo = path("bin/cargo");
        let text = CARGO
            .replace("NETWORK", &network())
            .replace("REPOSITORY", &repository.display().to_string())
            .replace("BUILT", &target.display().to_string())
            .replace("REAL_CARGO", &variables::cargo().display().to_string());
        fs::write(&cargo, text).expect("there is room for a file");
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("it is ours");

        let mut bash = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .env_clear()
            .envs(environment(folder.path()))
            .current_dir(path("clone"))
            // A separate process group, to kill background processes too.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("bash can be started");
        let cleanup = CleanupGuard::process(bash.id()).expect("sh can be started");
        let stdout = bash.stdout.take().expect("it is piped");
        let (sender, codes) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut shell = Self {
            stdin: bash.stdin.take().expect("it is piped"),
            bash,
            codes,
            folder,
            n_commands: 0,
            cleanup,
            local: None,
        };
        shell.stdin.write_all(b"last=0\n").expect("bash runs");
        shell
    }

    /// Runs a command as if it was typed. Returns `Err` with the output so far if the command does not end.
    pub(crate) fn run(&mut self, command: &str) -> Result<CommandResult, String> {
        self.n_commands += 1;
        let commands = self.folder.path().join("commands");
        let script = commands.join(format!("{}.sh", self.n_commands));
        let output = commands.join(format!("{}.out", self.n_commands));
        fs::write(&script, format!("{command}\n")).expect("there is room for a file");
        // Restores `$?` to the exit code of the previous command.
        let line = format!(
            "(exit $last); . '{}' >'{}' 2>&1 </dev/null; last=$?; echo $last\n",
            script.display(),
            output.display()
        );
        self.stdin.write_all(line.as_bytes()).expect("bash runs");
        let code = self.codes.recv_timeout(TIMEOUT);
        let output = fs::read(&output).unwrap_or_default();
        let output = String::from_utf8_lossy(&output).into_owned();
        self.hold_local();
        match code.map(|code| code.parse()) {
            Ok(Ok(code)) => Ok(CommandResult { code, output }),
            _ => Err(format!(
                "it did not end within {TIMEOUT:?}, or ended the shell:\n{output}"
            )),
        }
    }

    /// Writes a file relative to the current folder of the shell.
    pub(crate) fn write(&mut self, path: &str, text: &str) -> Result<(), String> {
        let source = self.folder.path().join("commands/file");
        fs::write(&source, text).map_err(|error| error.to_string())?;
        let source = source.display();
        let command = format!("mkdir -p \"$(dirname '{path}')\" && cp '{source}' '{path}'");
        let ended = self.run(&command)?;
        if ended.code == 0 {
            Ok(())
        } else {
            Err(ended.output)
        }
    }

    fn data_dir(&self) -> PathBuf {
        self.folder.path().join("home/.local/share/polity")
    }

    /// Guards the background instance, so that it is killed with the test process.
    fn hold_local(&mut self) {
        let state = File::open(self.data_dir().join("run.json"));
        let state: Option<Value> = state
            .ok()
            .and_then(|file| serde_json::from_reader(file).ok());
        let pid = state.and_then(|state| u32::try_from(state["pid"].as_u64()?).ok());
        match pid {
            Some(pid) if self.local.is_none() => self.local = CleanupGuard::process(pid).ok(),
            Some(_) => {}
            None => self.release_local(),
        }
    }

    fn release_local(&mut self) {
        if let Some(mut cleanup) = self.local.take() {
            cleanup.release();
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if self.local.is_some() {
            let down = polity::command(&self.folder.path().join("home"))
                .arg("down")
                .output();
            if down.is_ok_and(|output| output.status.success()) {
                self.release_local();
            }
        }
        let group = i32::try_from(self.bash.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            rustix::process::kill_process_group(group, Signal::KILL).ok();
        }
        self.bash.wait().ok();
        self.cleanup.release();
    }
}

/// The `cargo` of a page. It skips the builds of `cargo xtask`, which are done already, and calls the real cargo for
/// everything else.
const CARGO: &str = r#"#!/bin/sh
NETWORK
[ "$1" = xtask ] || exec 'REAL_CARGO' "$@"
case $2 in
up) shift 2; exec polity up "$@" ;;
policies) exit 0 ;;
esac
cd 'REPOSITORY' && export CARGO_TARGET_DIR='BUILT'
[ ! -x "$CARGO_TARGET_DIR/debug/xtask" ] || { shift; exec "$CARGO_TARGET_DIR/debug/xtask" "$@"; }
exec 'REAL_CARGO' "$@"
"#;

/// The variables that cargo needs to reach registries. Other commands do not get them and stay on loopback.
fn network() -> String {
    let exported = variables::of_network().into_iter().map(|(name, value)| {
        let value = value.to_string_lossy().replace('\'', r"'\''");
        format!("export {name}='{value}'")
    });
    exported.collect::<Vec<_>>().join("\n")
}

/// The environment of a new login shell, as far as pages need it.
fn environment(folder: &Path) -> Vec<(&'static str, OsString)> {
    let port = polity::free_port();
    let mut path = folder.join("bin").into_os_string();
    path.push(":");
    path.push(variables::path());
    let mut environment = vec![
        ("PATH", path),
        ("HOME", folder.join("home").into_os_string()),
        ("LANG", "C.UTF-8".into()),
        ("TERM", "dumb".into()),
        ("POLITY_LISTEN", format!("127.0.0.1:{port}").into()),
    ];
    environment.extend(variables::of_cargo());
    environment
}
