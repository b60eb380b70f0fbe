//! A problem with the directory is reported with its cause, and no data is lost.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use polity_store::{CommitError, Expect, HealthError, Key, OpenError, Options, Revision};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::{TestStore, env, filled, open, put, ready, set, show, try_open};

#[tokio::test]
async fn the_directory_is_made_for_its_owner_only() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("some/where");
    filled(&data).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

/// Between `fork` and `exec`, a child holds a copy of a lock that its parent has released.
#[tokio::test]
async fn a_closed_store_opens_again_while_processes_are_started() {
    let root = tempfile::tempdir().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let starters: Vec<_> = (0..4)
        .map(|_| {
            let done = Arc::clone(&done);
            thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    Command::new("true").status().unwrap();
                }
            })
        })
        .collect();
    for _ in 0..200 {
        open(&Options::directory(root.path())).close().await;
    }
    done.store(true, Ordering::Relaxed);
    for starter in starters {
        starter.join().unwrap();
    }
}

#[tokio::test]
async fn a_directory_is_open_once() {
    let root = tempfile::tempdir().unwrap();
    let store = open(&Options::directory(root.path()));
    let error = try_open(root.path())
        .err()
        .expect("a second store must be refused");
    assert!(
        matches!(&error, OpenError::InUse { directory } if directory == root.path()),
        "{error}"
    );
    assert!(
        error.to_string().contains(root.path().to_str().unwrap()),
        "{error}"
    );
    set(&store, "b", "x", "1").await;
    store.close().await;
    assert_eq!(
        show(&open(&Options::directory(root.path())).current(), "b"),
        ["ns/x=1@2"]
    );
}

#[test]
fn a_foreign_file_is_refused_and_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("store.redb");
    let text = "not a database\n".repeat(1000);
    fs::write(&file, &text).unwrap();
    let error = try_open(root.path()).err().expect("a text is not a store");
    assert!(
        matches!(&error, OpenError::Foreign { file: named } if *named == file),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn another_programs_database_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let database = redb::Database::create(root.path().join("store.redb")).unwrap();
    let write = database.begin_write().unwrap();
    write
        .open_table(redb::TableDefinition::<u64, u64>::new("theirs"))
        .unwrap()
        .insert(1, 1)
        .unwrap();
    write.commit().unwrap();
    drop(database);
    assert!(matches!(
        try_open(root.path()),
        Err(OpenError::Foreign { .. })
    ));
}

#[tokio::test]
async fn an_unknown_format_is_refused_with_both_versions() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path()).await;
    let database = redb::Database::open(root.path().join("store.redb")).unwrap();
    let write = database.begin_write().unwrap();
    write
        .open_table(redb::TableDefinition::<&str, u64>::new("meta"))
        .unwrap()
        .insert("format", 7)
        .unwrap();
    write.commit().unwrap();
    drop(database);
    let error = try_open(root.path()).err().expect("format 7 is not known");
    assert!(
        matches!(
            error,
            OpenError::Format {
                found: 7,
                expected: 1,
                ..
            }
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("format 7") && error.to_string().contains("format 1"),
        "{error}"
    );
}

#[test]
fn a_file_in_the_place_of_the_directory_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("data");
    fs::write(&file, "").unwrap();
    assert!(matches!(try_open(&file), Err(OpenError::Io { .. })));
}

/// An unfinished creation is begun again.
#[tokio::test]
async fn a_store_that_was_not_finished_is_made_anew() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("store.redb.new"), "half").unwrap();
    filled(root.path()).await;
    assert!(!root.path().join("store.redb.new").exists());
}

#[tokio::test]
async fn a_read_only_directory_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    filled(&data).await;
    let set_mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for entry in fs::read_dir(&data).unwrap() {
        set_mode(&entry.unwrap().path(), 0o400);
    }
    set_mode(&data, 0o500);
    if OpenOptions::new()
        .write(true)
        .open(data.join("lock"))
        .is_ok()
    {
        eprintln!("LEFT OUT: permissions do not bind this user (root)");
        return;
    }
    let error = try_open(&data)
        .err()
        .expect("a read-only directory must be refused");
    assert!(
        matches!(&error, OpenError::ReadOnly { directory, .. } if *directory == data),
        "{error}"
    );
    set_mode(&data, 0o700);
}

/// Runs under a limit on the size of files, which is a full disk that needs no mount: see
/// `a_full_disk_…` below.
#[tokio::test]
async fn full_disk_child() {
    let Some(directory) = env("POLITY_STORE_FULL_DIRECTORY") else {
        return;
    };
    let store = open(&Options::directory(&directory));
    let unlimited = getrlimit(Resource::Fsize);
    setrlimit(
        Resource::Fsize,
        Rlimit {
            current: Some(3 << 20),
            ..unlimited
        },
    )
    .unwrap();
    let kept = write_until_full(&store).await;

    setrlimit(Resource::Fsize, unlimited).unwrap();
    check_writable_again(store, &directory, kept).await;
}

/// Writes until there is no space, and checks that reads still work. Returns the revision of the last successful
/// write.
async fn write_until_full(store: &TestStore) -> Revision {
    let mut kept = Revision::FIRST;
    let mut refused = 0;
    // Far more than fits, with several attempts after the disk is full.
    for number in 0..500 {
        let write = put(
            &Key::new("b", "ns", format!("o{number:03}")),
            Expect::Absent,
            &"x".repeat(64 << 10),
        );
        match store.commit(write).await {
            Ok(object) => kept = object.revision,
            Err(CommitError::Full { directory }) => {
                assert!(directory.is_dir());
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(store.current().revision(), kept);
        let is_failing = matches!(store.health(), Err(HealthError::Failing { .. }));
        assert_eq!(is_failing, refused > 0, "{:?}", store.health());
        if refused == 5 {
            assert_eq!(store.current().count("b", None) as u64, kept.0 - 1);
            return kept;
        }
    }
    panic!("it did not get full");
}

async fn check_writable_again(store: TestStore, directory: &str, kept: Revision) {
    let written = set(&store, "b", "after", "there is space").await;
    assert_eq!(written, kept.next());
    assert_eq!(store.health(), Ok(()));
    let before = show(&store.current(), "b");
    store.close().await;
    let store = open(&Options::directory(directory));
    assert_eq!(show(&store.current(), "b"), before);
    assert_eq!(ready(&store, "b", 1).len() as u64, written.0 - 1);
    store.close().await;
}

#[test]
fn a_full_disk_refuses_writes_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    // Without the trap, which a child inherits, the limit would end the process instead of failing
    // the write.
    let status = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; exec \"$0\" --exact failures::full_disk_child --nocapture --quiet",
        ])
        .arg(std::env::current_exe().unwrap())
        .env("POLITY_STORE_FULL_DIRECTORY", root.path().join("data"))
        .status()
        .unwrap();
    assert!(status.success());
}

/// The same on a file system that is truly full, where mounting one is allowed.
#[tokio::test]
async fn a_full_file_system_refuses_writes_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"])
        .arg(root.path())
        .output();
    if !mount.is_ok_and(|output| output.status.success()) {
        eprintln!("LEFT OUT: this user may not mount a file system");
        return;
    }
    let ballast = root.path().join("ballast");
    fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let data = root.path().join("data");
    let store = open(&Options::directory(&data));
    let kept = write_until_full(&store).await;
    fs::remove_file(&ballast).unwrap();
    check_writable_again(store, data.to_str().unwrap(), kept).await;

    let read_only = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(root.path())
        .status();
    if read_only.is_ok_and(|status| status.success()) {
        assert!(matches!(try_open(&data), Err(OpenError::ReadOnly { .. })));
    }
    Command::new("umount").arg(root.path()).status().unwrap();
}
