//! The Python package `kubernetes` on the embedded server and on the real one. The steps are in `client.py`, with one
//! function per test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::servers::{self, Server};
use peers::Tool;

/// Runs one function of the script in its own namespace.
fn play(server: Option<&Server>, name: &str) {
    let (Some(python), Some(server)) = (Tool::Python.or_skip(), server) else {
        return;
    };
    let script: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/client.py");
    let mut command = Command::new(python);
    command
        .arg("-B")
        .arg(script)
        .arg(server.kubeconfig())
        .arg(name)
        .stdin(Stdio::null());
    let output = command.output().expect("python can be started");
    assert!(
        output.status.success(),
        "{name}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}

macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {
        mod on_the_embedded_server {
            $(#[test] fn $name() { super::play(Some(super::servers::embedded()), stringify!($name)); })+
        }
        mod on_the_real_server {
            $(#[test] fn $name() { super::play(super::servers::real(), stringify!($name)); })+
        }
    };
}

scenarios![
    core_objects,
    workloads,
    patches,
    applies_server_side,
    pages,
    watches_and_resumes,
    custom_objects,
    dynamic_client,
    deletes_with_propagation,
    access_reviews,
    creates_from_yaml,
    leader_election,
];
