//! Which attempts to initialise a revision ended in a crash.
//!
//! The leader adds itself to the revision's status before it compiles a module, so that the next leader knows of the
//! attempt whatever becomes of this one. Only a crash in the compile step counts against the module:
//!
//! - A note on the pod's own disk exists exactly while a process compiles. Every end but a crash removes it: a result,
//!   a lost lease, an orderly stop.
//! - A note counts only if the pod was restarted in place by the same parent. Without that, the process was killed
//!   together with its pod, its machine, or the program that ran it.
//! - A pod removes its own attempts that are no crashes from the status. Other pods trust what they find there: after
//!   a crash of one replica the next leader counts the attempt at once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use polity_fetch::Digest;
use tracing::warn;

use crate::managed::ReplicaIdentity;
use crate::managed::revision::{Revision, Uid};

/// The place of a process: its pod, and the parent that starts the pod's processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sandbox {
    pod_name: String,
    hash: String,
}

impl Sandbox {
    /// `parent` identifies the parent process (see [`polity_runtime::parent`]).
    pub(crate) fn new(identity: &ReplicaIdentity, parent: &str) -> Self {
        let place = format!("{}/{parent}", identity.pod_uid);
        let mut hash = Digest::of(place.as_bytes()).hex();
        hash.truncate(16);
        Self {
            pod_name: identity.pod_name.clone(),
            hash,
        }
    }

    /// A short form that differs between sandboxes.
    pub(crate) fn as_str(&self) -> &str {
        &self.hash
    }

    /// The name of one process in it, as it is written into statuses: `<pod>_<sandbox>_<nonce>`.
    fn holder(&self, nonce: u64) -> String {
        format!("{}_{}_{nonce:016x}", self.pod_name, self.hash)
    }

    fn is_of_pod(&self, holder: &str) -> bool {
        holder.split('_').next() == Some(self.pod_name.as_str())
    }

    fn contains(&self, holder: &str) -> bool {
        self.is_of_pod(holder) && holder.split('_').nth(1) == Some(self.hash.as_str())
    }
}

/// The crashes of earlier processes in this sandbox, by the revision they compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Crashes {
    sandbox: Sandbox,
    holders: BTreeMap<Uid, BTreeSet<String>>,
}

impl Crashes {
    /// How many attempts in a revision's status count against its module.
    pub(crate) fn n_counted(&self, revision: &Revision) -> i32 {
        let initializer = revision
            .status()
            .and_then(|status| status.initializer.as_ref());
        let Some(initializer) = initializer else {
            return 0;
        };
        let n_stale = self.stale(revision).len();
        let n_stale = i32::try_from(n_stale).unwrap_or(i32::MAX);
        (initializer.attempts - n_stale).max(0)
    }

    /// The attempts of this pod in a revision's status that are no crashes.
    pub(crate) fn stale(&self, revision: &Revision) -> Vec<String> {
        let initializer = revision
            .status()
            .and_then(|status| status.initializer.as_ref());
        let holders = initializer.map_or(&[][..], |initializer| &initializer.holders);
        let crashed = self.holders.get(&revision.uid);
        let is_crash = |holder: &str| crashed.is_some_and(|crashed| crashed.contains(holder));
        holders
            .iter()
            .filter(|holder| self.sandbox.is_of_pod(holder) && !is_crash(holder))
            .cloned()
            .collect()
    }
}

/// The attempts of this process.
#[derive(Debug)]
pub(crate) struct Attempts {
    /// What earlier processes left.
    pub(crate) crashes: Crashes,
    /// This process, as it is written into statuses.
    pub(crate) holder: String,
    directory: PathBuf,
}

impl Attempts {
    /// Reads the notes of earlier processes. `nonce` tells this process from others in the sandbox.
    pub(crate) fn read(directory: PathBuf, sandbox: Sandbox, nonce: u64) -> Self {
        let mut holders = BTreeMap::new();
        // Without the directory there are no notes.
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(text) = fs::read_to_string(entry.path()) else {
                continue;
            };
            let crashed: BTreeSet<String> = text
                .lines()
                .filter(|holder| sandbox.contains(holder))
                .map(str::to_owned)
                .collect();
            match entry.file_name().to_str() {
                Some(uid) if !crashed.is_empty() => {
                    warn!(
                        revision_uid = uid,
                        n_crashes = crashed.len(),
                        "an earlier process crashed while it compiled this revision"
                    );
                    holders.insert(Uid::from(uid), crashed);
                }
                _ => drop(fs::remove_file(entry.path())),
            }
        }
        Self {
            holder: sandbox.holder(nonce),
            crashes: Crashes { sandbox, holders },
            directory,
        }
    }

    /// Notes that this process compiles a revision, until the note is dropped.
    pub(crate) fn note(&self, uid: &Uid) -> Option<Note> {
        let path = note_path(&self.directory, uid)?;
        let earlier = self.crashes.holders.get(uid).cloned().unwrap_or_default();
        let mut lines = earlier.clone();
        lines.insert(self.holder.clone());
        if let Err(error) = write_note(&path, &lines) {
            // Without a note a crash of this pod is not counted, and the module is tried again.
            warn!(file = %path.display(), %error, "cannot note that a module is compiled");
        }
        Some(Note { path, earlier })
    }
}

/// A module is being compiled. The file outlives the process only if that crashes.
#[derive(Debug)]
pub(crate) struct Note {
    path: PathBuf,
    earlier: BTreeSet<String>,
}

impl Note {
    /// The compilation had a result: earlier crashes no longer matter.
    pub(crate) fn has_result(mut self) {
        self.earlier.clear();
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let restored = if self.earlier.is_empty() {
            fs::remove_file(&self.path)
        } else {
            write_note(&self.path, &self.earlier)
        };
        match restored {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                warn!(file = %self.path.display(), %error, "cannot remove the note of a compilation");
            }
            _ => {}
        }
    }
}

fn write_note(path: &Path, lines: &BTreeSet<String>) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    fs::write(path, lines.join("\n"))
}

/// The file of a revision's note. UIDs come from a server: one that is no plain file name gets none.
pub(crate) fn note_path(directory: &Path, uid: &Uid) -> Option<PathBuf> {
    let uid = uid.as_str();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_good = !uid.is_empty() && uid.len() <= 128 && uid.bytes().all(is_plain);
    is_good.then(|| directory.join(uid))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::managed::revision::samples::Sample;

    pub(crate) fn sandbox(pod_uid: &str, parent: &str) -> Sandbox {
        let identity = ReplicaIdentity {
            server: "default".to_owned(),
            namespace: "kubewarden".to_owned(),
            pod_name: "server-0".to_owned(),
            pod_uid: pod_uid.to_owned(),
        };
        Sandbox::new(&identity, parent)
    }

    /// Pod `server-0`, in which these processes crashed while they compiled `r1`.
    pub(crate) fn crashes(holders: &[&str]) -> Crashes {
        let holders: BTreeSet<String> = holders.iter().map(|&holder| holder.to_owned()).collect();
        Crashes {
            sandbox: sandbox("u", "p"),
            holders: [(Uid::from("r1"), holders)].into(),
        }
    }

    #[test]
    fn only_crashes_count_in_this_pod_and_everything_in_others() {
        for (case, attempts, holders, crashed, expected) in [
            ("an older server wrote no names", 2, &[][..], &[][..], 2),
            ("another pod", 1, &["server-1_a_1"], &[], 1),
            ("this pod, no crash", 1, &["server-0_a_1"], &[], 0),
            (
                "this pod, a crash",
                1,
                &["server-0_a_1"],
                &["server-0_a_1"],
                1,
            ),
            (
                "some of each",
                3,
                &["server-0_a_1", "server-0_a_2", "server-10_a_1"],
                &["server-0_a_2"],
                2,
            ),
        ] {
            let mut sample = Sample::new(1).scheduled();
            if holders.is_empty() {
                sample = sample.tried(attempts, "1.0", "abc");
            } else {
                sample = sample.begun_by(holders);
            }
            let revision = sample.read();
            assert_eq!(crashes(crashed).n_counted(&revision), expected, "{case}");
        }
    }

    #[test]
    fn a_note_is_left_by_a_crash_only() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("compiling");
        let read =
            |parent: &str, nonce| Attempts::read(directory.clone(), sandbox("u", parent), nonce);
        let uid = Uid::from("r1");
        let revision = |holder: &str| Sample::new(1).scheduled().begun_by(&[holder]).read();
        let counts =
            |attempts: &Attempts, holder: &str| attempts.crashes.n_counted(&revision(holder)) == 1;

        let first = read("p", 1);
        drop(first.note(&uid));
        assert!(!counts(&read("p", 2), &first.holder), "an orderly end");

        std::mem::forget(first.note(&uid));
        let second = read("p", 2);
        assert!(counts(&second, &first.holder), "a crash");
        std::mem::forget(second.note(&uid));
        let third = read("p", 3);
        assert!(counts(&third, &first.holder) && counts(&third, &second.holder));

        drop(third.note(&uid));
        let fourth = read("p", 4);
        assert!(
            counts(&fourth, &first.holder),
            "an orderly end keeps earlier crashes"
        );
        assert!(!counts(&fourth, &third.holder));
        fourth.note(&uid).unwrap().has_result();
        assert!(
            !counts(&read("p", 5), &first.holder),
            "a result ends the count"
        );

        std::mem::forget(fourth.note(&uid));
        assert!(
            !counts(&read("q", 6), &fourth.holder),
            "the parent was killed too"
        );
        assert!(fs::read_dir(&directory).unwrap().next().is_none());
    }

    #[test]
    fn odd_uids_get_no_note() {
        let folder = tempfile::tempdir().unwrap();
        let attempts = Attempts::read(folder.path().to_owned(), sandbox("u", "p"), 1);
        for odd in ["", "../up", "a/b", "."] {
            assert!(attempts.note(&Uid::from(odd)).is_none(), "{odd:?}");
        }
    }
}
