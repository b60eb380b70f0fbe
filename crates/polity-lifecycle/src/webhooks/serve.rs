//! The router of the webhooks, and the lookups behind their answers.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::{StatusCode, Uri};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use polity_api::policies::names;
use polity_api::policies::v1::{PolicyRevision, PolicyServer};
use serde_json::{Value, json};
use tracing::warn;

use super::{Facts, OwnKind, ServedPolicies, Verb, answer, route};
use crate::names::{UniqueNames, stateful_set};
use crate::objects::{self, Setup};
use crate::validation::{References, StatusWriter};

/// The key of a Sigstore trust config in its ConfigMap.
const TRUST_CONFIG: &str = "sigstore-trust-config";
/// The claims of a token that name the pod it was issued to.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
/// How many revisions are read to count the policies of a policy server.
const MOST_REVISIONS: u32 = 500;
/// How long the count may take. The webhook of deletions has 5 seconds.
const COUNT_PATIENCE: Duration = Duration::from_secs(3);

/// Looks up what answers depend on.
#[derive(Clone)]
pub struct Reviewer {
    client: Client,
    setup: Setup,
    unique_names: UniqueNames,
    /// The user name of the controller.
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
            served: None,
        };
        match (verb, kind) {
            (Verb::Validate, OwnKind::Server) if request["operation"] == "DELETE" => {
                facts.served = self
                    .served(request["name"].as_str().unwrap_or_default())
                    .await;
            }
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

    /// Counts the policies that a policy server serves. A failure is no reason to refuse the deletion of the server.
    async fn served(&self, server: &str) -> Option<ServedPolicies> {
        let revisions: Api<PolicyRevision> = self.namespaced();
        let of_server = format!("{}={server}", names::REVISION_POLICY_SERVER);
        let params = ListParams::default()
            .labels(&of_server)
            .limit(MOST_REVISIONS);
        match tokio::time::timeout(COUNT_PATIENCE, revisions.list(&params)).await {
            Ok(Ok(list)) => {
                let has_more = list
                    .metadata
                    .continue_
                    .is_some_and(|token| !token.is_empty());
                Some(ServedPolicies::of(&list.items, has_more))
            }
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                warn!(
                    name = server,
                    error, "could not count the policies of a policy server"
                );
                None
            }
            Err(_) => {
                warn!(
                    name = server,
                    "counting the policies of a policy server took too long"
                );
                None
            }
        }
    }

    async fn references(&self, request: &Value) -> kube::Result<References> {
        let spec = &request["object"]["spec"];
        let secrets: Api<Secret> = self.namespaced();
        let maps: Api<ConfigMap> = self.namespaced();
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

    /// The writer of a status: the controller itself, a replica of some policy servers, or anybody else.
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
        let of_account = servers
            .iter()
            .filter(|server| objects::account(server) == account);
        let of_account = of_account.map(ResourceExt::name_any).collect();
        let claim = |key: &str| user["extra"][key][0].as_str();
        let writer = replica(of_account, claim(POD_NAME));
        let (StatusWriter::Replica { servers: own, .. }, Some(pod)) = (&writer, claim(POD_NAME))
        else {
            return Ok(writer);
        };
        if !own.is_empty() {
            return Ok(writer);
        }
        // Replicas that were started before the account of their server changed report until they are replaced.
        let all = servers.iter().map(ResourceExt::name_any).collect();
        let former = replica(all, Some(pod));
        let pods: Api<Pod> = self.namespaced();
        let found = pods.get_opt(pod).await?;
        let is_it = found.is_some_and(|found| is_replica(&found, &former, account, claim(POD_UID)));
        Ok(if is_it { former } else { writer })
    }

    fn namespaced<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.setup.namespace)
    }
}

/// The replica that a pod name stands for, among servers that share an account. A pod belongs to one server and has one
/// ordinal. Without a pod name the writer can be any replica of these servers.
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

/// Whether a pod is this replica of the StatefulSet of its server, runs under this account, and is the one that the
/// token was issued to.
fn is_replica(pod: &Pod, replica: &StatusWriter, account: &str, uid: Option<&str>) -> bool {
    let StatusWriter::Replica { servers, .. } = replica else {
        return false;
    };
    let [server] = servers.as_slice() else {
        return false;
    };
    let workload = stateful_set(server);
    let mut owners = pod.owner_references().iter();
    objects::account_of(pod) == account
        && pod.labels().get(names::WORKLOAD_POLICY_SERVER) == Some(server)
        && owners.any(|owner| owner.kind == "StatefulSet" && owner.name == workload)
        && uid.is_some_and(|uid| pod.metadata.uid.as_deref() == Some(uid))
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
    fn a_pod_of_another_account_reports_only_if_it_is_that_replica() {
        let pod = |account: &str, owner: &str, label: &str| -> Pod {
            serde_json::from_value(json!({
                "metadata": {
                    "name": "policy-server-a-0", "uid": "u", "labels": {"kubewarden/policy-server": label},
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner, "uid": "s"}],
                },
                "spec": {"serviceAccountName": account, "containers": []},
            }))
            .unwrap()
        };
        let replica = replica(
            vec!["a".to_owned(), "b".to_owned()],
            Some("policy-server-a-0"),
        );
        let of_a = pod("policy-server", "policy-server-a", "a");
        assert!(is_replica(&of_a, &replica, "policy-server", Some("u")));
        for (what, pod, account, uid) in [
            (
                "another account",
                of_a.clone(),
                "policy-server-b",
                Some("u"),
            ),
            (
                "an earlier pod of the name",
                of_a.clone(),
                "policy-server",
                Some("v"),
            ),
            ("a token of no pod", of_a, "policy-server", None),
            (
                "no replica",
                pod("policy-server", "web", "a"),
                "policy-server",
                Some("u"),
            ),
            (
                "a label of another",
                pod("policy-server", "policy-server-a", "b"),
                "policy-server",
                Some("u"),
            ),
        ] {
            assert!(!is_replica(&pod, &replica, account, uid), "{what}");
        }
    }

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
