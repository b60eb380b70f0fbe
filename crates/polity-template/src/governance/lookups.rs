//! Objects of the cluster: `lookup`, and its shorter forms for secrets, config maps, claims and nodes.
//!
//! In a hub without a service account, a template can only read the namespace of the root policy, and of
//! cluster-scoped objects only the ManagedCluster for which the policy is resolved.

use std::rc::Rc;

use serde_json::Value as Json;

use crate::arg::text;
use crate::function::{Failure, Function, Outcome, Type, function};
use crate::host::{LookupError, Query};
use crate::run::Run;
use crate::sprig::json;
use crate::value::{Map, Value};

const T: Type = Type::Text;

pub(crate) const TABLE: &[(&str, Function)] = &[
    (
        "lookup",
        function(&[T, T, T, T], Some(T), |run, v| {
            let selector = v[4..].iter().map(text).collect::<Vec<_>>().join(",");
            let wanted = Wanted {
                api_version: text(&v[0]),
                kind: text(&v[1]),
                namespace: text(&v[2]),
                name: text(&v[3]),
                selector: selector.trim_start_matches(','),
            };
            lookup(run, &wanted)
        }),
    ),
    ("fromSecret", function(&[T, T, T], None, from_secret)),
    ("copySecretData", function(&[T, T], None, copy_secret_data)),
    ("fromConfigMap", function(&[T, T, T], None, from_config_map)),
    (
        "copyConfigMapData",
        function(&[T, T], None, copy_config_map_data),
    ),
    (
        "fromClusterClaim",
        function(&[T], None, |run, v| {
            let name = text(&v[0]);
            match claim(run, name)? {
                Some(value) => Ok(Value::text(value)),
                None => {
                    let missing =
                        not_found("clusterclaims.cluster.open-cluster-management.io", name);
                    Err(format!("failed to retrieve the cluster claim {name}: {missing}").into())
                }
            }
        }),
    ),
    (
        "lookupClusterClaim",
        function(&[T], None, |run, v| {
            Ok(Value::text(claim(run, text(&v[0]))?.unwrap_or_default()))
        }),
    ),
    (
        "getNodesWithExactRoles",
        function(&[], Some(T), |run, v| {
            let nodes = nodes(run, v)?;
            Ok(list_value(nodes))
        }),
    ),
    (
        "hasNodesWithExactRoles",
        function(&[], Some(T), |run, v| {
            Ok(Value::Bool(!nodes(run, v)?.is_empty()))
        }),
    ),
];

const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";

/// The object or list that a template looks up.
struct Wanted<'w> {
    api_version: &'w str,
    kind: &'w str,
    namespace: &'w str,
    name: &'w str,
    selector: &'w str,
}

/// The result of a lookup: one object, none, or a list.
enum Found {
    One(Option<Json>),
    Many(Vec<Json>),
}

impl From<LookupError> for Failure {
    fn from(error: LookupError) -> Self {
        Self::Lookup(error)
    }
}

fn find(run: &mut Run<'_>, wanted: &Wanted<'_>) -> Result<Found, Failure> {
    let Wanted {
        api_version,
        kind,
        namespace,
        name,
        selector,
    } = *wanted;
    if api_version.is_empty() || kind.is_empty() {
        return Err("the apiVersion and kind are required".into());
    }
    let host = run.host;
    let rules = run.rules;
    let mut namespace = namespace;
    if let Some(scope) = &rules.scope {
        if !namespace.is_empty() && namespace != scope.namespace {
            return Err(format!(
                "the namespace argument is restricted to {}",
                scope.namespace
            )
            .into());
        }
        match host.is_namespaced(api_version, kind)? {
            None => return Err(LookupError::MissingKind.into()),
            Some(true) => namespace = &scope.namespace,
            Some(false) => {
                let group = api_version.split_once('/').map_or("", |(group, _)| group);
                let own = group == CLUSTER_GROUP
                    && kind == "ManagedCluster"
                    && name == scope.cluster_name;
                if !own {
                    return Err(format!(
                        "lookup of cluster-scoped resource '{kind}/{name}' is not allowed"
                    )
                    .into());
                }
                namespace = "";
            }
        }
    }
    let query = Query {
        api_version,
        kind,
        namespace,
        selector,
    };
    run.spend(10)?;
    let found = if name.is_empty() {
        Found::Many(host.list(&query)?)
    } else {
        Found::One(host.get(&query, name)?)
    };
    Ok(found)
}

fn lookup(run: &mut Run<'_>, wanted: &Wanted<'_>) -> Outcome {
    let is_secret = wanted.kind == "Secret" && wanted.api_version == "v1";
    if is_secret && run.rules.deny_secret_lookup {
        return Err("lookup of a Secret is not allowed, fromSecret encrypts what it reads".into());
    }
    let Wanted {
        api_version,
        kind,
        namespace,
        name,
        selector,
    } = wanted;
    let key = format!("{api_version}\n{kind}\n{namespace}\n{name}\n{selector}");
    run.once(key, |run| {
        let found = find(run, wanted)?;
        let any = match &found {
            Found::One(object) => object.is_some(),
            Found::Many(objects) => !objects.is_empty(),
        };
        if is_secret && any {
            run.noticed.sensitive = true;
            let shown = if name.is_empty() { "*" } else { name };
            run.noticed
                .plain_secrets
                .push(format!("{namespace}/{shown}"));
        }
        match found {
            Found::One(object) => {
                let object = object.unwrap_or_else(|| Json::Object(serde_json::Map::new()));
                run.spend(size(&object))?;
                Ok(Value::from(&object))
            }
            Found::Many(objects) => {
                run.spend(objects.iter().map(size).sum())?;
                Ok(list_value(objects))
            }
        }
    })
}

/// An object costs a step for every eight values in it.
fn size(json: &Json) -> u64 {
    fn count(json: &Json) -> u64 {
        match json {
            Json::Array(items) => 1 + items.iter().map(count).sum::<u64>(),
            Json::Object(map) => 1 + map.values().map(count).sum::<u64>(),
            _ => 1,
        }
    }
    count(json) / 8
}

fn list_value(objects: Vec<Json>) -> Value {
    let items = objects.iter().map(Value::from).collect();
    Value::map([(Rc::from("items"), Value::list(items))])
}

fn not_found(resource: &str, name: &str) -> String {
    format!("{resource} \"{name}\" not found")
}

/// The `data` of a Secret or ConfigMap. `None` if it does not exist.
fn data(
    run: &mut Run<'_>,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<serde_json::Map<String, Json>>, Failure> {
    if name.is_empty() {
        return Err("the input is invalid: the name must be specified".into());
    }
    let wanted = Wanted {
        api_version: "v1",
        kind,
        namespace,
        name,
        selector: "",
    };
    let Found::One(Some(object)) = find(run, &wanted)? else {
        return Ok(None);
    };
    Ok(Some(match object.get("data") {
        Some(Json::Object(data)) => data.clone(),
        _ => serde_json::Map::new(),
    }))
}

/// The namespace that is read, for messages.
fn shown_namespace<'n>(run: &'n Run<'_>, namespace: &'n str) -> &'n str {
    match &run.rules.scope {
        Some(scope) if namespace.is_empty() => &scope.namespace,
        _ => namespace,
    }
}

fn secret_data(
    run: &mut Run<'_>,
    namespace: &str,
    name: &str,
) -> Result<serde_json::Map<String, Json>, Failure> {
    let Some(data) = data(run, "Secret", namespace, name)? else {
        let from = shown_namespace(run, namespace);
        let missing = not_found("secrets", name);
        return Err(format!("failed to get the secret {name} from {from}: {missing}").into());
    };
    run.noticed.sensitive = true;
    Ok(data)
}

fn config_map_data(
    run: &mut Run<'_>,
    namespace: &str,
    name: &str,
) -> Result<serde_json::Map<String, Json>, Failure> {
    let Some(data) = data(run, "ConfigMap", namespace, name)? else {
        let from = shown_namespace(run, namespace);
        let missing = not_found("configmaps", name);
        return Err(format!("failed getting the ConfigMap {name} from {from}: {missing}").into());
    };
    Ok(data)
}

fn entry<'d>(data: &'d serde_json::Map<String, Json>, key: &str) -> &'d str {
    data.get(key).and_then(Json::as_str).unwrap_or_default()
}

fn from_secret(run: &mut Run<'_>, values: &[Value]) -> Outcome {
    let data = secret_data(run, text(&values[0]), text(&values[1]))?;
    let value = entry(&data, text(&values[2]));
    Ok(Value::text(protected(run, value)))
}

/// In a hub with encryption a secret value never leaves in the clear.
fn protected(run: &Run<'_>, value: &str) -> String {
    match &run.rules.encryption {
        Some(keys) => keys.protect(value),
        None => value.to_owned(),
    }
}

fn copy_secret_data(run: &mut Run<'_>, values: &[Value]) -> Outcome {
    let data = secret_data(run, text(&values[0]), text(&values[1]))?;
    let entries = data.iter().map(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        (Rc::from(key.as_str()), Value::text(protected(run, value)))
    });
    let copied = Value::Map(Rc::new(Map::of_texts(entries.collect::<Vec<_>>())));
    Ok(Value::text(json::write(run, &copied, json::Style::Safe)?))
}

fn from_config_map(run: &mut Run<'_>, values: &[Value]) -> Outcome {
    let data = config_map_data(run, text(&values[0]), text(&values[1]))?;
    Ok(Value::text(entry(&data, text(&values[2]))))
}

fn copy_config_map_data(run: &mut Run<'_>, values: &[Value]) -> Outcome {
    let data = config_map_data(run, text(&values[0]), text(&values[1]))?;
    let copied = Value::from(&Json::Object(data));
    Ok(Value::text(json::write(run, &copied, json::Style::Safe)?))
}

fn claim(run: &mut Run<'_>, name: &str) -> Result<Option<String>, Failure> {
    let wanted = Wanted {
        api_version: "cluster.open-cluster-management.io/v1alpha1",
        kind: "ClusterClaim",
        namespace: "",
        name,
        selector: "",
    };
    if name.is_empty() {
        return Err("the input is invalid: the name must be specified".into());
    }
    let Found::One(Some(object)) = find(run, &wanted)? else {
        return Ok(None);
    };
    match object.get("spec") {
        Some(Json::Object(spec)) => Ok(Some(entry(spec, "value").to_owned())),
        _ => Err(format!("unexpected cluster claim format: {name}").into()),
    }
}

/// Nodes that have these roles and no other; being a worker besides does not count.
fn nodes(run: &mut Run<'_>, roles: &[Value]) -> Result<Vec<Json>, Failure> {
    const ROLE: &str = "node-role.kubernetes.io";
    let mut labels: Vec<String> = roles
        .iter()
        .map(text)
        .filter(|role| !role.trim().is_empty())
        .map(|role| format!("{ROLE}/{role}"))
        .collect();
    if labels.is_empty() {
        return Err("the input is invalid: at least one name must be specified".into());
    }
    let selector = labels.join(",");
    let wanted = Wanted {
        api_version: "v1",
        kind: "Node",
        namespace: "",
        name: "",
        selector: &selector,
    };
    let Found::Many(nodes) = find(run, &wanted)? else {
        return Ok(Vec::new());
    };
    labels.push(format!("{ROLE}/worker"));
    let exact = |node: &Json| {
        let own = node.pointer("/metadata/labels").and_then(Json::as_object);
        own.is_none_or(|own| {
            own.keys()
                .filter(|key| key.starts_with(ROLE))
                .all(|key| labels.contains(key))
        })
    };
    Ok(nodes.into_iter().filter(exact).collect())
}
