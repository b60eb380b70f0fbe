//! Responses: content types, warnings, pretty printing.

use axum::body::Body;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, USER_AGENT, WARNING};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use polity_core::Findings;
use serde_json::Value;
use uuid::Uuid;

use super::Incoming;
use crate::engine::Warnings;
use polity_kinds::builtin::builtin_resources;
use polity_kinds::status::ApiError;

/// If there are many warnings, each is truncated to this length, and the rest is dropped.
const WARNING_CUT: usize = 256;
const WARNINGS_TOTAL: usize = 4096;
/// Clients take a hundred headers or so.
const WARNINGS_MOST: usize = 64;

/// People at a terminal or a browser get indented JSON.
pub fn wants_pretty(incoming: &Incoming) -> bool {
    if incoming.query.has("pretty") {
        return incoming.query.flag("pretty").unwrap_or(false);
    }
    let agent = incoming.header(USER_AGENT).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"]
        .iter()
        .any(|prefix| agent.starts_with(prefix))
}

/// A JSON response from bytes.
pub fn json(code: StatusCode, body: Bytes, pretty: bool) -> Response<Body> {
    let body = if pretty {
        indented(&body).unwrap_or(body)
    } else {
        body
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A JSON response from a value.
pub fn value(code: StatusCode, body: &Value, pretty: bool) -> Response<Body> {
    json(
        code,
        serde_json::to_vec(body)
            .expect("a JSON value serialises into memory")
            .into(),
        pretty,
    )
}

fn indented(body: &[u8]) -> Option<Bytes> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let mut text = serde_json::to_vec_pretty(&value).ok()?;
    text.push(b'\n');
    Some(text.into())
}

pub fn text(code: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

/// The one document that is served in protobuf.
pub fn protobuf(body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    let kind =
        HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The response for an unknown path. Below the built-in groups it is an error, elsewhere a page.
pub fn nothing_at(path: &str) -> Result<Response<Body>, ApiError> {
    let mut segments = path.split('/').skip(1);
    let known = match (segments.next(), segments.next()) {
        (Some("api"), Some(_)) => true,
        (Some("apis"), Some(group)) => builtin_resources().iter().any(|def| def.gvk.group == group),
        _ => false,
    };
    if known {
        Err(ApiError::no_such_resource())
    } else {
        Ok(page_not_found())
    }
}

pub fn page_not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// An error as a Status.
pub fn error(error: &ApiError, pretty: bool) -> Response<Body> {
    let mut response = value(error.code, &error.to_value(), pretty);
    let seconds = error
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    if seconds > 0 {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Adds the headers that every response has.
pub fn finish(mut response: Response<Body>, warnings: &Warnings) -> Response<Body> {
    let headers = response.headers_mut();
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
    if let Ok(id) = HeaderValue::from_str(&Uuid::new_v4().to_string()) {
        headers.insert(HeaderName::from_static("audit-id"), id);
    }
    for warning in shown(&warnings.take()) {
        if let Ok(header) = HeaderValue::from_str(&format!("299 - {}", quoted(&warning))) {
            headers.append(WARNING, header);
        }
    }
    response
}

/// The warnings there is space for, and how many more there are.
fn shown(warnings: &Findings) -> Vec<String> {
    let is_long = warnings.iter().map(String::len).sum::<usize>() > WARNINGS_TOTAL;
    let mut n_bytes = 0;
    let mut shown: Vec<String> = warnings
        .iter()
        .take(WARNINGS_MOST)
        .map(|warning| match warning.char_indices().nth(WARNING_CUT) {
            Some((end, _)) if is_long => warning[..end].to_owned(),
            _ => warning.clone(),
        })
        .take_while(|warning| {
            n_bytes += warning.len();
            n_bytes <= WARNINGS_TOTAL || !is_long
        })
        .collect();
    let n_left = warnings.len() - shown.len() + warnings.n_more();
    if n_left > 0 {
        shown.push(format!("and {n_left} more warnings"));
    }
    shown
}

/// A quoted string of HTTP, without the characters that a header cannot contain.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted_and_sent_once() {
        let warnings = Warnings::default();
        for text in [
            r#"unknown field "spec.x""#,
            r#"unknown field "spec.x""#,
            "line\nbreak",
        ] {
            warnings.add(text);
        }
        let response = finish(page_not_found(), &warnings);
        let all: Vec<&str> = response
            .headers()
            .get_all(WARNING)
            .iter()
            .map(|value| value.to_str().unwrap())
            .collect();
        assert_eq!(
            all,
            [
                r#"299 - "unknown field \"spec.x\"""#,
                r#"299 - "line break""#
            ]
        );
    }

    #[test]
    fn many_warnings_are_cut() {
        let warnings = Warnings::default();
        warnings.add("x".repeat(5000));
        let response = finish(page_not_found(), &warnings);
        assert!(response.headers()[WARNING].len() < 300);
    }

    #[test]
    fn plain_not_found() {
        let response = finish(page_not_found(), &Warnings::default());
        assert_eq!(response.status(), 404);
        assert_eq!(
            response.headers()[CONTENT_TYPE],
            "text/plain; charset=utf-8"
        );
        assert_eq!(response.headers()[CACHE_CONTROL], "no-cache, private");
        assert!(response.headers().contains_key("audit-id"));
    }
}
