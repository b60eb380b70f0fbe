//! The vault on a volume that all replicas share: files that count only with a signature of this server.

use std::path::PathBuf;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use polity_core::causes::in_one_line;
use polity_eval::CompiledCode;
use polity_host::{
    AbsentReason, CacheBuild, CacheError, CacheIdentity, Lookup, ModuleFacts, SharedCache,
    SignerFiles,
};
use polity_runtime::changes::{Changes, ReloadTiming};
use polity_runtime::{Clock, Shutdown};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::managed::cache::vault::{Absence, Found, OwnVault, Pinned, Vault, VaultError};

/// Where the shared cache is, and what its files are signed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheOptions {
    /// The volume.
    pub directory: PathBuf,
    /// The mounted Secret of the signer.
    pub signing: PathBuf,
}

/// The shared cache, once there is something to sign with.
pub(crate) struct SharedVault {
    options: CacheOptions,
    identity: CacheIdentity,
    build: CacheBuild,
    cache: ArcSwapOption<SharedCache>,
    /// What is used until then.
    own: OwnVault,
    /// The certificate that signs now.
    signer: watch::Sender<Option<String>>,
}

impl SharedVault {
    pub(crate) fn new(
        options: CacheOptions,
        identity: CacheIdentity,
        build: CacheBuild,
        own: OwnVault,
    ) -> Self {
        Self {
            options,
            identity,
            build,
            cache: ArcSwapOption::empty(),
            own,
            signer: watch::Sender::new(None),
        }
    }

    /// The cache, if there is something to sign with.
    pub(crate) fn cache(&self) -> Option<SharedCache> {
        self.cache.load().as_deref().cloned()
    }

    /// Learns when another certificate signs.
    pub(crate) fn signer(&self) -> watch::Receiver<Option<String>> {
        self.signer.subscribe()
    }

    /// Follows the files of the signer until the shutdown.
    pub(crate) async fn follow(&self, timing: ReloadTiming, clock: Clock, shutdown: Shutdown) {
        let file = self.options.signing.join("tls.crt");
        let mut changes = match Changes::watch([file.as_path()], timing, clock) {
            Ok(changes) => changes,
            Err(error) => {
                warn!(%error, "a renewal of the cache's signer is not seen");
                shutdown.triggered().await;
                return;
            }
        };
        let follow = async {
            loop {
                changes.next().await;
                self.look().await;
            }
        };
        let _: Option<()> = shutdown.run_until(follow).await;
    }

    /// Reads the files of the signer.
    pub(crate) async fn look(&self) {
        let signing = self.options.signing.clone();
        let read = tokio::task::spawn_blocking(move || SignerFiles::read(&signing)).await;
        let Ok(read) = read else {
            return;
        };
        match read {
            Ok(signer) => self.sign_with(signer),
            // A mounted Secret is exchanged whole, but nobody must be the worse for a moment in between.
            Err(error) if self.cache.load().is_some() => {
                warn!(%error, "the cache's signer cannot be read, the last one signs on");
            }
            // Without a key of ours nothing on the volume can be trusted.
            Err(error) => warn!(
                error = &error as &dyn std::error::Error,
                "the shared cache is not used: nothing can be signed"
            ),
        }
    }

    fn sign_with(&self, signer: SignerFiles) {
        let fingerprint = signer.fingerprint();
        match self.cache() {
            // Also when the certificate is the same: others may no longer count.
            Some(cache) => cache.set_signer(signer),
            None => {
                let cache = SharedCache::new(
                    &self.options.directory,
                    &self.identity,
                    self.build.clone(),
                    signer,
                );
                self.cache.store(Some(cache.into()));
            }
        }
        self.signer.send_if_modified(|before| {
            let is_new = before.as_ref() != Some(&fingerprint);
            if is_new {
                info!(fingerprint, "another certificate signs the cache");
                *before = Some(fingerprint);
            }
            is_new
        });
    }
}

impl Vault for SharedVault {
    fn compiled(&self, module: &Pinned, now: Timestamp) -> Result<Found<CompiledCode>, VaultError> {
        match self.cache() {
            Some(cache) => found(cache.optimized(&facts(module), now)),
            None => self.own.compiled(module, now),
        }
    }

    fn original(&self, module: &Pinned, now: Timestamp) -> Result<Found<Vec<u8>>, VaultError> {
        match self.cache() {
            Some(cache) => found(cache.original(&facts(module), now)),
            None => self.own.original(module, now),
        }
    }

    fn keep_original(&self, module: &Pinned, wasm: &[u8]) -> Result<(), VaultError> {
        match self.cache() {
            Some(cache) => cache.store_original(&facts(module), wasm).map_err(fault),
            None => self.own.keep_original(module, wasm),
        }
    }

    fn keep_compiled(&self, module: &Pinned, code: &CompiledCode) -> Result<(), VaultError> {
        match self.cache() {
            Some(cache) => cache.store_optimized(&facts(module), code).map_err(fault),
            None => self.own.keep_compiled(module, code),
        }
    }
}

/// What the cache is asked about. Nothing is verified yet, so nothing was accepted under a verification config.
pub(crate) fn facts(module: &Pinned) -> ModuleFacts {
    ModuleFacts {
        uri: module.uri.clone(),
        digest: module.digest,
        manifest_digest: module.manifest,
        verification: String::new(),
    }
}

fn found<T>(lookup: Result<Lookup<T>, CacheError>) -> Result<Found<T>, VaultError> {
    match lookup.map_err(fault)? {
        Lookup::Found(found) => Ok(Found::Yes(found)),
        Lookup::Absent(reason) => Ok(Found::No(Absence {
            word: reason.as_str(),
            detail: reason.to_string(),
            may_pass: reason.may_pass(),
            is_suspicious: !matches!(reason, AbsentReason::NotThere | AbsentReason::OtherBuild),
        })),
    }
}

fn fault(error: CacheError) -> VaultError {
    VaultError(in_one_line(&error))
}
