//! A home of one's own with requests in it, our modules, and the program's answers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use e2e::polity;
use peers::Tool;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The committed module of the policy in AssemblyScript: always there.
pub(crate) const DEFAULT_NAMESPACE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../policies/default-namespace/default-namespace.wasm"
);

/// Somebody's home.
pub(crate) struct Home(TempDir);

/// What the program said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self(polity::folder())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, and says where it is.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// `polity policy …`.
    pub(crate) fn policy(&self, arguments: &[&str]) -> Said {
        Said::of(polity::run(
            self.path(),
            [&["policy"][..], arguments].concat(),
        ))
    }
}

impl Said {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Its standard output, which is JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// One of our modules by name; `None` after saying that they are not there.
pub(crate) fn module(name: &str) -> Option<String> {
    let folder: PathBuf = Tool::Policies.or_leave_out()?;
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
