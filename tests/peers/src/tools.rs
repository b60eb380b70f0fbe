//! Finds the external tools, and names the command that installs a missing one.

use std::env;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The Kubernetes release that tests compare with.
pub const KUBERNETES: &str = "v1.37.1";
/// The etcd release that it uses.
pub const ETCD: &str = "v3.7.3";
/// A kubectl release from before streaming lists, protobuf bodies and kuberc.
pub const OLD_KUBECTL: &str = "v1.29.6";

/// A program that some tests need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// etcd, kube-apiserver, kube-controller-manager and kubectl of [`KUBERNETES`]; the path is their folder.
    Kubernetes,
    /// kubectl of [`KUBERNETES`].
    Kubectl,
    /// kubectl of [`OLD_KUBECTL`].
    OldKubectl,
    /// A Python that can import the package `kubernetes`.
    Python,
    /// Our program that prints what a shared informer of client-go sees.
    Informer,
    /// Our own policies as Wasm modules, `<name>.wasm`; the path is their folder.
    Policies,
    /// Debian's `docker-registry`.
    Registry,
}

/// A tool that is not installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The tests that need it.
    pub what: String,
    /// What was not found.
    pub why: String,
    /// The command that installs it.
    pub install_command: String,
}

impl Tool {
    pub const ALL: [Self; 7] = [
        Self::Kubernetes,
        Self::Kubectl,
        Self::OldKubectl,
        Self::Python,
        Self::Informer,
        Self::Policies,
        Self::Registry,
    ];

    /// Finds the path of the tool.
    pub fn find(self) -> Result<PathBuf, Missing> {
        match self {
            Self::Kubernetes => kubernetes(),
            Self::Kubectl => kubectl(KUBERNETES),
            Self::OldKubectl => kubectl(OLD_KUBECTL),
            Self::Python => python(),
            Self::Informer => informer(),
            Self::Policies => policies(),
            Self::Registry => registry(),
        }
    }

    /// Finds the path of the tool. Returns `None` after printing that the calling test is skipped.
    ///
    /// # Panics
    /// With `CI=true`, where no test may be skipped.
    pub fn or_skip(self) -> Option<PathBuf> {
        match self.find() {
            Ok(path) => Some(path),
            Err(missing) => {
                assert!(
                    !in_ci(),
                    "{} (fails with CI=true): {}; run: {}",
                    missing.what,
                    missing.why,
                    missing.install_command
                );
                eprintln!(
                    "skipped: {}: {}; run: {}",
                    missing.what, missing.why, missing.install_command
                );
                None
            }
        }
    }
}

/// Whether `CI=true` is set, so that a missing tool is a failure.
pub fn in_ci() -> bool {
    variable("CI").is_some_and(|value| value == "true" || value == "1")
}

/// `$XDG_CACHE_HOME/polity`, or `~/.cache/polity`: the folder for downloads and builds outside the repository.
pub fn cache() -> PathBuf {
    let base = variable("XDG_CACHE_HOME")
        .filter(|path| Path::new(path).is_absolute())
        .map(PathBuf::from);
    let base = base.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".cache")));
    base.unwrap_or_else(env::temp_dir).join("polity")
}

/// The folder for everything related to Kubernetes.
pub fn kube_cache() -> PathBuf {
    cache().join("kube")
}

/// The folder with the programs of one release.
pub fn release(version: &str) -> PathBuf {
    kube_cache().join(version)
}

/// The source folder of the informer, in the checkout in which this was compiled.
pub fn informer_source() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/informer"))
}

/// The path of the compiled informer. It contains a hash of the source, so that a change leads to a new build.
pub fn informer_program() -> PathBuf {
    let mut digest = DefaultHasher::new();
    include_str!("../informer/main.go").hash(&mut digest);
    include_str!("../informer/go.mod").hash(&mut digest);
    let name = format!("informer-{:016x}", digest.finish());
    release(KUBERNETES).join(name)
}

fn informer() -> Result<PathBuf, Missing> {
    let path = informer_program();
    if path.is_file() {
        return Ok(path);
    }
    Err(Missing {
        what: "tests with the informers of client-go".to_owned(),
        why: format!("{} does not exist", path.display()),
        install_command: "cargo xtask kube informer".to_owned(),
    })
}

fn kubernetes() -> Result<PathBuf, Missing> {
    let folder = release(KUBERNETES);
    let parts = [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kubectl",
    ];
    match parts.iter().find(|name| !folder.join(name).is_file()) {
        None => Ok(folder),
        Some(absent) => Err(Missing {
            what: format!("tests against the real Kubernetes {KUBERNETES}"),
            why: format!("{} does not exist", folder.join(absent).display()),
            install_command: "cargo xtask kube build".to_owned(),
        }),
    }
}

fn kubectl(version: &str) -> Result<PathBuf, Missing> {
    let path = release(version).join("kubectl");
    if path.is_file() {
        return Ok(path);
    }
    Err(Missing {
        what: format!("tests with kubectl {version}"),
        why: format!("{} does not exist", path.display()),
        install_command: format!("cargo xtask kube kubectl {version}"),
    })
}

fn python() -> Result<PathBuf, Missing> {
    let own = cache().join("python/bin/python3");
    let candidates = [own.clone(), PathBuf::from("python3")];
    let imports = |python: &PathBuf| {
        let mut command = Command::new(python);
        command
            .args(["-c", "import kubernetes"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let folder = cache().join("python").display().to_string();
    candidates.into_iter().find(imports).ok_or_else(|| Missing {
        what: "tests with the Python client".to_owned(),
        why: format!(
            "neither {} nor python3 can import kubernetes",
            own.display()
        ),
        install_command: format!("python3 -m venv {folder} && {folder}/bin/pip install kubernetes"),
    })
}

/// `cargo xtask policies` writes them into the target folder, which also contains the running program.
fn policies() -> Result<PathBuf, Missing> {
    let program = env::current_exe().unwrap_or_default();
    let folder = program
        .ancestors()
        .map(|folder| folder.join("policies"))
        .find(|folder| folder.join("pod-privileged.wasm").is_file());
    folder.ok_or_else(|| Missing {
        what: "tests with our own policies".to_owned(),
        why: format!("no parent folder of {} contains them", program.display()),
        install_command: "cargo xtask policies".to_owned(),
    })
}

fn registry() -> Result<PathBuf, Missing> {
    let path = variable("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|folder| folder.join("docker-registry"))
        .find(|program| program.is_file())
        .ok_or_else(|| Missing {
            what: "tests with a real registry".to_owned(),
            why: "docker-registry is not in PATH".to_owned(),
            install_command: "apt-get install docker-registry".to_owned(),
        })
}

#[expect(
    clippy::disallowed_methods,
    reason = "this crate is a tool of tests, not a service with flags"
)]
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_release_names_the_command_that_installs_it() {
        let missing = kubectl("v0.0.1").unwrap_err();
        assert_eq!(missing.install_command, "cargo xtask kube kubectl v0.0.1");
        assert!(
            missing.why.contains("v0.0.1/kubectl does not exist"),
            "{missing:?}"
        );
    }
}
