//! Builds the external tools into the cache folder, each only once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use peers::tools::{ETCD, KUBERNETES, informer_program, informer_source, kube_cache, release};
use serde_json::Value;

use super::recipe::{Release, etcd_go_mod};
use crate::shell;

pub(super) const ETCD_PACKAGE: &str = "go.etcd.io/etcd/server/v3";

/// The programs of Kubernetes and their build time on two cores.
const PROGRAMS: [(&str, &str); 3] = [
    ("kubectl", "about two and a half minutes"),
    ("kube-apiserver", "about five minutes"),
    ("kube-controller-manager", "about two and a half minutes"),
];

/// Builds etcd and the three programs of one release.
pub(super) fn kubernetes(version: &str) -> Result<()> {
    build(&Release::parse(version)?, &program_names())?;
    if destination(version, "etcd").is_file() {
        return Ok(());
    }
    let _lock = lock()?;
    let workshop = workshop("etcd")?;
    prepare(&workshop, || Ok(etcd_go_mod(ETCD)))?;
    compile(
        &workshop,
        ETCD_PACKAGE,
        "-s -w",
        &destination(version, "etcd"),
        "about half a minute",
    )
}

/// Builds kubectl of one release.
pub(super) fn kubectl(version: &str) -> Result<()> {
    build(&Release::parse(version)?, &["kubectl"])
}

/// Builds the informer program, which uses client-go.
pub(super) fn informer() -> Result<()> {
    let program = informer_program();
    if program.is_file() {
        eprintln!("the informer is already built");
        return Ok(());
    }
    eprintln!("{}", find_go()?);
    let _lock = lock()?;
    compile(
        informer_source(),
        ".",
        "-s -w",
        &program,
        "up to two minutes",
    )
}

/// Returns the version of Go, or an error with its download page.
pub(super) fn find_go() -> Result<String> {
    let output = Command::new("go").arg("version").output();
    match output {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        _ => bail!(
            "building the real Kubernetes needs Go 1.26 or newer, and there is no `go` in PATH (see go.dev/dl)"
        ),
    }
}

fn build(release: &Release, programs: &[&str]) -> Result<()> {
    let version = release.version();
    let absent = |program: &&&str| !destination(version, program).is_file();
    if !programs.iter().any(|program| absent(&program)) {
        eprintln!("{version} of {} is already built", programs.join(", "));
        return Ok(());
    }
    eprintln!("{}", find_go()?);
    let _lock = lock()?;
    let workshop = workshop(version)?;
    // For the reference release, build all programs at once: the tests need all of them, and the module is resolved
    // only once. For an older release, build only the requested program: some of its dependencies can no longer be
    // downloaded.
    let tools = if version == KUBERNETES {
        program_names()
    } else {
        programs.to_vec()
    };
    prepare(&workshop, || {
        release.go_mod(&upstream_go_mod(&workshop, version)?, &tools)
    })?;
    for program in programs.iter().filter(absent) {
        let package = format!("k8s.io/kubernetes/cmd/{program}");
        let how_long = PROGRAMS
            .iter()
            .find(|(name, _)| name == program)
            .map_or("some minutes", |(_, time)| *time);
        compile(
            &workshop,
            &package,
            &release.linker_flags(),
            &destination(version, program),
            how_long,
        )?;
    }
    Ok(())
}

fn program_names() -> Vec<&'static str> {
    PROGRAMS.iter().map(|(name, _)| *name).collect()
}

fn destination(version: &str, program: &str) -> PathBuf {
    release(version).join(program)
}

/// The folder of the Go module of one build. It is kept, so that an interrupted build can continue.
fn workshop(name: &str) -> Result<PathBuf> {
    let folder = kube_cache().join(format!("build-{name}"));
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

/// Allows one build at a time. The second process finds everything built.
fn lock() -> Result<File> {
    let path = kube_cache().join("build.lock");
    fs::create_dir_all(kube_cache())?;
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    if file.try_lock().is_err() {
        eprintln!("waiting for another build to finish");
        file.lock()?;
    }
    Ok(file)
}

/// The go.mod of `k8s.io/kubernetes` itself.
fn upstream_go_mod(workshop: &Path, version: &str) -> Result<Value> {
    let module = format!("k8s.io/kubernetes@{version}");
    let downloaded = json_of(go(workshop, &["mod", "download", "-json", &module]))?;
    let path = downloaded["GoMod"]
        .as_str()
        .with_context(|| format!("go has not downloaded {module}"))?;
    json_of(go(workshop, &["mod", "edit", "-json", path]))
}

/// Writes go.mod and resolves it, unless that was done before.
fn prepare(workshop: &Path, go_mod: impl FnOnce() -> Result<String>) -> Result<()> {
    // go.sum is written last, so its presence means that the module is resolved.
    if workshop.join("go.sum").is_file() {
        return Ok(());
    }
    shell::with_progress("downloading Go modules", "about half a minute", || {
        fs::write(workshop.join("go.mod"), go_mod()?)?;
        quietly(go(workshop, &["mod", "tidy"]))
    })
}

fn compile(
    workshop: &Path,
    package: &str,
    linker_flags: &str,
    to: &Path,
    how_long: &str,
) -> Result<()> {
    let name = to
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    fs::create_dir_all(to.parent().unwrap_or(Path::new(".")))?;
    // Renamed when complete, so that an interrupted build does not leave a broken program.
    let partial = to.with_extension("partial");
    shell::with_progress(&format!("building {name}"), how_long, || {
        let mut command = go(
            workshop,
            &["build", "-buildvcs=false", "-ldflags", linker_flags, "-o"],
        );
        command.arg(&partial).arg(package);
        quietly(command)?;
        fs::rename(&partial, to).with_context(|| format!("moving {name} to {}", to.display()))
    })
}

fn go(workshop: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("go");
    command
        .args(arguments)
        .current_dir(workshop)
        .stdin(Stdio::null());
    command
}

/// Runs a command and prints its output only if it fails.
fn quietly(mut command: Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("starting {}", shell::shown(&command)))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let tail: Vec<_> = words.lines().rev().take(20).collect();
    let tail: Vec<_> = tail.into_iter().rev().collect();
    bail!("{} failed:\n{}", shell::shown(&command), tail.join("\n"))
}

fn json_of(mut command: Command) -> Result<Value> {
    let output = command
        .output()
        .with_context(|| format!("starting {}", shell::shown(&command)))?;
    if !output.status.success() {
        bail!(
            "{} failed: {}",
            shell::shown(&command),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
