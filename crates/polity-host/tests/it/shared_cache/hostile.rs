//! For any manipulation of the files, only signed content is loaded, and the files are repaired.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use polity_host::AbsentReason;
use polity_pki::BlobRefusal;

use super::{
    CODE, OTHER_WASM, VERSION, Volume, WASM, cache, facts, facts_of, look, now, optimized_name,
    original,
};

/// The four files of the module.
fn files() -> [String; 4] {
    let optimized = optimized_name(VERSION);
    [
        "original.wasm".to_owned(),
        "original.wasm.sig".to_owned(),
        optimized.clone(),
        format!("{optimized}.sig"),
    ]
}

fn is_signature(file: &str) -> bool {
    file.rsplit('.').next() == Some("sig")
}

/// Whether the form of the file is absent, and the other form is unaffected.
fn assert_absent(volume: &Volume, file: &str, what: &str) -> AbsentReason {
    let [original, optimized] = volume.look();
    let (hit, spared, content) = match file.starts_with("original") {
        true => (original, optimized, CODE),
        false => (optimized, original, WASM),
    };
    assert_eq!(spared.as_deref(), Ok(content), "{file}: {what}");
    hit.unwrap_err()
}

#[test]
fn a_flipped_byte_in_any_file() {
    for file in files() {
        let volume = Volume::filled();
        let path = volume.file(&file);
        let content = fs::read(&path).unwrap();
        // Every byte of a short file, and many bytes of a long one.
        for index in (0..content.len()).step_by(content.len() / 64 + 1) {
            let mut changed = content.clone();
            changed[index] ^= 1;
            fs::write(&path, &changed).unwrap();
            let reason = assert_absent(&volume, &file, "flipped");
            assert!(matches!(reason, AbsentReason::Refused(_)), "{reason:?}");
            if !is_signature(&file) {
                assert_eq!(reason.as_str(), "content");
            }
        }
        volume.assert_heals(&file);
    }
}

#[test]
fn a_truncated_file() {
    for file in files() {
        let volume = Volume::filled();
        let path = volume.file(&file);
        let content = fs::read(&path).unwrap();
        for length in [0, 1, content.len() / 2, content.len() - 1] {
            fs::write(&path, &content[..length]).unwrap();
            let reason = assert_absent(&volume, &file, "truncated");
            match is_signature(&file) {
                true => assert!(matches!(reason, AbsentReason::Refused(_)), "{reason:?}"),
                false => assert_eq!(reason, AbsentReason::OtherSize),
            }
        }
        volume.assert_heals(&file);
    }
}

#[test]
fn a_file_that_grew() {
    let volume = Volume::filled();
    let path = volume.file("original.wasm.sig");
    fs::write(&path, vec![b' '; 100_000]).unwrap();
    let reason = assert_absent(&volume, "original.wasm.sig", "grown");
    assert_eq!(reason, AbsentReason::TooLarge);
    volume.assert_heals("grown signature");
}

/// The statement contains the size. A larger file is not read, so it costs neither time nor memory.
#[test]
fn a_file_of_another_size_is_not_read() {
    for file in files().into_iter().filter(|file| !is_signature(file)) {
        let volume = Volume::filled();
        let path = volume.file(&file);
        let length = fs::metadata(&path).unwrap().len();
        for length in [length + 1, 1 << 30, 1 << 40] {
            fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(length)
                .unwrap();
            let reason = assert_absent(&volume, &file, "of another size");
            assert_eq!(reason, AbsentReason::OtherSize, "{length}");
            assert!(reason.may_pass(), "it may be about to be written");
        }
        volume.assert_heals(&file);
    }
}

#[test]
fn a_write_that_was_cut_off() {
    for file in files() {
        let volume = Volume::filled();
        fs::remove_file(volume.file(&file)).unwrap();
        let reason = assert_absent(&volume, &file, "gone");
        let expected = match is_signature(&file) {
            true => AbsentReason::Unsigned,
            false => AbsentReason::NotThere,
        };
        assert_eq!(reason, expected, "{file}");
        assert!(reason.may_pass(), "it may be about to be written");
        volume.assert_heals(&file);
    }
}

#[test]
fn two_signed_files_that_were_swapped() {
    let volume = Volume::filled();
    let optimized = optimized_name(VERSION);
    let swap = |one: &str, other: &str| {
        let (one, other) = (volume.file(one), volume.file(other));
        let aside = volume.file("aside");
        fs::rename(&one, &aside).unwrap();
        fs::rename(&other, &one).unwrap();
        fs::rename(&aside, &other).unwrap();
    };
    swap("original.wasm", &optimized);
    let content = || Err(BlobRefusal::Content.into());
    assert_eq!(volume.look(), [content(), content()]);

    // Together with their signatures: each statement is now about a file of another name and kind.
    swap("original.wasm.sig", &format!("{optimized}.sig"));
    let other = || Err(AbsentReason::OtherModule);
    assert_eq!(volume.look(), [other(), other()]);
    volume.assert_heals("swapped");
}

#[test]
fn a_file_that_was_signed_for_another_digest() {
    let volume = Volume::filled();
    let other = facts_of("registry://h.example/policies/p:v1", OTHER_WASM);
    volume.cache.store_original(&other, OTHER_WASM).unwrap();
    let from = volume
        .module()
        .parent()
        .unwrap()
        .join(&other.digest.hex()[..16]);
    let replay = |name: &str| fs::copy(from.join(name), volume.file(name)).unwrap();

    replay("original.wasm");
    let reason = assert_absent(&volume, "original.wasm", "content only");
    assert_eq!(reason, BlobRefusal::Content.into());
    replay("original.wasm.sig");
    let reason = assert_absent(&volume, "original.wasm", "with its signature");
    assert_eq!(reason, AbsentReason::OtherModule);
    volume.assert_heals("replayed");
}

#[test]
fn code_that_was_signed_for_another_server_version() {
    let volume = Volume::filled();
    let signer = volume.controller.files(&volume.issued);
    let older = cache(volume.directory.path(), "1.0.0", signer);
    let code = polity_wasm::CompiledCode::vouched_for(b"older code".to_vec());
    older.store_optimized(&facts(), &code).unwrap();
    for suffix in ["", ".sig"] {
        let from = volume.file(&(optimized_name("1.0.0") + suffix));
        fs::copy(from, volume.file(&(optimized_name(VERSION) + suffix))).unwrap();
    }
    let reason = assert_absent(&volume, &optimized_name(VERSION), "replayed");
    assert_eq!(reason, AbsentReason::OtherBuild);
    volume.assert_heals("replayed");
    assert_eq!(look(&older, now())[1], Ok(b"older code".to_vec()));
}

/// Also 36: two servers on one volume, should they ever see the same directory.
#[test]
fn a_file_that_another_server_signed() {
    let volume = Volume::new();
    let neighbour = volume.controller.issue("neighbour", now());
    let files = volume.controller.files(&neighbour);
    let build = polity_host::CacheBuild::new(VERSION, "an engine");
    let identity = super::identity("neighbour");
    let theirs = polity_host::SharedCache::new(volume.directory.path(), &identity, build, files);
    theirs.store_original(&facts(), WASM).unwrap();
    theirs.store_optimized(&facts(), &super::code()).unwrap();

    assert_eq!(look(&theirs, now())[0], Ok(WASM.to_vec()));
    let refused = || Err(BlobRefusal::NotAccepted.into());
    assert_eq!(volume.look(), [refused(), refused()]);
    // Even if their certificate is in our own Secret, it is for another name.
    let mut texts = volume.controller.texts(&volume.issued);
    texts.previous = Some(neighbour.certificate.to_pem());
    let signer = polity_host::SignerFiles::parse(&texts).unwrap();
    let ours = cache(volume.directory.path(), VERSION, signer);
    assert_eq!(look(&ours, now())[0], Err(BlobRefusal::Name.into()));
    volume.assert_heals("foreign signature");
    assert_eq!(
        look(&theirs, now())[0],
        Err(BlobRefusal::NotAccepted.into())
    );
}

#[test]
fn a_symlink_to_a_good_file_is_not_followed() {
    for file in files() {
        let volume = Volume::filled();
        let (path, elsewhere) = (
            volume.file(&file),
            volume.directory.path().join("elsewhere"),
        );
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        let reason = assert_absent(&volume, &file, "symlink");
        assert_eq!(reason, AbsentReason::NotAFile);
        let before = fs::read(&elsewhere).unwrap();
        volume.assert_heals(&file);
        assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
        assert_eq!(fs::read(&elsewhere).unwrap(), before, "nor written through");
    }
}

#[test]
fn a_symlink_to_a_good_directory_is_not_followed() {
    for (what, depth) in [("module", 0), ("tag", 1), ("repository", 2), ("host", 4)] {
        let volume = Volume::filled();
        let module = volume.module();
        let path = module.ancestors().nth(depth).unwrap();
        let elsewhere = volume.directory.path().join("elsewhere");
        fs::rename(path, &elsewhere).unwrap();
        symlink(&elsewhere, path).unwrap();
        let refused = || Err(AbsentReason::NotAFile);
        assert_eq!(volume.look(), [refused(), refused()], "{what}");
        volume.assert_heals(what);
        assert!(fs::symlink_metadata(path).unwrap().is_dir(), "{what}");
    }
}

#[test]
fn something_that_is_no_file_at_all() {
    type Plant = fn(&Path);
    let plants: [(&str, Plant); 3] = [
        ("an empty directory", |path| fs::create_dir(path).unwrap()),
        ("a full directory", |path| {
            fs::create_dir_all(path.join("more")).unwrap();
            fs::write(path.join("more/file"), b"x").unwrap();
        }),
        // Opening a pipe without a writer for reading would block forever.
        ("a pipe", |path| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
        }),
    ];
    for file in files() {
        for (what, plant) in plants {
            let volume = Volume::filled();
            let path = volume.file(&file);
            fs::remove_file(&path).unwrap();
            plant(&path);
            let reason = assert_absent(&volume, &file, what);
            assert_eq!(reason, AbsentReason::NotAFile, "{file}: {what}");
            volume.assert_heals(what);
        }
    }
}

#[test]
fn a_file_in_the_place_of_a_directory() {
    let volume = Volume::filled();
    fs::remove_dir_all(volume.module()).unwrap();
    fs::write(volume.module(), b"in the way").unwrap();
    assert_eq!(volume.look()[0], Err(AbsentReason::NotAFile));
    volume.assert_heals("a file in the way");
}

#[test]
fn returned_bytes_do_not_change_with_the_file() {
    let volume = Volume::filled();
    let given = original(&volume.cache, &facts(), now()).unwrap();
    fs::write(volume.file("original.wasm"), OTHER_WASM).unwrap();
    assert_eq!(given, WASM);

    // Another process writes into the file all the time. Content that is found must be right.
    let stop = AtomicBool::new(false);
    let path = volume.file("original.wasm");
    let found: Vec<Vec<u8>> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::write(&path, WASM).unwrap();
                fs::write(&path, OTHER_WASM).unwrap();
            }
            fs::write(&path, WASM).unwrap();
        });
        let found = (0..500).filter_map(|_| original(&volume.cache, &facts(), now()).ok());
        let found = found.collect();
        stop.store(true, Ordering::Relaxed);
        found
    });
    assert!(found.len() < 500, "the file did change");
    assert!(found.iter().all(|bytes| bytes == WASM));
    assert_eq!(volume.look()[0], Ok(WASM.to_vec()));
}

#[test]
fn readers_see_the_old_or_the_new_file_and_never_half_of_one() {
    let volume = Volume::filled();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..50).for_each(|_| volume.fill()));
        }
        for _ in 0..200 {
            assert_eq!(volume.look(), [Ok(WASM.to_vec()), Ok(CODE.to_vec())]);
        }
    });
    assert_eq!(
        super::names(&volume.module()).len(),
        4,
        "nothing is left over"
    );
}
