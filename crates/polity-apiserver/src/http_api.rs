//! From HTTP to the engine and back: one request in, one response out.

pub mod health;
pub mod paths;
pub mod resources;
pub mod respond;
pub mod subresources;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::{AUTHORIZATION, USER_AGENT};
use http::request::Parts;
use http::{Request, Response};
use polity_pki::{Certificate, ClientIdentity};
use polity_runtime::serve::Peer;
use tracing::debug;

use crate::cluster::Cluster;
use crate::engine::Warnings;
use crate::metrics::{RequestLabels, RequestMetrics};
use crate::registry::Registry;
use crate::request::body::{self, Reservation};
use crate::request::path::{self, Target};
use crate::request::query::Query;
use polity_auth::impersonate::Impersonation;
use polity_auth::{Attributes, Authorizer, Credentials, UserInfo};
use polity_kinds::status::ApiError;

/// Reads and other requests that do not stream.
const REQUEST_DEADLINE: Duration = Duration::from_mins(1);
/// The deadline for writes of one object.
const WRITE_DEADLINE: Duration = Duration::from_secs(34);

/// A request to one cluster, its prefix already taken off.
pub struct Incoming {
    pub parts: Parts,
    pub body: Body,
    pub path: String,
    pub query: Query,
    /// The share of the body in the memory limit, held while the request is handled.
    reservation: Reservation,
}

impl Incoming {
    /// Splits a request. `path` is the rest of its path inside the cluster.
    pub fn new(request: Request<Body>, path: String) -> Self {
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        Self {
            parts,
            body,
            path,
            query,
            reservation: Reservation::default(),
        }
    }

    /// Reads the body, or refuses it when it is too large or too much is in flight.
    pub async fn read_body(&mut self, cluster: &Cluster) -> Result<Bytes, ApiError> {
        let (bytes, reservation) =
            body::read(std::mem::take(&mut self.body), cluster.body_budget()).await?;
        self.reservation = reservation;
        Ok(bytes)
    }

    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    }

    /// The manager of a client that names none.
    fn default_manager(&self) -> String {
        let agent = self.header(USER_AGENT).unwrap_or_default();
        let name = agent.split('/').next().unwrap_or_default();
        let printable: String = name.chars().filter(|c| !c.is_control()).take(128).collect();
        if printable.is_empty() {
            "unknown".into()
        } else {
            printable
        }
    }
}

/// Handles one request.
pub async fn handle(
    cluster: &Arc<Cluster>,
    incoming: Incoming,
    metrics: &RequestMetrics,
) -> (Response<Body>, RequestLabels) {
    let target = path::parse(
        &incoming.parts.method,
        &incoming.path,
        incoming.parts.uri.query().unwrap_or_default(),
    );
    let labels = labels_of(&target, &cluster.registry());
    let warnings = Warnings::default();
    let pretty = respond::wants_pretty(&incoming);
    let deadline = match labels.verb.as_str() {
        "create" | "update" | "patch" | "delete" => WRITE_DEADLINE,
        _ => REQUEST_DEADLINE,
    };
    let answer = tokio::time::timeout(
        deadline,
        answer(cluster, incoming, target, &warnings, metrics),
    )
    .await;
    let answer = answer.unwrap_or_else(|_| {
        Err(ApiError::timeout(
            "request did not complete within the allotted timeout",
        ))
    });
    let response = answer.unwrap_or_else(|error| {
        debug!(
            cluster = cluster.name(),
            code = error.code.as_u16(),
            error = &error as &dyn std::error::Error,
            "request refused"
        );
        respond::error(&error, pretty)
    });
    (respond::finish(response, &warnings), labels)
}

/// Only served resources are named, because arbitrary labels of clients would exhaust the memory.
fn labels_of(target: &Target, registry: &Registry) -> RequestLabels {
    match target {
        Target::Resource(request) => {
            let def = registry.get(&request.group, &request.version, &request.resource);
            let served_below = def.is_some_and(|def| {
                def.subresources
                    .iter()
                    .any(|sub| sub.name() == request.subresource)
            });
            RequestLabels {
                verb: request.verb.clone(),
                group: def.map(|def| def.gvk.group.clone()).unwrap_or_default(),
                resource: def.map(|def| def.plural.clone()).unwrap_or_default(),
                subresource: if served_below {
                    request.subresource.clone()
                } else {
                    String::new()
                },
            }
        }
        Target::NonResource { verb, .. } => RequestLabels {
            verb: if matches!(
                verb.as_str(),
                "get" | "head" | "post" | "put" | "patch" | "delete" | "options"
            ) {
                verb.clone()
            } else {
                "other".into()
            },
            ..RequestLabels::default()
        },
    }
}

async fn answer(
    cluster: &Arc<Cluster>,
    incoming: Incoming,
    target: Target,
    warnings: &Warnings,
    metrics: &RequestMetrics,
) -> Result<Response<Body>, ApiError> {
    let user = authenticate(cluster, &incoming)?;
    match target {
        Target::Resource(request) => {
            let attributes = Attributes::Resource {
                verb: &request.verb,
                group: &request.group,
                version: &request.version,
                resource: &request.resource,
                subresource: &request.subresource,
                name: &request.name,
                namespace: &request.namespace,
            };
            let user = authorized(cluster, &incoming, user, &attributes)?;
            resources::answer(cluster, incoming, request, &user, warnings).await
        }
        Target::NonResource { verb, path } => {
            authorized(
                cluster,
                &incoming,
                user,
                &Attributes::NonResource {
                    verb: &verb,
                    path: &path,
                },
            )?;
            paths::answer(cluster, &incoming, &path, metrics)
        }
    }
}

fn authenticate(cluster: &Arc<Cluster>, incoming: &Incoming) -> Result<UserInfo, ApiError> {
    let identity = certificate_identity(cluster, incoming);
    let credentials = Credentials {
        certificate: identity.as_ref(),
        authorization: incoming.header(AUTHORIZATION),
    };
    cluster.identity().authenticator().authenticate(
        &credentials,
        &cluster.bound_objects(),
        cluster.now(),
    )
}

/// The subject of a client certificate that the CA of this cluster signed. Certificates of other clusters pass the
/// handshake too, but are not valid here.
fn certificate_identity(cluster: &Cluster, incoming: &Incoming) -> Option<ClientIdentity> {
    let peer = incoming.parts.extensions.get::<Peer>()?;
    let certificate = Certificate::from_der(peer.certificates.first()?).ok()?;
    certificate
        .check_signed_by(cluster.identity().client_authority()?, cluster.now())
        .ok()?;
    certificate.client_identity()
}

/// The user to act as, if the request is authorized.
fn authorized(
    cluster: &Cluster,
    incoming: &Incoming,
    user: UserInfo,
    request: &Attributes<'_>,
) -> Result<UserInfo, ApiError> {
    let user = match Impersonation::from_headers(&incoming.parts.headers)? {
        None => user,
        Some(wanted) => {
            let roles = cluster.roles();
            wanted.authorize(
                &Authorizer {
                    mode: cluster.authorization(),
                    roles: &roles,
                },
                &user,
                request,
            )?
        }
    };
    cluster.authorize(&user, request)?;
    Ok(user)
}
