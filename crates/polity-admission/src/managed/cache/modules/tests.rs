//! Sections 19.7 and 19.9 as far as loading goes: what is good is used, what is not is made again or pulled again.

use polity_eval::EngineOptions;
use polity_fetch::{Credentials, Limits, LocalStore, Sources};
use polity_runtime::metrics::Metrics;

use super::*;

/// The smallest waPC guest, with its description.
fn wasm(answer: &str) -> Vec<u8> {
    let text = format!(
        r#"(module (memory (export "memory") 1) (data (i32.const 0) "{answer}")
        (func (export "__guest_call") (param i32 i32) (result i32) (i32.const 1)))"#
    );
    let section = b"io.kubewarden.metadata";
    let metadata = br#"{"protocolVersion":"v1","rules":[],"mutating":false}"#;
    let mut module = wat::parse_str(text).unwrap();
    module.extend([
        0,
        (1 + section.len() + metadata.len()) as u8,
        section.len() as u8,
    ]);
    module.extend(section);
    module.extend(metadata);
    module
}

/// A vault whose looks are scripted, and which remembers what it was given.
#[derive(Default)]
struct Scripted {
    compiled: Mutex<Option<Vec<u8>>>,
    original: Mutex<Option<Vec<u8>>>,
    is_suspicious: bool,
    is_broken: bool,
    kept: Mutex<Vec<&'static str>>,
}

impl Scripted {
    fn look<T>(&self, found: Option<T>) -> Result<Found<T>, VaultError> {
        if self.is_broken {
            return Err(VaultError("input/output error".to_owned()));
        }
        Ok(found.map_or_else(
            || {
                Found::No(Absence {
                    word: "not_there",
                    detail: "the signature does not fit".to_owned(),
                    may_pass: true,
                    is_suspicious: self.is_suspicious,
                })
            },
            Found::Yes,
        ))
    }

    fn keep(&self, what: &'static str) -> Result<(), VaultError> {
        if self.is_broken {
            return Err(VaultError("input/output error".to_owned()));
        }
        self.kept.lock().unwrap().push(what);
        Ok(())
    }
}

impl Vault for Scripted {
    fn compiled(&self, _: &Pinned, _: Timestamp) -> Result<Found<CompiledCode>, VaultError> {
        let code = self.compiled.lock().unwrap().clone();
        self.look(code.map(CompiledCode::vouched_for))
    }

    fn original(&self, _: &Pinned, _: Timestamp) -> Result<Found<Vec<u8>>, VaultError> {
        let bytes = self.original.lock().unwrap().clone();
        self.look(bytes)
    }

    fn keep_original(&self, _: &Pinned, _: &[u8]) -> Result<(), VaultError> {
        self.keep("original")
    }

    fn keep_compiled(&self, _: &Pinned, _: &CompiledCode) -> Result<(), VaultError> {
        self.keep("compiled")
    }
}

struct Bench {
    folder: tempfile::TempDir,
    vault: Arc<Scripted>,
    loader: ModuleLoader,
}

fn bench(vault: Scripted) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let vault = Arc::new(vault);
    let metrics = Metrics::new().unwrap();
    let loader = ModuleLoader::new(
        Engine::new(&EngineOptions::default()).unwrap(),
        Fetcher {
            sources: Sources::default(),
            credentials: Credentials::anonymous(),
            store: LocalStore::new(folder.path().join("store")),
            limits: Limits::default(),
        },
        vault.clone(),
        ServerMetrics::new(&metrics.meter("kubewarden")),
        Clock::system(),
    );
    Bench {
        folder,
        vault,
        loader,
    }
}

impl Bench {
    fn uri(&self) -> ModuleUri {
        ModuleUri::File(self.folder.path().join("p.wasm"))
    }

    fn publish(&self, wasm: &[u8]) {
        std::fs::write(self.folder.path().join("p.wasm"), wasm).unwrap();
    }

    /// Loads what a status has recorded.
    async fn load(&self, recorded: &[u8], purpose: Purpose) -> Result<Module, Trouble> {
        let wanted = Wanted {
            module: Pinned {
                uri: self.uri(),
                digest: Digest::of(recorded),
                manifest: None,
            },
            scope: Scope::Cluster,
            bytes: None,
        };
        self.loader.load(&wanted, purpose).await
    }

    fn kept(&self) -> String {
        self.vault.kept.lock().unwrap().join(" ")
    }
}

#[tokio::test]
async fn what_the_vault_has_is_used() {
    let module = wasm("a");
    let made = bench(Scripted::default());
    made.publish(&module);
    let code = made.load(&module, Purpose::Serve).await.unwrap();
    assert_eq!(made.kept(), "original compiled", "what it made is kept");

    let warm = bench(Scripted::default());
    let code = code.compiled_code().unwrap().as_bytes().to_vec();
    *warm.vault.compiled.lock().unwrap() = Some(code);
    let loaded = warm.load(&module, Purpose::Serve).await.unwrap();
    assert_eq!(loaded.digest(), Digest::of(&module).hex());
    assert_eq!(warm.kept(), "", "nothing was fetched, nothing was made");
    warm.load(&module, Purpose::Serve).await.unwrap();
    assert_eq!(warm.loader.n_loaded(), 1, "the same module is there once");
    warm.loader.forget([&Digest::of(&module)]);
    assert_eq!(warm.loader.n_loaded(), 0);
}

#[tokio::test]
async fn what_is_not_good_is_made_again() {
    let module = wasm("a");
    let healed = bench(Scripted {
        original: Mutex::new(Some(module.clone())),
        is_suspicious: true,
        ..Scripted::default()
    });
    healed.load(&module, Purpose::Serve).await.unwrap();
    assert_eq!(healed.kept(), "original compiled", "from the original");

    let pulled = bench(Scripted {
        is_suspicious: true,
        ..Scripted::default()
    });
    pulled.publish(&module);
    pulled.load(&module, Purpose::Serve).await.unwrap();
    assert_eq!(pulled.kept(), "original compiled", "from where it came");
}

#[tokio::test]
async fn what_cannot_be_helped_is_told_apart() {
    let module = wasm("a");
    let fault = async |bench: &Bench, purpose| {
        let trouble = bench.load(&module, purpose).await.unwrap_err();
        (trouble.fault, trouble.message)
    };
    let gone = bench(Scripted::default());
    assert_eq!(fault(&gone, Purpose::Serve).await.0, Fault::Pull);

    let forged = bench(Scripted {
        is_suspicious: true,
        ..Scripted::default()
    });
    let (forged, words) = fault(&forged, Purpose::Serve).await;
    assert_eq!(forged, Fault::Signature);
    assert!(
        words.starts_with("the signature does not fit; pulling it again: cannot read "),
        "{words}"
    );

    let broken = || {
        bench(Scripted {
            is_broken: true,
            ..Scripted::default()
        })
    };
    assert_eq!(fault(&broken(), Purpose::Serve).await.0, Fault::Cache);

    let changed = bench(Scripted::default());
    changed.publish(&wasm("b"));
    let (changed, words) = fault(&changed, Purpose::Serve).await;
    assert_eq!(changed, Fault::Changed, "{words}");

    // A disk that cannot be written keeps a leader from saying that it is done, and no replica from serving.
    let full = broken();
    full.publish(&module);
    assert_eq!(fault(&full, Purpose::Initialize).await.0, Fault::Cache);
    assert!(full.load(&module, Purpose::Serve).await.is_ok());
}

#[tokio::test]
async fn a_module_in_memory_is_kept_under_every_reference() {
    let module = wasm("a");
    let bench = bench(Scripted::default());
    bench.publish(&module);
    bench.load(&module, Purpose::Serve).await.unwrap();
    bench.vault.kept.lock().unwrap().clear();
    let wanted = bench.loader.resolve(&bench.uri(), Scope::Cluster).await;
    let wanted = wanted.unwrap();
    bench
        .loader
        .load(&wanted, Purpose::Initialize)
        .await
        .unwrap();
    assert_eq!(bench.kept(), "original compiled");
}

#[tokio::test]
async fn policies_of_namespaces_name_no_files() {
    let bench = bench(Scripted::default());
    bench.publish(&wasm("a"));
    let trouble = bench.loader.resolve(&bench.uri(), Scope::Namespace).await;
    assert_eq!(trouble.unwrap_err().fault, Fault::Reference);
}
