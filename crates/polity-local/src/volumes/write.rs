//! Volumes on disk, changed all at once.
//!
//! As a kubelet does it: the files lie in a directory whose name begins with two dots, the link `..data` leads to
//! it, and the names people open are links through `..data`. A change writes a new directory and swaps the link,
//! so a reader sees the old files or the new ones, never some of each.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::Files;
use crate::hex;

const LINK: &str = "..data";
const NEW_LINK: &str = "..data_tmp";

/// A volume that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("writing volume {}", path.display())]
pub struct WriteError {
    path: PathBuf,
    source: io::Error,
}

/// Makes a volume hold these files. Answers whether anything changed.
pub fn write(volume: &Path, files: &Files) -> Result<bool, WriteError> {
    let failed = |source| WriteError {
        path: volume.to_owned(),
        source,
    };
    replace(volume, files).map_err(failed)
}

fn replace(volume: &Path, files: &Files) -> io::Result<bool> {
    fs::create_dir_all(volume)?;
    // Named by its content: what is there already is not written again, not even after a restart.
    let name = format!("..{}", digest(files));
    let before = fs::read_link(volume.join(LINK)).ok();
    if before.as_deref() == Some(Path::new(&name)) {
        return Ok(false);
    }
    let directory = volume.join(&name);
    if directory.exists() {
        // Half written by somebody who was killed.
        fs::remove_dir_all(&directory)?;
    }
    for (path, file) in files {
        let path = directory.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &file.bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))?;
    }
    fs::create_dir_all(&directory)?;
    let link = volume.join(NEW_LINK);
    fs::remove_file(&link).or_else(absent)?;
    symlink(&name, &link)?;
    fs::rename(&link, volume.join(LINK))?;
    show(volume, files)?;
    if let Some(before) = before {
        fs::remove_dir_all(volume.join(before)).or_else(absent)?;
    }
    Ok(true)
}

/// The names people open lead through the link; those that lead nowhere go.
fn show(volume: &Path, files: &Files) -> io::Result<()> {
    let first = |path: &String| path.split('/').next().unwrap_or_default().to_owned();
    let names: BTreeSet<OsString> = files.keys().map(first).map(OsString::from).collect();
    for name in &names {
        let link = volume.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(LINK).join(name), &link)?;
        }
    }
    for entry in fs::read_dir(volume)? {
        let name = entry?.file_name();
        if !name.as_encoded_bytes().starts_with(b"..") && !names.contains(&name) {
            fs::remove_file(volume.join(name))?;
        }
    }
    Ok(())
}

fn digest(files: &Files) -> String {
    let mut hasher = Sha256::new();
    for (path, file) in files {
        for part in [path.as_bytes(), &file.mode.to_le_bytes(), &file.bytes] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    hex(&hasher.finalize()[..8])
}

fn absent(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::File;
    use super::*;

    fn files<const N: usize>(list: [(&str, &str); N]) -> Files {
        list.map(|(path, text)| {
            let file = File {
                bytes: text.into(),
                mode: 0o640,
            };
            (path.to_owned(), file)
        })
        .into()
    }

    fn read(volume: &Path, path: &str) -> Option<String> {
        fs::read_to_string(volume.join(path)).ok()
    }

    #[test]
    fn files_change_all_at_once_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("v");
        assert!(write(&volume, &files([("a", "1"), ("b/c", "2")])).unwrap());
        assert!(!write(&volume, &files([("a", "1"), ("b/c", "2")])).unwrap());
        assert_eq!(read(&volume, "b/c").as_deref(), Some("2"));
        let mode = fs::metadata(volume.join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);

        // Whoever has opened the directory goes on seeing what it held.
        let held = volume.join(fs::read_link(volume.join(LINK)).unwrap());
        assert!(write(&volume, &files([("a", "3"), ("d", "4")])).unwrap());
        assert_ne!(held, volume.join(fs::read_link(volume.join(LINK)).unwrap()));
        assert_eq!(read(&volume, "a").as_deref(), Some("3"));
        assert_eq!(read(&volume, "b/c"), None);
        let mut names: Vec<_> = fs::read_dir(&volume)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with(".."))
            .collect();
        names.sort();
        assert_eq!(names, ["a", "d"]);
        assert_eq!(fs::read_dir(&volume).unwrap().count(), 4);
    }

    #[test]
    fn an_empty_volume_is_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("v");
        assert!(write(&volume, &Files::new()).unwrap());
        assert!(!write(&volume, &Files::new()).unwrap());
        assert!(write(&volume, &files([("a", "1")])).unwrap());
        assert_eq!(read(&volume, "a").as_deref(), Some("1"));
    }

    #[test]
    fn what_a_killed_writer_left_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("v");
        let wanted = files([("a", "1")]);
        let half = volume.join(format!("..{}", digest(&wanted)));
        fs::create_dir_all(&half).unwrap();
        fs::write(half.join("junk"), "x").unwrap();
        symlink("nowhere", volume.join(NEW_LINK)).unwrap();
        assert!(write(&volume, &wanted).unwrap());
        assert_eq!(read(&volume, "a").as_deref(), Some("1"));
        assert!(!volume.join("..data/junk").exists());
    }
}
