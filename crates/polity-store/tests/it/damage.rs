//! A damaged file is refused with an error that names it. It never causes a panic, and its content
//! is never taken for objects.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use polity_store::{CommitError, Expect, Key, OpenError, Options};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::support::{env, filled, open, put, ready, set, show, try_open};

/// A directory with a store in it, and the bytes of its file.
struct Fixture {
    root: tempfile::TempDir,
    file: PathBuf,
    intact: Vec<u8>,
    objects: Vec<String>,
}

impl Fixture {
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let objects = filled(root.path()).await;
        let file = root.path().join("store.redb");
        let intact = fs::read(&file).unwrap();
        Self {
            root,
            file,
            intact,
            objects,
        }
    }

    fn directory(&self) -> &Path {
        self.root.path()
    }

    /// Opens the store with other content in its file.
    fn open_with(&self, content: &[u8]) -> Result<crate::support::TestStore, OpenError> {
        fs::write(&self.file, content).unwrap();
        try_open(self.directory())
    }

    /// Asserts that this content is refused, by an error that names the file.
    #[track_caller]
    fn check_refused(&self, case: &str, content: &[u8]) -> OpenError {
        let Err(error) = self.open_with(content) else {
            panic!("{case}: it was opened");
        };
        assert_eq!(error.damaged_file(), Some(&*self.file), "{case}: {error}");
        let text = error.to_string();
        assert!(text.contains(self.file.to_str().unwrap()), "{case}: {text}");
        error
    }
}

/// Bytes without a pattern, the same in each run.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .flatten()
    .take(length)
    .collect()
}

fn overwrite(content: &mut [u8], start: usize, bytes: &[u8]) {
    let end = content.len().min(start + bytes.len());
    content[start..end].copy_from_slice(&bytes[..end - start]);
}

#[tokio::test]
async fn a_damaged_file_is_refused_by_name() {
    let fixture = Fixture::new().await;
    let length = fixture.intact.len();
    let with_noise = |start: usize, n_bytes: usize| {
        let mut content = fixture.intact.clone();
        overwrite(&mut content, start, &noise(n_bytes));
        content
    };
    let cases = [
        ("random bytes at the start", with_noise(0, 16)),
        ("random bytes in the header", with_noise(64, 256)),
        (
            "random bytes from the header to the end",
            with_noise(320, length),
        ),
        ("nothing but random bytes", noise(length)),
        ("a few random bytes", noise(100)),
        ("an empty file", Vec::new()),
        ("nothing but zeros", vec![0; length]),
        ("a page of zeros", vec![0; 4096]),
    ];
    for (case, content) in cases {
        fixture.check_refused(case, &content);
    }
}

#[tokio::test]
async fn a_truncated_file_is_refused_and_left_alone() {
    let fixture = Fixture::new().await;
    let whole = &fixture.intact;
    for length in [0, 1, 9, 64, 4096, 8192, whole.len() / 2, whole.len() - 4096] {
        fixture.check_refused(&format!("{length} bytes"), &whole[..length]);
        assert_eq!(
            fs::metadata(&fixture.file).unwrap().len(),
            length as u64,
            "it was changed"
        );
    }
    let store = fixture.open_with(whole).unwrap();
    assert_eq!(show(&store.current(), "b"), fixture.objects);
    assert_eq!(ready(&store, "b", 1).len(), 3);
}

/// The checksums of redb are verified at each opening, so a damaged value is not served.
#[tokio::test]
async fn a_changed_byte_within_an_object_is_noticed_and_located() {
    let fixture = Fixture::new().await;
    let mut content = fixture.intact.clone();
    let places = content
        .windows(100)
        .enumerate()
        .filter(|(_, window)| window.iter().all(|byte| *byte == b'2'));
    let places: Vec<_> = places.map(|(start, _)| start + 50).collect();
    for place in places {
        content[place] = b'x';
    }
    let error = fixture.check_refused("an object's bytes", &content);
    assert!(
        matches!(
            error,
            OpenError::Damaged {
                position: Some(_),
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.to_string().contains("near byte"), "{error}");
}

#[derive(Debug, Clone)]
enum Damage {
    Noise { start: usize, bytes: Vec<u8> },
    Zeros { start: usize, length: usize },
    Flip { at: usize, bit: u8 },
    Cut { length: usize },
}

impl Damage {
    fn of(length: usize) -> impl Strategy<Value = Self> {
        // Half of the cases hit the first pages, where the structure of the file is.
        let place = prop_oneof![0..length.min(16 << 10), 0..length].boxed();
        prop_oneof![
            (place.clone(), prop::collection::vec(any::<u8>(), 1..6000))
                .prop_map(|(start, bytes)| Self::Noise { start, bytes }),
            (place.clone(), 1_usize..9000)
                .prop_map(|(start, length)| Self::Zeros { start, length }),
            (place.clone(), 0_u8..8).prop_map(|(at, bit)| Self::Flip { at, bit }),
            place.prop_map(|length| Self::Cut { length }),
        ]
    }

    fn apply(&self, intact: &[u8]) -> Vec<u8> {
        let mut content = intact.to_vec();
        match self {
            Self::Noise { start, bytes } => overwrite(&mut content, *start, bytes),
            Self::Zeros { start, length } => overwrite(&mut content, *start, &vec![0; *length]),
            Self::Flip { at, bit } => content[*at] ^= 1 << bit,
            Self::Cut { length } => content.truncate(*length),
        }
        content
    }
}

/// Damage is either in space that is not used, or the file is refused. A write to a store that was
/// opened nevertheless succeeds or fails with an error.
#[test]
fn any_damage_is_refused_or_harmless() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fixture = runtime.block_on(Fixture::new());
    let config = Config {
        cases: 256,
        failure_persistence: None,
        ..Config::default()
    };
    // The same cases in each run.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let damages = prop::collection::vec(Damage::of(fixture.intact.len()), 1..4);
    let outcome = runner.run(&damages, |damages| {
        let mut content = fixture.intact.clone();
        for damage in &damages {
            // A cut may have made an earlier place of the list invalid.
            if content.len() == fixture.intact.len() {
                content = damage.apply(&content);
            }
        }
        match fixture.open_with(&content) {
            Err(error) => {
                prop_assert_eq!(error.damaged_file(), Some(&*fixture.file), "{:?}", error);
            }
            Ok(store) => runtime.block_on(async {
                let objects = show(&store.current(), "b");
                prop_assert_eq!(&objects, &fixture.objects);
                let write = put(&Key::new("b", "ns", "new"), Expect::Absent, "new");
                let written = store.commit(write).await;
                let is_expected = matches!(written, Ok(_) | Err(CommitError::Damaged { .. }));
                prop_assert!(is_expected, "{:?}", written);
                store.close().await;
                Ok(())
            })?,
        }
        Ok(())
    });
    outcome.unwrap();
}

/// Opens the store that its parent has damaged: see below.
#[test]
fn damaged_store_child() {
    let Some(directory) = env("POLITY_STORE_DAMAGED_DIRECTORY") else {
        return;
    };
    let error = try_open(Path::new(&directory)).err().expect("damage");
    eprintln!("refused: {error}");
}

/// The panics of the storage engine are handled, so nothing is printed about them.
#[tokio::test]
async fn damage_prints_no_panic() {
    let fixture = Fixture::new().await;
    for start in (4096..fixture.intact.len()).step_by(fixture.intact.len() / 8) {
        let mut content = fixture.intact.clone();
        overwrite(&mut content, start, &noise(fixture.intact.len()));
        fs::write(&fixture.file, &content).unwrap();
        if try_open(fixture.directory()).is_ok() {
            continue;
        }
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "damage::damaged_store_child", "--nocapture"])
            .env("POLITY_STORE_DAMAGED_DIRECTORY", fixture.directory())
            .env("RUST_BACKTRACE", "1")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{printed}");
        assert!(printed.contains("refused: "), "{printed}");
        assert!(!printed.contains("panicked"), "{printed}");
    }
}

/// Damage that appears while the store is open is noticed by a write at the earliest: that write
/// fails, and reads go on.
#[tokio::test]
async fn damage_of_an_open_store_is_an_error_of_a_write_at_most() {
    let fixture = Fixture::new().await;
    let store = open(&Options::directory(fixture.directory()));
    // More than the cache holds, so that later writes read from the file.
    for number in 0..48 {
        set(&store, "c", &number.to_string(), &"x".repeat(128 << 10)).await;
    }
    let length = usize::try_from(fs::metadata(&fixture.file).unwrap().len()).unwrap();
    let mut content = fs::read(&fixture.file).unwrap();
    overwrite(&mut content[4096..], 0, &noise(length));
    fs::write(&fixture.file, &content).unwrap();
    let mut failed = None;
    for number in 0..2000 {
        let key = Key::new("c", "ns", format!("more{number}"));
        if let Err(error) = store.commit(put(&key, Expect::Absent, "more")).await {
            failed = Some(error);
            break;
        }
    }
    if let Some(error) = failed {
        assert!(matches!(error, CommitError::Damaged { .. }), "{error:?}");
    }
    assert_eq!(show(&store.current(), "b"), fixture.objects);
    store.close().await;
}
