//! What is true of a running instance, read from its API.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use polity_api::policies::v1::{ClusterAdmissionPolicy, PolicyServer};
use polity_cli::local::{Local, RunState};
use polity_runtime::args::ClientArgs;
use polity_runtime::client;

use crate::defaults::{MARKER, SERVER};
use crate::hub::NAMESPACE;
use crate::samples;

/// What the hints depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The data directory, if other commands need --data-dir to find it.
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) server: Server,
    /// The sample policies that there are.
    pub(crate) samples: Vec<Sample>,
    /// Whether this build has sample policies at all.
    pub(crate) brings_samples: bool,
    /// Where the log is, if not on the terminal.
    pub(crate) log: Option<PathBuf>,
    /// Whether other machines reach the API.
    pub(crate) is_exposed: bool,
}

/// The default policy server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    Absent,
    Present,
    /// It was missing, and this run created it again.
    Restored,
}

/// A sample policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    /// Whether it rejects requests.
    pub(crate) protects: bool,
}

impl Facts {
    /// Reads them; what cannot be read is taken to be absent.
    pub(crate) async fn of(
        run: &RunState,
        local: &Local,
        log: Option<PathBuf>,
        is_exposed: bool,
    ) -> Self {
        let hub = hub(run).await;
        let (server, samples) = match &hub {
            Ok(hub) => (server(hub, run.started).await, sample_policies(hub).await),
            Err(_) => (Server::Present, Vec::new()),
        };
        Self {
            data_dir: local.unusual_dir().map(Path::to_owned),
            server,
            samples,
            brings_samples: samples::names().next().is_some(),
            log,
            is_exposed,
        }
    }
}

async fn hub(run: &RunState) -> Result<Client, client::ConnectError> {
    let args = ClientArgs {
        kubeconfig: Some(run.kubeconfig.clone()),
        context: run.clusters.first().map(|hub| hub.context.clone()),
        ..ClientArgs::default()
    };
    client::connect(&args).await
}

async fn server(hub: &Client, started: Timestamp) -> Server {
    let servers: Api<PolicyServer> = Api::all(hub.clone());
    let markers: Api<ConfigMap> = Api::namespaced(hub.clone(), NAMESPACE);
    // Times in objects are whole seconds.
    let is_new = |created: Option<Timestamp>| {
        created.is_some_and(|created| created.as_second() >= started.as_second())
    };
    let created =
        |meta: &kube::core::ObjectMeta| meta.creation_timestamp.as_ref().map(|time| time.0);
    let Ok(Some(server)) = servers.get_metadata_opt(SERVER).await else {
        return Server::Absent;
    };
    let marker = markers.get_metadata_opt(MARKER).await.ok().flatten();
    match marker {
        Some(marker) if is_new(created(&server.metadata)) && !is_new(created(&marker.metadata)) => {
            Server::Restored
        }
        _ => Server::Present,
    }
}

async fn sample_policies(hub: &Client) -> Vec<Sample> {
    let policies: Api<ClusterAdmissionPolicy> = Api::all(hub.clone());
    let Ok(list) = policies.list(&ListParams::default()).await else {
        return Vec::new();
    };
    let samples = list.items.iter().filter_map(|policy| {
        let name = policy.name_any();
        let mode = serde_json::to_value(&policy.spec).ok()?["mode"].take();
        samples::names()
            .any(|sample| sample == name)
            .then(|| Sample {
                name,
                protects: mode != "monitor",
            })
    });
    samples.collect()
}
