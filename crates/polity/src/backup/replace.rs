//! Replaces directories and files by others, all or none, also when the process is killed meanwhile.
//!
//! 1. The old entries are moved to a folder `.replaced-*`.
//! 2. A file [`ALL_MOVED`] in that folder records that every old entry is there, so every entry that is in place from now
//!    on is a new one.
//! 3. The new entries are moved to their places.
//! 4. The folder is renamed to `.discarded-*`, which completes the replacement, and is deleted.
//!
//! [`recover`] undoes a replacement that was interrupted before the fourth step.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use polity_cli::local::{Local, RestoreFolder};

/// In a folder of old entries: all of them are there.
const ALL_MOVED: &str = ".all-moved";

/// Moves that were made, in order.
type Moves = Vec<(PathBuf, PathBuf)>;

/// Replaces entries of a data directory by those of a folder on the same disk. Entries that the folder does not have are
/// deleted. On failure everything is as it was; where that fails too, [`recover`] does it.
pub(super) fn replace(local: &Local, by: &Path, names: &[&str]) -> anyhow::Result<()> {
    let directory = local.dir();
    sync_folders(by)?;
    let old = tempfile::Builder::new()
        .prefix(RestoreFolder::Replaced.prefix())
        .tempdir_in(directory)?
        .keep();
    let (mut saved, mut placed) = (Moves::new(), Moves::new());
    let replaced = move_all(directory, &old, names, &mut saved)
        .and_then(|()| mark(&old, directory))
        .and_then(|()| move_all(by, directory, names, &mut placed))
        .and_then(|()| sync(directory));
    if replaced.is_err() {
        if undo(&placed) && unmark(&old).is_ok() && undo(&saved) {
            fs::remove_dir(&old).ok();
        }
        return replaced;
    }
    discard(directory, &old)
}

/// Undoes replacements that were interrupted, and deletes the folders of finished ones. Returns whether data was put back.
pub(super) fn recover(local: &Local, names: &[&str]) -> anyhow::Result<bool> {
    let mut is_undone = false;
    for (folder, path) in local.restore_folders()? {
        match folder {
            RestoreFolder::Replaced => {
                put_back(local.dir(), &path, names)?;
                is_undone = true;
            }
            RestoreFolder::Unpacked | RestoreFolder::Discarded => {
                let removed = fs::remove_dir_all(&path);
                removed.with_context(|| format!("deleting {}", path.display()))?;
            }
        }
    }
    Ok(is_undone)
}

/// Moves old entries back to their places. New entries are deleted before the first old one is moved, so that a second run
/// after an interruption cannot take an old entry for a new one.
fn put_back(directory: &Path, old: &Path, names: &[&str]) -> anyhow::Result<()> {
    if old.join(ALL_MOVED).exists() {
        for name in names {
            remove(&directory.join(name))?;
        }
        sync(directory)?;
        unmark(old)?;
    }
    for name in names {
        let (from, to) = (old.join(name), directory.join(name));
        ensure!(
            !(from.exists() && to.exists()),
            "a restore was interrupted, and both {} and {} exist; delete or move away the one that is not to be used",
            from.display(),
            to.display()
        );
    }
    move_all(old, directory, names, &mut Moves::new())?;
    sync(directory)?;
    fs::remove_dir(old).with_context(|| format!("deleting {}", old.display()))
}

/// Records that all old entries are in their folder.
fn mark(old: &Path, directory: &Path) -> anyhow::Result<()> {
    let marker = old.join(ALL_MOVED);
    let marked = File::create(&marker).and_then(|file| file.sync_all());
    marked.with_context(|| format!("writing {}", marker.display()))?;
    sync(old)?;
    sync(directory)
}

fn unmark(old: &Path) -> anyhow::Result<()> {
    remove(&old.join(ALL_MOVED))?;
    sync(old)
}

/// Completes a replacement.
fn discard(directory: &Path, old: &Path) -> anyhow::Result<()> {
    let name = old.file_name().unwrap_or_default().to_string_lossy();
    let suffix = name.trim_start_matches(RestoreFolder::Replaced.prefix());
    let discarded = directory.join(format!("{}{suffix}", RestoreFolder::Discarded.prefix()));
    let renamed = fs::rename(old, &discarded);
    renamed.with_context(|| format!("renaming {}", old.display()))?;
    sync(directory)?;
    // The next start deletes what is left of it.
    fs::remove_dir_all(&discarded).ok();
    Ok(())
}

/// Moves the entries of these names that exist.
fn move_all(from: &Path, to: &Path, names: &[&str], moves: &mut Moves) -> anyhow::Result<()> {
    for name in names {
        let (from, to) = (from.join(name), to.join(name));
        match fs::rename(&from, &to) {
            Ok(()) => moves.push((from, to)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("moving {} to {}", from.display(), to.display()));
            }
        }
    }
    Ok(())
}

/// Moves everything back. Returns whether all of it succeeded.
fn undo(moves: &Moves) -> bool {
    let mut is_undone = true;
    for (from, to) in moves.iter().rev() {
        // The others are moved back all the same.
        is_undone &= fs::rename(to, from).is_ok();
    }
    is_undone
}

/// Deletes a file or a directory, if it exists.
fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.with_context(|| format!("deleting {}", path.display()))
}

/// Writes the entries of a directory to disk.
fn sync(directory: &Path) -> anyhow::Result<()> {
    let synced = File::open(directory).and_then(|file| file.sync_all());
    synced.with_context(|| format!("syncing {}", directory.display()))
}

/// Writes the entries of a directory and of those below it to disk.
fn sync_folders(directory: &Path) -> anyhow::Result<()> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    sync(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn text(folder: &tempfile::TempDir, path: &str) -> Option<String> {
        fs::read_to_string(folder.path().join(path)).ok()
    }

    #[test]
    fn entries_are_replaced_and_others_stay() {
        let data = folder(&[("a/x", "old"), ("b", "old"), ("other", "mine")]);
        let new = folder(&[("a/y", "new")]);
        replace(&Local::new(data.path()), new.path(), &["a", "b", "c"]).unwrap();
        assert_eq!(text(&data, "a/y").as_deref(), Some("new"));
        assert_eq!((text(&data, "a/x"), text(&data, "b")), (None, None));
        assert_eq!(text(&data, "other").as_deref(), Some("mine"));
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_failure_leaves_everything_as_it_was() {
        let data = folder(&[("a/x", "old"), ("b", "old")]);
        let new = folder(&[("a/y", "new"), ("b", "new")]);
        // A name that no system takes.
        let too_long = "c".repeat(300);
        assert!(replace(&Local::new(data.path()), new.path(), &["a", "b", &too_long]).is_err());
        assert_eq!(text(&data, "a/x").as_deref(), Some("old"));
        assert_eq!(text(&data, "b").as_deref(), Some("old"));
        assert_eq!(text(&new, "a/y").as_deref(), Some("new"));
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 2);
    }

    /// The state of a directory after a replacement that was killed after so many of its moves; the third is the record.
    fn killed_after(n_moves: usize) -> tempfile::TempDir {
        let data = folder(&[("a/x", "old"), ("b", "old"), ("other", "mine")]);
        let new = folder(&[("a/y", "new"), ("b", "new"), ("c", "new")]);
        let old = data.path().join(".replaced-1");
        fs::create_dir(&old).unwrap();
        let place = |name: &str| data.path().join(name);
        let steps: [&dyn Fn(); 6] = [
            &|| fs::rename(place("a"), old.join("a")).unwrap(),
            &|| fs::rename(place("b"), old.join("b")).unwrap(),
            &|| mark(&old, data.path()).unwrap(),
            &|| fs::rename(new.path().join("a"), place("a")).unwrap(),
            &|| fs::rename(new.path().join("b"), place("b")).unwrap(),
            &|| fs::rename(new.path().join("c"), place("c")).unwrap(),
        ];
        for step in &steps[..n_moves] {
            step();
        }
        data
    }

    #[test]
    fn an_interrupted_replacement_is_undone() {
        for n_moves in 0..=6 {
            let data = killed_after(n_moves);
            let local = Local::new(data.path());
            assert!(recover(&local, &["a", "b", "c"]).unwrap(), "{n_moves}");
            assert_eq!(text(&data, "a/x").as_deref(), Some("old"), "{n_moves}");
            assert_eq!(text(&data, "b").as_deref(), Some("old"), "{n_moves}");
            assert_eq!(text(&data, "other").as_deref(), Some("mine"), "{n_moves}");
            assert_eq!(
                fs::read_dir(data.path()).unwrap().count(),
                3,
                "nothing else is left after {n_moves}"
            );
            assert!(!recover(&local, &["a", "b", "c"]).unwrap(), "{n_moves}");
        }
    }

    #[test]
    fn an_interrupted_undo_continues() {
        // The new entries are deleted, one old entry is back.
        let data = killed_after(2);
        let old = data.path().join(".replaced-1");
        fs::rename(old.join("b"), data.path().join("b")).unwrap();
        recover(&Local::new(data.path()), &["a", "b", "c"]).unwrap();
        assert_eq!(text(&data, "a/x").as_deref(), Some("old"));
        assert_eq!(text(&data, "b").as_deref(), Some("old"));
    }

    #[test]
    fn a_finished_replacement_is_not_undone() {
        let data = folder(&[
            ("a/x", "new"),
            (".discarded-1/a/x", "old"),
            (".restore-1/a", ""),
        ]);
        assert!(!recover(&Local::new(data.path()), &["a"]).unwrap());
        assert_eq!(text(&data, "a/x").as_deref(), Some("new"));
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1);
    }

    #[test]
    fn two_candidates_are_left_to_the_user() {
        let data = folder(&[("a/x", "one"), (".replaced-1/a/x", "other")]);
        let error = recover(&Local::new(data.path()), &["a"]).unwrap_err();
        assert!(error.to_string().contains(".replaced-1/a"), "{error}");
        assert_eq!(text(&data, "a/x").as_deref(), Some("one"));
        assert_eq!(text(&data, ".replaced-1/a/x").as_deref(), Some("other"));
    }
}
