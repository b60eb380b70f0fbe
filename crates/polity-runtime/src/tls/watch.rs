//! Reloads a server's TLS configuration when its files change.

use tracing::{debug, info, warn};

use super::{ServerTls, TlsError, TlsFiles, TlsMaterial};
use crate::changes::{Changes, ReloadTiming, WatchError};
use crate::clock::Clock;
use crate::shutdown::Shutdown;

/// Watches the files until the shutdown, and replaces the configuration when their contents change. Invalid contents
/// are logged once, and the old configuration is kept.
///
/// `current` is the material of the current configuration.
pub async fn watch(
    files: TlsFiles,
    current: TlsMaterial,
    tls: ServerTls,
    timing: ReloadTiming,
    clock: Clock,
    shutdown: Shutdown,
) -> Result<(), WatchError> {
    let mut changes = Changes::watch(files.paths(), timing, clock)?;
    let mut reloader = Reloader {
        files,
        tls,
        current,
        refused: None,
    };
    let reload = async {
        // The files may have changed between their first reading and the start of the watch.
        reloader.look().await;
        loop {
            changes.next().await;
            reloader.look().await;
        }
    };
    shutdown.run_until::<_>(reload).await.unwrap_or(Ok(()))
}

struct Reloader {
    files: TlsFiles,
    tls: ServerTls,
    current: TlsMaterial,
    /// The material that was rejected last, so that each is reported once.
    refused: Option<TlsMaterial>,
}

impl Reloader {
    async fn look(&mut self) {
        match self.files.read().await {
            Ok(found) if found == self.current => debug!("certificate files are unchanged"),
            Ok(found) if self.refused.as_ref() == Some(&found) => {
                debug!("certificate files are still broken");
            }
            Ok(found) => self.swap(found),
            Err(error) => warn_kept(&error),
        }
    }

    fn swap(&mut self, found: TlsMaterial) {
        match self.tls.swap(&found) {
            Ok(()) => {
                info!(file = %self.files.certificate.display(), "certificate reloaded");
                self.current = found;
                self.refused = None;
            }
            Err(error) => {
                warn_kept(&error);
                self.refused = Some(found);
            }
        }
    }
}

fn warn_kept(error: &TlsError) {
    warn!(
        error = error as &dyn std::error::Error,
        "keeping the old certificate"
    );
}
