//! The span of an evaluated request, with the names and fields that existing traces have, and the log line that ends it.

use std::time::Duration;

use polity_eval::Evaluation;
use tracing::field::Empty;
use tracing::{Span, info, info_span, record_all};

use crate::review::Review;
use crate::route::Endpoint;

/// Opens the span of a request. Its last fields are filled by [`close`].
pub(crate) fn open(endpoint: Endpoint, host: &str, policy_id: &str, review: &Review<'_>) -> Span {
    /// The name of a span must be a constant, so each span is written out.
    macro_rules! span_of {
        ($name:literal, $request:expr) => {
            info_span!(
                $name,
                request_uid = &*$request.uid,
                host,
                policy_id,
                name = $request.name.as_deref(),
                namespace = $request.namespace.as_deref(),
                operation = &*$request.operation,
                subresource = $request.sub_resource.as_deref(),
                kind_group = &*$request.kind.group,
                kind_version = &*$request.kind.version,
                kind = &*$request.kind.kind,
                resource_group = &*$request.resource.group,
                resource_version = &*$request.resource.version,
                resource = &*$request.resource.resource,
                allowed = Empty,
                mutated = Empty,
                response_code = Empty,
                response_message = Empty,
            )
        };
    }
    match (review, endpoint) {
        (Review::Raw(review), _) => info_span!(
            "validation_raw",
            request_uid = &*review.uid(),
            host,
            policy_id,
            allowed = Empty,
            mutated = Empty,
            response_code = Empty,
            response_message = Empty,
        ),
        (Review::Admission(review), Endpoint::Audit) => span_of!("audit", review.request),
        (Review::Admission(review), Endpoint::Validate | Endpoint::Raw) => {
            span_of!("validation", review.request)
        }
    }
}

/// Records the outcome in the span and in a log line.
pub(crate) fn close(span: &Span, evaluation: &Evaluation, took: Duration, request_id: &str) {
    let response = &evaluation.response;
    record_all!(
        span,
        allowed = response.allowed,
        mutated = evaluation.mutated,
        response_code = evaluation.error_code,
        response_message = response.message(),
    );
    let took_ms = took.as_micros() as f64 / 1e3;
    info!(parent: span, request_id, took_ms, "request evaluated");
}
