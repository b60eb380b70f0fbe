//! Pods on this machine: the local runtime as a part of `polity up`, and what its Pods say as the API server's logs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kube::Client;
use polity_apiserver::cluster::identity::directory_of;
use polity_apiserver::logs::{LogOptions, LogSource, LogStream};
use polity_lifecycle::names;
use polity_local::access::Api;
use polity_local::logs::{Limits, LogQuery, Logs};
use polity_local::{Images, Local, Options, Permit};
use polity_runtime::{Clock, env};

use crate::hub::NAMESPACE;
use crate::services::Services;

/// The node that Pods of this machine are on.
const NODE: &str = "local";
/// What Pods have to end when everything does. They need not wait for callers to learn of it: nobody calls any more.
const STOP_GRACE: Duration = Duration::from_secs(3);
/// The last word of the images that this program stands for, whatever registry they are from.
const OUR_IMAGES: [&str; 2] = ["polity", "policy-server"];
/// What Pods have of this process's environment: how programs and the network are reached.
const INHERITED: [&str; 9] = [
    "PATH",
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Starts the runtime of the hub. It does nothing until there is a StatefulSet of one of our images.
pub(crate) async fn start(
    services: &Services,
    data_dir: &Path,
    client: Client,
) -> anyhow::Result<()> {
    let fleet = &services.fleet;
    let hub = fleet.hub();
    let program = this_program()?;
    let options = Options {
        data_dir: directory_of(data_dir, hub.name()).join("local"),
        node: NODE.into(),
        permit: Permit {
            namespace: NAMESPACE.to_owned(),
            set_of_server: names::stateful_set,
        },
        images: OUR_IMAGES.into_iter().fold(Images::default(), |all, name| {
            all.with_name(name, program.clone())
        }),
        launcher: program,
        api: Api {
            server: fleet.url(hub.name()),
            authority_pem: fleet.authority_pem().to_owned(),
        },
        env: inherited(),
        log_limits: Limits::default(),
        stop_grace: STOP_GRACE,
        clock: Clock::system(),
    };
    let runtime = Local::start(client, options)
        .await
        .context("starting the local runtime")?;
    hub.set_log_source(Arc::new(PodLogs(runtime.logs())));
    let shutdown = services.tasks().shutdown().clone();
    services
        .tasks()
        .spawn("local runtime", runtime.run(shutdown));
    Ok(())
}

/// By a name that stays true when the file is replaced: a Pod that restarts then is what the others are.
#[cfg(target_os = "linux")]
#[expect(clippy::unnecessary_wraps, reason = "it can fail elsewhere")]
fn this_program() -> anyhow::Result<PathBuf> {
    Ok("/proc/self/exe".into())
}

#[cfg(not(target_os = "linux"))]
fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("finding this program")
}

fn inherited() -> BTreeMap<String, String> {
    let set = |name: &str| Some((name.to_owned(), env::read(name)?.into_string().ok()?));
    INHERITED.into_iter().filter_map(set).collect()
}

/// What the runtime keeps, as the API server asks for it. A Pod of ours has one container, so its name is known.
struct PodLogs(Logs);

impl LogSource for PodLogs {
    fn open(&self, namespace: &str, pod: &str, options: &LogOptions) -> Option<LogStream> {
        let LogOptions {
            container: _,
            follow,
            previous,
            tail_lines,
            since_seconds,
            timestamps,
            limit_bytes,
        } = *options;
        let query = LogQuery {
            follow,
            previous,
            tail_lines,
            since_seconds,
            timestamps,
            limit_bytes,
        };
        self.0.open(namespace, pod, query)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::StatefulSet;
    use k8s_openapi::api::core::v1::{EnvVar, Pod};
    use kube::Resource as _;
    use polity_api::policies::v1::PolicyServer;
    use polity_lifecycle::objects::{Collector, Configs, Setup, stateful_set};
    use polity_local::permit::{Owners, may_run};
    use serde_json::json;

    use super::*;
    use crate::controller::COLLECTOR_VARIABLES;

    struct Live(StatefulSet);

    impl Owners for Live {
        fn stateful_set(&self, _: &str) -> Option<StatefulSet> {
            Some(self.0.clone())
        }

        fn policy_server_uid(&self, _: &str) -> Option<String> {
            Some("server".to_owned())
        }
    }

    /// A setup that makes the controller write every variable it knows.
    fn setup(collector: Collector) -> Setup {
        Setup {
            namespace: NAMESPACE.to_owned(),
            always_accept_own_namespace: true,
            metrics_port: Some(8080),
            has_tracing: true,
            collector,
            collector_ca_secret: Some("ca".to_owned()),
            collector_client_secret: Some("client".to_owned()),
            client_ca_config_map: Some("authority".to_owned()),
            ..Setup::default()
        }
    }

    #[test]
    fn every_variable_that_the_controller_writes_is_accepted() {
        let server: PolicyServer = serde_json::from_value(json!({
            "metadata": {"name": "default", "uid": "server"},
            "spec": {
                "image": "polity:v1", "replicas": 1, "verificationConfig": "v", "sigstoreTrustConfig": "s",
                "imagePullSecret": "p", "insecureSources": ["localhost:5000"],
            },
        }))
        .unwrap();
        let told = COLLECTOR_VARIABLES.iter().map(|name| EnvVar {
            name: (*name).to_owned(),
            value: Some("x".to_owned()),
            value_from: None,
        });
        for collector in [Collector::Sidecar, Collector::Elsewhere(told.collect())] {
            let mut set = stateful_set(&server, &setup(collector), &Configs::default());
            set.metadata.uid = Some("set".to_owned());
            let mut pod = Pod {
                spec: set.spec.template.spec.clone(),
                ..Pod::default()
            };
            pod.metadata.namespace = set.metadata.namespace.clone();
            pod.metadata.name = set.metadata.name.as_ref().map(|name| format!("{name}-0"));
            pod.metadata.owner_references = Some(vec![set.controller_owner_ref(&()).unwrap()]);
            let permit = Permit {
                namespace: NAMESPACE.to_owned(),
                set_of_server: names::stateful_set,
            };
            assert_eq!(may_run(&pod, &Live(set), &permit), Ok(()));
        }
    }
}
