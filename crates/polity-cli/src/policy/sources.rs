//! Where modules come from and where they are kept: the flags that every command about modules has.

use std::path::PathBuf;

use anyhow::Context as _;
use polity_fetch::{Credentials, Fetcher, Limits, LocalStore, Sources};
use polity_runtime::{dirs, env};

/// Where fetched modules are kept.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Modules")]
pub(super) struct StoreArgs {
    /// The directory for fetched modules [default: the one of kwctl, ~/.cache/kubewarden/store]
    #[arg(long, env = env::POLICY_STORE, value_name = "DIR")]
    store: Option<PathBuf>,
}

impl StoreArgs {
    pub(super) fn open(&self) -> anyhow::Result<LocalStore> {
        let root = match &self.store {
            Some(directory) => std::path::absolute(directory)
                .with_context(|| format!("finding {}", directory.display()))?,
            None => dirs::policy_store()?,
        };
        Ok(LocalStore::new(root))
    }
}

/// Where modules come from, and with whose credentials.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Modules")]
pub(super) struct SourceArgs {
    /// YAML file with insecure registries, certificate authorities and proxies
    #[arg(long, env = env::SOURCES_PATH, value_name = "FILE")]
    sources_path: Option<PathBuf>,
    /// The directory of the docker config.json with registry credentials [default: $DOCKER_CONFIG, ~/.docker]
    #[arg(long, env = env::DOCKER_CONFIG_JSON_PATH, value_name = "DIR")]
    docker_config_json_path: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

impl SourceArgs {
    pub(super) fn fetcher(&self) -> anyhow::Result<Fetcher> {
        let Self {
            sources_path,
            docker_config_json_path,
            store,
        } = self;
        let sources = match sources_path {
            Some(path) => Sources::load(path)?,
            None => Sources::default(),
        };
        let docker = docker_config_json_path.clone().or_else(dirs::docker_config);
        Ok(Fetcher {
            sources,
            credentials: docker.map_or_else(Credentials::anonymous, |directory| {
                Credentials::from_directory(&directory)
            }),
            store: store.open()?,
            limits: Limits::default(),
        })
    }
}
