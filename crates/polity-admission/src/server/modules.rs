//! Where the modules of policies come from.

use std::path::PathBuf;

use polity_fetch::{Credentials, Fetcher, LocalStore, Proxies, Reach, Sources, SourcesError};
use polity_runtime::env;

/// Where modules come from, and the directory they are kept in.
#[derive(Debug, Clone, Default)]
pub struct ModuleOptions {
    /// The directory for modules and their compiled code.
    pub store: PathBuf,
    /// The path of `sources.yml`.
    pub sources: Option<PathBuf>,
    /// The directory with the docker `config.json`.
    pub docker_config: Option<PathBuf>,
}

impl ModuleOptions {
    pub(super) fn fetcher(self, max_module: usize) -> Result<Fetcher, SourcesError> {
        let Self {
            store,
            sources,
            docker_config,
        } = self;
        Ok(Fetcher {
            sources: sources
                .map(|path| Sources::load(&path))
                .transpose()?
                .unwrap_or_default(),
            credentials: docker_config
                .map(|directory| Credentials::from_directory(&directory))
                .unwrap_or_default(),
            store: LocalStore::new(store),
            limits: polity_fetch::Limits {
                module_bytes: max_module as u64,
                ..polity_fetch::Limits::default()
            },
        })
    }
}

/// The same fetcher for hosts that are not the operator's choice: authors of namespaced policies choose their modules, and
/// creators of objects choose the images that policies look up. It does not reach this machine, its link or a cloud's
/// metadata service, except sources that are listed as insecure.
pub(crate) fn beyond_this_machine(fetcher: &Fetcher) -> Fetcher {
    let mut fetcher = fetcher.clone();
    fetcher.sources.reach = Reach::BeyondThisMachine;
    // A proxy may be on this machine. It makes the connections, and decides which hosts it reaches.
    fetcher.sources.proxies.get_or_insert_with(|| Proxies {
        http_proxy: proxy("http_proxy"),
        https_proxy: proxy("https_proxy"),
        no_proxy: proxy("no_proxy"),
    });
    fetcher
}

/// A proxy from the environment, where its variable may be in lower or in upper case.
fn proxy(name: &str) -> Option<String> {
    let found = env::read(name).or_else(|| env::read(&name.to_uppercase()));
    found?.into_string().ok().filter(|proxy| !proxy.is_empty())
}
