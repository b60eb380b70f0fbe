//! Modules are fetched once, compiled once, and reused from the store. Compiled code without a valid signature is
//! never loaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use polity_eval::{ExecutionMode, GuestConfig, Settings};
use polity_fetch::{Fetcher, ModuleUri, Progress};
use polity_host::{LoadOptions, LoadProgress, Modules, module_of};
use polity_wasm::{Engine, EngineOptions, Module};

use crate::{MODULE, fetcher};

/// Counts the actual compilations.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Progress for Counting {}

impl LoadProgress for Counting {
    fn compiles(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counting {
    fn options(&self) -> LoadOptions<'_> {
        LoadOptions {
            mode: None,
            progress: self,
        }
    }

    fn n(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn engine() -> Engine {
    let options = EngineOptions {
        instances: 4,
        ..EngineOptions::default()
    };
    Engine::new(&options).unwrap()
}

fn modules(fetcher: &Fetcher) -> Modules {
    Modules::new(engine(), fetcher.clone())
}

fn module() -> ModuleUri {
    ModuleUri::File(fs::canonicalize(MODULE).unwrap())
}

/// The files of compiled code in a store.
fn compiled_files(store: &Path) -> Vec<PathBuf> {
    let below = |directory: PathBuf| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    below(store.join(".polity/compiled"))
        .into_iter()
        .flat_map(below)
        .collect()
}

async fn load(modules: &Modules, counting: &Counting) -> Module {
    modules
        .load_with(&module(), counting.options())
        .await
        .unwrap()
}

#[tokio::test]
async fn a_module_is_compiled_once_and_taken_up_after_that() {
    let (_directory, fetcher) = fetcher();
    let (first, counting) = (modules(&fetcher), Counting::default());
    let (a, b) = tokio::join!(load(&first, &counting), load(&first, &counting));
    assert_eq!((a.digest(), counting.n()), (b.digest(), 1));
    load(&first, &counting).await;
    assert_eq!((counting.n(), first.n_loaded()), (1, 1));

    // Simulates a restart.
    let again = modules(&fetcher);
    assert_eq!(load(&again, &counting).await.digest(), a.digest());
    assert_eq!(counting.n(), 1, "a second start compiles nothing");
}

#[tokio::test]
async fn code_that_changed_on_disk_is_compiled_again() {
    let (_directory, fetcher) = fetcher();
    let counting = Counting::default();
    load(&modules(&fetcher), &counting).await;
    let files = compiled_files(fetcher.store.root());
    let [file] = &files[..] else {
        panic!("one file of compiled code, not {files:?}")
    };
    let mut bytes = fs::read(file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(file, &bytes).unwrap();
    load(&modules(&fetcher), &counting).await;
    assert_eq!(counting.n(), 2);
    load(&modules(&fetcher), &counting).await;
    assert_eq!(counting.n(), 2, "healed");
}

#[tokio::test]
async fn without_the_store_everything_is_compiled_anew() {
    let (_directory, fetcher) = fetcher();
    let counting = Counting::default();
    for n in 1..=2 {
        let modules = Modules::compiling_anew(engine(), fetcher.clone());
        load(&modules, &counting).await;
        assert_eq!(counting.n(), n);
    }
    assert_eq!(compiled_files(fetcher.store.root()), [] as [PathBuf; 0]);
}

#[tokio::test]
async fn a_mode_given_by_hand_does_not_leak_into_other_loads() {
    let (directory, fetcher) = fetcher();
    // A guest without metadata can only be loaded with an explicit mode.
    let wat = r#"(module (memory (export "memory") 1) (func (export "__guest_call") (param i32 i32) (result i32) i32.const 1))"#;
    let path = directory.path().join("bare.wasm");
    fs::write(&path, wat::parse_str(wat).unwrap()).unwrap();
    let uri = ModuleUri::File(path);
    let modules = modules(&fetcher);
    let by_hand = LoadOptions {
        mode: Some(ExecutionMode::Wapc),
        ..LoadOptions::default()
    };
    modules.load_with(&uri, by_hand).await.unwrap();
    for modules in [modules, self::modules(&fetcher)] {
        let error = modules.load(&uri).await.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, "missing protocol version");
    }
}

#[tokio::test]
async fn one_that_cannot_be_had_does_not_keep_the_others() {
    let (directory, fetcher) = fetcher();
    let broken = directory.path().join("broken.wasm");
    fs::write(&broken, b"\0asm\x01\0\0\0garbage").unwrap();
    let uris: Vec<ModuleUri> = vec![
        ModuleUri::File(broken),
        ModuleUri::File(directory.path().join("missing.wasm")),
        module(),
    ];
    let loaded = modules(&fetcher)
        .load_all(uris.clone(), 2, Arc::new(()))
        .await;
    let say = |uri: &str, member: Option<&str>| {
        let guest = GuestConfig {
            module: uri.to_owned(),
            settings: Settings::default(),
            timeout: None,
            capabilities: None,
            resources: Vec::new(),
        };
        match module_of(&loaded, "p", member, &guest) {
            Ok(module) => module.execution_mode().to_string(),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(say(&uris[2].to_string(), None), "kubewarden-wapc");
    let said = say(&uris[0].to_string(), None);
    assert!(said.starts_with("not a valid Wasm module"), "{said}");
    let said = say(&uris[1].to_string(), Some("m"));
    assert!(
        said.starts_with("Error while downloading policy 'm' from file://"),
        "{said}"
    );
    assert!(said.contains("No such file"), "{said}");
    let said = say("policy", None);
    assert!(said.contains("is not a registry reference"), "{said}");
    let said = say("registry://h.example/p:v1", None);
    assert!(said.ends_with("it was not asked for"), "{said}");
}

#[tokio::test]
async fn unused_modules_are_released() {
    let (_directory, fetcher) = fetcher();
    let modules = modules(&fetcher);
    let module = modules.load(&module()).await.unwrap();
    modules.retain([&module]);
    assert_eq!(modules.n_loaded(), 1);
    modules.retain([]);
    assert_eq!(modules.n_loaded(), 0);
}
