//! Flags of a replica that serves the policies of a cluster. The controller sets their variables.

use std::path::{Path, PathBuf};

use polity_admission::{CacheOptions, ReplicaIdentity};
use polity_runtime::env;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "In a cluster")]
pub(super) struct InClusterArgs {
    /// Serve the policies of this PolicyServer, as one of its replicas
    #[arg(long, env = env::POLICY_SERVER, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(super) policy_server: Option<String>,
    /// The Pod of this replica; its name ends with the ordinal
    #[arg(long, env = env::POD_NAME, value_name = "NAME")]
    pod_name: Option<String>,
    /// The namespace of the pod, where the PolicyRevisions and the Lease are
    #[arg(long, env = env::POD_NAMESPACE, value_name = "NAMESPACE")]
    pod_namespace: Option<String>,
    /// The UID of the pod
    #[arg(long, env = env::POD_UID, value_name = "UID")]
    pod_uid: Option<String>,
    /// Directory of the module cache that the replicas share; without it, each replica fetches and compiles by itself
    #[arg(long, env = env::CACHE_DIR, value_name = "DIRECTORY", requires = "cache_signing_dir")]
    cache_dir: Option<PathBuf>,
    /// Directory with the certificate that signs the cache: tls.crt, tls.key, ca.crt
    #[arg(long, env = env::CACHE_SIGNING_DIR, value_name = "DIRECTORY")]
    cache_signing_dir: Option<PathBuf>,
    /// File with the capabilities of namespaced policies [default: server.yml beside --policies]
    #[arg(long, env = env::SERVER_CONFIG, value_name = "FILE")]
    server_config: Option<PathBuf>,
}

impl InClusterArgs {
    /// The first flag that a replica cannot do without.
    pub(super) fn missing(&self) -> Option<&'static str> {
        [
            ("--pod-name", &self.pod_name),
            ("--pod-namespace", &self.pod_namespace),
            ("--pod-uid", &self.pod_uid),
        ]
        .into_iter()
        .find(|(_, value)| value.as_deref().is_none_or(str::is_empty))
        .map(|(flag, _)| flag)
    }

    pub(super) fn identity(&self) -> ReplicaIdentity {
        ReplicaIdentity {
            server: self.policy_server.clone().unwrap_or_default(),
            namespace: self.pod_namespace.clone().unwrap_or_default(),
            pod_name: self.pod_name.clone().unwrap_or_default(),
            pod_uid: self.pod_uid.clone().unwrap_or_default(),
        }
    }

    pub(super) fn cache(&self) -> Option<CacheOptions> {
        Some(CacheOptions {
            directory: self.cache_dir.clone()?,
            signing: self.cache_signing_dir.clone()?,
        })
    }

    /// The file of the flag, else `server.yml` beside the policies.
    pub(super) fn server_config(&self, policies: &Path) -> PathBuf {
        let beside = || policies.with_file_name("server.yml");
        self.server_config.clone().unwrap_or_else(beside)
    }
}
