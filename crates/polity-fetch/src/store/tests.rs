//! The store keeps what it was given, and nothing that changed behind its back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use jiff::Timestamp;

use super::*;

const MODULE: &[u8] = b"\0asm content";

fn store() -> (tempfile::TempDir, LocalStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::new(directory.path().join("store"));
    (directory, store)
}

fn put(store: &LocalStore, uri: &str) -> Digest {
    let digest = Digest::of(MODULE);
    store.write(&digest, MODULE).unwrap();
    let record = Record {
        module: digest,
        manifest: None,
        fetched: Timestamp::UNIX_EPOCH,
    };
    store.record(&uri.parse().unwrap(), &record).unwrap();
    digest
}

#[test]
fn a_module_is_kept_by_digest_and_shown_to_other_tools() {
    let (_guard, store) = store();
    let digest = put(&store, "registry://h.example/p:v1");
    put(&store, "registry://h.example/p:v1");
    assert_eq!(store.read(&digest).unwrap().unwrap(), MODULE);
    let shown = store.root().join("registry/h.example/p:v1");
    assert_eq!(fs::read(shown).unwrap(), MODULE);
    let listed = store.list().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].uri, "registry://h.example/p:v1");
    assert_eq!(listed[0].bytes, MODULE.len() as u64);
}

#[test]
fn a_module_that_changed_on_disk_is_gone() {
    let (_guard, store) = store();
    let digest = put(&store, "registry://h.example/p:v1");
    fs::write(store.module_path(&digest), b"\0asm something else").unwrap();
    assert_eq!(store.read(&digest).unwrap(), None);
}

#[test]
fn a_module_goes_with_its_last_reference() {
    let (_guard, store) = store();
    let digest = put(&store, "registry://h.example/p:v1");
    put(&store, "registry://h.example/p:v2");
    let key = CompiledKey {
        module: digest,
        engine: "e".to_owned(),
    };
    store.keep_compiled(&key, b"code").unwrap();
    let remove = |uri: &str| store.remove(&uri.parse().unwrap()).unwrap();
    assert!(remove("registry://h.example/p:v1"));
    assert!(!remove("registry://h.example/p:v1"));
    assert!(store.read(&digest).unwrap().is_some());
    assert!(remove("registry://h.example/p:v2"));
    assert_eq!(store.read(&digest).unwrap(), None);
    assert_eq!(store.compiled(&key).unwrap(), None);
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn what_another_tool_pulled_is_taken_over() {
    let (_guard, store) = store();
    let path = store.root().join("registry/h.example/p:v1");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, MODULE).unwrap();
    let uri: ModuleUri = "registry://h.example/p:v1".parse().unwrap();
    let record = store.recorded(&uri).unwrap().unwrap();
    assert_eq!(record.module, Digest::of(MODULE));
    assert_eq!(store.list().unwrap().len(), 1);
    fs::write(store.root().join("registry/h.example/q:v1"), "text").unwrap();
    let other: ModuleUri = "registry://h.example/q:v1".parse().unwrap();
    assert_eq!(store.recorded(&other).unwrap(), None);
}

#[test]
fn what_another_tool_pulled_is_listed() {
    let (_guard, store) = store();
    let mut expected = Vec::new();
    for place in [
        "registry/h.example:5000/a/b/p:v1",
        "https/h.example/dir/p.wasm",
        "registry/h.example/no-tag",
        "registry/stray",
        "other/h.example/p:v1",
    ] {
        let path = store.root().join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, MODULE).unwrap();
        if place.contains("/p") && !place.starts_with("other") {
            expected.push(place.replacen('/', "://", 1));
        }
    }
    let listed = || -> Vec<String> {
        let stored = store.list().unwrap();
        stored.into_iter().map(|stored| stored.uri).collect()
    };
    expected.sort();
    assert_eq!(listed(), expected);
    assert!(store.remove(&expected[0].parse().unwrap()).unwrap());
    assert_eq!(listed(), expected[1..]);
}

#[test]
fn compiled_code_is_bounded() {
    let (_guard, store) = store();
    let keys: Vec<CompiledKey> = (0..4_u8)
        .map(|n| CompiledKey {
            module: Digest::of(&[n]),
            engine: format!("e{}", n % 2),
        })
        .collect();
    for (n, key) in keys.iter().enumerate() {
        store.keep_compiled(key, &[7; 1000]).unwrap();
        let file = fs::File::options()
            .write(true)
            .open(store.compiled_path(key))
            .unwrap();
        let age = std::time::Duration::from_secs(1000 - n as u64);
        let written = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_hours(24) - age;
        file.set_modified(written).unwrap();
    }
    let kept = |key: &CompiledKey| store.compiled(key).unwrap().is_some();
    store
        .trim_compiled(2500, &store.compiled_path(&keys[0]))
        .unwrap();
    let left: Vec<bool> = keys.iter().map(kept).collect();
    assert_eq!(
        left,
        [true, false, false, true],
        "the oldest go, but for the one just written"
    );
}

#[test]
fn broken_records_are_as_good_as_none() {
    let (_guard, store) = store();
    let uri: ModuleUri = "registry://h.example/p:v1".parse().unwrap();
    put(&store, "registry://h.example/p:v1");
    for broken in [
        "",
        "{",
        r#"{"uri":"other","module":"sha256:00","fetched":"1970-01-01T00:00:00Z"}"#,
    ] {
        fs::write(store.record_path(&uri), broken).unwrap();
        assert_eq!(store.recorded(&uri).unwrap(), None, "{broken}");
        assert_eq!(store.list().unwrap(), [], "{broken}");
    }
}

#[test]
fn compiled_code_is_only_what_this_user_made_for_this_module_and_engine() {
    let (_guard, store) = store();
    let key = |module: &[u8], engine: &str| CompiledKey {
        module: Digest::of(module),
        engine: engine.to_owned(),
    };
    let ours = key(b"a", "48");
    store.keep_compiled(&ours, b"native code").unwrap();
    assert_eq!(store.compiled(&ours).unwrap().unwrap(), b"native code");
    assert_eq!(store.compiled(&key(b"b", "48")).unwrap(), None);
    assert_eq!(store.compiled(&key(b"a", "49")).unwrap(), None);

    let path = store.compiled_path(&ours);
    let good = fs::read(&path).unwrap();
    for place in [0, TAG_AT, good.len() - 1] {
        let mut bad = good.clone();
        bad[place] ^= 1;
        fs::write(&path, &bad).unwrap();
        assert_eq!(store.compiled(&ours).unwrap(), None, "byte {place}");
    }
    for length in [0, 10, good.len() - 1] {
        fs::write(&path, &good[..length]).unwrap();
        assert_eq!(store.compiled(&ours).unwrap(), None, "{length} bytes");
    }
    // The file of another module under this one's name.
    let theirs = key(b"b", "48");
    store.keep_compiled(&theirs, b"other code").unwrap();
    fs::copy(store.compiled_path(&theirs), &path).unwrap();
    assert_eq!(store.compiled(&ours).unwrap(), None);
}

const TAG_AT: usize = 32;

#[test]
fn a_key_that_others_could_read_is_replaced() {
    let (_guard, store) = store();
    let key = CompiledKey {
        module: Digest::of(b"a"),
        engine: "e".to_owned(),
    };
    store.keep_compiled(&key, b"code").unwrap();
    let path = store.own("key");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(store.compiled(&key).unwrap(), None);
    store.keep_compiled(&key, b"code").unwrap();
    assert_eq!(store.compiled(&key).unwrap().unwrap(), b"code");
}

#[test]
fn many_writers_leave_whole_files() {
    let (_guard, store) = store();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let digest = put(&store, "registry://h.example/p:v1");
                    assert_eq!(store.read(&digest).unwrap().unwrap(), MODULE);
                }
            });
        }
    });
}
