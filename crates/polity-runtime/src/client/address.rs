//! Adds the address of the API server to the errors of a client.
//!
//! A `kube::Error` does not contain the server. A layer around the client adds it: a connection error becomes an
//! [`Unreachable`], and a Status gets the address as its `selfLink`, a field that API servers leave empty.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use kube::client::{Body, DynBody};
use serde_json::{Value, json};
use tower::layer::layer_fn;
use tower::{BoxError, Service};

/// No response arrived from an API server.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach the Kubernetes API at {server}")]
pub struct Unreachable {
    /// The address of the server.
    pub server: String,
    #[source]
    pub error: BoxError,
}

/// An address for messages, without the slash of an empty path.
fn shown(server: &Uri) -> String {
    server.to_string().trim_end_matches('/').to_owned()
}

/// A client's service that names its server in failures.
pub(super) struct Named<S> {
    inner: S,
    server: String,
}

/// The layer that names `server` in failures.
pub(super) fn layer<S>(server: &Uri) -> impl tower::Layer<S, Service = Named<S>> {
    let server = shown(server);
    layer_fn(move |inner| Named {
        inner,
        server: server.clone(),
    })
}

impl<S> Service<Request<Body>> for Named<S>
where
    S: Service<Request<Body>, Response = Response<Box<DynBody>>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<Box<DynBody>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(named(self.inner.call(request), self.server.clone()))
    }
}

async fn named(
    response: impl Future<Output = Result<Response<Box<DynBody>>, BoxError>> + Send,
    server: String,
) -> Result<Response<Box<DynBody>>, BoxError> {
    match response.await {
        Ok(response) if is_failure(&response) => {
            let (mut parts, body) = response.into_parts();
            let body = body.collect().await?.to_bytes();
            let body = with_server(&body, parts.status.as_u16(), &server);
            parts.headers.remove(http::header::CONTENT_LENGTH);
            let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
            Ok(Response::from_parts(parts, Box::new(body)))
        }
        Ok(response) => Ok(response),
        // An error of the client itself, such as unreadable credentials, is not a connection error.
        Err(error) if error.is::<kube::Error>() => Err(error),
        Err(error) => Err(Unreachable { server, error }.into()),
    }
}

fn is_failure<B>(response: &Response<B>) -> bool {
    response.status().is_client_error() || response.status().is_server_error()
}

/// The Status in a response, with the address of the server. A response of something else becomes a Status.
fn with_server(body: &[u8], code: u16, server: &str) -> Vec<u8> {
    let mut status = match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) if fields.contains_key("message") => Value::Object(fields),
        _ => json!({
            "kind": "Status",
            "status": "Failure",
            "code": code,
            "message": String::from_utf8_lossy(body).trim(),
        }),
    };
    if !status["metadata"].is_object() {
        status["metadata"] = json!({});
    }
    status["metadata"]["selfLink"] = Value::from(server);
    status.to_string().into_bytes()
}
