//! No admission request is lost while policies change and faults are injected. A constant stream of requests goes
//! through the API server and directly to replicas.
//!
//! [`stream`] sends requests, [`writer`] changes policies, and [`faults`] are injected in each step of an update. The
//! [`recorder`] records requests, webhook switches and outages. [`request_check`] decides for each request whether its
//! outcome was correct.

#![expect(
    clippy::unwrap_used,
    reason = "a scenario is a test, also where it is a plain function"
)]

mod faults;
mod recorder;
mod request_check;
mod stream;
mod view;
mod writer;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use e2e::eventually::eventually;
use e2e::installation::{Installation, connect};
use e2e::test_policies::{NAMESPACE, TEST_POLICIES};
use futures::future::join_all;
use polity_runtime::{Clock, Moment};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use faults::{Fault, FaultInjector, N_REPLICAS};
use recorder::Recorder;
use stream::Streams;
use view::ClusterView;
use writer::Writer;

/// The drain time with which the installation starts the controller.
const DRAIN: Duration = Duration::from_secs(1);

/// When a run ends.
struct RunLimits {
    n_updates: usize,
    /// Time limit for a slow machine. Each fault is injected at least once.
    at_most: Duration,
}

/// Limits of a short run of about two minutes. `POLITY_POLICY_UPDATES=1000`, which `cargo xtask chaos` sets, makes it
/// a long run.
#[expect(
    clippy::disallowed_methods,
    reason = "a tool of tests, not a service with flags"
)]
fn limits() -> RunLimits {
    match std::env::var("POLITY_POLICY_UPDATES") {
        Ok(number) => RunLimits {
            n_updates: number.parse().unwrap(),
            at_most: Duration::MAX,
        },
        Err(_) => RunLimits {
            n_updates: 120,
            at_most: Duration::from_mins(2),
        },
    }
}

/// Covers the items 6, 7, 20, 25, 26 and 37 of `docs/design/acceptance.md` under load, as far as requests are
/// concerned.
#[test]
fn no_request_is_lost() {
    let Some(installation) = Installation::embedded() else {
        return;
    };
    prepare(&installation);
    let runtime = runtime();
    let client = runtime.block_on(connect(installation.kubectl().kubeconfig()));
    let recorder = Arc::new(Recorder::new(DRAIN));
    let view = runtime.block_on(async { ClusterView::follow(&client, &recorder) });
    let silent_registry = Arc::new(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let mut writers: Vec<Writer> = TEST_POLICIES
        .iter()
        .map(|test_policy| Writer {
            test_policy,
            module: installation.module(test_policy.module),
            client: client.clone(),
            recorder: recorder.clone(),
            view: view.clone(),
            silent_registry: silent_registry.clone(),
        })
        .collect();
    runtime.block_on(join_all(writers.iter_mut().map(Writer::create)));

    let (stop, stopped) = watch::channel(false);
    let streams = runtime.block_on(async { Streams::start(&client, &recorder, &view) });
    let writers: Vec<_> = writers
        .into_iter()
        .map(|writer| runtime.spawn(writer.run(stopped.clone())))
        .collect();
    let mut fault_injector = FaultInjector {
        installation: &installation,
        recorder: recorder.clone(),
        view,
        runtime: runtime.handle().clone(),
    };
    let (limits, clock) = (limits(), Clock::system());
    let is_over = || {
        let took = clock.moment().since(Moment::START);
        recorder.n_updates() >= limits.n_updates || took >= limits.at_most
    };
    for n in 0.. {
        if n >= Fault::ALL.len() && is_over() {
            break;
        }
        let writer = writers.iter().find(|writer| writer.is_finished());
        assert!(writer.is_none(), "a writer gave up");
        let (fault, step) = Fault::nth(n);
        fault_injector.inject(fault, step);
    }
    stop.send(true).unwrap();
    runtime.block_on(async {
        for written in join_all(writers).await {
            written.unwrap();
        }
        streams.finish().await;
    });
    let summary = recorder.summarize();
    eprintln!("{summary}");
    summary.check();
}

/// Scales to three replicas and creates the namespace of the test requests.
fn prepare(installation: &Installation) {
    let kubectl = installation.kubectl();
    kubectl.ok(&format!("create namespace {NAMESPACE}"));
    eventually("the namespace has its account", || {
        let accounts = kubectl.in_namespace(NAMESPACE);
        let seen = accounts.ok("get serviceaccount default --ignore-not-found -o name");
        (!seen.is_empty()).then_some(())
    });
    kubectl.ok(&format!(
        "scale policyserver default --replicas={N_REPLICAS}"
    ));
    eventually("the replicas are ready", || {
        let pods = installation.pods("default");
        let is_ready = |pod: &serde_json::Value| {
            let conditions = pod["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        (pods.len() == N_REPLICAS && pods.values().all(is_ready)).then_some(())
    });
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}
