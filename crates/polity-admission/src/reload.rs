//! Keeps the table in step with its file: a new set is made ready beside the old one, then swapped.
//!
//! A file that cannot be served changes nothing: the old set goes on, and the log says why.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use polity_runtime::changes::{Changes, ReloadTiming, WatchError};
use polity_runtime::shutdown::Hangups;
use polity_runtime::{Clock, Shutdown};
use tracing::{debug, info, warn};

use crate::load::Loader;
use crate::table::PolicyTable;

/// What is read again, and where it goes.
pub(crate) struct Follower {
    pub(crate) path: PathBuf,
    /// The text that is served.
    pub(crate) current: String,
    pub(crate) loader: Loader,
    pub(crate) table: Arc<ArcSwap<PolicyTable>>,
}

/// Why the file is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Because {
    /// It may have changed.
    ItMayHaveChanged,
    /// Somebody asked: the same text may stand for other modules now.
    Asked,
}

impl Follower {
    /// Follows the file until the shutdown.
    pub(crate) async fn run(
        mut self,
        mut hangups: Hangups,
        timing: ReloadTiming,
        clock: Clock,
        shutdown: Shutdown,
    ) -> Result<(), WatchError> {
        let mut changes = Changes::watch([self.path.as_path()], timing, clock)?;
        let follow = async {
            let mut refused = None;
            // It may have changed between its first reading and the start of the watch.
            let mut because = Because::ItMayHaveChanged;
            loop {
                self.look(because, &mut refused).await;
                because = tokio::select! {
                    () = changes.next() => Because::ItMayHaveChanged,
                    () = hangups.next() => Because::Asked,
                };
            }
        };
        shutdown.run_until::<_>(follow).await.unwrap_or(Ok(()))
    }

    /// Reads the file, and serves it if it is new and good. `refused` is the text that was refused
    /// last, so that it is warned of once.
    async fn look(&mut self, because: Because, refused: &mut Option<String>) {
        let file = self.path.display().to_string();
        let text = match tokio::fs::read_to_string(&self.path).await {
            Ok(text) => text,
            Err(error) => {
                warn!(file, %error, "policies cannot be read, the old ones are served on");
                return;
            }
        };
        let is_known = text == self.current || refused.as_ref() == Some(&text);
        if is_known && because == Because::ItMayHaveChanged {
            debug!(file, "policies are unchanged");
            return;
        }
        match self.loader.load(&text).await {
            Ok(table) => {
                info!(file, n_policies = table.n_policies(), "policies reloaded");
                self.loader.metrics.reloaded("served");
                self.swap(table);
                self.current = text;
                *refused = None;
            }
            Err(error) => {
                warn!(file, %error, "policies are not good, the old ones are served on");
                self.loader.metrics.reloaded("refused");
                *refused = Some(text);
            }
        }
    }

    fn swap(&self, table: PolicyTable) {
        self.loader.metrics.serving(&table);
        self.loader.release_unused(&table);
        // Requests that run keep the policy they found; the last of them drops it.
        self.table.store(Arc::new(table));
    }
}
