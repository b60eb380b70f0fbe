//! URLs and verbs: parses method and path into a verb on a resource.
//!
//! This is purely syntactic, so that authorization can be decided before any lookup.

use http::Method;

/// A request for something under `/api/v1` or `/apis/{group}/{version}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceRequest {
    pub verb: String,
    pub group: String,
    pub version: String,
    /// Empty at the cluster scope and for all namespaces.
    pub namespace: String,
    /// The lower-case plural.
    pub resource: String,
    /// Empty for collections.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
    /// The segments after the subresource. No served subresource has any.
    pub rest: Vec<String>,
}

/// The target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Resource(ResourceRequest),
    /// Discovery, health and everything else; the verb is the lower-case method.
    NonResource {
        verb: String,
        path: String,
    },
}

/// Parses a request line. `path` is percent-encoded.
pub fn parse(method: &Method, path: &str, query: &str) -> Target {
    let segments: Vec<String> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(percent_decode)
        .collect();
    // A path with an empty segment matches nothing.
    let request = if path.contains("//") {
        None
    } else {
        resource_request(method, &segments, query)
    };
    match request {
        Some(request) => Target::Resource(request),
        None => Target::NonResource {
            verb: method.as_str().to_ascii_lowercase(),
            path: percent_decode(path),
        },
    }
}

fn resource_request(method: &Method, segments: &[String], query: &str) -> Option<ResourceRequest> {
    let (group, version, rest) = match segments {
        [api, version, rest @ ..] if api == "api" => (String::new(), version, rest),
        [apis, group, version, rest @ ..] if apis == "apis" => (group.clone(), version, rest),
        _ => return None,
    };
    let mut request = ResourceRequest {
        group,
        version: version.clone(),
        ..Default::default()
    };
    let parts = match rest {
        [] => return None,
        [namespaces, namespace, inside @ ..] if namespaces == "namespaces" => {
            request.namespace.clone_from(namespace);
            match inside.first().map(String::as_str) {
                None | Some("status" | "finalize") => rest,
                Some(_) => inside,
            }
        }
        _ => rest,
    };
    request.resource.clone_from(&parts[0]);
    request.name = parts.get(1).cloned().unwrap_or_default();
    request.subresource = parts.get(2).cloned().unwrap_or_default();
    request.rest = parts.get(3..).unwrap_or_default().to_vec();
    request.verb = verb(method, &request.name, query)?.to_owned();
    if request.name.is_empty()
        && matches!(request.verb.as_str(), "list" | "watch" | "deletecollection")
    {
        request.name = name_in_field_selector(query).unwrap_or_default();
    }
    Some(request)
}

fn verb(method: &Method, name: &str, query: &str) -> Option<&'static str> {
    Some(match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD if name.is_empty() => {
            if wants_watch(query) {
                "watch"
            } else {
                "list"
            }
        }
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if name.is_empty() => "deletecollection",
        Method::DELETE => "delete",
        _ => return None,
    })
}

fn wants_watch(query: &str) -> bool {
    pairs(query).any(|(key, value)| {
        key == "watch" && matches!(value.as_str(), "1" | "true" | "True" | "TRUE" | "t")
    })
}

/// A list by `metadata.name=N` carries the name N.
fn name_in_field_selector(query: &str) -> Option<String> {
    let (_, selector) = pairs(query).find(|(key, _)| key == "fieldSelector")?;
    let name = selector.split(',').find_map(|term| {
        let value = term.strip_prefix("metadata.name=")?;
        Some(value.strip_prefix('=').unwrap_or(value).to_owned())
    })?;
    (!name.is_empty() && !name.contains(['/', '%'])).then_some(name)
}

/// The decoded key-value pairs of a query string.
pub fn pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    url::form_urlencoded::parse(query.as_bytes())
        .map(|(key, value)| (key.into_owned(), value.into_owned()))
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes
            .get(at + 1..at + 3)
            .and_then(|hex| std::str::from_utf8(hex).ok());
        match (
            bytes[at],
            hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()),
        ) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: Method, url: &str, expected: &str) {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let shown = match parse(&method, path, query) {
            Target::Resource(r) => {
                let mut text = format!("{} {}/{} {}", r.verb, r.group, r.version, r.resource);
                for (key, value) in [
                    ("ns", &r.namespace),
                    ("name", &r.name),
                    ("sub", &r.subresource),
                ] {
                    if !value.is_empty() {
                        text.push_str(&format!(" {key}={value}"));
                    }
                }
                text
            }
            Target::NonResource { verb, path } => format!("{verb} {path}"),
        };
        assert_eq!(shown, expected, "{method} {url}");
    }

    #[test]
    fn shapes_of_urls() {
        check(Method::GET, "/api/v1/nodes", "list /v1 nodes");
        check(
            Method::POST,
            "/api/v1/namespaces/a/configmaps",
            "create /v1 configmaps ns=a",
        );
        check(
            Method::GET,
            "/apis/apps/v1/namespaces/a/deployments/d/scale",
            "get apps/v1 deployments ns=a name=d sub=scale",
        );
        check(
            Method::DELETE,
            "/apis/apps/v1/namespaces/a/deployments",
            "deletecollection apps/v1 deployments ns=a",
        );
        check(
            Method::PATCH,
            "/api/v1/nodes/n/status",
            "patch /v1 nodes name=n sub=status",
        );
        check(
            Method::GET,
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            "get rbac.authorization.k8s.io/v1 clusterroles name=system:node",
        );
    }

    #[test]
    fn namespaces_are_objects_and_folders() {
        check(Method::GET, "/api/v1/namespaces", "list /v1 namespaces");
        check(
            Method::GET,
            "/api/v1/namespaces/x",
            "get /v1 namespaces ns=x name=x",
        );
        check(
            Method::PUT,
            "/api/v1/namespaces/x/finalize",
            "update /v1 namespaces ns=x name=x sub=finalize",
        );
        check(
            Method::PUT,
            "/api/v1/namespaces/x/status",
            "update /v1 namespaces ns=x name=x sub=status",
        );
        check(
            Method::GET,
            "/api/v1/namespaces/x/secrets",
            "list /v1 secrets ns=x",
        );
    }

    #[test]
    fn head_and_watch() {
        check(Method::HEAD, "/api/v1/nodes/n", "get /v1 nodes name=n");
        check(Method::GET, "/api/v1/nodes?watch=1", "watch /v1 nodes");
        check(Method::GET, "/api/v1/nodes?watch=true", "watch /v1 nodes");
        check(Method::GET, "/api/v1/nodes?watch=false", "list /v1 nodes");
    }

    #[test]
    fn a_list_by_name_carries_the_name() {
        check(
            Method::GET,
            "/api/v1/nodes?fieldSelector=metadata.name%3Dn",
            "list /v1 nodes name=n",
        );
        check(
            Method::GET,
            "/api/v1/nodes?fieldSelector=a%3Db,metadata.name%3D%3Dn&watch=1",
            "watch /v1 nodes name=n",
        );
    }

    #[test]
    fn watch_on_one_object_is_a_get() {
        check(
            Method::GET,
            "/api/v1/nodes/n?watch=true",
            "get /v1 nodes name=n",
        );
    }

    #[test]
    fn everything_else_is_not_a_resource() {
        check(Method::GET, "/api", "get /api");
        check(Method::GET, "/apis/apps/v1", "get /apis/apps/v1");
        check(Method::GET, "/healthz", "get /healthz");
        check(Method::OPTIONS, "/api/v1/nodes", "options /api/v1/nodes");
    }

    #[test]
    fn broken_escapes_are_taken_as_they_are() {
        check(Method::GET, "/api/v1/nodes/%zz%", "get /v1 nodes name=%zz%");
    }
}
