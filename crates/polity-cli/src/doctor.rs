//! `polity doctor`: what runs, what can be reached and read, what is wrong, and what to do about it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use crate::exit::Exit;
use crate::local::{DataDirArgs, Local, RunState};
use crate::output::{OutputArgs, Paint, columns};

/// Check the local Polity: what runs, what can be reached, what is wrong and how to mend it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity doctor\n  polity doctor -o json\n\nExit code 1: something is wrong."
)]
pub struct DoctorArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    /// Works, but the user may want to know.
    Note,
    Wrong,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    mend: String,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Ok,
            message: message.into(),
            mend: String::new(),
        }
    }

    fn note(check: &'static str, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Note,
            message: message.into(),
            mend: mend.into(),
        }
    }

    fn wrong(check: &'static str, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Wrong,
            message: message.into(),
            mend: mend.into(),
        }
    }
}

impl DoctorArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let Self { data_dir, output } = self;
        let local = Local::new(data_dir.resolve()?);
        let mut findings = vec![Finding::ok(
            "program",
            format!("polity {}", env!("CARGO_PKG_VERSION")),
        )];
        findings.push(data_directory(local.dir()));
        let running = process(&local, &mut findings);
        if let Some(run) = &running {
            findings.push(kubeconfig_file(&run.kubeconfig));
            findings.push(kubeconfig_variable(&run.kubeconfig));
            for cluster in &run.clusters {
                findings.push(reachable(run, &cluster.context).await);
            }
        }
        findings.push(kubectl().await);
        output.print(&findings, |findings| table(findings))?;
        let wrong = findings
            .iter()
            .any(|finding| finding.verdict == Verdict::Wrong);
        Ok(if wrong { Exit::Findings } else { Exit::Fine })
    }
}

fn data_directory(dir: &Path) -> Finding {
    const CHECK: &str = "data directory";
    if !dir.exists() {
        return Finding::note(
            CHECK,
            format!("{} does not exist yet", dir.display()),
            "polity up makes it",
        );
    }
    let probe = tempfile::NamedTempFile::new_in(dir);
    if let Err(error) = probe {
        return Finding::wrong(
            CHECK,
            format!("{} is not writable: {error}", dir.display()),
            "choose another with --data-dir, or mend its permissions",
        );
    }
    match rustix::fs::statvfs(dir) {
        Ok(disk) => {
            let free = disk.f_bavail * disk.f_frsize / (1024 * 1024);
            if free < 200 {
                return Finding::wrong(
                    CHECK,
                    format!("{}: only {free} MiB are free", dir.display()),
                    "make room: writes are refused when the disk is full",
                );
            }
            Finding::ok(CHECK, format!("{}, {free} MiB free", dir.display()))
        }
        Err(_) => Finding::ok(CHECK, dir.display().to_string()),
    }
}

fn process(local: &Local, findings: &mut Vec<Finding>) -> Option<RunState> {
    const CHECK: &str = "process";
    let finding = match (local.is_held(), local.last_run()) {
        (Err(error), _) => Finding::wrong(
            CHECK,
            format!("{error:#}"),
            "mend the permissions of the data directory",
        ),
        (Ok(true), Ok(Some(run))) => {
            findings.push(Finding::ok(
                CHECK,
                format!("runs as pid {} since {}", run.pid, run.started),
            ));
            if run.version != env!("CARGO_PKG_VERSION") {
                let message = format!(
                    "the running Polity is {}, this program is {}",
                    run.version,
                    env!("CARGO_PKG_VERSION")
                );
                findings.push(Finding::note(
                    "version",
                    message,
                    "polity down, then polity up",
                ));
            }
            return Some(run);
        }
        (Ok(true), Ok(None)) => Finding::note(CHECK, "is starting", "look again in a few seconds"),
        (Ok(true), Err(error)) => {
            Finding::wrong(CHECK, format!("{error:#}"), "polity down, then polity up")
        }
        (Ok(false), Ok(None)) => Finding::note(CHECK, "not running", "polity up"),
        (Ok(false), _) => {
            let mend = format!(
                "polity up goes on where it stopped; a detached one logs to {}",
                local.log().display()
            );
            Finding::wrong(CHECK, "the last run ended unexpectedly", mend)
        }
    };
    findings.push(finding);
    None
}

fn kubeconfig_file(path: &Path) -> Finding {
    const CHECK: &str = "kubeconfig";
    match std::fs::metadata(path) {
        Err(error) => Finding::wrong(
            CHECK,
            format!("{}: {error}", path.display()),
            "polity down, then polity up writes it again",
        ),
        Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => Finding::wrong(
            CHECK,
            format!("{} can be read by others", path.display()),
            format!("chmod 600 {}", path.display()),
        ),
        Ok(_) => Finding::ok(CHECK, path.display().to_string()),
    }
}

fn kubeconfig_variable(path: &Path) -> Finding {
    const CHECK: &str = "KUBECONFIG";
    let value = polity_runtime::env::read(polity_runtime::env::KUBECONFIG);
    let named = value
        .iter()
        .flat_map(std::env::split_paths)
        .any(|named: PathBuf| named == path);
    if named {
        Finding::ok(CHECK, "names the local Polity")
    } else {
        Finding::note(
            CHECK,
            "does not name the local Polity, so kubectl talks to another cluster",
            format!("export KUBECONFIG={}", path.display()),
        )
    }
}

async fn reachable(run: &RunState, context: &str) -> Finding {
    const CHECK: &str = "cluster";
    match ask_version(run, context).await {
        Ok(version) => Finding::ok(CHECK, format!("{context} answers as {version}")),
        Err(error) => Finding::wrong(
            CHECK,
            format!("{context} does not answer: {error:#}"),
            "look at the log, then: polity down, polity up",
        ),
    }
}

async fn ask_version(run: &RunState, context: &str) -> anyhow::Result<String> {
    let client = crate::local_client(&run.kubeconfig, context).await?;
    let version = tokio::time::timeout(Duration::from_secs(5), client.apiserver_version());
    Ok(version.await.context("no answer within 5 s")??.git_version)
}

async fn kubectl() -> Finding {
    const CHECK: &str = "kubectl";
    let asked = tokio::process::Command::new("kubectl")
        .args(["version", "--client", "-o", "json"])
        .output();
    let Ok(Ok(output)) = tokio::time::timeout(Duration::from_secs(5), asked).await else {
        return Finding::note(
            CHECK,
            "not found",
            "install it to talk to clusters; any version from 1.27 on works",
        );
    };
    let version: Option<String> = serde_json::from_slice::<serde_json::Value>(&output.stdout)
        .ok()
        .and_then(|value| {
            Some(
                value
                    .pointer("/clientVersion/gitVersion")?
                    .as_str()?
                    .to_owned(),
            )
        });
    match version {
        Some(version) => Finding::ok(CHECK, version),
        None => Finding::note(
            CHECK,
            "does not tell its version",
            "any version from 1.27 on works",
        ),
    }
}

fn table(findings: &[Finding]) -> String {
    let paint = Paint::for_stdout();
    let mut rows = Vec::new();
    for finding in findings {
        let mark = match finding.verdict {
            Verdict::Ok => paint.good("✓"),
            Verdict::Note => paint.warn("–"),
            Verdict::Wrong => paint.bad("✗"),
        };
        rows.push(vec![
            mark,
            finding.check.to_owned(),
            finding.message.clone(),
        ]);
        if !finding.mend.is_empty() {
            rows.push(vec![
                String::new(),
                String::new(),
                format!("→ {}", finding.mend),
            ]);
        }
    }
    columns(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_others_can_read_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        assert_eq!(kubeconfig_file(&path).verdict, Verdict::Wrong);
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(kubeconfig_file(&path).verdict, Verdict::Wrong);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(kubeconfig_file(&path).verdict, Verdict::Ok);
    }

    #[test]
    fn a_run_that_ended_unexpectedly_is_told_from_none() {
        let folder = tempfile::tempdir().unwrap();
        let local = Local::new(folder.path());
        let mut findings = Vec::new();
        assert!(process(&local, &mut findings).is_none());
        assert_eq!(findings.pop().unwrap().verdict, Verdict::Note);
        std::fs::write(folder.path().join("run.json"), "{}").unwrap();
        assert!(process(&local, &mut findings).is_none());
        assert_eq!(findings.pop().unwrap().verdict, Verdict::Wrong);
    }
}
