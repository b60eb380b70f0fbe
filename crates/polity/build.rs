//! Makes the sample policies a part of the program, where they were built.
//!
//! `cargo xtask policies` puts their modules into `samples/` of the target folder. A plain `cargo build` needs neither
//! them nor the compiler's target for them: the program then has no samples, and says so.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

#[expect(
    clippy::disallowed_methods,
    reason = "how cargo and build scripts talk"
)]
fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    let mut list = String::from("&[\n");
    if let Some(folder) = samples(&out) {
        // It is made if it is not there: cargo looks at a folder that is missing again and again.
        fs::create_dir_all(&folder)?;
        println!("cargo::rerun-if-changed={}", folder.display());
        for (name, path) in modules(&folder)? {
            let path = path.display().to_string();
            writeln!(list, "    ({name:?}, include_bytes!({path:?})),")
                .map_err(io::Error::other)?;
        }
    }
    list.push_str("]\n");
    fs::write(out.join("samples.rs"), list)
}

/// `samples` beside the folder of the profile, of which `OUT_DIR` is `build/polity-…/out`.
fn samples(out: &Path) -> Option<PathBuf> {
    Some(out.ancestors().nth(4)?.join("samples"))
}

/// The modules of a folder by name, in their order.
fn modules(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut modules = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        if let (Some(name), Some("wasm")) = (name, path.extension().and_then(|end| end.to_str())) {
            modules.push((name, path));
        }
    }
    modules.sort();
    Ok(modules)
}
