//! The admin port: `/live`, `/ready` and `/metrics`. The first two are also served as `/healthz` and `/readyz`, which
//! existing manifests probe.
//!
//! `/ready` lists the parts that are not ready, so that an operator can see why a Pod gets no traffic. The port stays
//! up while the process drains: run it with a separate shutdown that is triggered last.

mod probe;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{StatusCode, header};
use tracing::error;

pub use self::probe::is_ready;
use crate::metrics::{self, Metrics};

/// The parts that must be ready before the process is. Clones share state.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    state: Arc<Mutex<ReadinessState>>,
}

#[derive(Debug, Default)]
struct ReadinessState {
    parts: BTreeMap<&'static str, Condition>,
    is_draining: bool,
}

#[derive(Debug, Clone, Copy)]
struct Condition {
    is_ready: bool,
    word: &'static str,
}

impl Readiness {
    /// Nothing to wait for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part to wait for, with its current state, such as `loading`.
    pub fn part(&self, name: &'static str, word: &'static str) -> Part {
        let part = Part {
            name,
            readiness: self.clone(),
        };
        part.not_ready(word);
        part
    }

    /// Makes the process not ready regardless of its parts, because it is about to stop.
    pub fn drain(&self) {
        self.edit(|state| state.is_draining = true);
    }

    /// Whether all parts are ready.
    pub fn is_ready(&self) -> bool {
        self.edit(|state| !state.is_draining && state.parts.values().all(|part| part.is_ready))
    }

    /// The state of each part.
    fn words(&self) -> BTreeMap<&'static str, &'static str> {
        self.edit(|state| {
            let parts = state.parts.iter().map(|(name, part)| (*name, part.word));
            parts
                .chain(state.is_draining.then_some(("shutdown", "draining")))
                .collect()
        })
    }

    fn edit<T>(&self, edit: impl FnOnce(&mut ReadinessState) -> T) -> T {
        // Nothing panics while it holds the lock; if it did, the state would still be whole.
        edit(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One thing that has to be ready.
#[derive(Debug, Clone)]
pub struct Part {
    name: &'static str,
    readiness: Readiness,
}

impl Part {
    /// Marks the part as ready, with a state such as `synced`.
    pub fn ready(&self, word: &'static str) {
        self.set(Condition {
            is_ready: true,
            word,
        });
    }

    /// Marks the part as not ready, with a state such as `loading`.
    pub fn not_ready(&self, word: &'static str) {
        self.set(Condition {
            is_ready: false,
            word,
        });
    }

    fn set(&self, condition: Condition) {
        self.readiness
            .edit(|state| state.parts.insert(self.name, condition));
    }
}

/// The admin port's routes.
pub fn router(readiness: Readiness, metrics: Metrics) -> Router {
    let ready = get(ready).with_state(readiness);
    Router::new()
        .route("/live", get(async || "ok"))
        .route("/healthz", get(async || "ok"))
        .route("/ready", ready.clone())
        .route("/readyz", ready)
        .route("/metrics", get(render).with_state(metrics))
}

async fn ready(State(readiness): State<Readiness>) -> Response {
    let code = if readiness.is_ready() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (code, Json(readiness.words())).into_response()
}

async fn render(State(metrics): State<Metrics>) -> Response {
    match metrics.render() {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            error!(
                error = &error as &dyn std::error::Error,
                "metrics cannot be rendered"
            );
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn ask(router: &Router, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn readiness_lists_the_parts_that_are_not_ready() {
        let readiness = Readiness::new();
        let router = router(readiness.clone(), Metrics::new().unwrap());
        let policies = readiness.part("policies", "loading");
        let certificates = readiness.part("certificates", "loading");
        let check = async |code: u16, expected: &str| {
            assert_eq!(ask(&router, "/ready").await, (code, expected.to_owned()));
        };
        policies.ready("synced");
        check(503, r#"{"certificates":"loading","policies":"synced"}"#).await;
        certificates.ready("loaded");
        check(200, r#"{"certificates":"loaded","policies":"synced"}"#).await;
        policies.not_ready("broken");
        check(503, r#"{"certificates":"loaded","policies":"broken"}"#).await;
        policies.ready("synced");
        readiness.drain();
        check(
            503,
            r#"{"certificates":"loaded","policies":"synced","shutdown":"draining"}"#,
        )
        .await;
        assert_eq!(ask(&router, "/live").await, (200, "ok".to_owned()));
    }

    #[tokio::test]
    async fn metrics_are_served() {
        let metrics = Metrics::new().unwrap();
        metrics
            .meter("test")
            .u64_counter("test_things_total")
            .build()
            .add(1, &[]);
        let router = router(Readiness::new(), metrics);
        let (code, text) = ask(&router, "/metrics").await;
        assert_eq!(code, 200);
        assert!(text.contains("test_things_total 1"), "{text}");
        assert_eq!(ask(&router, "/ready").await, (200, "{}".to_owned()));
        assert_eq!(ask(&router, "/other").await.0, 404);
    }
}
