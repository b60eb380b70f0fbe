//! The host services of policies, with the embedded API server, a real registry and real modules.

#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

mod cluster;
mod modules;
mod services;
mod shared_cache;

use polity_fetch::{Credentials, Fetcher, Limits, LocalStore, Sources};
use tempfile::TempDir;

/// A small policy that is always there: the committed module of the one in AssemblyScript.
const MODULE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../policies/default-namespace/default-namespace.wasm"
);

/// A fetcher with an empty store.
fn fetcher() -> (TempDir, Fetcher) {
    polity_runtime::tls::install_provider();
    let directory = tempfile::tempdir().unwrap();
    let fetcher = Fetcher {
        sources: Sources::default(),
        credentials: Credentials::anonymous(),
        store: LocalStore::new(directory.path().join("store")),
        limits: Limits::default(),
    };
    (directory, fetcher)
}
