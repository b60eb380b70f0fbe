//! Too much at once: shed with 503, and nobody is starved.

use std::time::Duration;

use futures::future::join_all;

use crate::support::{Running, Server, answering, review, wapc};

const QUICK: &str = r#"{"accepted":true}"#;

/// Accepts, but for a request whose uid begins with an exclamation mark: that one never ends.
const MOODY: &str = r#"(data (i32.const 0) "{\"accepted\":true}")
    (func $validate
      (call $request (i32.const 70000) (i32.const 80000))
      (if (i32.eq (i32.load8_u (i32.const 80019)) (i32.const 33)) (then (loop $l (br $l))))
      (call $response (i32.const 0) (i32.const 17)))"#;

fn server(places: usize, waiting: usize, waiting_per_policy: usize) -> Running {
    let mut server = Server::new(
        "noisy: {module: endless}\nquick: {module: quick}\nmoody: {module: moody, timeoutEvalSeconds: 1}",
        &[
            ("moody", &wapc(MOODY)),
            ("endless", &wapc("(func $validate (loop $l (br $l)))")),
            ("quick", &answering(QUICK)),
        ],
    );
    server.limits.queue.places = places;
    server.limits.queue.waiting = waiting;
    server.limits.queue.waiting_per_policy = waiting_per_policy;
    server.environment.default_timeout = Some(Duration::from_millis(300));
    server.start()
}

async fn status(server: &Running, path: &str) -> u16 {
    let answer = server.post(path, review("")).await;
    if answer.status == 503 {
        assert_eq!(answer.headers["retry-after"], "1");
        assert_eq!(answer.json()["status"], 503);
    }
    answer.status
}

/// Sends `n` requests at once, each as a task of its own.
async fn statuses(server: &Running, path: &'static str, n: usize) -> Vec<u16> {
    let tasks = (0..n).map(|_| {
        let server = server.clone();
        tokio::spawn(async move { status(&server, path).await })
    });
    join_all(tasks)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_does_not_fit_is_answered_503_with_retry_after() {
    let server = server(1, 2, 2);
    let mut found = statuses(&server, "/validate/noisy", 8).await;
    found.sort_unstable();
    assert_eq!(found, [200, 200, 200, 503, 503, 503, 503, 503]);
    let metrics = server.metrics.render().unwrap();
    assert!(
        metrics.contains("polity_requests_shed_total{reason=\"queue\"} 5"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_full_lane_leaves_room_for_other_policies() {
    let server = server(1, 8, 1);
    let noisy = tokio::spawn({
        let server = server.clone();
        async move { statuses(&server, "/validate/noisy", 6).await }
    });
    let quick = statuses(&server, "/validate/quick", 1).await;
    assert_eq!(quick, [200]);
    let shed = noisy
        .await
        .unwrap()
        .iter()
        .filter(|code| **code == 503)
        .count();
    assert_eq!(shed, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_cannot_start_before_its_deadline_is_answered_503() {
    let server = server(1, 8, 8);
    let first = tokio::spawn({
        let server = server.clone();
        async move { status(&server, "/validate/noisy").await }
    });
    until_running(&server).await;
    assert_eq!(status(&server, "/validate/quick?timeout=0.05s").await, 503);
    assert_eq!(first.await.unwrap(), 200);
}

/// Once it is known to be slow, a policy that never ends holds one place, and the other is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_noisy_policy_does_not_starve_the_others() {
    let server = server(2, 64, 16);
    assert_eq!(status(&server, "/validate/noisy").await, 200);
    let noisy = tokio::spawn({
        let server = server.clone();
        async move { statuses(&server, "/validate/noisy", 4).await }
    });
    until_running(&server).await;
    // Four endless guests take their time one after the other; these do not wait for the last of them.
    for _ in 0..10 {
        assert_eq!(status(&server, "/validate/quick").await, 200);
    }
    assert!(
        !noisy.is_finished(),
        "quick requests waited for the noisy ones"
    );
    assert_eq!(noisy.await.unwrap(), [200; 4]);
}

/// The only thread there is runs a policy that was always quick and now does not end: another thread takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_quick_policy_that_takes_long_once_delays_no_other_request() {
    let server = server(2, 8, 8);
    assert_eq!(statuses(&server, "/validate/moody", 1).await, [200]);
    assert_eq!(statuses(&server, "/validate/moody", 1).await, [200]);
    let endless = tokio::spawn({
        let server = server.clone();
        let body = review("").replace("u-1", "!");
        async move { server.post("/validate/moody", body).await.response() }
    });
    until_running(&server).await;
    assert_eq!(statuses(&server, "/validate/quick", 4).await, [200; 4]);
    assert!(!endless.is_finished(), "quick requests waited for it");
    let response = endless.await.unwrap();
    assert!(
        response.contains("exceeded the allowed execution time"),
        "{response}"
    );
}

/// Waits until somebody has come through the queue: the metric counts those who started.
async fn until_running(server: &Running) {
    let started = || {
        let text = server.metrics.render().unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("polity_evaluation_queue_seconds_count "));
        line.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
    };
    let before = server.n_judged();
    while started() <= before {
        tokio::task::yield_now().await;
    }
}
