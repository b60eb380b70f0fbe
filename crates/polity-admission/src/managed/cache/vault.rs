//! Where replicas keep modules for each other, as far as loading them is concerned.

use jiff::Timestamp;
use polity_core::causes::in_one_line;
use polity_eval::{CompiledCode, Engine};
use polity_fetch::{CompiledKey, Digest, LocalStore, ModuleUri, StoreError};

/// One module and nothing else: where it came from, and which bytes it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pinned {
    pub(crate) uri: ModuleUri,
    /// The digest of the bytes.
    pub(crate) digest: Digest,
    /// The digest of the manifest in its registry, to pull it again by.
    pub(crate) manifest: Option<Digest>,
}

/// What a look into the vault found.
#[derive(Debug)]
pub(crate) enum Found<T> {
    /// This, checked.
    Yes(T),
    /// Nothing that can be used.
    No(Absence),
}

/// Why nothing was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Absence {
    /// In a word, for metrics.
    pub(crate) word: &'static str,
    /// In a sentence.
    pub(crate) detail: String,
    /// Whether it may be there a moment later.
    pub(crate) may_pass: bool,
    /// Whether something is there that must not be used.
    pub(crate) is_suspicious: bool,
}

/// The disk does not do what it should.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct VaultError(pub(crate) String);

/// A place for modules that all replicas can read and write. Calls block.
pub(crate) trait Vault: Send + Sync + 'static {
    /// Code that this server can run.
    fn compiled(&self, module: &Pinned, now: Timestamp) -> Result<Found<CompiledCode>, VaultError>;
    /// The module as it was fetched.
    fn original(&self, module: &Pinned, now: Timestamp) -> Result<Found<Vec<u8>>, VaultError>;
    /// Keeps the module as it was fetched.
    fn keep_original(&self, module: &Pinned, wasm: &[u8]) -> Result<(), VaultError>;
    /// Keeps code that this server compiled.
    fn keep_compiled(&self, module: &Pinned, code: &CompiledCode) -> Result<(), VaultError>;
}

/// A place of this replica's own, on a disk that goes with its pod: every replica fetches and compiles for itself.
pub(crate) struct OwnVault {
    store: LocalStore,
    /// What compiled code depends on, besides the module.
    engine: String,
}

impl OwnVault {
    /// A vault in the store that downloads are kept in.
    pub(crate) fn new(store: LocalStore, engine: &Engine) -> Self {
        Self {
            store,
            engine: engine.compatibility().to_owned(),
        }
    }

    fn key(&self, module: &Pinned) -> CompiledKey {
        CompiledKey {
            module: module.digest,
            engine: self.engine.clone(),
        }
    }
}

impl Vault for OwnVault {
    fn compiled(&self, module: &Pinned, _: Timestamp) -> Result<Found<CompiledCode>, VaultError> {
        let code = self.store.compiled(&self.key(module));
        // The store has checked the MAC over these very bytes.
        Ok(found(code?.map(CompiledCode::vouched_for)))
    }

    fn original(&self, module: &Pinned, _: Timestamp) -> Result<Found<Vec<u8>>, VaultError> {
        Ok(found(self.store.read(&module.digest)?))
    }

    fn keep_original(&self, _: &Pinned, _: &[u8]) -> Result<(), VaultError> {
        // Downloads are kept there anyway.
        Ok(())
    }

    fn keep_compiled(&self, module: &Pinned, code: &CompiledCode) -> Result<(), VaultError> {
        let kept = self.store.keep_compiled(&self.key(module), code.as_bytes());
        Ok(kept?)
    }
}

fn found<T>(found: Option<T>) -> Found<T> {
    found.map_or_else(
        || {
            Found::No(Absence {
                word: "not_there",
                detail: "there is no file".to_owned(),
                // Nobody else writes here.
                may_pass: false,
                is_suspicious: false,
            })
        },
        Found::Yes,
    )
}

impl From<StoreError> for VaultError {
    fn from(error: StoreError) -> Self {
        Self(in_one_line(&error))
    }
}
