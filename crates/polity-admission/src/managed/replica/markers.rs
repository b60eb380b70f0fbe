//! Notes of the revisions that are being loaded, on a disk that outlives the process: a note that is found at a start
//! means that loading the revision crashed an earlier process.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tracing::warn;

use crate::managed::leader::attempts::{Sandbox, note_path};
use crate::managed::revision::Uid;

/// Notes in a directory, one file for each revision that is being loaded.
///
/// The first line of a file is the number of crashes. The second one, if the last of them is not certain yet, is the
/// sandbox of the process that is loading. A process of another sandbox did not crash: it was killed with its pod or
/// its parent.
#[derive(Debug)]
pub(crate) struct Markers {
    directory: PathBuf,
    sandbox: String,
    n_crashes: BTreeMap<Uid, u32>,
}

impl Markers {
    /// Reads the notes of earlier processes.
    pub(crate) async fn read(directory: PathBuf, sandbox: &Sandbox) -> Self {
        let mut markers = Self {
            directory,
            sandbox: sandbox.as_str().to_owned(),
            n_crashes: BTreeMap::new(),
        };
        // Without the directory there are no notes.
        if let Ok(mut entries) = tokio::fs::read_dir(&markers.directory).await {
            while let Ok(Some(entry)) = entries.next_entry().await {
                let text = tokio::fs::read_to_string(entry.path()).await;
                let n_crashes = markers.n_crashes_in(&text.unwrap_or_default());
                match entry.file_name().to_str() {
                    Some(uid) if n_crashes > 0 => {
                        markers.n_crashes.insert(Uid::from(uid), n_crashes);
                    }
                    _ => drop(tokio::fs::remove_file(entry.path()).await),
                }
            }
        }
        markers
    }

    fn n_crashes_in(&self, note: &str) -> u32 {
        let mut lines = note.lines();
        let n: u32 = lines
            .next()
            .and_then(|line| line.trim().parse().ok())
            .unwrap_or(1);
        match lines.next() {
            // The earlier crashes are certain all the same.
            Some(sandbox) if sandbox != self.sandbox => n.saturating_sub(1),
            Some(_) | None => n,
        }
    }

    /// How many processes crashed while they loaded a revision.
    pub(crate) fn n_crashes(&self, uid: &Uid) -> u32 {
        self.n_crashes.get(uid).copied().unwrap_or_default()
    }

    /// Notes that loading begins.
    pub(crate) async fn put(&self, uid: &Uid) {
        let text = format!("{}\n{}", self.n_crashes(uid) + 1, self.sandbox);
        self.write(uid, text).await;
    }

    /// Removes a note: loading ended, and this process is still there.
    pub(crate) async fn remove(&mut self, uid: &Uid) {
        self.n_crashes.remove(uid);
        if let Some(path) = note_path(&self.directory, uid) {
            // It may never have been written.
            let _ = tokio::fs::remove_file(path).await;
        }
    }

    /// Takes back a note: loading was given up without a result. Earlier crashes stay noted.
    pub(crate) async fn take_back(&mut self, uid: &Uid) {
        match self.n_crashes(uid) {
            0 => self.remove(uid).await,
            n => self.write(uid, n.to_string()).await,
        }
    }

    async fn write(&self, uid: &Uid, text: String) {
        let Some(path) = note_path(&self.directory, uid) else {
            return;
        };
        let written = async {
            tokio::fs::create_dir_all(&self.directory).await?;
            tokio::fs::write(&path, text).await
        };
        if let Err(error) = written.await {
            warn!(file = %path.display(), %error, "cannot note that a policy is loaded");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managed::leader::attempts::tests::sandbox;

    #[tokio::test]
    async fn notes_outlive_the_process_and_count_crashes() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("loading");
        let read = async || Markers::read(directory.clone(), &sandbox("u", "p")).await;
        let uid = Uid::from("3f2b-1");
        let mut markers = read().await;
        assert_eq!(markers.n_crashes(&uid), 0);
        markers.put(&uid).await;
        assert_eq!(read().await.n_crashes(&uid), 1);
        read().await.put(&uid).await;
        let mut third = read().await;
        assert_eq!(third.n_crashes(&uid), 2);
        third.put(&uid).await;
        third.take_back(&uid).await;
        assert_eq!(
            read().await.n_crashes(&uid),
            2,
            "an orderly end is no crash"
        );
        markers.remove(&uid).await;
        assert_eq!(read().await.n_crashes(&uid), 0);

        for odd in ["", "../up", "a/b", "."] {
            markers.put(&Uid::from(odd)).await;
        }
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_process_that_was_killed_with_its_parent_is_no_crash() {
        let folder = tempfile::tempdir().unwrap();
        let read = async |parent: &str| {
            Markers::read(folder.path().to_owned(), &sandbox("u", parent)).await
        };
        let uid = Uid::from("r1");
        for parent in ["p", "q", "r", "s"] {
            let markers = read(parent).await;
            assert_eq!(markers.n_crashes(&uid), 0, "{parent}");
            markers.put(&uid).await;
        }
        read("s").await.put(&uid).await;
        let killed = read("t").await;
        assert_eq!(killed.n_crashes(&uid), 1, "an earlier crash stays counted");
        std::fs::write(folder.path().join("r1"), "2").unwrap();
        assert_eq!(read("p").await.n_crashes(&uid), 2, "an older server's note");
    }
}
