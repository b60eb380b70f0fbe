//! Notes of what is being loaded, on a disk that outlives the process: what is still noted at a start ended it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tracing::warn;

use super::revision::Uid;

/// Notes in a directory, one file for each revision that is being loaded. Its content is how many processes will have
/// ended with it if this one does.
#[derive(Debug)]
pub(crate) struct Markers {
    directory: PathBuf,
    n_deaths: BTreeMap<Uid, u32>,
}

impl Markers {
    /// Reads what earlier processes left.
    pub(crate) async fn read(directory: PathBuf) -> Self {
        let mut n_deaths = BTreeMap::new();
        // No directory, no notes.
        if let Ok(mut entries) = tokio::fs::read_dir(&directory).await {
            while let Ok(Some(entry)) = entries.next_entry().await {
                let text = tokio::fs::read_to_string(entry.path()).await;
                let n: u32 = text
                    .ok()
                    .and_then(|text| text.trim().parse().ok())
                    .unwrap_or(1);
                if let Some(uid) = entry.file_name().to_str() {
                    n_deaths.insert(Uid::from(uid), n);
                }
            }
        }
        Self {
            directory,
            n_deaths,
        }
    }

    /// How many processes ended while they loaded a revision.
    pub(crate) fn n_deaths(&self, uid: &Uid) -> u32 {
        self.n_deaths.get(uid).copied().unwrap_or_default()
    }

    /// Notes that loading begins.
    pub(crate) async fn put(&self, uid: &Uid) {
        let Some(path) = self.path(uid) else {
            return;
        };
        let text = (self.n_deaths(uid) + 1).to_string();
        let written = async {
            tokio::fs::create_dir_all(&self.directory).await?;
            tokio::fs::write(&path, text).await
        };
        if let Err(error) = written.await {
            warn!(file = %path.display(), %error, "loading cannot be noted");
        }
    }

    /// Strikes out a note: loading ended, well or badly, and we are still here.
    pub(crate) async fn remove(&mut self, uid: &Uid) {
        self.n_deaths.remove(uid);
        if let Some(path) = self.path(uid) {
            // It may never have been written.
            let _ = tokio::fs::remove_file(path).await;
        }
    }

    /// UIDs come from a server: one that is no plain file name gets no note.
    fn path(&self, uid: &Uid) -> Option<PathBuf> {
        let uid = uid.as_str();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_good = !uid.is_empty() && uid.len() <= 128 && uid.bytes().all(is_plain);
        is_good.then(|| self.directory.join(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn notes_outlive_the_process_and_count() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("loading");
        let read = || Markers::read(directory.clone());
        let uid = Uid::from("3f2b-1");
        let mut markers = read().await;
        assert_eq!(markers.n_deaths(&uid), 0);
        markers.put(&uid).await;
        assert_eq!(read().await.n_deaths(&uid), 1);
        read().await.put(&uid).await;
        assert_eq!(read().await.n_deaths(&uid), 2);
        markers.remove(&uid).await;
        assert_eq!(read().await.n_deaths(&uid), 0);

        for odd in ["", "../up", "a/b", "."] {
            markers.put(&Uid::from(odd)).await;
        }
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    }
}
