//! Everything that is not a resource: discovery, OpenAPI, version, health, token keys.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HOST, IF_NONE_MATCH, LOCATION, VARY,
};
use http::{HeaderValue, Method, Response, StatusCode};
use jiff::SignedDuration;
use serde_json::Value;

use super::{Incoming, health, respond};
use crate::cluster::Cluster;
use crate::metrics::RequestMetrics;
use crate::openapi;
use crate::request::accept;
use crate::{discovery, version};
use polity_kinds::status::ApiError;

/// Handles a path outside the resources.
pub fn answer(
    cluster: &Arc<Cluster>,
    incoming: &Incoming,
    path: &str,
    metrics: &RequestMetrics,
) -> Result<Response<Body>, ApiError> {
    let pretty = respond::wants_pretty(incoming);
    if let Some(response) = health::answer(incoming, path, &cluster.health()) {
        return Ok(response);
    }
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    if !matches!(incoming.parts.method, Method::GET | Method::HEAD) {
        return match segments.first() {
            Some(&("api" | "apis" | "version")) => Err(ApiError::no_such_method()),
            _ => Ok(respond::page_not_found()),
        };
    }
    let segments = match segments.as_slice() {
        [head @ .., ""] => head,
        all => all,
    };
    let registry = cluster.registry();
    let found: Option<Value> = match segments {
        ["api" | "apis"] => return discovery_root(cluster, incoming, segments[0] == "api", pretty),
        ["api", version] => discovery::resource_list(&registry, "", version),
        ["apis", group] => discovery::group(&registry, group),
        ["apis", group, version] => discovery::resource_list(&registry, group, version),
        ["metrics"] => return Ok(respond::text(StatusCode::OK, metrics.render())),
        ["version"] => Some(version::document()),
        ["openapi", "v2"] if wants_protobuf(incoming) => {
            return Ok(respond::protobuf(openapi::v2_protobuf()));
        }
        ["openapi", "v2"] => Some(openapi::v2_json()),
        ["openapi", "v3"] => Some(cluster.openapi().index()),
        ["openapi", "v3", rest @ ..] => {
            return Ok(openapi_document(cluster, incoming, &rest.join("/")));
        }
        [".well-known", "openid-configuration"] => Some(cluster.identity().openid_configuration()),
        ["openid", "v1", "jwks"] => Some(cluster.identity().jwks()),
        [] => Some(root(&registry)),
        _ => None,
    };
    Ok(match found {
        None => return respond::nothing_at(path),
        Some(_) if !accept::accepts_json(incoming.header(ACCEPT)) => {
            return Err(accept::not_acceptable());
        }
        Some(value) => respond::value(StatusCode::OK, &value, pretty),
    })
}

fn wants_protobuf(incoming: &Incoming) -> bool {
    incoming
        .header(ACCEPT)
        .is_some_and(|accept| accept.contains("protobuf"))
}

/// The list of served paths.
fn root(registry: &crate::registry::Registry) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for group in registry
        .groups()
        .iter()
        .filter(|group| !group.name.is_empty())
    {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(
            group
                .versions
                .iter()
                .map(|version| format!("/apis/{}/{version}", group.name)),
        );
    }
    paths.extend(
        [
            "/healthz",
            "/livez",
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]
        .map(str::to_owned),
    );
    serde_json::json!({"paths": paths})
}

fn discovery_root(
    cluster: &Cluster,
    incoming: &Incoming,
    core: bool,
    pretty: bool,
) -> Result<Response<Body>, ApiError> {
    let registry = cluster.registry();
    let Some(wanted) = accept::discovery_version(incoming.header(ACCEPT)) else {
        if !accept::accepts_json(incoming.header(ACCEPT)) {
            return Err(accept::not_acceptable());
        }
        let address = incoming.header(HOST).unwrap_or_default();
        let value = if core {
            discovery::api_versions(address)
        } else {
            discovery::group_list(&registry)
        };
        return Ok(respond::value(StatusCode::OK, &value, pretty));
    };
    let body = serde_json::to_vec(&discovery::aggregated(&registry, core, wanted))
        .map_err(ApiError::internal)?;
    let etag = format!("\"{}\"", openapi::hash(&body));
    let unchanged = incoming.header(IF_NONE_MATCH) == Some(etag.as_str());
    let mut response = if unchanged {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        respond::json(StatusCode::OK, body.into(), pretty)
    };
    let kind =
        format!("application/json;g=apidiscovery.k8s.io;v={wanted};as=APIGroupDiscoveryList");
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_str(&kind).map_err(ApiError::internal)?,
    );
    headers.insert(
        ETAG,
        HeaderValue::from_str(&etag).map_err(ApiError::internal)?,
    );
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    Ok(response)
}

/// Documents are cached by their hash for good.
fn openapi_document(cluster: &Cluster, incoming: &Incoming, key: &str) -> Response<Body> {
    let documents = cluster.openapi();
    let Some(document) = documents.get(key) else {
        return respond::page_not_found();
    };
    let asked = incoming.query.get("hash");
    if !asked.is_empty() && asked != document.hash {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
        let prefix = incoming
            .parts
            .uri
            .path()
            .strip_suffix(&incoming.path)
            .unwrap_or_default();
        if let Ok(location) =
            HeaderValue::from_str(&format!("{prefix}/openapi/v3/{key}?hash={}", document.hash))
        {
            response.headers_mut().insert(LOCATION, location);
        }
        return response;
    }
    let mut response = respond::json(
        StatusCode::OK,
        Bytes::copy_from_slice(&document.body),
        false,
    );
    let headers = response.headers_mut();
    if let Ok(etag) = HeaderValue::from_str(&format!("\"{}\"", document.hash)) {
        headers.insert(ETAG, etag);
    }
    if !asked.is_empty() {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        let year = cluster
            .now()
            .checked_add(SignedDuration::from_hours(24 * 365))
            .unwrap_or(cluster.now());
        if let Ok(expires) =
            HeaderValue::from_str(&year.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())
        {
            headers.insert(EXPIRES, expires);
        }
    }
    response
}
