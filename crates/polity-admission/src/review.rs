//! The HTTP service for admission reviews: from a request to a verdict, without a socket.
//!
//! A request is checked in the order of docs/spec/admission.md#8-4: media type, size, syntax and shape of the body, then the
//! policy. A body is read once and never copied, and evaluated on the thread that read it.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body::Body;
use polity_eval::{
    AdmissionRequest, AdmissionResponse, AdmissionReview, Deadline, Environment, Evaluation,
    Origin, Policy, RawReview, ReviewError,
};
use polity_runtime::{Clock, env};
use tower::Service;
use tracing::{Span, error};

use crate::body::BodyBudget;
use crate::fair::FairLimits;
use crate::metrics::ServerMetrics;
use crate::refusal::Refusal;
use crate::reply::{self, Reply};
use crate::route::{Endpoint, Route};
use crate::span;
use crate::table::{Generation, NotServed, PolicyTable, Served};
use crate::time_limit;
use crate::turnstile::{Turnstile, leave_the_worker};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Identifies a request in the log; the id of the caller is used if it sends one.
static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longer ids are replaced, because every log line of the request has the id.
const MAX_REQUEST_ID: usize = 128;
/// How long a body may take to arrive.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// The limits of requests.
#[derive(Debug, Clone, Copy)]
pub struct RequestLimits {
    /// The largest body, in bytes.
    pub body: usize,
    /// All bodies in memory together, in bytes.
    pub bodies: usize,
    /// How many requests are evaluated at once, and how many wait.
    pub queue: FairLimits,
    /// How long a request may take, unless its caller sends a shorter time-out; `None` for no limit.
    pub time: Option<Duration>,
}

/// What a [`ReviewService`] is made of.
pub struct ReviewServiceOptions {
    /// The settings and services that all evaluations share.
    pub environment: Environment,
    /// The policies that are served; other tasks swap the table.
    pub table: Arc<ArcSwap<PolicyTable>>,
    /// The limits of requests.
    pub limits: RequestLimits,
    /// The metrics that requests are counted in.
    pub metrics: ServerMetrics,
    /// The source of time, which tests control.
    pub clock: Clock,
}

/// The service for admission reviews. Clones share its state.
#[derive(Clone)]
pub struct ReviewService(Arc<Inner>);

struct Inner {
    environment: Environment,
    table: Arc<ArcSwap<PolicyTable>>,
    turnstile: Turnstile,
    bodies: BodyBudget,
    time: Option<Duration>,
    metrics: ServerMetrics,
    clock: Clock,
    host: String,
    id_prefix: i64,
    n_requests: AtomicU64,
}

/// A parsed body.
#[expect(
    clippy::large_enum_variant,
    reason = "one for each request, on its stack; a box would be an allocation more"
)]
pub(crate) enum Review<'a> {
    Admission(AdmissionReview<'a>),
    Raw(RawReview<'a>),
}

impl ReviewService {
    /// Builds the service.
    pub fn new(options: ReviewServiceOptions) -> Self {
        let ReviewServiceOptions {
            environment,
            table,
            limits,
            metrics,
            clock,
        } = options;
        Self(Arc::new(Inner {
            environment: Environment {
                on_long_run: leave_the_worker,
                ..environment
            },
            table,
            turnstile: Turnstile::new(limits.queue, clock.clone()),
            bodies: BodyBudget::new(limits.body, limits.bodies),
            time: limits.time,
            metrics,
            host: env::host_name(),
            id_prefix: clock.now().as_microsecond(),
            clock,
            n_requests: AtomicU64::new(0),
        }))
    }

    async fn answer<B>(self, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let Some(route) = Route::parse(parts.uri.path()) else {
            return reply::not_found();
        };
        if parts.method != Method::POST {
            return reply::wrong_method();
        }
        let request_id = self.0.request_id(&parts.headers);
        let mut reply = self
            .0
            .evaluate_request(&route, &parts, body, &request_id)
            .await
            .unwrap_or_else(|refusal| self.0.refuse(&refusal));
        reply.headers_mut().insert(REQUEST_ID.clone(), request_id);
        reply
    }
}

impl Inner {
    /// Evaluates a request. Returns the verdict, or why there is none.
    async fn evaluate_request<B>(
        &self,
        route: &Route<'_>,
        parts: &Parts,
        body: B,
        request_id: &HeaderValue,
    ) -> Result<Reply, Refusal>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let deadline = time_limit::deadline(self.time, parts.uri.query());
        if !is_json(&parts.headers) {
            return Err(Refusal::MediaType);
        }
        let body = self.bodies.read(body, &self.clock, BODY_PATIENCE).await?;
        let review = Review::parse(route.endpoint, &body.bytes)?;
        let served = self.find(route)?;

        let span = span::open(route.endpoint, &self.host, &served.id, &review);
        let started = self.clock.moment();
        let evaluation = self
            .evaluate(&served, route.endpoint, &review, deadline, &span)
            .await?;
        let took = self.clock.moment().since(started);

        self.metrics
            .evaluated(&served, route.endpoint, review.request(), &evaluation, took);
        let request_id = request_id.to_str().unwrap_or_default();
        span::close(&span, &evaluation, took, request_id);
        Ok(reply::review(match review {
            Review::Admission(_) => evaluation.response.to_review(),
            Review::Raw(_) => evaluation.response.to_raw_review(),
        }))
    }

    fn find(&self, route: &Route<'_>) -> Result<Arc<Served>, Refusal> {
        let generation = route
            .generation
            .map_or(Generation::Serving, Generation::Exactly);
        // From here on the request keeps this policy, even if the table is swapped meanwhile.
        self.table
            .load()
            .find(&route.id, generation)
            .map_err(|error| match error {
                NotServed::Unknown => Refusal::Unknown(route.id.to_string()),
                NotServed::Malformed => Refusal::Fault,
            })
    }

    async fn evaluate(
        &self,
        served: &Served,
        endpoint: Endpoint,
        review: &Review<'_>,
        deadline: Deadline,
        span: &Span,
    ) -> Result<Evaluation, Refusal> {
        if self.is_always_accepted(review) {
            return Ok(without_guest(AdmissionResponse::allow(&review.uid())));
        }
        let policy = match &served.policy {
            Ok(policy) => policy,
            Err(reason) => {
                return Ok(without_guest(AdmissionResponse::error(
                    &review.uid(),
                    reason,
                )));
            }
        };
        let before = self.clock.moment();
        let pass = self.turnstile.enter(&served.lane, deadline).await;
        let pass = pass.map_err(Refusal::Shed)?;
        self.metrics.waited(self.clock.moment().since(before));
        let evaluate = || {
            // A panic must not end the other requests of the connection.
            catch_unwind(AssertUnwindSafe(|| {
                run(policy, &self.environment, endpoint, review, deadline)
            }))
        };
        span.in_scope(|| pass.run(evaluate)).map_err(|_| {
            error!(parent: span, policy_id = %served.id, request_uid = %review.uid(), "evaluation panicked");
            Refusal::Fault
        })
    }

    fn is_always_accepted(&self, review: &Review<'_>) -> bool {
        let namespace = review
            .request()
            .and_then(|request| request.namespace.as_deref());
        let accepted = self.environment.always_accept_namespace.as_deref();
        accepted.is_some() && accepted == namespace
    }

    fn refuse(&self, refusal: &Refusal) -> Reply {
        if let Refusal::Shed(shed) = refusal {
            self.metrics.shed(*shed);
        }
        refusal.reply()
    }

    fn request_id(&self, headers: &HeaderMap) -> HeaderValue {
        let given = headers.get(&REQUEST_ID).filter(|id| {
            !id.is_empty()
                && id.len() <= MAX_REQUEST_ID
                && id.as_bytes().iter().all(u8::is_ascii_graphic)
        });
        given.cloned().unwrap_or_else(|| {
            let n = self.n_requests.fetch_add(1, Ordering::Relaxed);
            HeaderValue::try_from(format!("{:x}-{n}", self.id_prefix))
                .expect("digits and a dash are visible ASCII")
        })
    }
}

impl<'a> Review<'a> {
    fn parse(endpoint: Endpoint, body: &'a [u8]) -> Result<Self, ReviewError> {
        match endpoint {
            Endpoint::Validate | Endpoint::Audit => {
                AdmissionReview::parse(body).map(Self::Admission)
            }
            Endpoint::Raw => RawReview::parse(body).map(Self::Raw),
        }
    }

    fn request(&self) -> Option<&AdmissionRequest<'a>> {
        match self {
            Self::Admission(review) => Some(&review.request),
            Self::Raw(_) => None,
        }
    }

    fn uid(&self) -> std::borrow::Cow<'_, str> {
        match self {
            Self::Admission(review) => review.request.uid.as_ref().into(),
            Self::Raw(review) => review.uid(),
        }
    }
}

fn run(
    policy: &Policy,
    environment: &Environment,
    endpoint: Endpoint,
    review: &Review<'_>,
    deadline: Deadline,
) -> Evaluation {
    match review {
        Review::Raw(review) => policy.evaluate_raw(environment, review, deadline),
        Review::Admission(review) => {
            let origin = match endpoint {
                Endpoint::Audit => Origin::Audit,
                Endpoint::Validate | Endpoint::Raw => Origin::Validate,
            };
            policy.evaluate(environment, &review.request, origin, deadline)
        }
    }
}

/// A response without an evaluation by a guest.
fn without_guest(response: AdmissionResponse) -> Evaluation {
    Evaluation {
        accepted: response.allowed,
        mutated: false,
        error_code: response.status.as_ref().and_then(|status| status.code),
        response,
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
    else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default().trim();
    let Some((kind, subtype)) = essence.split_once('/') else {
        return false;
    };
    let has_suffix = subtype.len() > 5
        && subtype
            .get(subtype.len() - 5..)
            .is_some_and(|suffix| suffix.eq_ignore_ascii_case("+json"));
    kind.eq_ignore_ascii_case("application") && (subtype.eq_ignore_ascii_case("json") || has_suffix)
}

impl<B> Service<Request<B>> for ReviewService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Reply;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}
