//! Creates a client with administrator credentials, and kubeconfigs for ServiceAccounts.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use polity_local::access::Api;
use serde_json::json;

use crate::Kubectl;

/// Reads the address and the CA of the API server from a kubeconfig.
pub(super) fn api(kubeconfig: &Path) -> Api {
    let config = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig is readable");
    let cluster = config.clusters.into_iter().next();
    let cluster = cluster.and_then(|named| named.cluster).unwrap_or_default();
    let authority = cluster.certificate_authority_data.unwrap_or_default();
    let authority = STANDARD.decode(authority).expect("it is base64");
    Api {
        server: cluster.server.unwrap_or_default(),
        authority_pem: String::from_utf8(authority).expect("it is PEM"),
    }
}

/// A client with the credentials of a kubeconfig. It does not retry, so tests see every refusal.
pub async fn connect(kubeconfig: &Path) -> Client {
    polity_runtime::tls::install_provider();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig is readable");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.expect("the kubeconfig can be used");
    config.default_retry = false;
    Client::try_from(config).expect("a client can be made")
}

/// Writes a kubeconfig for a ServiceAccount in the namespace of this kubectl.
pub(super) fn kubeconfig_of(kubectl: &Kubectl, account: &str, folder: &Path) -> PathBuf {
    let Api {
        server,
        authority_pem,
    } = api(kubectl.kubeconfig());
    let namespace = kubectl.namespace();
    let token = kubectl.ok(&format!("create token {account} --duration=24h"));
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": account,
        "clusters": [{"name": "e2e", "cluster": {
            "server": server, "certificate-authority-data": STANDARD.encode(authority_pem),
        }}],
        "users": [{"name": account, "user": {"token": token}}],
        "contexts": [{"name": account, "context": {
            "cluster": "e2e", "user": account, "namespace": namespace,
        }}],
    });
    let path = folder.join(format!("{namespace}-{account}.kubeconfig"));
    fs::write(&path, config.to_string()).expect("there is room for a file");
    path
}
