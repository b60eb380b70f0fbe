//! `polity reset`: throws the local data away.

use std::io::{BufRead as _, IsTerminal as _};

use anyhow::Context as _;

use crate::exit::{Exit, Hinted};
use crate::local::{DataDirArgs, Local};

/// Delete all data of the local instance: clusters, objects, keys
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  polity reset\n  polity reset --yes")]
pub struct ResetArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// Do not ask
    #[arg(long, short = 'y')]
    yes: bool,
}

/// The files that `polity up` and `polity apiserver` write into a data directory. Only these and the folders of
/// interrupted restores are deleted.
const OURS: [&str; 8] = [
    "clusters",
    "pki",
    "samples",
    "kubeconfig",
    "run.json",
    "run.lock",
    "polity.log",
    "polity.log.1",
];

impl ResetArgs {
    pub fn run(self) -> anyhow::Result<Exit> {
        let Self { data_dir, yes } = self;
        let local = Local::new(data_dir.resolve()?);
        let of_restores = local.restore_folders()?.into_iter().map(|(_, path)| path);
        let found: Vec<_> = OURS
            .iter()
            .map(|name| local.dir().join(name))
            .filter(|path| path.exists())
            .chain(of_restores)
            .collect();
        if found.is_empty() {
            eprintln!("there is nothing to delete in {}", local.dir().display());
            return Ok(Exit::Fine);
        }
        let Some(_held) = local.hold()? else {
            let message = format!("polity is running in {}", local.dir().display());
            let hint = format!("stop it first: {}", local.command("down"));
            return Err(Hinted::new(message, hint).into());
        };
        if !yes && !confirmed(&local, std::io::stdin().is_terminal())? {
            eprintln!("nothing was deleted");
            return Ok(Exit::Findings);
        }
        for path in found {
            let removed = if path.is_dir() {
                std::fs::remove_dir_all(&path)
            } else {
                std::fs::remove_file(&path)
            };
            removed.with_context(|| format!("deleting {}", path.display()))?;
        }
        // It stays if it holds files of the user.
        std::fs::remove_dir(local.dir()).ok();
        eprintln!("deleted the data in {}", local.dir().display());
        Ok(Exit::Fine)
    }
}

fn confirmed(local: &Local, has_terminal: bool) -> anyhow::Result<bool> {
    if !has_terminal {
        return Err(Hinted::new(
            "reset asks before it deletes, and there is no terminal to ask on",
            local.command("reset --yes"),
        )
        .into());
    }
    eprint!(
        "Delete all clusters and objects in {}? [y/N] ",
        local.dir().display()
    );
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::hint_of;

    #[test]
    fn hints_lead_to_the_data_directory_that_was_named() {
        let folder = tempfile::tempdir().unwrap();
        let local = Local::new(folder.path());
        let dir = folder.path().display();
        let asked = confirmed(&local, false).unwrap_err();
        let hint = hint_of(&asked).unwrap();
        assert_eq!(hint, format!("polity reset --yes --data-dir {dir}"));

        let _held = local.hold().unwrap().expect("free");
        let reset = ResetArgs {
            data_dir: DataDirArgs {
                data_dir: Some(folder.path().to_owned()),
            },
            yes: true,
        };
        let running = reset.run().unwrap_err();
        let hint = hint_of(&running).unwrap();
        assert_eq!(hint, format!("stop it first: polity down --data-dir {dir}"));
    }
}
