//! HTTP responses of the review endpoint.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

pub(crate) type Reply = Response<Full<Bytes>>;

/// A response with a verdict.
pub(crate) fn review(json: Vec<u8>) -> Reply {
    with_json(StatusCode::OK, json)
}

/// A response without a verdict, as `{"message":…,"status":…}`.
pub(crate) fn problem(status: StatusCode, message: &str) -> Reply {
    #[derive(Serialize)]
    struct Problem<'a> {
        message: &'a str,
        status: u16,
    }
    let problem = Problem {
        message,
        status: status.as_u16(),
    };
    let json = serde_json::to_vec(&problem).expect("a text and a number serialise");
    let mut reply = with_json(status, json);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        // API servers retry when they see this header.
        reply
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

/// 404 for a path that is no endpoint.
pub(crate) fn not_found() -> Reply {
    empty(StatusCode::NOT_FOUND)
}

/// 405 for a request that is not a POST.
pub(crate) fn wrong_method() -> Reply {
    let mut reply = empty(StatusCode::METHOD_NOT_ALLOWED);
    reply
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static("POST"));
    reply
}

fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Full::default());
    *reply.status_mut() = status;
    reply
}

fn with_json(status: StatusCode, json: Vec<u8>) -> Reply {
    let mut reply = Response::new(Full::new(json.into()));
    *reply.status_mut() = status;
    reply
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}
