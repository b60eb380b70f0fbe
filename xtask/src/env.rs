//! `cargo xtask env`: prints the variables that put the built binary, under all of its names, on the search path of a
//! shell.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result};

use crate::shell;

/// The names under which `polity` is called: its own, that of the kubectl plugin, and those of the Kubewarden programs
/// that it replaces.
const NAMES: [&str; 4] = ["polity", "kubectl-polity", "kwctl", "policy-server"];

#[derive(clap::Args)]
pub(crate) struct Args {}

impl Args {
    #[expect(clippy::unused_self, reason = "every command is called the same way")]
    pub(crate) fn run(self) -> Result<()> {
        let target = shell::target_folder()?;
        let program = target.join("debug/polity");
        if !program.exists() {
            eprintln!("polity is not built yet; run: cargo xtask up");
        }
        let folder = target.join("bin");
        link(&program, &folder)?;
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{}", exported(&folder)).context("printing the variables")
    }
}

/// Creates a link to the binary under each of its names.
fn link(program: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    for name in NAMES {
        let path = folder.join(name);
        if fs::read_link(&path).is_ok_and(|present| present == program) {
            continue;
        }
        let draft = folder.join(format!(".{name}-{}", std::process::id()));
        symlink(program, &draft)
            .and_then(|()| fs::rename(&draft, &path))
            .with_context(|| format!("creating the link {}", path.display()))?;
    }
    Ok(())
}

/// The text for a shell to evaluate.
fn exported(folder: &Path) -> String {
    let quoted = folder.display().to_string().replace('\'', r"'\''");
    format!("export PATH='{quoted}':\"$PATH\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_made_once_and_follow_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        for program in ["/one/polity", "/one/polity", "/two/polity"] {
            link(Path::new(program), &bin).unwrap();
            for name in NAMES {
                let target = fs::read_link(bin.join(name)).unwrap();
                assert_eq!(target, Path::new(program));
            }
            assert_eq!(fs::read_dir(&bin).unwrap().count(), NAMES.len());
        }
    }

    #[test]
    fn a_folder_is_quoted_for_the_shell() {
        let text = exported(Path::new("/a b/it's"));
        assert_eq!(text, r#"export PATH='/a b/it'\''s':"$PATH""#);
    }
}
