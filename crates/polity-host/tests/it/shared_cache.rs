//! The shared cache on a real disk, against processes that can write to its volume (docs/spec/admission.md#19-9).

mod collection;
mod hostile;
mod renewal;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use polity_fetch::Digest;
use polity_host::{
    AbsentReason, CacheBuild, CacheError, CacheIdentity, Lookup, ModuleFacts, SharedCache,
    SignerError, SignerFiles, SignerTexts,
};
use polity_pki::{Authority, Issued};
use polity_wasm::{CompiledCode, Engine, EngineOptions};
use tempfile::TempDir;

use crate::MODULE;

const DAY: Duration = Duration::from_hours(24);
const WASM: &[u8] = b"\0asm\x01\0\0\0 one module";
const OTHER_WASM: &[u8] = b"\0asm\x01\0\0\0 two module";
const CODE: &[u8] = b"native code of one.";
const VERSION: &str = "1.2.3";

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn identity(server: &str) -> CacheIdentity {
    CacheIdentity {
        namespace: "polity".to_owned(),
        server: server.to_owned(),
    }
}

/// A controller's CA, which issues signing certificates.
struct Controller(Authority);

impl Controller {
    fn new() -> Self {
        Self(Authority::create("kubewarden-controller-ca", 3650 * DAY, now()).unwrap())
    }

    fn issue(&self, server: &str, at: Timestamp) -> Issued {
        let uri = identity(server).uri();
        self.0
            .issue_code_signer("cache", &uri, 365 * DAY, at)
            .unwrap()
    }

    fn texts(&self, issued: &Issued) -> SignerTexts {
        SignerTexts {
            certificate: issued.certificate.to_pem(),
            key: issued.key.to_pem(),
            authority: self.0.certificate().to_pem(),
            old_authority: None,
            previous: None,
        }
    }

    fn files(&self, issued: &Issued) -> SignerFiles {
        SignerFiles::parse(&self.texts(issued)).unwrap()
    }
}

/// A volume with the cache of the server `default`.
struct Volume {
    directory: TempDir,
    controller: Controller,
    issued: Issued,
    cache: SharedCache,
}

impl Volume {
    fn new() -> Self {
        let (directory, controller) = (tempfile::tempdir().unwrap(), Controller::new());
        let issued = controller.issue("default", now());
        let cache = cache(directory.path(), VERSION, controller.files(&issued));
        Self {
            directory,
            controller,
            issued,
            cache,
        }
    }

    /// One with both forms of the module in it.
    fn filled() -> Self {
        let volume = Self::new();
        volume.fill();
        volume
    }

    fn fill(&self) {
        self.cache.store_original(&facts(), WASM).unwrap();
        self.cache.store_optimized(&facts(), &code()).unwrap();
    }

    /// The same cache, as a pod sees it that has just started.
    fn restarted(&self) -> SharedCache {
        cache(
            self.directory.path(),
            VERSION,
            self.controller.files(&self.issued),
        )
    }

    /// A file of the module's directory.
    fn file(&self, name: &str) -> PathBuf {
        self.module().join(name)
    }

    fn module(&self) -> PathBuf {
        let digits = &Digest::of(WASM).hex()[..16];
        self.directory
            .path()
            .join("h.example/policies/p/v1")
            .join(digits)
    }

    /// The result for both forms: found, or the reason why not.
    fn look(&self) -> [Result<Vec<u8>, AbsentReason>; 2] {
        look(&self.cache, now())
    }

    /// Stores both forms again and finds them, which repairs any earlier content.
    fn assert_heals(&self, what: &str) {
        self.fill();
        assert_eq!(
            self.look(),
            [Ok(WASM.to_vec()), Ok(CODE.to_vec())],
            "{what}"
        );
    }
}

fn cache(root: &Path, version: &str, signer: SignerFiles) -> SharedCache {
    let build = CacheBuild::new(version, "an engine");
    SharedCache::new(root, &identity("default"), build, signer)
}

fn look(cache: &SharedCache, at: Timestamp) -> [Result<Vec<u8>, AbsentReason>; 2] {
    let facts = facts();
    [
        original(cache, &facts, at),
        match cache.optimized(&facts, at).unwrap() {
            Lookup::Found(code) => Ok(code.as_bytes().to_vec()),
            Lookup::Absent(reason) => Err(reason),
        },
    ]
}

fn original(
    cache: &SharedCache,
    facts: &ModuleFacts,
    at: Timestamp,
) -> Result<Vec<u8>, AbsentReason> {
    match cache.original(facts, at).unwrap() {
        Lookup::Found(bytes) => Ok(bytes),
        Lookup::Absent(reason) => Err(reason),
    }
}

fn facts() -> ModuleFacts {
    facts_of("registry://h.example/policies/p:v1", WASM)
}

fn facts_of(uri: &str, wasm: &[u8]) -> ModuleFacts {
    ModuleFacts {
        uri: uri.parse().unwrap(),
        digest: Digest::of(wasm),
        manifest_digest: None,
        verification: String::new(),
    }
}

fn code() -> CompiledCode {
    CompiledCode::vouched_for(CODE.to_vec())
}

/// The names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The file name of the native code of a version.
fn optimized_name(version: &str) -> String {
    let hash = &Digest::of(b"an engine").hex()[..8];
    format!("optimized-kw-v{version}-{hash}.wasm")
}

#[test]
fn files_have_their_documented_paths_and_no_other_file_is_left() {
    let volume = Volume::new();
    assert_eq!(
        volume.look(),
        [Err(AbsentReason::NotThere), Err(AbsentReason::NotThere)]
    );
    volume.fill();
    let optimized = optimized_name(VERSION);
    assert_eq!(
        names(&volume.module()),
        [
            optimized.clone(),
            format!("{optimized}.sig"),
            "original.wasm".to_owned(),
            "original.wasm.sig".to_owned()
        ]
    );
    assert_eq!(fs::read(volume.file("original.wasm")).unwrap(), WASM);
    assert_eq!(look(&volume.restarted(), now())[1], Ok(CODE.to_vec()));
}

#[test]
fn code_of_a_real_module_is_loaded_from_the_cache() {
    let engine = Engine::new(&EngineOptions {
        instances: 2,
        ..EngineOptions::default()
    })
    .unwrap();
    let volume = Volume::new();
    let build = CacheBuild::new(VERSION, engine.compatibility());
    let signer = volume.controller.files(&volume.issued);
    let cache = SharedCache::new(volume.directory.path(), &identity("default"), build, signer);
    let wasm = fs::read(MODULE).unwrap();
    let facts = facts_of("https://example.com/p.wasm", &wasm);
    let module = engine.compile(&wasm, None).unwrap();
    cache.store_original(&facts, &wasm).unwrap();
    cache
        .store_optimized(&facts, &module.compiled_code().unwrap())
        .unwrap();

    let code = cache.optimized(&facts, now()).unwrap().found().unwrap();
    assert_eq!(engine.load(&code).unwrap().digest(), module.digest());
    assert_eq!(cache.original(&facts, now()).unwrap().found(), Some(wasm));
    assert_eq!(names(volume.directory.path()), ["_url"]);
}

#[test]
fn a_moved_tag_is_another_module() {
    let volume = Volume::filled();
    let moved = facts_of("registry://h.example/policies/p:v1", OTHER_WASM);
    assert_eq!(
        original(&volume.cache, &moved, now()),
        Err(AbsentReason::NotThere)
    );
    volume.cache.store_original(&moved, OTHER_WASM).unwrap();
    assert_eq!(
        original(&volume.cache, &moved, now()),
        Ok(OTHER_WASM.to_vec())
    );
    assert_eq!(volume.look()[0], Ok(WASM.to_vec()), "both lie side by side");
}

#[test]
fn another_verification_config_asks_for_another_look() {
    let volume = Volume::filled();
    let mut facts = facts();
    facts.verification = "0123".to_owned();
    let absent = Err(AbsentReason::OtherVerification);
    assert_eq!(original(&volume.cache, &facts, now()), absent);
    volume.cache.store_original(&facts, WASM).unwrap();
    assert_eq!(original(&volume.cache, &facts, now()), Ok(WASM.to_vec()));
    assert_eq!(volume.look()[0], absent, "and back");
}

#[test]
fn nothing_is_signed_that_is_not_the_module() {
    let volume = Volume::new();
    let refused = volume.cache.store_original(&facts(), OTHER_WASM);
    assert!(matches!(refused, Err(CacheError::OtherContent { .. })));
    assert_eq!(names(volume.directory.path()), [""; 0]);
}

#[test]
fn a_disk_that_fails_is_an_error_that_names_the_file() {
    let volume = Volume::new();
    let no_directory = volume.directory.path().join("file");
    fs::write(&no_directory, b"").unwrap();
    let signer = volume.controller.files(&volume.issued);
    let cache = cache(&no_directory, VERSION, signer);
    assert_eq!(look(&cache, now())[0], Err(AbsentReason::NotAFile));
    let error = cache.store_original(&facts(), WASM).unwrap_err();
    let said = error.to_string();
    assert!(said.starts_with("cannot write /"), "{said}");
    assert!(said.ends_with("original.wasm.sig"), "{said}");
}

#[test]
fn the_signer_is_read_from_one_generation_of_the_mounted_secret() {
    let controller = Controller::new();
    let (old, new) = (
        controller.issue("default", now()),
        controller.issue("default", now()),
    );
    let mount = tempfile::tempdir().unwrap();
    let generation = |name: &str, issued: &Issued, previous: &str| {
        let directory = mount.path().join(name);
        fs::create_dir(&directory).unwrap();
        let texts = controller.texts(issued);
        for (file, text) in [
            ("tls.crt", texts.certificate.as_str()),
            ("tls.key", &texts.key),
            ("ca.crt", &texts.authority),
            ("previous.crt", previous),
        ] {
            fs::write(directory.join(file), text).unwrap();
        }
    };
    let missing = SignerFiles::read(mount.path()).unwrap_err();
    assert!(missing.to_string().ends_with("tls.crt"), "{missing}");

    // As the kubelet lays it out: `..data` points to a generation, and each file through it.
    generation("..1", &old, "");
    std::os::unix::fs::symlink("..1", mount.path().join("..data")).unwrap();
    let files = SignerFiles::read(mount.path()).unwrap();
    assert_eq!(files.fingerprint(), old.certificate.fingerprint());

    generation("..2", &new, &old.certificate.to_pem());
    std::os::unix::fs::symlink("..2", mount.path().join("..next")).unwrap();
    fs::rename(mount.path().join("..next"), mount.path().join("..data")).unwrap();
    let files = SignerFiles::read(mount.path()).unwrap();
    assert_eq!(files.fingerprint(), new.certificate.fingerprint());

    fs::write(mount.path().join("..2/previous.crt"), "nonsense").unwrap();
    let said = SignerFiles::read(mount.path()).unwrap_err().to_string();
    assert_eq!(said, "previous.crt is not a certificate");
    fs::write(mount.path().join("..2/tls.key"), old.key.to_pem()).unwrap();
    fs::remove_file(mount.path().join("..2/previous.crt")).unwrap();
    let mixed = SignerFiles::read(mount.path());
    assert!(matches!(mixed, Err(SignerError::Signer(_))));
}
