//! `polity backup` and `polity restore`: the data of the local instance in one file.
//!
//! Both take the data directory for themselves: a copy of stores that are written to would not be one state. A restore
//! changes nothing before every file of the backup has been read, compared with its digest and, if it is a store, opened.
//! One that is interrupted is undone at the next start.

mod archive;
mod replace;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use polity_cli::exit::{Exit, Hinted};
use polity_cli::local::{DataDirArgs, Held, Local, RestoreFolder};
use polity_runtime::{Clock, files};
use polity_store::{Options, Store};

/// The entries of a data directory that a backup holds. The next start creates the others again.
const KEPT: [&str; 2] = ["clusters", "pki"];
/// In backups of earlier versions, and never restored: a kubeconfig can name commands that kubectl runs, and the next start
/// writes it from the keys and tokens anyway.
const KUBECONFIG: &str = "kubeconfig";
/// Below a cluster: volumes and logs of Pods, which are created again too.
const NOT_KEPT: &str = "local";

/// Save the data of the local instance to a file
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity down && polity backup polity.tar.gz && polity up -d\n\nThe file holds all objects, keys and credentials of all clusters: keep it\nprivate. Volumes and logs of Pods are not in it."
)]
pub(crate) struct BackupArgs {
    /// The file to write, a gzipped tar archive
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    data_dir: DataDirArgs,
}

/// Restore the data of the local instance from a backup
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity restore polity.tar.gz\n  polity restore polity.tar.gz --force        replaces the existing data\n  polity restore polity.tar.gz --data-dir /tmp/copy\n\nThe backup is checked before anything is replaced."
)]
pub(crate) struct RestoreArgs {
    /// A file that polity backup wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace the existing data
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    data_dir: DataDirArgs,
}

impl BackupArgs {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let Self {
            file,
            force,
            data_dir,
        } = self;
        let local = Local::new(data_dir.resolve()?);
        let _held = local.dir().is_dir().then(|| take(&local)).transpose()?;
        if !has_data(&local) {
            let message = format!("there is no data in {}", local.dir().display());
            return Err(Hinted::new(message, "--data-dir names another directory").into());
        }
        if file.exists() && !force {
            let message = format!("{} exists already", file.display());
            return Err(
                Hinted::new(message, "name another file, or overwrite it with --force").into(),
            );
        }
        let n_files = save(&local, &file).with_context(|| format!("writing {}", file.display()))?;
        eprintln!("saved {n_files} files to {}", file.display());
        Ok(Exit::Fine)
    }
}

impl RestoreArgs {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            file,
            force,
            data_dir,
        } = self;
        let backup = File::open(&file).with_context(|| format!("opening {}", file.display()))?;
        let local = Local::new(data_dir.resolve()?);
        files::create_private_dir(local.dir())?;
        let _held = take(&local)?;
        if has_data(&local) && !force {
            let message = format!("there is data in {} already", local.dir().display());
            let hint = "replace it with --force, or restore to another directory with --data-dir";
            return Err(Hinted::new(message, hint).into());
        }
        let about = restore(&local, &backup)
            .await
            .with_context(|| format!("restoring {}", file.display()))?;
        eprintln!(
            "restored {} files of {} (polity {}) to {}",
            about.files.len(),
            about.created,
            about.version,
            local.dir().display()
        );
        Ok(Exit::Fine)
    }
}

fn has_data(local: &Local) -> bool {
    KEPT.iter().any(|name| local.dir().join(name).exists())
}

fn take(local: &Local) -> anyhow::Result<Held> {
    let held = local.hold()?.ok_or_else(|| {
        let message = format!("polity is running in {}", local.dir().display());
        let hint = format!("stop it first: {}", local.command("down"));
        Hinted::new(message, hint)
    })?;
    recover(local)?;
    Ok(held)
}

/// Undoes a restore that was interrupted, in a data directory that this process holds.
pub(crate) fn recover(local: &Local) -> anyhow::Result<()> {
    if replace::recover(local, &KEPT)? {
        eprintln!(
            "a restore was interrupted; the data from before it is back in {}",
            local.dir().display()
        );
    }
    Ok(())
}

/// Writes the backup beside its place, and moves it there when it is whole.
fn save(local: &Local, file: &Path) -> anyhow::Result<usize> {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    // A temporary file is made with mode 0600.
    let unfinished = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    let about = archive::describe(local.dir(), Clock::system().now())?;
    archive::pack(local.dir(), &about, BufWriter::new(unfinished.as_file()))?;
    unfinished.as_file().sync_all()?;
    unfinished.persist(file)?;
    Ok(about.files.len())
}

/// Unpacks and checks a backup beside the data, then puts it in its place.
async fn restore(local: &Local, backup: &File) -> anyhow::Result<archive::About> {
    let unpacked = tempfile::Builder::new()
        .prefix(RestoreFolder::Unpacked.prefix())
        .tempdir_in(local.dir())?;
    let about = archive::unpack(backup, unpacked.path())?;
    for store in stores(unpacked.path())? {
        let name = store.strip_prefix(unpacked.path()).unwrap_or(&store);
        let opened = Store::<()>::open(&Options::directory(store.clone()))
            .with_context(|| format!("checking {}", name.display()))?;
        opened.close().await;
    }
    replace::replace(local, unpacked.path(), &KEPT)?;
    Ok(about)
}

/// The stores of all clusters below a directory.
fn stores(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let clusters = directory.join("clusters");
    let mut stores = Vec::new();
    if clusters.is_dir() {
        for entry in std::fs::read_dir(&clusters)
            .with_context(|| format!("reading {}", clusters.display()))?
        {
            let store = entry?.path().join("store");
            stores.extend(store.is_dir().then_some(store));
        }
    }
    Ok(stores)
}

#[cfg(test)]
mod tests;
