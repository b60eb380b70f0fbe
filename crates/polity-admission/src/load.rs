//! Turns the text of `policies.yml` into a table: modules are loaded and settings validated, in parallel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt as _;
use polity_eval::{ConfigError, Environment, InitError, Policy, PolicyConfig, parse_policies};
use polity_fetch::{ModuleUri, Progress};
use polity_host::{LoadProgress, LoadedModules, Modules, module_of};
use tracing::{error, info, warn};

use crate::metrics::ServerMetrics;
use crate::table::{PolicyTable, Prepared};

/// Why a file cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be parsed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Policies in the file could not be initialised.
    #[error("{} not ready: {}", count(.0.len()), join(.0))]
    Policies(Vec<(String, InitError)>),
}

fn count(n: usize) -> String {
    match n {
        1 => "one policy is".to_owned(),
        n => format!("{n} policies are"),
    }
}

fn join(failed: &[(String, InitError)]) -> String {
    let each: Vec<String> = failed
        .iter()
        .map(|(id, error)| match error {
            // Their message has the name of the group already.
            InitError::Members(_) => error.to_string(),
            error => format!("{id}: {error}"),
        })
        .collect();
    each.join("; ")
}

/// Builds tables. Clones share the modules.
#[derive(Clone)]
pub struct Loader {
    /// Where modules come from.
    pub modules: Modules,
    /// The environment in which guests validate their settings.
    pub environment: Environment,
    /// How many modules and policies are prepared at once.
    pub parallelism: usize,
    /// Whether a table may have policies that are not ready: their requests are refused with the reason.
    pub continue_on_errors: bool,
    /// Counts failures.
    pub metrics: ServerMetrics,
}

impl Loader {
    /// Parses the text of a file and prepares every policy in it.
    pub async fn load(&self, text: &str) -> Result<PolicyTable, LoadError> {
        let configs = parse_policies(text)?;
        warn_of_missing_capabilities(&configs);
        let uris = uris(&configs);
        let progress = Arc::new(Counted(self.metrics.clone()));
        let modules = self.modules.load_all(uris, self.parallelism, progress);
        let modules = Arc::new(modules.await);
        let prepared: Vec<Prepared> = futures::stream::iter(configs)
            .map(|(id, config)| self.prepare(id, config, modules.clone()))
            .buffer_unordered(self.parallelism)
            .collect()
            .await;
        let failed = self.failed(&prepared);
        if !failed.is_empty() && !self.continue_on_errors {
            return Err(LoadError::Policies(failed));
        }
        Ok(PolicyTable::new(prepared))
    }

    /// Drops the modules that a new table no longer uses.
    pub(crate) fn release_unused(&self, table: &PolicyTable) {
        let policies = table
            .served()
            .filter_map(|served| served.policy.as_ref().ok());
        self.modules.retain(policies.flat_map(Policy::modules));
    }

    /// Prepares a policy on a blocking thread, because its guests validate their settings.
    async fn prepare(
        &self,
        id: String,
        config: PolicyConfig,
        modules: Arc<LoadedModules>,
    ) -> Prepared {
        let environment = self.environment.clone();
        let name = id.clone();
        let prepared = tokio::task::spawn_blocking(move || {
            let policy = Policy::prepare(&id, &config, &environment, |member, guest| {
                module_of(&modules, &id, member, guest)
            });
            (config, policy)
        });
        match prepared.await {
            Ok((config, policy)) => Prepared {
                id: name,
                config,
                policy,
            },
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    fn failed(&self, prepared: &[Prepared]) -> Vec<(String, InitError)> {
        let mut failed: Vec<(String, InitError)> = prepared
            .iter()
            .filter_map(|entry| Some((entry.id.clone(), entry.policy.as_ref().err()?.clone())))
            .collect();
        failed.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (policy, reason) in &failed {
            error!(%policy, %reason, "policy is not ready");
            self.metrics.not_initialised(policy, &reason.to_string());
        }
        if failed.is_empty() {
            info!(n_policies = prepared.len(), "policies are ready");
        }
        failed
    }
}

/// Counts cache hits and misses.
struct Counted(ServerMetrics);

impl Progress for Counted {}

impl LoadProgress for Counted {
    fn takes_up(&self) {
        self.0.module_cache("hit");
    }

    fn compiles(&self) {
        self.0.module_cache("not_there");
    }
}

/// All valid module references. Invalid ones are reported when their policy is prepared.
fn uris(configs: &BTreeMap<String, PolicyConfig>) -> BTreeSet<ModuleUri> {
    configs
        .values()
        .flat_map(PolicyConfig::guests)
        .filter_map(|(_, guest)| guest.module.parse().ok())
        .collect()
}

/// Logs one warning for all policies without `hostCapabilities`: most existing files have none.
fn warn_of_missing_capabilities(configs: &BTreeMap<String, PolicyConfig>) {
    let policies: Vec<&str> = configs
        .iter()
        .filter(|(_, config)| {
            config
                .guests()
                .any(|(_, guest)| guest.capabilities.is_none())
        })
        .map(|(id, _)| id.as_str())
        .collect();
    if !policies.is_empty() {
        warn!(
            policies = policies.join(", "),
            "policies without hostCapabilities may make every host call; [] would allow none"
        );
    }
}
