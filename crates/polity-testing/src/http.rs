//! Requests below kube's types: codes, headers, bodies and the lines of a watch, as they come.

use std::time::Duration;

use bytes::BytesMut;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

/// How long a test waits for a line of a watch, or for its end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client that says what it got. Clones share its connections.
#[derive(Clone)]
pub struct Http {
    client: Client,
}

/// The answer to a request, whatever its code.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    /// The HTTP status.
    pub code: u16,
    /// The response's headers.
    pub headers: HeaderMap,
    /// The body, if it is JSON; else null.
    pub body: Value,
    /// The body as it came.
    pub text: String,
}

impl HttpResponse {
    /// The body of an answer that must have this code.
    #[track_caller]
    pub fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.text);
        self.body
    }

    /// The reason of a Status; empty for everything else.
    pub fn reason(&self) -> &str {
        self.body["reason"].as_str().unwrap_or_default()
    }

    /// The message of a Status; empty for everything else.
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The code and the reason, which is what most refusals are told by.
    pub fn refusal(&self) -> (u16, &str) {
        (self.code, self.reason())
    }

    /// A header as text; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

impl Http {
    /// Sends with this client's credentials.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// GET, with whatever the server likes to answer.
    pub async fn get(&self, path: &str) -> HttpResponse {
        self.send(request(Method::GET, path, Body::empty())).await
    }

    /// GET with an `Accept` header.
    pub async fn get_as(&self, path: &str, accept: &str) -> HttpResponse {
        let mut request = request(Method::GET, path, Body::empty());
        request
            .headers_mut()
            .insert(ACCEPT, accept.parse().expect("a header value"));
        self.send(request).await
    }

    /// POST of JSON.
    pub async fn post(&self, path: &str, body: &Value) -> HttpResponse {
        self.send(json(Method::POST, path, "application/json", body))
            .await
    }

    /// PUT of JSON.
    pub async fn put(&self, path: &str, body: &Value) -> HttpResponse {
        self.send(json(Method::PUT, path, "application/json", body))
            .await
    }

    /// A JSON merge patch.
    pub async fn merge(&self, path: &str, body: &Value) -> HttpResponse {
        self.send(json(
            Method::PATCH,
            path,
            "application/merge-patch+json",
            body,
        ))
        .await
    }

    /// A server-side apply; the path holds the field manager.
    pub async fn apply(&self, path: &str, body: &Value) -> HttpResponse {
        self.send(json(
            Method::PATCH,
            path,
            "application/apply-patch+yaml",
            body,
        ))
        .await
    }

    /// DELETE without a body.
    pub async fn delete(&self, path: &str) -> HttpResponse {
        self.send(request(Method::DELETE, path, Body::empty()))
            .await
    }

    /// DELETE with `DeleteOptions`.
    pub async fn delete_with(&self, path: &str, options: &Value) -> HttpResponse {
        self.send(json(Method::DELETE, path, "application/json", options))
            .await
    }

    /// A request of any shape.
    pub async fn send(&self, request: Request<Body>) -> HttpResponse {
        self.try_send(request)
            .await
            .unwrap_or_else(|error| panic!("no answer: {error:?}"))
    }

    /// A request of any shape, which may get no answer at all.
    pub async fn try_send(&self, request: Request<Body>) -> kube::Result<HttpResponse> {
        let response = self.client.send(request).await?;
        let (parts, body) = response.into_parts();
        let bytes = body.collect_bytes().await?;
        Ok(HttpResponse {
            code: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    }

    /// Opens a watch, which must be answered with 200; the path holds `watch=true`.
    pub async fn watch(&self, path: &str) -> Lines {
        self.watch_as(path, "application/json").await
    }

    /// [`Self::watch`] with an `Accept` header.
    pub async fn watch_as(&self, path: &str, accept: &str) -> Lines {
        let mut request = request(Method::GET, path, Body::empty());
        request
            .headers_mut()
            .insert(ACCEPT, accept.parse().expect("a header value"));
        let response = self
            .client
            .send(request)
            .await
            .unwrap_or_else(|error| panic!("no watch: {error:?}"));
        assert_eq!(response.status(), 200, "{path}");
        Lines {
            body: response.into_body(),
            buffer: BytesMut::new(),
        }
    }
}

/// A request to build upon.
pub fn request(method: Method, path: &str, body: Body) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(path)
        .body(body)
        .expect("a test's path is a URI")
}

/// A request with a JSON body of some content type.
pub fn json(method: Method, path: &str, content_type: &str, body: &Value) -> Request<Body> {
    let mut request = request(method, path, Body::from(body.to_string().into_bytes()));
    request
        .headers_mut()
        .insert(CONTENT_TYPE, content_type.parse().expect("a header value"));
    request
}

/// The lines of an open watch.
pub struct Lines {
    body: Body,
    buffer: BytesMut,
}

impl Lines {
    /// The next event, or `None` at the end of the stream. Panics when the stream breaks, or neither comes.
    pub async fn next(&mut self) -> Option<Value> {
        self.try_next()
            .await
            .unwrap_or_else(|error| panic!("the watch broke: {error}"))
    }

    /// [`Self::next`] of a stream that may break; the error says how.
    pub async fn try_next(&mut self) -> Result<Option<Value>, String> {
        let line = tokio::time::timeout(PATIENCE, self.line()).await;
        line.expect("a line of the watch, or its end, comes in time")
    }

    /// The next event, which must come.
    pub async fn event(&mut self) -> Value {
        self.next().await.expect("the watch goes on")
    }

    /// The next event in short: its type, and the name of its object.
    pub async fn short(&mut self) -> String {
        short(&self.event().await)
    }

    /// Everything up to the end of the stream.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    async fn line(&mut self) -> Result<Option<Value>, String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                let event = serde_json::from_slice(&line);
                return event
                    .map(Some)
                    .map_err(|error| format!("{error} in {line:?}"));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self
                    .buffer
                    .extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Err(format!("{error:?}")),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(format!("it ended within a line: {:?}", self.buffer)),
            }
        }
    }
}

/// An event in short: its type, and the name of its object.
pub fn short(event: &Value) -> String {
    let name = event["object"]["metadata"]["name"]
        .as_str()
        .unwrap_or_default();
    format!("{} {name}", event["type"].as_str().unwrap_or_default())
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::TestServer;

    #[tokio::test]
    async fn answers_are_told_as_they_come() {
        let server = TestServer::start().await;
        let http = server.http().await;
        let maps = "/api/v1/namespaces/default/configmaps";
        let mut watch = http.watch(&format!("{maps}?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=20")).await;
        http.post(maps, &json!({"metadata": {"name": "a"}}))
            .await
            .expect(201);
        http.merge(&format!("{maps}/a"), &json!({"data": {"k": "v"}}))
            .await
            .expect(200);
        let missing = http.get(&format!("{maps}/b")).await;
        assert_eq!(
            (missing.refusal(), missing.message()),
            ((404, "NotFound"), "configmaps \"b\" not found")
        );
        let unknown = http.get("/nowhere").await;
        assert_eq!(
            (
                unknown.code,
                unknown.header("content-type"),
                unknown.text.as_str()
            ),
            (404, "text/plain; charset=utf-8", "404 page not found\n")
        );
        http.delete(&format!("{maps}/a")).await.expect(200);
        assert_eq!(
            [
                watch.short().await,
                watch.short().await,
                watch.short().await
            ],
            ["ADDED a", "MODIFIED a", "DELETED a"]
        );
        server.stop().await;
        assert_eq!(watch.next().await, None);
    }
}
