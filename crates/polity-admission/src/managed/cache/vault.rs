//! The interface to the place where modules and compiled code are kept.

use jiff::Timestamp;
use polity_core::causes::in_one_line;
use polity_eval::{CompiledCode, Engine};
use polity_fetch::{CompiledKey, Digest, LocalStore, ModuleUri, StoreError};

/// A module with its digest, and the reference that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pinned {
    pub(crate) uri: ModuleUri,
    /// The digest of the bytes.
    pub(crate) digest: Digest,
    /// The digest of its manifest in the registry, by which it is pulled again.
    pub(crate) manifest: Option<Digest>,
}

/// The result of a read from the vault.
#[derive(Debug)]
pub(crate) enum Found<T> {
    /// A file whose signature or MAC was checked.
    Yes(T),
    /// No usable file.
    No(Absence),
}

/// Why there is no usable file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Absence {
    /// The value of the metric label `result`.
    pub(crate) word: &'static str,
    /// The reason as a sentence.
    pub(crate) detail: String,
    /// Whether a later read may find it.
    pub(crate) may_pass: bool,
    /// Whether there is a file that must not be used.
    pub(crate) is_suspicious: bool,
}

/// The disk could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct VaultError(pub(crate) String);

/// Keeps modules and compiled code. Calls block.
pub(crate) trait Vault: Send + Sync + 'static {
    /// Reads compiled code that this server can run.
    fn compiled(&self, module: &Pinned, now: Timestamp) -> Result<Found<CompiledCode>, VaultError>;
    /// Reads the module as it was fetched.
    fn original(&self, module: &Pinned, now: Timestamp) -> Result<Found<Vec<u8>>, VaultError>;
    /// Writes the module as it was fetched.
    fn keep_original(&self, module: &Pinned, wasm: &[u8]) -> Result<(), VaultError>;
    /// Writes code that this server compiled.
    fn keep_compiled(&self, module: &Pinned, code: &CompiledCode) -> Result<(), VaultError>;
}

/// The vault on this replica's own disk, which is deleted with its pod: every replica fetches and compiles for
/// itself.
pub(crate) struct OwnVault {
    store: LocalStore,
    /// The compatibility hash of the engine: compiled code depends on it besides the module.
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
        // The store has checked the MAC of these bytes.
        Ok(found(code?.map(CompiledCode::vouched_for)))
    }

    fn original(&self, module: &Pinned, _: Timestamp) -> Result<Found<Vec<u8>>, VaultError> {
        Ok(found(self.store.read(&module.digest)?))
    }

    fn keep_original(&self, _: &Pinned, _: &[u8]) -> Result<(), VaultError> {
        // The fetcher has stored the download there already.
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
                // No other process writes here.
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
