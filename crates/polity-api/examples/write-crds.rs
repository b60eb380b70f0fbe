//! Writes every definition to a folder, one file each; `cargo xtask generate` runs it on `config/crd`.

use std::error::Error;
use std::path::PathBuf;

use polity_api::crd::{all, to_yaml};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(
        std::env::args_os()
            .nth(1)
            .ok_or("usage: write-crds FOLDER")?,
    );
    std::fs::create_dir_all(&folder)?;
    for crd in all() {
        let name = crd
            .metadata
            .name
            .as_deref()
            .ok_or("a definition has a name")?;
        std::fs::write(folder.join(format!("{name}.yaml")), to_yaml(&crd))?;
    }
    Ok(())
}
