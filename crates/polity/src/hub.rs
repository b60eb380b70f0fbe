//! The controller of the hub in the process of `polity up`: installed as `polity install` does it, with the rights of its
//! account and no more, and run as `polity controller` runs it.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use kube::Client;
use polity_lifecycle::LifecycleController;
use polity_lifecycle::install::{CONTROLLER, Installation};
use polity_lifecycle::lifecycle::Settings;
use polity_lifecycle::names::UniqueNames;
use polity_lifecycle::objects::Setup;
use polity_lifecycle::webhooks::{self, BoundWebhooks, Registration, ServeError, Webhooks};
use polity_reconcile::{ControllerMetrics, Term};
use polity_runtime::{Clock, Shutdown};
use serde_json::{Value, json};

use crate::install::{Existing, apply_manifest, default_image};
use crate::services::Services;

/// Where the controller and the policy servers live.
pub(crate) const NAMESPACE: &str = "kubewarden";
/// The ConfigMap that marks a cluster as the hub of a `polity up`: its controller does not run in the cluster.
pub(crate) const MARKER: &str = "polity-local";
/// As `polity controller` has them.
const DRAIN: Duration = Duration::from_secs(10);
const HISTORY_LIMIT: usize = 10;

/// What the hub is set up with.
pub(crate) fn installation() -> Installation {
    Installation {
        namespace: NAMESPACE.to_owned(),
        image: default_image(),
        replicas: 1,
    }
}

/// The objects that every start applies, in this order.
pub(crate) fn manifests(installation: &Installation) -> Vec<Value> {
    let marker = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": MARKER, "namespace": installation.namespace},
    });
    let mut manifests = vec![installation.namespace(), marker];
    manifests.extend(installation.roles());
    manifests.push(installation.webhook_service());
    manifests
}

/// The user that the controller is.
pub(crate) fn controller_user() -> String {
    format!("system:serviceaccount:{NAMESPACE}:{CONTROLLER}")
}

/// Starts the controller and its webhooks. The administrator's client sets up what an installation does; the controller
/// works with a client of its own.
pub(crate) async fn start(
    services: &Services,
    admin: &Client,
    client: Client,
) -> anyhow::Result<()> {
    let installation = installation();
    for manifest in &manifests(&installation) {
        apply_manifest(admin, manifest, Existing::Replaced).await?;
    }
    let clock = Clock::system();
    let setup = Setup {
        namespace: NAMESPACE.to_owned(),
        // The runtime binds claims of every class to directories that all Pods of this machine share.
        cache_storage_class: Some("local".to_owned()),
        ..Setup::default()
    };
    let registration =
        Registration::new(client.clone(), clock.clone(), NAMESPACE, webhooks::SERVICE);
    let controller = LifecycleController {
        client: client.clone(),
        clock: clock.clone(),
        settings: Settings {
            namespace: NAMESPACE.to_owned(),
            drain: DRAIN,
            history_limit: HISTORY_LIMIT,
            unique_names: UniqueNames::Classic,
            ca_bundle: String::new(),
        },
        setup: setup.clone(),
        defaults_config_map: None,
        policy_metrics: None,
        controller_metrics: ControllerMetrics::default(),
        registration: Some(registration.clone()),
    };
    let webhooks = Webhooks {
        client,
        clock,
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        registration,
        setup,
        unique_names: UniqueNames::Classic,
    };
    let webhooks = webhooks
        .bind()
        .await
        .context("starting the controller's webhooks")?;
    let endpoints = installation.webhook_endpoints(webhooks.address());
    apply_manifest(admin, &endpoints, Existing::Replaced).await?;
    let tasks = services.tasks();
    let shutdown = tasks.shutdown().clone();
    // There is no other replica to elect.
    let term = Term::without_election(&shutdown);
    tasks.spawn("controller", async move {
        controller.run(&term).await;
        Ok::<_, Infallible>(())
    });
    tasks.spawn("webhooks", serve(webhooks, shutdown));
    Ok(())
}

/// Serves the webhooks. Whoever stops everything while they start takes the API away from them: that is no failure.
async fn serve(webhooks: BoundWebhooks, shutdown: Shutdown) -> Result<(), ServeError> {
    match Box::pin(webhooks.run(shutdown.clone())).await {
        Err(_) if shutdown.is_triggered() => Ok(()),
        outcome => outcome,
    }
}
