//! The cluster of a kubeconfig. It is read, and asked what an update would do; nothing is written.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Method, Request};
use kube::discovery::{Scope, oneshot};
use polity_comply::namespaces::Namespace;
use polity_comply::{Cluster, DryRun, Kind, ReadError};
use polity_core::selector::LabelSelector;
use polity_core::{GroupVersionKind, ObjectKey};
use polity_runtime::args::ClientArgs;
use polity_runtime::client::describe;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::connect;

/// Objects a list answers with at a time.
const PAGE: usize = 500;

/// A cluster to ask. It waits for every answer, so it is for threads that may wait.
pub(super) struct LiveCluster {
    client: kube::Client,
    runtime: Handle,
    kinds: RefCell<BTreeMap<GroupVersionKind, Option<Kind>>>,
}

impl LiveCluster {
    pub(super) async fn connect(args: &ClientArgs) -> anyhow::Result<Self> {
        Ok(Self::new(connect(args).await?))
    }

    fn new(client: kube::Client) -> Self {
        Self {
            client,
            runtime: Handle::current(),
            kinds: RefCell::default(),
        }
    }

    fn ask(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Value, Refusal> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| Refusal::other(error.to_string()))?;
        self.runtime
            .block_on(self.client.request::<Value>(request))
            .map_err(Refusal::from)
    }

    fn discover(&self, gvk: &GroupVersionKind) -> Result<Option<Kind>, ReadError> {
        let wanted = kube::core::GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
        let found = self
            .runtime
            .block_on(oneshot::pinned_kind(&self.client, &wanted));
        match found {
            Ok((resource, capabilities)) => Ok(Some(Kind {
                gvk: gvk.clone(),
                plural: resource.plural,
                namespaced: capabilities.scope == Scope::Namespaced,
            })),
            Err(kube::Error::Discovery(_)) => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(ReadError(describe(&error).message)),
        }
    }

    /// All pages of a list.
    fn pages(&self, path: &str) -> Result<Vec<Value>, ReadError> {
        let mut items = Vec::new();
        let mut after = String::new();
        loop {
            let page = format!("{path}?limit={PAGE}{after}");
            let mut answer = self
                .ask(Method::GET, &page, Vec::new())
                .map_err(|refusal| ReadError(refusal.message))?;
            if let Value::Array(more) = answer["items"].take() {
                items.extend(more);
            }
            match answer["metadata"]["continue"].as_str() {
                // The token is made for URLs.
                Some(token) if !token.is_empty() => after = format!("&continue={token}"),
                _ => return Ok(items),
            }
        }
    }
}

/// An answer that is no object.
struct Refusal {
    code: u16,
    message: String,
}

impl Refusal {
    fn other(message: String) -> Self {
        Self { code: 0, message }
    }
}

impl From<kube::Error> for Refusal {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self {
                code: status.code,
                message: status.message.clone(),
            },
            other => Self::other(describe(&other).message),
        }
    }
}

fn path(kind: &Kind, namespace: Option<&str>, name: Option<&str>) -> String {
    let base = match kind.gvk.group.as_str() {
        "" => format!("/api/{}", kind.gvk.version),
        group => format!("/apis/{group}/{}", kind.gvk.version),
    };
    let namespace = namespace.map_or_else(String::new, |it| format!("/namespaces/{it}"));
    let name = name.map_or_else(String::new, |it| format!("/{it}"));
    format!("{base}{namespace}/{}{name}", kind.plural)
}

impl super::Looked for LiveCluster {}

impl Cluster for LiveCluster {
    fn kind(&self, gvk: &GroupVersionKind) -> Result<Option<Kind>, ReadError> {
        if let Some(known) = self.kinds.borrow().get(gvk) {
            return Ok(known.clone());
        }
        let kind = self.discover(gvk)?;
        self.kinds.borrow_mut().insert(gvk.clone(), kind.clone());
        Ok(kind)
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, ReadError> {
        let all = self.pages("/api/v1/namespaces")?;
        Ok(all.iter().map(Namespace::from_json).collect())
    }

    fn get(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<Arc<Value>>, ReadError> {
        let path = path(kind, key.namespace.as_deref(), Some(&key.name));
        match self.ask(Method::GET, &path, Vec::new()) {
            Ok(object) => Ok(Some(Arc::new(object))),
            Err(refusal) if refusal.code == 404 => Ok(None),
            Err(refusal) => Err(ReadError(refusal.message)),
        }
    }

    fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Value>>, ReadError> {
        let mut items = self.pages(&path(kind, namespace, None))?;
        for item in &mut items {
            // Lists leave out what is the same for all their items.
            if let Some(fields) = item.as_object_mut() {
                fields
                    .entry("apiVersion")
                    .or_insert_with(|| kind.gvk.api_version().into());
                fields
                    .entry("kind")
                    .or_insert_with(|| kind.gvk.kind.as_str().into());
            }
        }
        let fits = |item: &Value| selector.matches(&item["metadata"]["labels"]);
        Ok(items.into_iter().filter(fits).map(Arc::new).collect())
    }

    fn dry_run_update(&self, kind: &Kind, _current: &Value, updated: &Value) -> DryRun {
        let text = |field: &str| updated["metadata"][field].as_str();
        let path = path(kind, text("namespace"), text("name"));
        let path = format!("{path}?dryRun=All&fieldValidation=Strict");
        let refusal = match self.ask(Method::PUT, &path, updated.to_string().into_bytes()) {
            Ok(object) => return DryRun::Accepted(object),
            Err(refusal) => refusal,
        };
        let message = refusal.message;
        match refusal.code {
            404 => DryRun::NotFound,
            422 => DryRun::Invalid(message),
            _ if message.contains("strict decoding error:") => DryRun::Strict(message),
            _ => DryRun::Failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A server that knows two ConfigMaps, one a page, and has opinions about updates.
    fn answer(request: &Request<Body>, body: &Value) -> (u16, Value) {
        let uri = request.uri().to_string();
        let refused = |code: u16, message: &str| {
            let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": message, "reason": "X"});
            (code, status)
        };
        let map = |name: &str| json!({"metadata": {"name": name, "namespace": "n", "labels": {"l": name}}});
        if request.method() == Method::PUT {
            assert_eq!(
                uri,
                "/api/v1/namespaces/n/configmaps/a?dryRun=All&fieldValidation=Strict"
            );
            return match body["data"]["k"].as_str() {
                Some("invalid") => refused(422, "field is immutable"),
                Some("strict") => refused(400, "x: strict decoding error: unknown field \"y\""),
                Some("gone") => refused(404, "gone"),
                Some("busy") => refused(500, "busy"),
                _ => (200, body.clone()),
            };
        }
        match uri.as_str() {
            "/api/v1" => {
                let kind = json!({"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "singularName": "", "verbs": ["get", "list"]});
                (
                    200,
                    json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [kind]}),
                )
            }
            "/api/v1/namespaces/n/configmaps/a" => (200, map("a")),
            "/api/v1/namespaces/n/configmaps?limit=500" => (
                200,
                json!({"items": [map("a")], "metadata": {"continue": "next"}}),
            ),
            "/api/v1/namespaces/n/configmaps?limit=500&continue=next" => {
                (200, json!({"items": [map("b")], "metadata": {}}))
            }
            "/api/v1/namespaces?limit=500" => (
                200,
                json!({"items": [{"metadata": {"name": "n"}, "status": {"phase": "Terminating"}}]}),
            ),
            "/api/v1/namespaces/n/configmaps/secret" => refused(403, "not for you"),
            _ => refused(404, "not found"),
        }
    }

    fn client() -> kube::Client {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap_or_default();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let request = Request::from_parts(parts, Body::empty());
            let (code, answer) = answer(&request, &body);
            let response = Response::builder().status(code);
            let response = response.body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        });
        kube::Client::new(service, "default")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_cluster_is_asked() {
        let cluster = LiveCluster::new(client());
        tokio::task::block_in_place(|| {
            let gvk = |version: &str, kind: &str| GroupVersionKind::new("", version, kind);
            let kind = cluster.kind(&gvk("v1", "ConfigMap")).unwrap().unwrap();
            assert_eq!(
                (kind.plural.as_str(), kind.namespaced),
                ("configmaps", true)
            );
            assert_eq!(cluster.kind(&gvk("v1", "Widget")), Ok(None));
            assert_eq!(cluster.kind(&gvk("v9", "Widget")), Ok(None));

            let get = |name: &str| cluster.get(&kind, &ObjectKey::namespaced("n", name));
            assert!(get("a").unwrap().is_some());
            assert_eq!(get("nothing"), Ok(None));
            assert_eq!(get("secret"), Err(ReadError("not for you".to_owned())));

            let list = |selector: &str| {
                let found = cluster
                    .list(&kind, Some("n"), &selector.parse().unwrap())
                    .unwrap();
                let name =
                    |object: &Arc<Value>| object["metadata"]["name"].as_str().map(str::to_owned);
                assert!(found.iter().all(|object| object["kind"] == "ConfigMap"));
                found.iter().filter_map(name).collect::<Vec<_>>()
            };
            assert_eq!(list(""), ["a", "b"], "all pages");
            assert_eq!(list("l=b"), ["b"]);
            assert!(cluster.namespaces().unwrap()[0].terminating);

            let update = |value: &str| {
                let object =
                    json!({"metadata": {"name": "a", "namespace": "n"}, "data": {"k": value}});
                cluster.dry_run_update(&kind, &Value::Null, &object)
            };
            assert!(matches!(update("fine"), DryRun::Accepted(_)));
            assert!(matches!(update("invalid"), DryRun::Invalid(_)));
            assert!(matches!(update("strict"), DryRun::Strict(_)));
            assert_eq!(update("gone"), DryRun::NotFound);
            assert_eq!(update("busy"), DryRun::Failed("busy".to_owned()));
        });
    }
}
