//! Getting modules from a real registry and from servers that misbehave.

#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

mod hostile;
mod registry;

use jiff::Timestamp;
use polity_fetch::{Credentials, FetchError, Fetched, Fetcher, Limits, LocalStore, Sources};
use tempfile::TempDir;

/// The smallest module there is.
const MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// A fetcher with an empty store of its own.
fn fetcher(sources: Sources) -> (TempDir, Fetcher) {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .ok();
    let directory = tempfile::tempdir().unwrap();
    let fetcher = Fetcher {
        sources,
        credentials: Credentials::anonymous(),
        store: LocalStore::new(directory.path().join("store")),
        limits: Limits::default(),
    };
    (directory, fetcher)
}

fn insecure(host: &str) -> Sources {
    Sources {
        insecure_sources: [host.to_owned()].into(),
        ..Sources::default()
    }
}

async fn fetch(fetcher: &Fetcher, uri: &str) -> Result<Fetched, FetchError> {
    fetcher
        .fetch(&uri.parse().unwrap(), Timestamp::UNIX_EPOCH, &())
        .await
}
