//! A webhook server that both API servers call. The path selects the behaviour: `{hook}/allow`, `{hook}/deny`, …

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use polity_pki::{Authority, ServerNames};
use polity_runtime::serve::Server;
use polity_runtime::tls::{ServerTls, TlsMaterial};
use polity_runtime::{Clock, Tasks};
use serde_json::{Value, json};

const LIFE: Duration = Duration::from_secs(24 * 3600);

/// The running webhook server.
pub(crate) struct Hooks {
    address: SocketAddr,
    ca_bundle: String,
}

impl Hooks {
    pub(crate) async fn start(tasks: &Tasks, clock: &Clock) -> Result<Self> {
        let authority = Authority::create("hooks", LIFE, clock.now())?;
        let names = ServerNames::new("hooks").ip([127, 0, 0, 1]);
        let issued = authority.issue_server(&names, LIFE, clock.now())?;
        let tls = ServerTls::new(&TlsMaterial::new(
            issued.certificate.to_pem(),
            issued.key.to_pem(),
        ))?;
        let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await?
            .with_tls(tls);
        let address = server.address();
        let router = Router::new().route("/{behaviour}", post(review));
        let shutdown = tasks.shutdown().clone();
        tasks.spawn("webhooks", async move {
            server.run(router, shutdown).await;
            Ok::<(), std::convert::Infallible>(())
        });
        Ok(Self {
            address,
            ca_bundle: STANDARD.encode(authority.certificate().to_pem()),
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(crate) fn ca_bundle(&self) -> &str {
        &self.ca_bundle
    }
}

async fn review(Path(behaviour): Path<String>, Json(review): Json<Value>) -> Response {
    let request = review["request"].clone();
    let Some(mut response) = response(&behaviour, &request) else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "out of order").into_response();
    };
    response["uid"] = request["uid"].clone();
    Json(
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}),
    )
    .into_response()
}

/// The response for a behaviour. `None` produces an HTTP error.
fn response(behaviour: &str, request: &Value) -> Option<Value> {
    let patch = |operations: Value| json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())});
    Some(match behaviour {
        "allow" => json!({"allowed": true}),
        "deny" => json!({"allowed": false}),
        "deny-because" => {
            json!({"allowed": false, "status": {"message": "not on my watch", "code": 403, "reason": "Forbidden"}})
        }
        "deny-teapot" => {
            json!({"allowed": false, "status": {"message": "short and stout", "code": 418}})
        }
        "deny-invalid" => json!({"allowed": false, "status": {
            "message": "bad color", "code": 422, "reason": "Invalid",
            "details": {"causes": [{"field": "data.color", "reason": "FieldValueInvalid", "message": "no"}]},
        }}),
        "warn" => json!({"allowed": true, "warnings": ["mind the gap", "mind the \"quotes\""]}),
        "label" => {
            patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"touched": "yes"}}]))
        }
        "bad-patch" => patch(json!([{"op": "remove", "path": "/spec/nothing/here"}])),
        "rename" => patch(json!([{"op": "replace", "path": "/metadata/name", "value": "other"}])),
        "echo" => patch(
            json!([{"op": "add", "path": "/metadata/annotations", "value": {"seen": review_of(request)}}]),
        ),
        _ => return None,
    })
}

/// The received review as text. The webhook stores it in an annotation of the object, so that it is compared too.
fn review_of(request: &Value) -> String {
    let mut shown = request.clone();
    if let Some(members) = shown.as_object_mut() {
        members.remove("uid");
        if let Some(object) = members.get_mut("object") {
            object["metadata"]["managedFields"] = json!("…");
        }
    }
    shown.to_string()
}
