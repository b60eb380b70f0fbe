//! Turns a reference into a module: read the store, request the server, check, store.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::credentials::Credentials;
use crate::digest::Digest;
use crate::error::{FetchError, PushError, StoreError};
use crate::http;
use crate::push::Pushed;
use crate::registry::{self, Access, Operation};
use crate::regular_file;
use crate::sources::Sources;
use crate::store::{LocalStore, Record};
use crate::transport;
use crate::uri::{ModuleUri, RegistryUri};

/// The first bytes of every Wasm module.
const MAGIC: &[u8] = b"\0asm";

/// The limits of a download in time and size.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The largest module in bytes.
    pub module_bytes: u64,
    /// The time limit of a connection attempt.
    pub connect: Duration,
    /// The time limit between two pieces of a response.
    pub idle: Duration,
    /// The time limit of the whole download.
    pub total: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            module_bytes: 128 << 20,
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(20),
            total: Duration::from_mins(1),
        }
    }
}

/// Reports the progress of a download.
pub trait Progress: Send + Sync {
    /// The content begins, with its size if that is known.
    fn starts(&self, bytes: Option<u64>) {
        let _ = bytes;
    }

    /// The number of bytes received so far.
    fn advances(&self, bytes: u64) {
        let _ = bytes;
    }
}

impl Progress for () {}

/// Where a module was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was in the local store.
    Store,
    Downloaded,
}

/// A module on this machine.
#[derive(Debug, Clone)]
pub struct Fetched {
    pub bytes: Arc<[u8]>,
    /// The digest of the bytes.
    pub digest: Digest,
    /// The digest of the manifest, for modules from a registry.
    pub manifest: Option<Digest>,
    pub origin: Origin,
}

/// Fetches modules into the local store.
#[derive(Debug, Clone)]
pub struct Fetcher {
    pub sources: Sources,
    pub credentials: Credentials,
    pub store: LocalStore,
    pub limits: Limits,
}

impl Fetcher {
    /// Fetches a module. The store is used for references that do not change: a digest, or a tag other than `latest`.
    /// A module that was changed on disk is fetched again.
    pub async fn fetch(
        &self,
        uri: &ModuleUri,
        now: Timestamp,
        progress: &dyn Progress,
    ) -> Result<Fetched, FetchError> {
        if let ModuleUri::File(path) = uri {
            return self.read(uri, path);
        }
        if let Some(stored) = self.stored(uri)? {
            return Ok(stored);
        }
        self.download(uri, now, progress).await
    }

    /// Fetches a module from its server, even if the store has it.
    pub async fn download(
        &self,
        uri: &ModuleUri,
        now: Timestamp,
        progress: &dyn Progress,
    ) -> Result<Fetched, FetchError> {
        let asked = async {
            match uri {
                ModuleUri::File(path) => self.read(uri, path),
                ModuleUri::Registry(registry) => self.pull(uri, registry, now, progress).await,
                ModuleUri::Web(url) => {
                    let host = uri.host().unwrap_or_default();
                    let transports = transport::allowed(&self.sources, &host);
                    let bytes = transport::first(transports, |transport| {
                        http::download(url, &host, transport, &self.sources, &self.limits, progress)
                    })
                    .await?;
                    self.keep(uri, bytes, None, now)
                }
            }
        };
        self.in_time(uri, asked).await
    }

    /// Applies the time limit of the whole download, however slowly the server sends.
    pub(crate) async fn in_time<T>(
        &self,
        what: impl fmt::Display,
        asked: impl Future<Output = Result<T, FetchError>>,
    ) -> Result<T, FetchError> {
        let limit = self.limits.total;
        let asked = tokio::time::timeout(limit, asked).await;
        asked.unwrap_or_else(|_| {
            let uri = what.to_string();
            Err(FetchError::TimedOut { uri, limit })
        })
    }

    pub(crate) fn access<'a>(&'a self, uri: &'a RegistryUri, operation: Operation) -> Access<'a> {
        Access {
            uri,
            sources: &self.sources,
            credentials: &self.credentials,
            limits: &self.limits,
            operation,
        }
    }

    /// Publishes a module under a tag of a registry.
    pub async fn push(
        &self,
        uri: &ModuleUri,
        module: &[u8],
        annotations: &BTreeMap<String, String>,
    ) -> Result<Pushed, PushError> {
        let ModuleUri::Registry(registry) = uri else {
            return Err(PushError::NotARegistry {
                uri: uri.to_string(),
            });
        };
        if !registry.can_move() {
            return Err(PushError::NotATag {
                uri: uri.to_string(),
            });
        }
        check_magic(uri, module)?;
        let access = self.access(registry, Operation::Push);
        let pushed = registry::with(access, |client| async move {
            client.push(module.to_vec(), annotations).await
        });
        Ok(pushed.await?)
    }

    /// The current digest of the manifest of a reference.
    pub async fn resolve(&self, registry: &RegistryUri) -> Result<Digest, FetchError> {
        let access = self.access(registry, Operation::Pull);
        let resolved = registry::with(access, |client| async move {
            Ok(client.resolve().await?.manifest)
        });
        self.in_time(registry, resolved).await
    }

    async fn pull(
        &self,
        uri: &ModuleUri,
        registry: &RegistryUri,
        now: Timestamp,
        progress: &dyn Progress,
    ) -> Result<Fetched, FetchError> {
        registry::with(
            self.access(registry, Operation::Pull),
            |client| async move {
                let artifact = client.resolve().await?;
                // A moved tag often leads to a module that the store has already.
                if let Some(bytes) = self.store.read(&artifact.module)? {
                    self.store
                        .record(uri, &record(&artifact.module, Some(artifact.manifest), now))?;
                    return Ok(Fetched {
                        digest: artifact.module,
                        bytes: bytes.into(),
                        manifest: Some(artifact.manifest),
                        origin: Origin::Store,
                    });
                }
                let bytes = client.module(&artifact, progress).await?;
                self.keep(uri, bytes, Some(artifact.manifest), now)
            },
        )
        .await
    }

    fn stored(&self, uri: &ModuleUri) -> Result<Option<Fetched>, StoreError> {
        let may_have_moved = match uri {
            ModuleUri::Registry(registry) => {
                registry.can_move() && registry.tag_or_latest() == "latest"
            }
            ModuleUri::Web(_) | ModuleUri::File(_) => false,
        };
        if may_have_moved {
            return Ok(None);
        }
        let Some(record) = self.store.recorded(uri)? else {
            return Ok(None);
        };
        let Some(bytes) = self.store.read(&record.module)? else {
            return Ok(None);
        };
        Ok(Some(Fetched {
            digest: record.module,
            bytes: bytes.into(),
            manifest: record.manifest,
            origin: Origin::Store,
        }))
    }

    fn keep(
        &self,
        uri: &ModuleUri,
        bytes: Vec<u8>,
        manifest: Option<Digest>,
        now: Timestamp,
    ) -> Result<Fetched, FetchError> {
        check_magic(uri, &bytes)?;
        let digest = Digest::of(&bytes);
        self.store.write(&digest, &bytes)?;
        self.store.record(uri, &record(&digest, manifest, now))?;
        Ok(Fetched {
            bytes: bytes.into(),
            digest,
            manifest,
            origin: Origin::Downloaded,
        })
    }

    fn read(&self, uri: &ModuleUri, path: &Path) -> Result<Fetched, FetchError> {
        let file_error = |source| FetchError::File {
            path: path.to_owned(),
            source,
        };
        let read = regular_file::read(path, self.limits.module_bytes).map_err(file_error)?;
        let Some(bytes) = read else {
            return Err(FetchError::TooLarge {
                uri: uri.to_string(),
                limit: self.limits.module_bytes,
            });
        };
        check_magic(uri, &bytes)?;
        Ok(Fetched {
            digest: Digest::of(&bytes),
            bytes: bytes.into(),
            manifest: None,
            origin: Origin::Store,
        })
    }
}

fn record(module: &Digest, manifest: Option<Digest>, now: Timestamp) -> Record {
    Record {
        module: *module,
        manifest,
        fetched: now,
    }
}

fn check_magic(uri: &ModuleUri, bytes: &[u8]) -> Result<(), FetchError> {
    if bytes.starts_with(MAGIC) {
        return Ok(());
    }
    Err(FetchError::NotWasm {
        uri: uri.to_string(),
    })
}
