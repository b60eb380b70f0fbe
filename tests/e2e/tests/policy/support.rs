//! A home folder for each test, our modules, and the output of `polity policy`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use e2e::polity;
use peers::Tool;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The module of the AssemblyScript policy, which is committed.
pub(crate) const DEFAULT_NAMESPACE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../policies/default-namespace/default-namespace.wasm"
);

/// A temporary home folder.
pub(crate) struct TestHome(TempDir);

/// Exit code and output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        Self(polity::folder())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs `polity policy …`.
    pub(crate) fn policy(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(polity::run(
            self.path(),
            [&["policy"][..], arguments].concat(),
        ))
    }
}

impl CommandOutput {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Parses standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The path of one of our modules. Returns `None` after printing that they are missing.
pub(crate) fn module(name: &str) -> Option<String> {
    let folder: PathBuf = Tool::Policies.or_skip()?;
    let path = folder.join(name).with_extension("wasm");
    Some(path.to_str().unwrap().to_owned())
}

/// An AdmissionRequest for the creation of an object.
pub(crate) fn request(kind: &str, object: Value) -> Value {
    json!({
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": kind},
        "resource": {"group": "", "version": "v1", "resource": "things"},
        "name": "p",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "ann"},
        "object": object,
    })
}

pub(crate) fn pod(container: Value) -> Value {
    let mut container = container;
    container["name"] = json!("a");
    request(
        "Pod",
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}),
    )
}
