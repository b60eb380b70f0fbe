//! The HTTP side: from a request to a verdict, without a socket.
//!
//! The order is that of the contract: media type, size, syntax and shape of the body, then the policy.
//! A body is read once and never copied; the verdict is made on the thread that read it.

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
use crate::route::{Asked, Route};
use crate::span;
use crate::table::{Generation, NotServed, PolicyTable, Served};
use crate::time_limit;
use crate::turnstile::{Turnstile, leave_the_worker};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What ties the lines of a log to a request; taken over from the caller if there is one.
static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longer ones are replaced: they go into every line.
const MAX_REQUEST_ID: usize = 128;
/// How long a body may take to arrive.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// What requests may take.
#[derive(Debug, Clone, Copy)]
pub struct RequestLimits {
    /// One body in bytes.
    pub body: usize,
    /// All bodies in memory, in bytes.
    pub bodies: usize,
    /// How many are evaluated, and how many wait.
    pub queue: FairLimits,
    /// How long a request may take when its caller does not say less; `None`: for ever.
    pub time: Option<Duration>,
}

/// What a [`ReviewService`] is made of.
pub struct ReviewServiceOptions {
    /// What all evaluations share.
    pub environment: Environment,
    /// What is served; swapped by whoever keeps it up to date.
    pub table: Arc<ArcSwap<PolicyTable>>,
    /// What requests may take.
    pub limits: RequestLimits,
    /// Where things are counted.
    pub metrics: ServerMetrics,
    /// What time it is.
    pub clock: Clock,
}

/// The service. Clones are the same.
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

/// A body that was understood.
#[expect(
    clippy::large_enum_variant,
    reason = "one for each request, on its stack; a box would be an allocation more"
)]
pub(crate) enum Review<'a> {
    Admission(AdmissionReview<'a>),
    Raw(RawReview<'a>),
}

impl ReviewService {
    /// A service over a table.
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
            .judge(&route, &parts, body, &request_id)
            .await
            .unwrap_or_else(|refusal| self.0.refuse(&refusal));
        reply.headers_mut().insert(REQUEST_ID.clone(), request_id);
        reply
    }
}

impl Inner {
    /// The verdict, or why there is none.
    async fn judge<B>(
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
        let review = Review::parse(route.asked, &body.bytes)?;
        let served = self.find(route)?;

        let span = span::open(route.asked, &self.host, &served.id, &review);
        let started = self.clock.moment();
        let evaluation = self
            .evaluate(&served, route.asked, &review, deadline, &span)
            .await?;
        let took = self.clock.moment().since(started);

        self.metrics
            .judged(&served, route.asked, review.request(), &evaluation, took);
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
        // From here on the request keeps what it found, whatever is swapped in meanwhile.
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
        asked: Asked,
        review: &Review<'_>,
        deadline: Deadline,
        span: &Span,
    ) -> Result<Evaluation, Refusal> {
        if self.is_always_accepted(review) {
            return Ok(unjudged(AdmissionResponse::allow(&review.uid())));
        }
        let policy = match &served.policy {
            Ok(policy) => policy,
            Err(reason) => {
                return Ok(unjudged(AdmissionResponse::error(&review.uid(), reason)));
            }
        };
        let before = self.clock.moment();
        let pass = self.turnstile.enter(&served.lane, deadline).await;
        let pass = pass.map_err(Refusal::Shed)?;
        self.metrics.waited(self.clock.moment().since(before));
        let evaluate = || {
            // A fault of ours must not take the connection's other requests with it.
            catch_unwind(AssertUnwindSafe(|| {
                run(policy, &self.environment, asked, review, deadline)
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
    fn parse(asked: Asked, body: &'a [u8]) -> Result<Self, ReviewError> {
        match asked {
            Asked::Validate | Asked::Audit => AdmissionReview::parse(body).map(Self::Admission),
            Asked::Raw => RawReview::parse(body).map(Self::Raw),
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
    asked: Asked,
    review: &Review<'_>,
    deadline: Deadline,
) -> Evaluation {
    match review {
        Review::Raw(review) => policy.evaluate_raw(environment, review, deadline),
        Review::Admission(review) => {
            let origin = match asked {
                Asked::Audit => Origin::Audit,
                Asked::Validate | Asked::Raw => Origin::Validate,
            };
            policy.evaluate(environment, &review.request, origin, deadline)
        }
    }
}

/// A response that no guest had a part in.
fn unjudged(response: AdmissionResponse) -> Evaluation {
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
