//! `cargo xtask policies`: builds our policies to Wasm and adds their metadata.
//!
//! The modules are written to `policies/` in the target folder, where the tests look for them. The samples are also
//! written to `samples/`, from where the build script of the binary embeds them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell;

/// The compilation target of guests.
const TARGET: &str = "wasm32-wasip1";

/// The custom section with the metadata of a module.
const SECTION: &str = "io.kubewarden.metadata";

/// The sample policies of `polity up`.
const SAMPLES: [&str; 3] = ["pod-privileged", "host-namespaces", "trusted-registries"];

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Also run the tests of the policies on this machine
    #[arg(long)]
    test: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let (folder, took) = shell::timed(build);
        eprintln!(
            "wrote the policies to {} ({})",
            folder?.display(),
            shell::duration(took)
        );
        if self.test {
            shell::run(&mut cargo("test")?)?;
        }
        Ok(())
    }
}

/// Builds all policies and returns their folder.
pub(crate) fn build() -> Result<PathBuf> {
    ensure_target()?;
    eprintln!("building policies (two minutes the first time)");
    shell::run(cargo("build")?.args(["--release", "--target", TARGET]))?;
    let folder = folder()?;
    let samples = shell::target_folder()?.join("samples");
    fs::create_dir_all(&samples).with_context(|| format!("making {}", samples.display()))?;
    for policy in sources()? {
        let module = find_module(&policy)?;
        let annotated = annotate(&module, &policy.join("metadata.json"))?;
        let name = policy.file_name().context("a policy has a folder")?;
        write_if_changed(&folder.join(name).with_extension("wasm"), &annotated)?;
        if SAMPLES.iter().any(|sample| name == *sample) {
            let sample = samples.join(name).with_extension("wasm");
            write_if_changed(&sample, &annotated)?;
        }
    }
    Ok(folder)
}

fn folder() -> Result<PathBuf> {
    Ok(shell::target_folder()?.join("policies"))
}

/// A cargo command in the workspace of the policies, with a separate target folder.
fn cargo(verb: &str) -> Result<Command> {
    let mut command = shell::cargo([verb]);
    command
        .current_dir(shell::root().join("policies"))
        .arg("--target-dir")
        .arg(folder()?.join("build"));
    Ok(command)
}

/// `targets` in rust-toolchain.toml has no effect on an installed toolchain.
fn ensure_target() -> Result<()> {
    let installed = Command::new("rustup")
        .args(["target", "list", "--installed"])
        .output();
    match installed {
        // Without rustup, cargo reports a missing target itself.
        Err(_) => Ok(()),
        Ok(output)
            if String::from_utf8_lossy(&output.stdout)
                .lines()
                .any(|line| line == TARGET) =>
        {
            Ok(())
        }
        Ok(_) => shell::run(Command::new("rustup").args(["target", "add", TARGET])),
    }
}

/// The folders that contain a policy.
fn sources() -> Result<Vec<PathBuf>> {
    let mut folders: Vec<PathBuf> = fs::read_dir(shell::root().join("policies"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("metadata.json").is_file() && path.join("Cargo.toml").is_file())
        .collect();
    folders.sort();
    Ok(folders)
}

/// Cargo names libraries with underscores and programs with dashes.
fn find_module(policy: &Path) -> Result<PathBuf> {
    let built = folder()?.join("build").join(TARGET).join("release");
    let name = policy
        .file_name()
        .context("a policy has a folder")?
        .to_string_lossy();
    let candidates = [name.replace('-', "_"), name.to_string()];
    let paths = candidates.map(|name| built.join(name).with_extension("wasm"));
    match paths.into_iter().find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => bail!("cargo built no module for {name} in {}", built.display()),
    }
}

/// Appends the metadata to the module as a custom section.
fn annotate(module: &Path, metadata: &Path) -> Result<Vec<u8>> {
    let mut bytes = fs::read(module).with_context(|| format!("reading {}", module.display()))?;
    let text = fs::read(metadata).with_context(|| format!("reading {}", metadata.display()))?;
    let metadata: Value = serde_json::from_slice(&text)
        .with_context(|| format!("{} is not JSON", metadata.display()))?;
    let mut content = Vec::new();
    leb128(&mut content, SECTION.len());
    content.extend_from_slice(SECTION.as_bytes());
    content.extend_from_slice(metadata.to_string().as_bytes());
    bytes.push(0);
    leb128(&mut bytes, content.len());
    bytes.extend_from_slice(&content);
    Ok(bytes)
}

/// Appends a LEB128 number: seven bits per byte, the lowest first.
fn leb128(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Writes the file atomically, because tests may read it at the same time.
fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    fs::write(&draft, bytes).with_context(|| format!("writing {}", draft.display()))?;
    fs::rename(&draft, path).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_wasm_wants() {
        for (number, expected) in [
            (0, &[0][..]),
            (127, &[0x7f]),
            (128, &[0x80, 1]),
            (624_485, &[0xe5, 0x8e, 0x26]),
        ] {
            let mut bytes = Vec::new();
            leb128(&mut bytes, number);
            assert_eq!(bytes, expected);
        }
    }
}
