//! The router of the webhooks, and the lookups behind their answers.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::{StatusCode, Uri};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use polity_api::policies::v1::PolicyServer;
use serde_json::{Value, json};
use tracing::warn;

use super::{Facts, OwnKind, Verb, answer, route};
use crate::names::{UniqueNames, stateful_set};
use crate::objects::Setup;
use crate::validation::{References, StatusWriter};

/// The key of a Sigstore trust config in its ConfigMap.
const TRUST_CONFIG: &str = "sigstore-trust-config";
/// Where a token says which pod it was given to.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";

/// Looks up what answers depend on.
#[derive(Clone)]
pub struct Reviewer {
    client: Client,
    setup: Setup,
    unique_names: UniqueNames,
    /// As whom the controller writes.
    own_user: String,
}

impl Reviewer {
    /// A reviewer for the policy servers that are set up in this way.
    pub fn new(client: Client, setup: Setup, unique_names: UniqueNames, own_user: String) -> Self {
        Self {
            client,
            setup,
            unique_names,
            own_user,
        }
    }

    async fn facts(&self, verb: Verb, kind: OwnKind, request: &Value) -> kube::Result<Facts> {
        let mut facts = Facts {
            unique_names: self.unique_names,
            references: References::default(),
            writer: StatusWriter::Other,
        };
        match (verb, kind) {
            (Verb::Validate, OwnKind::Server) => {
                facts.references = self.references(request).await?;
            }
            (Verb::Validate, OwnKind::Revision) => {
                facts.writer = self.writer(&request["userInfo"]).await?;
            }
            (Verb::Mutate, _) | (Verb::Validate, OwnKind::Policy(_)) => {}
        }
        Ok(facts)
    }

    async fn references(&self, request: &Value) -> kube::Result<References> {
        let spec = &request["object"]["spec"];
        let namespace = &self.setup.namespace;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let secret = match spec["imagePullSecret"].as_str() {
            Some(name) => secrets.get_opt(name).await?,
            None => None,
        };
        let map = match spec["sigstoreTrustConfig"].as_str() {
            Some(name) => maps.get_opt(name).await?,
            None => None,
        };
        let data = map.and_then(|map| map.data);
        Ok(References {
            image_pull_secret_type: secret.map(|secret| secret.type_.unwrap_or_default()),
            has_sigstore_trust_config: data.is_some_and(|data| data.contains_key(TRUST_CONFIG)),
            is_update: request["operation"] == "UPDATE",
        })
    }

    /// Who writes: the controller itself, the account of some policy servers, or somebody.
    async fn writer(&self, user: &Value) -> kube::Result<StatusWriter> {
        let name = user["username"].as_str().unwrap_or_default();
        if name == self.own_user {
            return Ok(StatusWriter::Controller);
        }
        let prefix = format!("system:serviceaccount:{}:", self.setup.namespace);
        let Some(account) = name.strip_prefix(&prefix) else {
            return Ok(StatusWriter::Other);
        };
        let servers: Api<PolicyServer> = Api::all(self.client.clone());
        let servers = servers.list(&ListParams::default()).await?;
        let of_account = servers.iter().filter(|server| {
            let own = server.spec.service_account_name.as_deref();
            own.unwrap_or(&self.setup.service_account) == account
        });
        let servers = of_account.map(ResourceExt::name_any).collect();
        Ok(replica(servers, user["extra"][POD_NAME][0].as_str()))
    }
}

/// A replica of one of the servers that share an account. A pod is of one server only, and has one number.
fn replica(servers: Vec<String>, pod: Option<&str>) -> StatusWriter {
    let Some(pod) = pod else {
        return StatusWriter::Replica {
            servers,
            ordinal: None,
        };
    };
    let (workload, ordinal) = pod.rsplit_once('-').unwrap_or((pod, ""));
    let mut servers = servers.into_iter();
    StatusWriter::Replica {
        servers: servers
            .find(|server| stateful_set(server) == workload)
            .into_iter()
            .collect(),
        ordinal: ordinal.parse().ok(),
    }
}

/// The webhooks, as a router.
pub fn router(reviewer: Reviewer) -> Router {
    Router::new().fallback(review).with_state(reviewer)
}

async fn review(State(reviewer): State<Reviewer>, uri: Uri, Json(review): Json<Value>) -> Response {
    let Some((verb, kind)) = route(uri.path()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match reviewer.facts(verb, kind, &review["request"]).await {
        Ok(facts) => Json(answer(verb, kind, &review, &facts)).into_response(),
        Err(error) => {
            warn!(
                error = &error as &dyn std::error::Error,
                "could not look up what a review depends on"
            );
            let status = json!({ "message": error.to_string() });
            (StatusCode::INTERNAL_SERVER_ERROR, Json(status)).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_reports_for_its_own_server_and_number() {
        let all = || vec!["a".to_owned(), "a-b".to_owned()];
        for (pod, servers, ordinal) in [
            (None, all(), None),
            (Some("policy-server-a-0"), vec!["a".to_owned()], Some(0)),
            (
                Some("policy-server-a-b-12"),
                vec!["a-b".to_owned()],
                Some(12),
            ),
            (Some("policy-server-c-0"), vec![], Some(0)),
            (Some("somebody"), vec![], None),
        ] {
            let expected = StatusWriter::Replica { servers, ordinal };
            assert_eq!(replica(all(), pod), expected, "{pod:?}");
        }
    }
}
