//! No request is lost: a constant stream of admission requests, through the API server and straight to replicas, while
//! policies change all the time and everybody who could stand still, fall or be replaced does so.
//!
//! [`stream`]s ask, [`writer`]s change policies, [`troubles`] strike in each step of an update. The [`ledger`] keeps
//! what was asked and what happened; the [`judge`] says of each answer whether it was right.

#![expect(
    clippy::unwrap_used,
    reason = "a scenario is a test, also where it is a plain function"
)]

mod judge;
mod ledger;
mod stream;
mod troubles;
mod view;
mod writer;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use e2e::eventually::eventually;
use e2e::stage::{Stage, connect};
use e2e::subjects::{NAMESPACE, SUBJECTS};
use futures::future::join_all;
use polity_runtime::{Clock, Moment};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use ledger::Ledger;
use stream::Streams;
use troubles::{N_REPLICAS, Trouble, Troublemaker};
use view::View;
use writer::Writer;

/// As the stage's controller has it.
const DRAIN: Duration = Duration::from_secs(1);

/// How far a run goes.
struct Extent {
    n_updates: usize,
    /// It ends here on a machine that is too busy, once each trouble has struck.
    at_most: Duration,
}

/// A short cut of about two minutes; `POLITY_POLICY_UPDATES=1000`, which `cargo xtask chaos` sets, makes it a long run.
#[expect(
    clippy::disallowed_methods,
    reason = "a tool of tests, not a service with flags"
)]
fn extent() -> Extent {
    match std::env::var("POLITY_POLICY_UPDATES") {
        Ok(number) => Extent {
            n_updates: number.parse().unwrap(),
            at_most: Duration::MAX,
        },
        Err(_) => Extent {
            n_updates: 120,
            at_most: Duration::from_mins(2),
        },
    }
}

/// Items 6, 7, 20, 25, 26 and 37 of the acceptance list under load, as far as requests are concerned.
#[test]
fn no_request_is_lost() {
    let Some(stage) = Stage::embedded() else {
        return;
    };
    prepare(&stage);
    let runtime = runtime();
    let client = runtime.block_on(connect(stage.kubectl().kubeconfig()));
    let ledger = Arc::new(Ledger::new(DRAIN));
    let view = runtime.block_on(async { View::follow(&client, &ledger) });
    let silent_registry = Arc::new(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let mut writers: Vec<Writer> = SUBJECTS
        .iter()
        .map(|subject| Writer {
            subject,
            module: stage.module(subject.module),
            client: client.clone(),
            ledger: ledger.clone(),
            view: view.clone(),
            silent_registry: silent_registry.clone(),
        })
        .collect();
    runtime.block_on(join_all(writers.iter_mut().map(Writer::create)));

    let (stop, stopped) = watch::channel(false);
    let streams = runtime.block_on(async { Streams::start(&client, &ledger, &view) });
    let writers: Vec<_> = writers
        .into_iter()
        .map(|writer| runtime.spawn(writer.run(stopped.clone())))
        .collect();
    let mut troublemaker = Troublemaker {
        stage: &stage,
        ledger: ledger.clone(),
        view,
        runtime: runtime.handle().clone(),
    };
    let (extent, clock) = (extent(), Clock::system());
    let is_over = || {
        let took = clock.moment().since(Moment::START);
        ledger.n_updates() >= extent.n_updates || took >= extent.at_most
    };
    for n in 0.. {
        if n >= Trouble::ALL.len() && is_over() {
            break;
        }
        let writer = writers.iter().find(|writer| writer.is_finished());
        assert!(writer.is_none(), "a writer gave up");
        let (trouble, step) = Trouble::nth(n);
        troublemaker.strike(trouble, step);
    }
    stop.send(true).unwrap();
    runtime.block_on(async {
        for written in join_all(writers).await {
            written.unwrap();
        }
        streams.finish().await;
    });
    let summary = ledger.close();
    eprintln!("{summary}");
    summary.check();
}

/// Three replicas, and a namespace for what is asked about.
fn prepare(stage: &Stage) {
    let kubectl = stage.kubectl();
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
        let pods = stage.pods("default");
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
