//! The rules for removing files, each as a line of a table (docs/spec/admission.md#19-8).

use jiff::ToSpan as _;
use proptest::prelude::*;

use super::*;

const VERSION: &str = "2.0.0";

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn digest(module: &str) -> Digest {
    Digest::of(module.as_bytes())
}

/// The segments `a`, `b` and `c` represent the directories of modules.
fn entry(path: &str, what: What, minutes_old: i64) -> Entry {
    let segments = path.split('/').map(|segment| match segment {
        "a" | "b" | "c" => layout::digest_directory(&digest(segment)),
        other => other.to_owned(),
    });
    Entry {
        path: segments.collect(),
        what,
        modified: now() - minutes_old.minutes(),
        inode: 0,
    }
}

fn file(path: &str, minutes_old: i64) -> Entry {
    entry(path, What::File, minutes_old)
}

fn directory(path: &str, minutes_old: i64) -> Entry {
    entry(path, What::Directory, minutes_old)
}

/// `a` is in use, `b` is only kept for a rollback, and `c` is unused.
fn demand(rollout_complete: bool) -> Demand {
    let reference = |module, enabled| Reference {
        digest: digest(module),
        enabled,
    };
    Demand {
        references: vec![
            reference("a", false),
            reference("a", true),
            reference("b", false),
        ],
        rollout_complete,
    }
}

#[test]
fn every_file_stays_or_goes_for_a_reason() {
    let ours = "optimized-kw-v2.0.0-00000000.wasm";
    let other_machine = "optimized-kw-v2.0.0-ffffffff.wasm";
    let older = "optimized-kw-v1.9.0-00000000.wasm";
    for (what, path, minutes_old, goes_during_rollout, goes_after) in [
        (
            "in use",
            "h/p/v1/a/original.wasm".to_owned(),
            9999,
            false,
            false,
        ),
        (
            "in use, signature",
            "h/p/v1/a/original.wasm.sig".to_owned(),
            9999,
            false,
            false,
        ),
        (
            "under another name",
            "_url/x/a/original.wasm".to_owned(),
            9999,
            false,
            false,
        ),
        ("our code", format!("h/p/v1/a/{ours}"), 9999, false, false),
        (
            "code for another machine",
            format!("h/p/v1/a/{other_machine}"),
            9999,
            false,
            false,
        ),
        (
            "code of another version",
            format!("h/p/v1/a/{older}"),
            0,
            false,
            true,
        ),
        (
            "its signature",
            format!("h/p/v1/a/{older}.sig"),
            0,
            false,
            true,
        ),
        (
            "disabled",
            "h/p/v1/b/original.wasm".to_owned(),
            9999,
            false,
            false,
        ),
        (
            "code of disabled",
            format!("h/p/v1/b/{ours}"),
            0,
            true,
            true,
        ),
        (
            "its signature",
            format!("h/p/v1/b/{ours}.sig"),
            0,
            true,
            true,
        ),
        (
            "unreferenced, young",
            "h/p/v1/c/original.wasm".to_owned(),
            60,
            false,
            false,
        ),
        (
            "unreferenced",
            "h/p/v1/c/original.wasm".to_owned(),
            61,
            true,
            true,
        ),
        (
            "unreferenced, signature",
            "h/p/v1/c/original.wasm.sig".to_owned(),
            61,
            true,
            true,
        ),
        (
            "unreferenced code, young",
            format!("h/p/v1/c/{older}"),
            60,
            false,
            false,
        ),
        (
            "unreferenced code",
            format!("h/p/v1/c/{ours}"),
            61,
            true,
            true,
        ),
        (
            "unfinished, young",
            "h/p/v1/a/.polity-1".to_owned(),
            60,
            false,
            false,
        ),
        (
            "unfinished",
            "h/p/v1/a/.polity-1".to_owned(),
            61,
            true,
            true,
        ),
        (
            "below what was in the way",
            "h/p/v1/a/.polity-1/x/y".to_owned(),
            61,
            true,
            true,
        ),
        (
            "from the future",
            "h/p/v1/c/original.wasm".to_owned(),
            -600,
            false,
            false,
        ),
        (
            "not ours",
            "h/p/v1/c/notes.txt".to_owned(),
            9999,
            false,
            false,
        ),
        (
            "not in a module's directory",
            "h/p/v1/original.wasm".to_owned(),
            9999,
            false,
            false,
        ),
        (
            "at the root",
            "original.wasm".to_owned(),
            9999,
            false,
            false,
        ),
    ] {
        for (complete, goes) in [(false, goes_during_rollout), (true, goes_after)] {
            let listing = [file(&path, minutes_old)];
            let plan = plan(&listing, &demand(complete), VERSION, now());
            assert_eq!(
                !plan.files.is_empty(),
                goes,
                "{what}, rollout complete: {complete}"
            );
        }
    }
}

#[test]
fn unreadable_directories_stay() {
    let listing = [
        directory("h", 9999),
        entry("h/lost+found", What::Foreign, 9999),
        entry("h/p/v1/c/original.wasm", What::Foreign, 9999),
    ];
    let plan = plan(&listing, &Demand::default(), VERSION, now());
    assert_eq!((plan.files.len(), plan.directories.len()), (0, 0));
}

#[test]
fn directories_go_with_the_last_file_below_them() {
    let listing = [
        directory("h", 90),
        directory("h/p", 90),
        directory("h/p/v1", 90),
        directory("h/p/v1/a", 90),
        file("h/p/v1/a/original.wasm", 90),
        directory("h/p/v2", 90),
        directory("h/p/v2/c", 90),
        file("h/p/v2/c/original.wasm", 90),
        directory("h/p/v3", 90),
        directory("h/p/v3/c", 30),
        directory("h/p/v4", 90),
    ];
    let plan = plan(&listing, &demand(true), VERSION, now());
    let gone: Vec<String> = plan
        .directories
        .iter()
        .map(|entry| entry.path.join("/"))
        .collect();
    let c = layout::digest_directory(&digest("c"));
    assert_eq!(
        gone,
        [format!("h/p/v2/{c}").as_str(), "h/p/v2", "h/p/v4"],
        "deepest first; `v3` is being filled"
    );
}

fn arbitrary_entry() -> impl Strategy<Value = Entry> {
    let name = prop_oneof![
        Just("original.wasm"),
        Just("original.wasm.sig"),
        Just("optimized-kw-v2.0.0-00000000.wasm"),
        Just("optimized-kw-v1.0.0-00000000.wasm.sig"),
        Just(".polity-x"),
        Just("notes"),
    ];
    let segment = prop_oneof![
        Just("a"),
        Just("b"),
        Just("c"),
        Just("h"),
        Just(".polity-y")
    ];
    let path = (proptest::collection::vec(segment, 0..4), name);
    (path, any::<bool>(), -100_i64..200).prop_map(|((mut path, name), is_file, age)| {
        path.push(name);
        let what = if is_file { What::File } else { What::Directory };
        entry(&path.join("/"), what, age)
    })
}

proptest! {
    /// For any content: files in use stay, and so does every directory above a file that stays.
    #[test]
    fn files_in_use_stay(listing in proptest::collection::vec(arbitrary_entry(), 0..20), complete: bool) {
        let plan = plan(&listing, &demand(complete), VERSION, now());
        let a = layout::digest_directory(&digest("a"));
        for entry in &plan.files {
            let [.., directory, name] = &entry.path[..] else {
                prop_assert!(layout::is_temporary(&entry.path[0]));
                continue;
            };
            let is_temporary = entry.path.iter().any(|name| layout::is_temporary(name));
            let is_current = name == "original.wasm" || name.starts_with("optimized-kw-v2.0.0");
            prop_assert!(is_temporary || !(*directory == a && is_current));
        }
        for gone in &plan.directories {
            for entry in &listing {
                let stays = entry.what != What::Directory && !plan.files.contains(&entry);
                prop_assert!(!(stays && entry.path.starts_with(&gone.path)));
            }
        }
    }
}
