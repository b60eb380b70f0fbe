//! `server.yml`: what policies of namespaces may call. Read at the start and whenever it changes.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use polity_eval::CapabilitySet;
use polity_runtime::changes::{Changes, ReloadTiming};
use polity_runtime::{Clock, Shutdown};
use serde::Deserialize;
use tokio::sync::watch;
use tracing::{info, warn};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerConfig {
    namespaced_policies_capabilities: Option<Vec<String>>,
}

/// What policies of namespaces may call, as the file says.
#[derive(Clone)]
pub(crate) struct NamespacedGrants {
    path: PathBuf,
    pub(crate) current: Arc<ArcSwap<CapabilitySet>>,
    changed: Arc<watch::Sender<()>>,
}

impl NamespacedGrants {
    /// Reads the file. Without one that can be read nothing is granted.
    pub(crate) async fn read(path: PathBuf) -> Self {
        let granted = read(&path).await.unwrap_or_else(|reason| {
            warn!(file = %path.display(), reason, "policies of namespaces get no host capability");
            CapabilitySet::none()
        });
        Self {
            path,
            current: Arc::new(ArcSwap::from_pointee(granted)),
            changed: Arc::new(watch::Sender::new(())),
        }
    }

    /// Learns of changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Follows the file until the shutdown. A file that cannot be read changes nothing.
    pub(crate) async fn follow(self, timing: ReloadTiming, clock: Clock, shutdown: Shutdown) {
        let mut changes = match Changes::watch([self.path.as_path()], timing, clock) {
            Ok(changes) => changes,
            Err(error) => {
                warn!(file = %self.path.display(), %error, "changes of host capabilities are not seen");
                shutdown.triggered().await;
                return;
            }
        };
        let follow = async {
            loop {
                self.look().await;
                changes.next().await;
            }
        };
        let _: Option<()> = shutdown.run_until(follow).await;
    }

    async fn look(&self) {
        match read(&self.path).await {
            Ok(granted) if granted != **self.current.load() => {
                info!(
                    ?granted,
                    "host capabilities of policies of namespaces changed"
                );
                self.current.store(Arc::new(granted));
                self.changed.send_replace(());
            }
            Ok(_) => {}
            Err(reason) => {
                warn!(file = %self.path.display(), reason, "host capabilities stay what they are");
            }
        }
    }
}

async fn read(path: &PathBuf) -> Result<CapabilitySet, String> {
    let text = tokio::fs::read_to_string(path)
        .await
        .map_err(|error| error.to_string())?;
    parse(&text)
}

fn parse(text: &str) -> Result<CapabilitySet, String> {
    let options = serde_saphyr::options! { with_snippet: false };
    let config: ServerConfig =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    let patterns = config
        .namespaced_policies_capabilities
        .ok_or("namespacedPoliciesCapabilities is not there")?;
    CapabilitySet::parse(patterns).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_section_4_2() {
        for (text, expected) in [
            (r#"{"namespacedPoliciesCapabilities":["*"]}"#, Ok("[\"*\"]")),
            ("namespacedPoliciesCapabilities: []", Ok("[]")),
            (
                "namespacedPoliciesCapabilities: [oci/*, net/*]\nlater: 1",
                Ok("[\"oci/*\", \"net/*\"]"),
            ),
            ("{}", Err("is not there")),
            (
                "namespacedPoliciesCapabilities: [x]",
                Err("unknown host capability"),
            ),
            ("[", Err("")),
        ] {
            let parsed = parse(text).map(|granted| format!("{granted:?}"));
            match expected {
                Ok(granted) => assert_eq!(parsed.as_deref(), Ok(granted), "{text}"),
                Err(words) => assert!(parsed.unwrap_err().contains(words), "{text}"),
            }
        }
    }

    #[tokio::test]
    async fn without_a_file_nothing_is_granted() {
        let grants = NamespacedGrants::read("/no/such/server.yml".into()).await;
        assert_eq!(**grants.current.load(), CapabilitySet::none());
    }
}
