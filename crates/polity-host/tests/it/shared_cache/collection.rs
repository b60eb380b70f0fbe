//! Collection on a real disk: files of deleted policies, and code of an earlier version after an upgrade
//! (docs/spec/admission.md#19-8).

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::{Timestamp, ToSpan as _};
use polity_fetch::Digest;
use polity_host::{AbsentReason, Collected, Demand, Reference};

use super::{CODE, VERSION, Volume, WASM, cache, facts, look, names, now, optimized_name};

/// Sets the modification time of everything below a path, because the disk uses a different clock.
fn written_at(path: &Path, at: Timestamp) {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(at.as_second().unsigned_abs());
    if fs::symlink_metadata(path).unwrap().is_dir() {
        for name in names(path) {
            written_at(&path.join(name), at.try_into().unwrap());
        }
    }
    File::open(path).unwrap().set_modified(at).unwrap();
}

fn demand(enabled: Option<bool>, rollout_complete: bool) -> Demand {
    let digest = Digest::of(WASM);
    Demand {
        references: enabled
            .map(|enabled| Reference { digest, enabled })
            .into_iter()
            .collect(),
        rollout_complete,
    }
}

fn collect(volume: &Volume, demand: &Demand, at: Timestamp) -> Collected {
    volume.cache.collect(demand, at, || true).unwrap()
}

#[test]
fn nothing_is_left_of_an_unreferenced_module() {
    let volume = Volume::filled();
    written_at(volume.directory.path(), now());
    let nobody = demand(None, true);

    let kept = collect(&volume, &nobody, now() + 59.minutes());
    assert_eq!((kept.files, kept.directories), (0, 0));
    let gone = collect(&volume, &nobody, now() + 70.minutes());
    assert_eq!((gone.files, gone.directories, gone.finished), (4, 5, true));
    assert_eq!(names(volume.directory.path()), [""; 0]);
    volume.assert_heals("stored again where the directories were");
}

#[test]
fn referenced_files_stay_at_any_age() {
    let volume = Volume::filled();
    written_at(volume.directory.path(), now() - (300 * 24).hours());
    collect(&volume, &demand(Some(true), true), now());
    assert_eq!(volume.look(), [Ok(WASM.to_vec()), Ok(CODE.to_vec())]);

    let gone = collect(&volume, &demand(Some(false), true), now());
    assert_eq!(gone.files, 2, "the code of a disabled revision");
    assert_eq!(
        volume.look(),
        [Ok(WASM.to_vec()), Err(AbsentReason::NotThere)]
    );
}

#[test]
fn code_of_other_versions_goes_after_the_rollout() {
    let volume = Volume::filled();
    // The server is upgraded: it ignores the old code, and makes its own once.
    let signer = volume.controller.files(&volume.issued);
    let upgraded = cache(volume.directory.path(), "2.0.0", signer);
    let ignored = look(&upgraded, now());
    assert_eq!(ignored, [Ok(WASM.to_vec()), Err(AbsentReason::NotThere)]);
    upgraded.store_optimized(&facts(), &super::code()).unwrap();

    // While both run, both find theirs.
    let both = demand(Some(true), false);
    upgraded.collect(&both, now(), || true).unwrap();
    for cache in [&volume.cache, &upgraded] {
        assert_eq!(look(cache, now())[1], Ok(CODE.to_vec()));
    }
    let complete = demand(Some(true), true);
    let gone = upgraded.collect(&complete, now(), || true).unwrap();
    assert_eq!(gone.files, 2);
    let left = names(&volume.module());
    assert!(!left.contains(&optimized_name(VERSION)), "{left:?}");
    assert_eq!(look(&upgraded, now())[1], Ok(CODE.to_vec()));
}

#[test]
fn unfinished_and_quarantined_files_are_removed_after_an_hour() {
    let volume = Volume::filled();
    fs::write(volume.file(".polity-0123"), b"half of a mod").unwrap();
    fs::remove_file(volume.file("original.wasm")).unwrap();
    fs::create_dir_all(volume.file("original.wasm/in/the/way")).unwrap();
    fs::write(volume.file("original.wasm/in/the/way/file"), b"x").unwrap();
    volume.assert_heals("moved aside");
    written_at(volume.directory.path(), now());

    let in_use = demand(Some(true), true);
    let kept = collect(&volume, &in_use, now() + 59.minutes());
    assert_eq!(kept.files, 0);
    let gone = collect(&volume, &in_use, now() + 61.minutes());
    assert_eq!((gone.files, gone.directories), (2, 4));
    assert_eq!(names(&volume.module()).len(), 4);
    assert_eq!(volume.look()[0], Ok(WASM.to_vec()));
}

#[test]
fn symlinks_are_removed_and_not_followed() {
    let volume = Volume::filled();
    let outside = tempfile::tempdir().unwrap();
    let digits = &Digest::of(b"nobody's").hex()[..16];
    fs::create_dir(outside.path().join(digits)).unwrap();
    let spared = outside.path().join(digits).join("original.wasm");
    fs::write(&spared, b"somebody's").unwrap();
    std::os::unix::fs::symlink(outside.path(), volume.directory.path().join("away")).unwrap();
    std::os::unix::fs::symlink(&spared, volume.file(".polity-link")).unwrap();

    let later = Timestamp::MAX;
    collect(&volume, &demand(None, true), later);
    assert_eq!(fs::read(&spared).unwrap(), b"somebody's");
    assert_eq!(
        names(volume.directory.path()),
        ["away"],
        "not ours, not touched"
    );
}

#[test]
fn a_former_leader_removes_nothing_more() {
    let volume = Volume::filled();
    let mut n_asked = 0;
    let collected = volume
        .cache
        .collect(&demand(None, true), Timestamp::MAX, || {
            n_asked += 1;
            n_asked <= 2
        });
    let collected = collected.unwrap();
    assert_eq!((collected.files, collected.finished), (2, false));
    assert_eq!(names(&volume.module()).len(), 2);
}

#[test]
fn an_empty_volume_has_nothing_to_collect() {
    let volume = Volume::new();
    fs::remove_dir(volume.directory.path()).unwrap();
    let collected = collect(&volume, &Demand::default(), now());
    let expected = Collected {
        finished: true,
        ..Collected::default()
    };
    assert_eq!(collected, expected);
    assert_eq!(volume.cache.sign_anew(&[facts()], now()).unwrap(), 0);
}
