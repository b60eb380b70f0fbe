//! How a server ends.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get as on_get;
use http::Version;
use polity_runtime::serve::Limits;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::support::{Client, Running, get, read};

/// A handler that signals when it was entered, and responds when it is released.
#[derive(Clone, Default)]
struct Gate {
    entered: Arc<Notify>,
    open: Arc<Notify>,
}

impl Gate {
    fn router(&self) -> Router {
        let gate = self.clone();
        let handler = async move || {
            gate.entered.notify_one();
            gate.open.notified().await;
            "done"
        };
        Router::new()
            .route("/slow", on_get(handler))
            .route("/", on_get(async || "quick"))
    }
}

#[tokio::test]
async fn running_requests_end_and_new_connections_are_refused() {
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let gate = Gate::default();
        let running = Running::start(gate.router(), None, Limits::default()).await;
        let address = running.address;
        // An idle connection does not hold up the drain.
        let mut idle = Client::plain(version).connect(address).await.unwrap();
        read(idle.send(get("/")).await.unwrap()).await.unwrap();

        let slow = tokio::spawn(async move { Client::plain(version).get(address, "/slow").await });
        gate.entered.notified().await;
        running.shutdown.trigger();
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        gate.open.notify_one();
        assert_eq!(
            slow.await.unwrap().unwrap(),
            (200, "done".to_owned()),
            "{version:?}"
        );
        assert_eq!(running.stop().await.n_cut_off, 0, "{version:?}");
    }
}

#[tokio::test]
async fn connections_that_do_not_end_are_closed() {
    let gate = Gate::default();
    let limits = Limits {
        drain_timeout: Duration::from_millis(50),
        ..Limits::default()
    };
    let running = Running::start(gate.router(), None, limits).await;
    let address = running.address;
    let stuck =
        tokio::spawn(async move { Client::plain(Version::HTTP_11).get(address, "/slow").await });
    gate.entered.notified().await;
    assert_eq!(running.stop().await.n_cut_off, 1);
    assert!(stuck.await.unwrap().is_err());
}
