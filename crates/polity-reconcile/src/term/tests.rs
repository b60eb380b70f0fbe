//! When controllers run, and what they may write.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use polity_runtime::Moment;
use polity_testing::{TestServer, eventually, objects};

use super::*;

fn leading(until: Moment) -> Leadership {
    leading_since(Moment::START, until)
}

fn leading_since(since: Moment, until: Moment) -> Leadership {
    Leadership::Leading { since, until }
}

fn following() -> Leadership {
    Leadership::Following { leader: None }
}

#[tokio::test]
async fn controllers_run_once_per_term_and_end_with_it() {
    let (sender, leadership) = watch::channel(following());
    let (clock, shutdown) = (Clock::manual(jiff::Timestamp::UNIX_EPOCH), Shutdown::new());
    let (n_started, n_ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
    let controllers = |term: Term| {
        let (n_started, n_ended) = (&n_started, &n_ended);
        async move {
            assert!(term.is_current());
            n_started.fetch_add(1, Ordering::SeqCst);
            term.ended().await;
            n_ended.fetch_add(1, Ordering::SeqCst);
        }
    };
    let until = clock.moment() + Duration::from_secs(10);
    let drive = async {
        for n_terms in 1..=2 {
            sender.send_replace(leading(until));
            eventually("the controllers run", || async {
                count(&n_started) == n_terms
            })
            .await;
            sender.send_replace(following());
            eventually("the controllers end", || async {
                count(&n_ended) == n_terms
            })
            .await;
        }
        sender.send_replace(leading(until));
        eventually("the last term begins", || async { count(&n_started) == 3 }).await;
        shutdown.trigger();
    };
    tokio::join!(terms(leadership, &clock, &shutdown, controllers), drive);
    assert_eq!((count(&n_started), count(&n_ended)), (3, 3));
}

/// A process that was suspended finds its lease expired and acquires it again at once. Its controllers start again,
/// because what they refused to do in between would otherwise wait for their next round.
#[tokio::test]
async fn a_lease_that_is_lost_and_acquired_at_once_begins_a_new_term() {
    let clock = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
    let until = clock.moment() + Duration::from_secs(10);
    let (sender, leadership) = watch::channel(leading(until));
    let (shutdown, n_started) = (Shutdown::new(), AtomicUsize::new(0));
    let controllers = |term: Term| {
        let n_started = &n_started;
        async move {
            n_started.fetch_add(1, Ordering::SeqCst);
            term.ended().await;
        }
    };
    let drive = async {
        eventually("the first term begins", || async {
            n_started.load(Ordering::SeqCst) == 1
        })
        .await;
        clock.advance(Duration::from_mins(1));
        let now = clock.moment();
        sender.send_replace(following());
        sender.send_replace(leading_since(now, now + Duration::from_secs(10)));
        eventually("the second term begins", || async {
            n_started.load(Ordering::SeqCst) == 2
        })
        .await;
        shutdown.trigger();
    };
    tokio::join!(terms(leadership, &clock, &shutdown, controllers), drive);
}

#[tokio::test]
async fn a_guarded_client_reads_at_any_time_and_writes_only_during_the_term() {
    let server = TestServer::start().await;
    let clock = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
    let start = leading(Moment::START + Duration::from_secs(10));
    let (_sender, leadership) = watch::channel(start.clone());
    let term = Term {
        end: Shutdown::new(),
        lease: Some(Arc::new(HeldLease {
            leadership,
            start,
            clock: clock.clone(),
        })),
    };
    let maps: Api<ConfigMap> = Api::default_namespaced(term.guard(&server.client().await));
    let map = objects::config_map("a", []);
    maps.create(&PostParams::default(), &map).await.unwrap();
    // Nobody announced the end: the process was suspended past its lease.
    clock.advance(Duration::from_secs(11));
    let other = objects::config_map("b", []);
    let error = maps.create(&PostParams::default(), &other).await;
    let error = format!("{:?}", error.unwrap_err());
    assert!(error.contains("no longer holds the lease"), "{error}");
    let deletion = maps.delete("a", &DeleteParams::default()).await;
    deletion.unwrap_err();
    maps.get("a").await.unwrap();
}

#[tokio::test]
async fn a_term_without_an_election_lasts_until_the_shutdown() {
    let shutdown = Shutdown::new();
    let term = Term::without_election(&shutdown);
    assert!(term.is_current());
    shutdown.trigger();
    assert!(!term.is_current());
    term.ended().await;
}

#[tokio::test]
async fn two_replicas_lead_one_after_the_other() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let election = |identity: &str| LeaderElection {
        client: client.clone(),
        clock: Clock::system(),
        namespace: "default".to_owned(),
        lease: "test".to_owned(),
        identity: identity.to_owned(),
        timing: LeaseTiming::default(),
    };
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let start = |name: &'static str| {
        let (shutdown, order) = (Shutdown::new(), order.clone());
        let run = election(name).run(shutdown.clone(), move |term| {
            let order = order.clone();
            async move {
                order.lock().unwrap().push(format!("{name} leads"));
                term.ended().await;
                order.lock().unwrap().push(format!("{name} ends"));
            }
        });
        (shutdown, tokio::spawn(async move { run.await.unwrap() }))
    };
    let (stop_first, first) = start("first");
    eventually("the first one leads", || async {
        order.lock().unwrap().len() == 1
    })
    .await;
    let (stop_second, second) = start("second");
    stop_first.trigger();
    first.await.unwrap();
    eventually("the second one leads", || async {
        order.lock().unwrap().len() == 3
    })
    .await;
    stop_second.trigger();
    second.await.unwrap();
    let expected = ["first leads", "first ends", "second leads", "second ends"];
    assert_eq!(*order.lock().unwrap(), expected);
}
