//! Reads a live cluster, and asks it what an update would do; nothing is written.

use http::{Method, Request};
use kube::client::Client;
use polity_comply::{DryRun, Kind};
use polity_core::selector::LabelSelector;
use polity_core::{GroupVersionKind, ObjectKey};
use polity_runtime::client::describe;
use serde_json::Value;
use tokio::runtime::Handle;

use super::{DryRunUpdates, ReadError};

/// How many objects one request asks for.
const PAGE: usize = 500;

/// Asks an API server and waits for the answer, on a thread that may block.
#[derive(Clone)]
pub struct LiveReader {
    client: Client,
    runtime: Handle,
}

impl std::fmt::Debug for LiveReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveReader").finish_non_exhaustive()
    }
}

impl LiveReader {
    /// Requests run on the runtime of the handle, which must have more than one thread.
    pub fn new(client: Client, runtime: Handle) -> Self {
        Self { client, runtime }
    }

    fn ask(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Value, ReadError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| ReadError::NoAnswer(error.to_string()))?;
        let answer = tokio::task::block_in_place(|| {
            self.runtime.block_on(self.client.request::<Value>(request))
        });
        answer.map_err(|error| {
            let description = describe(&error).message;
            match error {
                kube::Error::Api(status) => ReadError::Refused {
                    code: status.code,
                    message: status.message.clone(),
                    description,
                },
                _ => ReadError::NoAnswer(description),
            }
        })
    }

    fn find(&self, path: &str) -> Result<Option<Value>, ReadError> {
        match self.ask(Method::GET, path, Vec::new()) {
            Ok(value) => Ok(Some(value)),
            Err(ReadError::Refused { code: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A kind, if the cluster serves it.
    pub(super) fn kind(&self, gvk: &GroupVersionKind) -> Result<Option<Kind>, ReadError> {
        let list = self.find(&base(gvk)?)?;
        let resources = list.as_ref().and_then(|list| list["resources"].as_array());
        let found = resources.into_iter().flatten().find(|resource| {
            let name = resource["name"].as_str().unwrap_or_default();
            resource["kind"] == gvk.kind.as_str() && !name.contains('/')
        });
        Ok(found.map(|resource| Kind {
            gvk: gvk.clone(),
            plural: resource["name"].as_str().unwrap_or_default().to_owned(),
            namespaced: resource["namespaced"].as_bool().unwrap_or(false),
        }))
    }

    pub(super) fn get(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<Value>, ReadError> {
        self.find(&path(kind, key.namespace.as_deref(), Some(&key.name))?)
    }

    /// All pages of a list.
    pub(super) fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<Value>, ReadError> {
        let path = path(kind, namespace, None)?;
        let selector = match selector.is_everything() {
            true => String::new(),
            false => format!("&labelSelector={}", percent_encoded(&selector.to_string())),
        };
        let mut items = Vec::new();
        let mut after = String::new();
        loop {
            let page = format!("{path}?limit={PAGE}{selector}{after}");
            let mut answer = self.ask(Method::GET, &page, Vec::new())?;
            if let Value::Array(more) = answer["items"].take() {
                items.extend(more);
            }
            match answer["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => {
                    after = format!("&continue={}", percent_encoded(token));
                }
                _ => break,
            }
        }
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
        Ok(items)
    }
}

impl DryRunUpdates for LiveReader {
    fn dry_run_update(&self, kind: &Kind, _current: &Value, updated: &Value) -> DryRun {
        let text = |field: &str| updated["metadata"][field].as_str();
        let path = match path(kind, text("namespace"), text("name")) {
            Ok(path) => format!("{path}?dryRun=All&fieldValidation=Strict"),
            Err(error) => return DryRun::Failed(error.to_string()),
        };
        match self.ask(Method::PUT, &path, updated.to_string().into_bytes()) {
            Ok(object) => DryRun::Accepted(object),
            Err(ReadError::Refused { code: 404, .. }) => DryRun::NotFound,
            Err(ReadError::Refused {
                code: 422, message, ..
            }) => DryRun::Invalid(message),
            Err(ReadError::Refused { message, .. })
                if message.contains("strict decoding error:") =>
            {
                DryRun::Strict(message)
            }
            Err(ReadError::Refused { message, .. }) => DryRun::Failed(message),
            Err(error) => DryRun::Failed(error.to_string()),
        }
    }
}

/// The path of an API version.
fn base(gvk: &GroupVersionKind) -> Result<String, ReadError> {
    check_segment(&gvk.group)?;
    check_segment(&gvk.version)?;
    Ok(match gvk.group.as_str() {
        "" => format!("/api/{}", gvk.version),
        group => format!("/apis/{group}/{}", gvk.version),
    })
}

fn path(kind: &Kind, namespace: Option<&str>, name: Option<&str>) -> Result<String, ReadError> {
    let mut path = base(&kind.gvk)?;
    if let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) {
        check_segment(namespace)?;
        path.push_str(&format!("/namespaces/{namespace}"));
    }
    path.push_str(&format!("/{}", kind.plural));
    if let Some(name) = name {
        check_segment(name)?;
        path.push_str(&format!("/{name}"));
    }
    Ok(path)
}

/// Refuses what would lead to another path: a policy or a template chooses what is read, not where.
fn check_segment(text: &str) -> Result<(), ReadError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b':');
    if matches!(text, "." | "..") || !text.bytes().all(plain) {
        return Err(ReadError::InvalidName(text.to_owned()));
    }
    Ok(())
}

/// A value in the query of a URL.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use http::Response;
    use kube::client::Body;
    use polity_comply::{Cluster as _, DryRun, ReadError};
    use polity_core::selector::LabelSelector;
    use serde_json::json;

    use super::super::{ClusterModel, ConfigurationCluster};
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
        let reader = LiveReader::new(client(), Handle::current());
        let model = ClusterModel::live(reader.clone());
        let cluster = ConfigurationCluster::new(&model, &reader);
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

            let list = |selector: &str| -> Vec<String> {
                let found = cluster
                    .list(
                        &kind,
                        Some("n"),
                        &selector.parse::<LabelSelector>().unwrap(),
                    )
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

    #[test]
    fn names_do_not_lead_elsewhere() {
        for fine in [
            "",
            "v1",
            "my-config.v2",
            "system:node",
            "cluster.example.com",
        ] {
            assert_eq!(check_segment(fine), Ok(()), "{fine}");
        }
        for refused in ["..", ".", "a/b", "a?b", "a#b", "a%2fb", "a b", "é"] {
            assert!(check_segment(refused).is_err(), "{refused}");
        }
        assert_eq!(percent_encoded("a=b,c"), "a%3Db%2Cc");
    }
}
