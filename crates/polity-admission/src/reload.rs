//! Reloads the policies when their file changes: the new table is prepared beside the old one, then swapped.
//!
//! If the file cannot be served the old policies stay, and the log has the reason.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use polity_runtime::changes::{Changes, ReloadTiming, WatchError};
use polity_runtime::shutdown::Hangups;
use polity_runtime::{Clock, Shutdown};
use tracing::{debug, info, warn};

use crate::load::Loader;
use crate::table::PolicyTable;

/// Follows a file of policies.
pub(crate) struct Follower {
    pub(crate) path: PathBuf,
    /// The content of the file that is served.
    pub(crate) current: String,
    pub(crate) loader: Loader,
    pub(crate) table: Arc<ArcSwap<PolicyTable>>,
}

/// Why the file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trigger {
    /// The file may have changed.
    FileEvent,
    /// A hang-up signal: the same references may lead to other modules now.
    Signal,
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
            let mut trigger = Trigger::FileEvent;
            loop {
                self.reload(trigger, &mut refused).await;
                trigger = tokio::select! {
                    () = changes.next() => Trigger::FileEvent,
                    () = hangups.next() => Trigger::Signal,
                };
            }
        };
        shutdown.run_until::<_>(follow).await.unwrap_or(Ok(()))
    }

    /// Reads the file, and serves it if it is new and valid. `refused` is the content that was refused last, which is
    /// logged only once.
    async fn reload(&mut self, trigger: Trigger, refused: &mut Option<String>) {
        let file = self.path.display().to_string();
        let text = match tokio::fs::read_to_string(&self.path).await {
            Ok(text) => text,
            Err(error) => {
                warn!(file, %error, "cannot read the policies, still serving the old ones");
                return;
            }
        };
        let is_known = text == self.current || refused.as_ref() == Some(&text);
        if is_known && trigger == Trigger::FileEvent {
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
                warn!(file, %error, "cannot serve the changed policies, still serving the old ones");
                self.loader.metrics.reloaded("refused");
                *refused = Some(text);
            }
        }
    }

    fn swap(&self, table: PolicyTable) {
        self.loader.metrics.serving(&table);
        self.loader.release_unused(&table);
        // Running requests keep the policy that they found; the last of them drops it.
        self.table.store(Arc::new(table));
    }
}
