//! What was saved comes back, and nothing else does.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use clap::Parser as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use super::*;

/// A data directory with the store of a hub.
async fn data() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let hub = folder.path().join("clusters/hub");
    let store = Store::<()>::open(&Options::directory(hub.join("store"))).unwrap();
    store.close().await;
    for (path, text) in [
        ("kubeconfig", "admin"),
        ("pki/ca.pem", "ca"),
        ("clusters/hub/admin.token", "token"),
        ("clusters/hub/local/pods/u/volumes/v/x", "made again"),
        ("polity.log", "not saved"),
        ("run.json", "not saved"),
    ] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn saved(data: &TempDir) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup.tar.gz");
    save(&Local::new(data.path()), &file).unwrap();
    (folder, file)
}

async fn restored(data: &TempDir, file: &Path) -> anyhow::Result<archive::About> {
    restore(&Local::new(data.path()), &File::open(file).unwrap()).await
}

/// All files below a directory with their content.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

#[tokio::test]
async fn what_was_saved_comes_back_in_private() {
    let data = data().await;
    let (_folder, file) = saved(&data);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    let copy = tempfile::tempdir().unwrap();
    let about = restored(&copy, &file).await.unwrap();
    let is_saved = |path: &PathBuf| {
        let is_kept = KEPT.iter().any(|name| path.starts_with(name));
        is_kept && !path.starts_with("clusters/hub/local")
    };
    let names =
        |all: BTreeMap<PathBuf, Vec<u8>>| all.into_keys().filter(is_saved).collect::<Vec<_>>();
    assert_eq!(about.files.len(), names(files(data.path())).len());
    for name in [
        "pki/ca.pem",
        "clusters/hub/admin.token",
        "clusters/hub/store/store.redb",
    ] {
        let path = copy.path().join(name);
        assert_eq!(mode(&path), 0o600, "{name}");
        assert!(path.metadata().unwrap().len() > 0, "{name}");
    }
    assert_eq!(
        fs::read_to_string(copy.path().join("pki/ca.pem")).unwrap(),
        "ca"
    );
    assert_eq!(names(files(copy.path())), names(files(data.path())));
    assert_eq!(
        files(copy.path()).len(),
        about.files.len(),
        "nothing else is there"
    );
}

#[tokio::test]
async fn data_that_is_there_is_replaced_as_a_whole() {
    let data = data().await;
    let (_folder, file) = saved(&data);
    fs::write(data.path().join("pki/ca.pem"), "later").unwrap();
    fs::write(data.path().join("clusters/hub/later"), "x").unwrap();
    restored(&data, &file).await.unwrap();
    assert_eq!(
        fs::read_to_string(data.path().join("pki/ca.pem")).unwrap(),
        "ca"
    );
    assert!(!data.path().join("clusters/hub/later").exists());
    assert_eq!(
        fs::read_to_string(data.path().join("polity.log")).unwrap(),
        "not saved"
    );
}

#[tokio::test]
async fn a_running_instance_and_data_that_is_there_are_left_alone() {
    let data = data().await;
    let (folder, file) = saved(&data);
    let args = || DataDirArgs {
        data_dir: Some(data.path().to_owned()),
    };
    let backup = |force| BackupArgs {
        file: file.clone(),
        force,
        data_dir: args(),
    };
    let restore = |force| RestoreArgs {
        file: file.clone(),
        force,
        data_dir: args(),
    };
    let said = backup(false).run().unwrap_err().to_string();
    assert!(said.contains("exists already"), "{said}");
    let said = restore(false).run().await.unwrap_err().to_string();
    assert!(said.contains("there is data"), "{said}");
    let held = Local::new(data.path()).hold().unwrap().unwrap();
    for said in [
        backup(true).run().unwrap_err(),
        restore(true).run().await.unwrap_err(),
    ] {
        assert!(said.to_string().contains("polity is running"), "{said}");
    }
    drop(held);
    assert!(backup(true).run().is_ok());
    assert!(restore(true).run().await.is_ok());
    drop(folder);
}

/// A backup of this data, changed in one way, is refused, and the data stays as it was.
async fn refused(name: &str, change: impl FnOnce(&Path), expected: &str) {
    let data = data().await;
    let (_folder, file) = saved(&data);
    change(&file);
    let before = files(data.path());
    let error = restored(&data, &file).await.unwrap_err();
    let said = format!("{error:#}");
    assert!(said.contains(expected), "{name}: {said}");
    assert!(before == files(data.path()), "{name}: the data changed");
}

#[tokio::test]
async fn a_damaged_backup_changes_nothing() {
    let cut = |file: &Path| {
        let bytes = fs::read(file).unwrap();
        fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
    };
    refused("cut short", cut, "").await;
    let other = |file: &Path| fs::write(file, "no archive").unwrap();
    refused("another file", other, "no backup of polity").await;
    let none = |file: &Path| fs::write(file, "").unwrap();
    refused("empty", none, "no backup of polity").await;
}

/// Writes an archive of these entries under a description that fits them.
fn forge(file: &Path, entries: &[(&str, &[u8])], listed: usize) {
    let source = tempfile::tempdir().unwrap();
    for (path, bytes) in &entries[..listed] {
        let path = source.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let about = archive::describe(source.path(), "2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
    let text = serde_json::to_vec(&about).unwrap();
    let mut all: Vec<(&str, &[u8])> = vec![("polity-backup.json", &text)];
    all.extend(entries);
    let mut archive = tar::Builder::new(GzEncoder::new(
        File::create(file).unwrap(),
        Compression::fast(),
    ));
    for (path, bytes) in all {
        let mut header = tar::Header::new_gnu();
        // By hand: the library refuses some of these names.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_cksum();
        archive.append(&header, bytes).unwrap();
    }
    archive
        .into_inner()
        .unwrap()
        .finish()
        .unwrap()
        .flush()
        .unwrap();
}

#[tokio::test]
async fn what_a_backup_does_not_list_is_refused() {
    let listed: (&str, &[u8]) = ("pki/ca.pem", b"x");
    for path in [
        "../outside",
        "/tmp/outside",
        "clusters/../../outside",
        "bin/x",
        "run.json",
    ] {
        let change = |file: &Path| forge(file, &[listed, (path, b"y")], 1);
        refused(path, change, "does not belong there").await;
    }
    let twice = |file: &Path| forge(file, &[listed, listed], 1);
    refused("twice", twice, "does not belong there").await;
    let changed = |file: &Path| {
        let other = tempfile::tempdir().unwrap();
        fs::create_dir(other.path().join("pki")).unwrap();
        fs::write(other.path().join("pki/ca.pem"), "longer").unwrap();
        let about =
            archive::describe(other.path(), "2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
        fs::write(other.path().join("pki/ca.pem"), "shorte").unwrap();
        archive::pack(other.path(), &about, File::create(file).unwrap()).unwrap();
    };
    refused("changed", changed, "is not what was saved").await;
    let store = |file: &Path| {
        forge(
            file,
            &[("clusters/hub/store/store.redb", b"no store at all")],
            1,
        );
    };
    refused("a store that is none", store, "checking clusters/hub/store").await;
}

/// A kubeconfig that runs a command when kubectl uses it.
const HOSTILE: &str = "users: [{name: polity-admin, user: {exec: {command: /tmp/x}}}]";

#[tokio::test]
async fn a_kubeconfig_is_neither_saved_nor_restored() {
    let data = data().await;
    let (_folder, file) = saved(&data);
    let copy = tempfile::tempdir().unwrap();
    let about = restored(&copy, &file).await.unwrap();
    assert!(!about.files.contains_key(Path::new("kubeconfig")));

    // Backups of earlier versions have one.
    let source = tempfile::tempdir().unwrap();
    fs::create_dir(source.path().join("pki")).unwrap();
    fs::write(source.path().join("pki/ca.pem"), "new ca").unwrap();
    fs::write(source.path().join("pki/kubeconfig"), HOSTILE).unwrap();
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut about = archive::describe(source.path(), now).unwrap();
    let stored = about.files.remove(Path::new("pki/kubeconfig")).unwrap();
    about.files.insert("kubeconfig".into(), stored);
    fs::write(source.path().join("kubeconfig"), HOSTILE).unwrap();
    let pack = |about: &archive::About| {
        archive::pack(source.path(), about, File::create(&file).unwrap()).unwrap();
    };
    pack(&about);
    restored(&data, &file).await.unwrap();
    let read = |name: &str| fs::read_to_string(data.path().join(name)).unwrap();
    assert_eq!(read("pki/ca.pem"), "new ca");
    assert_eq!(read("kubeconfig"), "admin", "the one of this machine stays");
}

#[tokio::test]
async fn an_interrupted_restore_is_undone_by_every_command_that_takes_the_data() {
    let data = data().await;
    let (_folder, file) = saved(&data);
    let interrupt = || {
        let old = data.path().join(".replaced-1");
        fs::create_dir(&old).unwrap();
        fs::rename(data.path().join("clusters"), old.join("clusters")).unwrap();
    };
    let args = || DataDirArgs {
        data_dir: Some(data.path().to_owned()),
    };
    let is_back = || {
        let store = data.path().join("clusters/hub/store/store.redb");
        store.exists() && !data.path().join(".replaced-1").exists()
    };
    interrupt();
    let backup = BackupArgs {
        file: file.clone(),
        force: true,
        data_dir: args(),
    };
    backup.run().unwrap();
    assert!(is_back());
    interrupt();
    let restore = RestoreArgs {
        file: file.clone(),
        force: false,
        data_dir: args(),
    };
    let said = restore.run().await.unwrap_err().to_string();
    assert!(said.contains("there is data"), "{said}");
    assert!(is_back());
    interrupt();
    drop(crate::up::take(&Local::new(data.path())).unwrap());
    assert!(is_back());

    interrupt();
    let folder = data.path().to_str().unwrap();
    let reset = crate::Cli::try_parse_from(["polity", "reset", "--yes", "--data-dir", folder]);
    let crate::Command::Reset(reset) = reset.unwrap().command else {
        panic!("the command is reset");
    };
    reset.run().unwrap();
    assert!(!data.path().exists(), "a reset deletes the old data too");
}
