//! Real HTTPS webhooks on the loopback, and tables of matches and messages.

mod calls;
mod chain;
mod hooks;
mod matching;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use polity_core::{GroupVersionKind, GroupVersionResource};
use serde_json::{Value, json};

use super::configurations::{Configs, validate_match_conditions};
use super::{Attributes, Host, Mutated, Notes, Operation, Served};
use hooks::{CannedResponse, Hooks, allow, deny, patch};
use polity_auth::UserInfo;
use polity_kinds::status::ApiError;

/// A cluster of a few labelled namespaces, Services at fixed addresses, and Deployments in two versions.
#[derive(Default)]
struct Cluster {
    namespaces: BTreeMap<String, Arc<Value>>,
    services: BTreeMap<String, Vec<SocketAddr>>,
}

impl Cluster {
    fn new() -> Self {
        let namespace =
            |labels: Value| Arc::new(json!({"kind": "Namespace", "metadata": {"labels": labels}}));
        let namespaces = [
            ("ns", json!({"env": "prod"})),
            ("other", json!({"env": "test"})),
        ];
        Self {
            namespaces: namespaces
                .into_iter()
                .map(|(name, labels)| (name.to_owned(), namespace(labels)))
                .collect(),
            services: BTreeMap::new(),
        }
    }
}

struct OnlyAlice(UserInfo);

impl polity_cel::Authorizer for OnlyAlice {
    fn authorize(&self, query: &polity_cel::AccessQuery) -> polity_cel::AccessDecision {
        let allowed = self.0.username == "alice" && query.verb == "breakglass";
        polity_cel::AccessDecision {
            allowed,
            ..Default::default()
        }
    }
}

impl Host for Cluster {
    fn namespace(&self, name: &str) -> Option<Arc<Value>> {
        self.namespaces.get(name).cloned()
    }

    fn equivalents(&self, resource: &GroupVersionResource, _: &str) -> Vec<Served> {
        ["v1", "v1beta1"]
            .into_iter()
            .map(|version| Served {
                resource: GroupVersionResource::new(
                    resource.group.as_str(),
                    version,
                    resource.resource.as_str(),
                ),
                kind: GroupVersionKind::new(resource.group.as_str(), version, "Deployment"),
            })
            .collect()
    }

    fn endpoints(
        &self,
        namespace: &str,
        service: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, String> {
        let key = format!("{namespace}/{service}:{port}");
        self.services
            .get(&key)
            .cloned()
            .ok_or_else(|| format!("service {service:?} not found"))
    }

    fn accept_patched(&self, _: &GroupVersionKind, mut object: Value) -> Result<Value, ApiError> {
        if object
            .pointer("/spec")
            .is_some_and(|spec| !spec.is_object())
        {
            return Err(ApiError::internal("spec is no object"));
        }
        if object.get("pruned").is_some() {
            object.as_object_mut().unwrap().remove("pruned");
        }
        Ok(object)
    }

    fn authorizer(&self, user: &UserInfo) -> Arc<dyn polity_cel::Authorizer> {
        Arc::new(OnlyAlice(user.clone()))
    }
}

/// A request for a Deployment, to be changed by the tests that need another.
struct Given {
    operation: Operation,
    kind: GroupVersionKind,
    resource: GroupVersionResource,
    subresource: &'static str,
    namespace: &'static str,
    object: Option<Value>,
    old_object: Option<Value>,
    options: Value,
    dry_run: bool,
    user: UserInfo,
}

impl Given {
    fn create() -> Self {
        Self {
            operation: Operation::Create,
            kind: GroupVersionKind::new("apps", "v1", "Deployment"),
            resource: GroupVersionResource::new("apps", "v1", "deployments"),
            subresource: "",
            namespace: "ns",
            object: Some(json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "d", "namespace": "ns", "labels": {"app": "d"}}, "spec": {"replicas": 1},
            })),
            old_object: None,
            options: json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}),
            dry_run: false,
            user: UserInfo {
                username: "u".into(),
                groups: vec!["g".into()],
                ..UserInfo::default()
            },
        }
    }

    fn attributes(&self) -> Attributes<'_> {
        Attributes {
            operation: self.operation,
            kind: &self.kind,
            resource: &self.resource,
            subresource: self.subresource,
            name: "d",
            namespace: self.namespace,
            user: &self.user,
            old_object: self.old_object.as_ref(),
            options: &self.options,
            dry_run: self.dry_run,
        }
    }

    async fn mutate(
        &self,
        configs: &Configs,
        host: &Cluster,
    ) -> (Result<Mutated, ApiError>, Notes) {
        let mut notes = Notes::default();
        let result = configs
            .mutate(host, &self.attributes(), self.object.clone(), &mut notes)
            .await;
        (result, notes)
    }

    async fn validate(&self, configs: &Configs, host: &Cluster) -> (Result<(), ApiError>, Notes) {
        let mut notes = Notes::default();
        let result = configs
            .validate(host, &self.attributes(), self.object.as_ref(), &mut notes)
            .await;
        (result, notes)
    }
}

/// A configuration object of webhooks that match Deployments.
fn configuration(kind: &str, name: &str, webhooks: &[Value]) -> Value {
    let webhooks: Vec<Value> = webhooks
        .iter()
        .map(|webhook| {
            let mut full = json!({
                "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
                "rules": [{"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments", "deployments/status"]}],
            });
            full.as_object_mut().unwrap().extend(webhook.as_object().unwrap().clone());
            full
        })
        .collect();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "webhooks": webhooks,
    })
}

fn configs(objects: &[Value]) -> Configs {
    Configs::default().refreshed(objects)
}

fn one(kind: &str, webhook: &Value) -> Configs {
    configs(&[configuration(kind, "c", std::slice::from_ref(webhook))])
}

fn message<T: std::fmt::Debug>(result: Result<T, ApiError>) -> (u16, String) {
    let error = result.unwrap_err();
    (error.code.as_u16(), error.message)
}
