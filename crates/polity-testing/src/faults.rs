//! A client that fails on demand, so that tests can cut a controller off at every write.
//!
//! [`FaultyClient`] stands between kube's API and the connection. A fault strikes one request: the n-th
//! write, or the n-th that a predicate picks. [`for_every_write`] runs a scenario again and again with the
//! fault at write 1, 2, 3, … until it runs through without meeting it.

mod crash;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use polity_runtime::Clock;
use serde_json::json;
use tokio::sync::watch;

pub use crash::{CrashPoint, for_every_write};

/// What befalls a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks before the request is sent: nothing happens on the server.
    NotSent,
    /// The server carries the request out, and the connection breaks before its answer arrives.
    AnswerLost,
    /// The server refuses with this status and does nothing.
    Refused(StatusCode),
    /// The request is sent only after this time.
    Delayed(Duration),
    /// The request is held back until [`FaultyClient::release`].
    Held,
}

/// A request as far as predicates and failure messages are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The HTTP method.
    pub method: Method,
    /// The path with its query.
    pub path: String,
}

impl Seen {
    fn of(request: &Request<Body>) -> Self {
        let path = request
            .uri()
            .path_and_query()
            .map(ToString::to_string)
            .unwrap_or_default();
        Self {
            method: request.method().clone(),
            path,
        }
    }

    /// Whether it is a POST, PUT, PATCH or DELETE.
    pub fn is_write(&self) -> bool {
        [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(&self.method)
    }
}

/// A client with faults on demand. Clones are the same client.
#[derive(Clone)]
pub struct FaultyClient {
    client: Client,
    shared: Arc<Shared>,
}

struct Shared {
    book: Mutex<Book>,
    /// How many held requests may go, and how many faults have struck.
    released: watch::Sender<bool>,
    n_struck: watch::Sender<usize>,
}

/// What was seen and what is planned.
#[derive(Default)]
struct Book {
    seen: Vec<Seen>,
    plans: Vec<Plan>,
    cut_off: bool,
}

struct Plan {
    picks: Box<dyn Fn(&Seen) -> bool + Send>,
    /// How many picked requests are left before the fault strikes.
    left: usize,
    fault: Fault,
    then_cut_off: bool,
}

impl FaultyClient {
    /// Puts itself in front of a client; without a plan it only counts.
    pub fn new(inner: Client) -> Self {
        let shared = Arc::new(Shared {
            book: Mutex::default(),
            released: watch::Sender::new(false),
            n_struck: watch::Sender::new(0),
        });
        let namespace = inner.default_namespace().to_owned();
        let answering = shared.clone();
        let service = tower::service_fn(move |request| {
            let (inner, shared) = (inner.clone(), answering.clone());
            async move { shared.answer(&inner, request).await }
        });
        Self {
            client: Client::new(service, namespace),
            shared,
        }
    }

    /// Strikes the n-th write from now on, counted from one.
    #[must_use]
    pub fn fail_write(self, nth: usize, fault: Fault) -> Self {
        self.fail_nth(nth, Seen::is_write, fault)
    }

    /// Strikes the n-th request from now on that `picks` picks, counted from one.
    #[must_use]
    pub fn fail_nth(
        self,
        nth: usize,
        picks: impl Fn(&Seen) -> bool + Send + 'static,
        fault: Fault,
    ) -> Self {
        self.shared.plan(nth, Box::new(picks), fault, false);
        self
    }

    /// Strikes the n-th write from now on, and cuts off every request after it: what a process does that
    /// dies there.
    #[must_use]
    pub fn crash_at_write(self, nth: usize, fault: Fault) -> Self {
        self.shared.plan(nth, Box::new(Seen::is_write), fault, true);
        self
    }

    /// The client to hand to the code under test.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Cuts off every request from now on.
    pub fn cut_off(&self) {
        self.shared.book().cut_off = true;
    }

    /// Forgets all plans and lets everything through again.
    pub fn clear_faults(&self) {
        let mut book = self.shared.book();
        book.cut_off = false;
        book.plans.clear();
        drop(book);
        self.release();
    }

    /// Lets held requests go, those to come too.
    pub fn release(&self) {
        self.shared.released.send_replace(true);
    }

    /// How many requests were made.
    pub fn n_requests(&self) -> usize {
        self.shared.book().seen.len()
    }

    /// How many of them were writes.
    pub fn n_writes(&self) -> usize {
        self.writes().len()
    }

    /// The writes that were made, those that failed among them.
    pub fn writes(&self) -> Vec<Seen> {
        self.shared
            .book()
            .seen
            .iter()
            .filter(|seen| seen.is_write())
            .cloned()
            .collect()
    }

    /// Whether a planned fault has struck.
    pub fn has_struck(&self) -> bool {
        *self.shared.n_struck.borrow() > 0
    }

    /// Waits until a planned fault strikes.
    pub async fn struck(&self) {
        let mut n_struck = self.shared.n_struck.subscribe();
        let struck = n_struck.wait_for(|n| *n > 0).await;
        drop(struck.expect("the client outlives this call"));
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        // The book is whole between any two lines that change it.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan(
        &self,
        nth: usize,
        picks: Box<dyn Fn(&Seen) -> bool + Send>,
        fault: Fault,
        then_cut_off: bool,
    ) {
        assert!(nth > 0, "requests are counted from one");
        self.book().plans.push(Plan {
            picks,
            left: nth,
            fault,
            then_cut_off,
        });
    }

    async fn answer(
        &self,
        inner: &Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, io::Error> {
        let (fault, struck) = self.book().meet(Seen::of(&request));
        if struck {
            self.n_struck.send_modify(|n| *n += 1);
        }
        match fault {
            None => {}
            Some(Fault::NotSent) => {
                return Err(broken("connection broken before the request was sent"));
            }
            Some(Fault::AnswerLost) => {
                send(inner, request).await?;
                return Err(broken("connection broken before the answer arrived"));
            }
            Some(Fault::Refused(code)) => return Ok(refusal(code)),
            Some(Fault::Delayed(delay)) => Clock::system().sleep(delay).await,
            Some(Fault::Held) => {
                let mut released = self.released.subscribe();
                drop(released.wait_for(|released| *released).await);
            }
        }
        send(inner, request).await
    }
}

impl Book {
    /// Notes a request; the fault that befalls it, and whether a plan struck.
    fn meet(&mut self, seen: Seen) -> (Option<Fault>, bool) {
        let mut met = None;
        for plan in self
            .plans
            .iter_mut()
            .filter(|plan| plan.left > 0 && (plan.picks)(&seen))
        {
            plan.left -= 1;
            if plan.left == 0 && met.is_none() {
                met = Some((plan.fault, plan.then_cut_off));
            }
        }
        self.seen.push(seen);
        // Who is cut off meets nothing else.
        if self.cut_off {
            return (Some(Fault::NotSent), false);
        }
        self.cut_off = met.is_some_and(|(_, then_cut_off)| then_cut_off);
        (met.map(|(fault, _)| fault), met.is_some())
    }
}

async fn send(inner: &Client, request: Request<Body>) -> Result<Response<Body>, io::Error> {
    inner.send(request).await.map_err(io::Error::other)
}

fn broken(how: &str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, how)
}

fn refusal(code: StatusCode) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused by the test", "reason": reason(code), "code": code.as_u16(),
    });
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = code;
    response
}

fn reason(code: StatusCode) -> &'static str {
    match code {
        StatusCode::UNAUTHORIZED => "Unauthorized",
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::CONFLICT => "Conflict",
        StatusCode::GONE => "Expired",
        StatusCode::UNPROCESSABLE_ENTITY => "Invalid",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
        StatusCode::GATEWAY_TIMEOUT => "Timeout",
        _ => "InternalError",
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::PostParams;

    use super::*;
    use crate::{TestServer, objects};

    struct Fixture {
        _server: TestServer,
        /// What is really there.
        truth: Api<ConfigMap>,
        faulty: FaultyClient,
    }

    impl Fixture {
        async fn new() -> Self {
            let server = TestServer::start().await;
            Self {
                truth: Api::default_namespaced(server.client().await),
                faulty: server.faulty().await,
                _server: server,
            }
        }

        fn api(&self) -> Api<ConfigMap> {
            Api::default_namespaced(self.faulty.client())
        }

        async fn create(&self, name: &str) -> kube::Result<ConfigMap> {
            self.api()
                .create(&PostParams::default(), &objects::config_map(name, []))
                .await
        }

        async fn is_there(&self, name: &str) -> bool {
            self.truth.get_opt(name).await.unwrap().is_some()
        }
    }

    #[tokio::test]
    async fn the_nth_write_is_not_sent_and_the_others_are() {
        let fixture = Fixture::new().await;
        let faulty = fixture.faulty.clone().fail_write(2, Fault::NotSent);
        fixture.create("a").await.unwrap();
        fixture.api().get("a").await.unwrap();
        assert!(!faulty.has_struck());
        let error = fixture.create("b").await.unwrap_err();
        assert!(
            format!("{error:?}").contains("before the request was sent"),
            "{error:?}"
        );
        assert!(faulty.has_struck() && !fixture.is_there("b").await);
        fixture.create("c").await.unwrap();
        assert_eq!((faulty.n_writes(), faulty.n_requests()), (3, 4));
        assert_eq!(
            faulty.writes()[0].path,
            "/api/v1/namespaces/default/configmaps?"
        );
    }

    #[tokio::test]
    async fn a_write_whose_answer_is_lost_took_effect() {
        let fixture = Fixture::new().await;
        let _ = fixture.faulty.clone().fail_write(1, Fault::AnswerLost);
        let error = fixture.create("a").await.unwrap_err();
        assert!(
            format!("{error:?}").contains("before the answer arrived"),
            "{error:?}"
        );
        assert!(fixture.is_there("a").await);
        fixture.faulty.struck().await;
    }

    #[tokio::test]
    async fn a_refusal_is_a_status_and_does_nothing() {
        let fixture = Fixture::new().await;
        let _ = fixture
            .faulty
            .clone()
            .fail_write(1, Fault::Refused(StatusCode::CONFLICT));
        let Err(kube::Error::Api(status)) = fixture.create("a").await else {
            panic!("not refused")
        };
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        assert!(!fixture.is_there("a").await);
    }

    #[tokio::test]
    async fn a_predicate_picks_what_is_struck() {
        let fixture = Fixture::new().await;
        let _ =
            fixture
                .faulty
                .clone()
                .fail_nth(2, |seen| seen.method == Method::GET, Fault::NotSent);
        fixture.create("a").await.unwrap();
        fixture.api().get("a").await.unwrap();
        fixture.create("b").await.unwrap();
        fixture.api().get("a").await.unwrap_err();
        fixture.api().get("a").await.unwrap();
    }

    #[tokio::test]
    async fn a_held_request_waits_for_its_release() {
        let fixture = Fixture::new().await;
        let faulty = fixture.faulty.clone().fail_write(1, Fault::Held);
        let (created, ()) = tokio::join!(fixture.create("a"), async {
            faulty.struck().await;
            assert!(!fixture.is_there("a").await);
            faulty.release();
        });
        created.unwrap();
        let _ = fixture
            .faulty
            .clone()
            .fail_write(1, Fault::Delayed(Duration::from_millis(1)));
        fixture.create("b").await.unwrap();
    }

    #[tokio::test]
    async fn after_a_crash_nothing_gets_through_until_mended() {
        let fixture = Fixture::new().await;
        let faulty = fixture.faulty.clone().crash_at_write(1, Fault::AnswerLost);
        fixture.create("a").await.unwrap_err();
        fixture.create("b").await.unwrap_err();
        fixture.api().get("a").await.unwrap_err();
        assert!(fixture.is_there("a").await && !fixture.is_there("b").await);
        faulty.clear_faults();
        fixture.create("b").await.unwrap();
        faulty.cut_off();
        fixture.api().get("b").await.unwrap_err();
    }
}
