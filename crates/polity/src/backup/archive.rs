//! The file of a backup: a gzipped tar archive whose first entry lists the others with their sizes and digests.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use polity_runtime::{VERSION, files};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{KEPT, KUBECONFIG, NOT_KEPT};

/// The entry that describes the others.
const ABOUT: &str = "polity-backup.json";
/// The form of what is written.
const FORMAT: u32 = 1;
/// The description may have so many bytes; a backup has a few files for each cluster.
const ABOUT_MAX: u64 = 16 << 20;
const PRIVATE: u32 = 0o600;

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct About {
    pub(super) format: u32,
    /// The version that wrote it.
    pub(super) version: String,
    pub(super) created: Timestamp,
    /// By relative path.
    pub(super) files: BTreeMap<PathBuf, Stored>,
}

/// A file in a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stored {
    bytes: u64,
    sha256: String,
}

/// Describes the files of a data directory that no process writes to.
pub(super) fn describe(data_dir: &Path, now: Timestamp) -> anyhow::Result<About> {
    let mut paths = Vec::new();
    for name in KEPT {
        collect(data_dir, Path::new(name), &mut paths)?;
    }
    let mut files = BTreeMap::new();
    for path in paths {
        let stored = File::open(data_dir.join(&path)).and_then(|file| copy(file, io::sink()));
        let stored = stored.with_context(|| format!("reading {}", path.display()))?;
        files.insert(path, stored);
    }
    Ok(About {
        format: FORMAT,
        version: VERSION.to_owned(),
        created: now,
        files,
    })
}

/// The regular files at and below a path. Links and other kinds are none of ours.
fn collect(root: &Path, path: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let place = root.join(path);
    let kind = match fs::symlink_metadata(&place) {
        Ok(meta) => meta.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("reading {}", place.display())),
    };
    if kind.is_file() {
        found.push(path.to_owned());
    } else if kind.is_dir() && !is_made_again(path) {
        for entry in fs::read_dir(&place)? {
            collect(root, &path.join(entry?.file_name()), found)?;
        }
    }
    Ok(())
}

/// `clusters/NAME/local`.
fn is_made_again(path: &Path) -> bool {
    path.components().count() == 3 && path.ends_with(NOT_KEPT)
}

/// Writes a backup.
pub(super) fn pack(data_dir: &Path, about: &About, to: impl Write) -> anyhow::Result<()> {
    let mut archive = tar::Builder::new(GzEncoder::new(to, Compression::default()));
    let text = serde_json::to_vec_pretty(about)?;
    archive.append_data(&mut header(text.len() as u64), ABOUT, text.as_slice())?;
    for (path, stored) in &about.files {
        let file = File::open(data_dir.join(path))?;
        archive
            .append_data(&mut header(stored.bytes), path, file)
            .with_context(|| format!("saving {}", path.display()))?;
    }
    archive.into_inner()?.finish()?.flush()?;
    Ok(())
}

fn header(bytes: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(PRIVATE);
    header.set_entry_type(tar::EntryType::Regular);
    header
}

/// Writes the files of a backup below a directory, each checked; files that the description does not list are refused.
pub(super) fn unpack(backup: &File, directory: &Path) -> anyhow::Result<About> {
    let mut archive = tar::Archive::new(GzDecoder::new(backup));
    let mut entries = archive.entries().context("this is no backup of polity")?;
    let first = entries.next().transpose().ok().flatten();
    let about = first.and_then(read_about);
    let Some(about) = about else {
        bail!("this is no backup of polity");
    };
    ensure!(
        about.format == FORMAT,
        "it has format {}, and this version of polity reads format {FORMAT}",
        about.format
    );
    let mut missing = about.files.clone();
    for entry in entries {
        let mut entry = entry.context("the backup is damaged")?;
        let path = entry.path().context("the backup is damaged")?.into_owned();
        let Some(expected) = missing.remove(&path) else {
            bail!(
                "the backup is damaged: {} does not belong there",
                path.display()
            );
        };
        let is_skipped = path.as_os_str() == KUBECONFIG;
        ensure!(
            entry.header().entry_type().is_file() && (is_skipped || is_kept(&path)),
            "the backup is damaged: {} does not belong there",
            path.display()
        );
        let content = (&mut entry).take(expected.bytes.saturating_add(1));
        let found = if is_skipped {
            copy(content, io::sink()).map_err(Into::into)
        } else {
            write(&directory.join(&path), content)
        };
        let found = found.with_context(|| format!("unpacking {}", path.display()))?;
        ensure!(
            found == expected,
            "the backup is damaged: {} is not what was saved",
            path.display()
        );
    }
    match missing.keys().next() {
        Some(path) => bail!("the backup is damaged: {} is missing", path.display()),
        None => Ok(about),
    }
}

fn read_about(entry: tar::Entry<'_, GzDecoder<&File>>) -> Option<About> {
    if entry.path().ok()?.as_os_str() != ABOUT {
        return None;
    }
    let mut text = Vec::new();
    entry.take(ABOUT_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Whether a path is one that a backup has: relative, without detours, below what is kept.
fn is_kept(path: &Path) -> bool {
    let mut parts = path.components();
    let is_below = KEPT.iter().any(|name| path.starts_with(name));
    is_below && parts.all(|part| matches!(part, Component::Normal(_)))
}

fn write(path: &Path, from: impl Read) -> anyhow::Result<Stored> {
    if let Some(folder) = path.parent() {
        files::create_private_dir(folder)?;
    }
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(PRIVATE)
        .open(path)?;
    let stored = copy(from, &mut file)?;
    file.sync_all()?;
    Ok(stored)
}

/// Copies, and returns the size and the digest of what was copied.
fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<Stored> {
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let n = from.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        hasher.update(&buffer[..n]);
        to.write_all(&buffer[..n])?;
        bytes += n as u64;
    }
    let mut sha256 = String::new();
    for byte in hasher.finalize() {
        sha256.push_str(&format!("{byte:02x}"));
    }
    Ok(Stored { bytes, sha256 })
}
