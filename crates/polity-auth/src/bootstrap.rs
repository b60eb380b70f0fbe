//! The roles and bindings of a new cluster, and their update by a later start.
//!
//! `bootstrap.json` contains the objects of kube-apiserver 1.37, limited to the API groups and controllers that exist
//! here. Lists are separated by spaces, and `core` is the group without a name.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::rbac::{self, GROUP, Rule, covers, settle_aggregates};

const DATA: &str = include_str!("bootstrap.json");
const AGGREGATE_TO: &str = "rbac.authorization.k8s.io/aggregate-to-";
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// A change that a start must make to one of the objects.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The object does not exist.
    Create(Value),
    /// The object exists but is incomplete.
    Update(Value),
    /// It binds another role, which cannot be changed: delete it, then create this one.
    Recreate(Value),
}

/// The objects of a new cluster; aggregating ClusterRoles already have their rules.
pub fn objects() -> &'static [Value] {
    static OBJECTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let data: Data = serde_json::from_str(DATA).expect("bootstrap.json is well-formed");
        data.into_objects()
    });
    &OBJECTS
}

/// The writes that are needed so that every object exists and grants at least its default permissions.
///
/// Changes by users are preserved: additional rules, subjects, labels and annotations are kept, and an object whose
/// autoupdate annotation is `false` is not changed. `stored` finds an object by kind, namespace and name.
pub fn reconcile<'a>(stored: impl Fn(&str, &str, &str) -> Option<&'a Value>) -> Vec<Change> {
    objects()
        .iter()
        .filter_map(|expected| {
            let text = |field: &str| expected["metadata"][field].as_str().unwrap_or_default();
            let kind = expected["kind"].as_str().unwrap_or_default();
            match stored(kind, text("namespace"), text("name")) {
                None => Some(Change::Create(expected.clone())),
                Some(existing) if existing["metadata"]["annotations"][AUTOUPDATE] == "false" => {
                    None
                }
                Some(existing) if is_other_role(expected, existing) => {
                    Some(Change::Recreate(expected.clone()))
                }
                Some(existing) => {
                    let updated = united(expected, existing);
                    (updated != *existing).then_some(Change::Update(updated))
                }
            }
        })
        .collect()
}

fn is_other_role(expected: &Value, existing: &Value) -> bool {
    expected
        .get("roleRef")
        .is_some_and(|role| existing.get("roleRef") != Some(role))
}

/// The existing object, completed with the missing parts of the expected one.
fn united(expected: &Value, existing: &Value) -> Value {
    let mut updated = existing.clone();
    for field in ["labels", "annotations"] {
        let mut merged = expected["metadata"][field]
            .as_object()
            .cloned()
            .unwrap_or_default();
        merged.extend(
            existing["metadata"][field]
                .as_object()
                .cloned()
                .unwrap_or_default(),
        );
        if !merged.is_empty() {
            updated["metadata"][field] = Value::Object(merged);
        }
    }
    if expected.get("subjects").is_some() {
        add_missing(&mut updated["subjects"], &expected["subjects"]);
    }
    if let Some(rule) = expected.get("aggregationRule") {
        // Its rules follow from the roles it gathers.
        add_missing(
            &mut updated["aggregationRule"]["clusterRoleSelectors"],
            &rule["clusterRoleSelectors"],
        );
    } else if expected.get("rules").is_some() {
        if let Some(object) = updated.as_object_mut() {
            object.remove("aggregationRule");
        }
        if let Err(missing) = covers(&rbac::rules_of(existing), &rbac::rules_of(expected)) {
            add_missing(&mut updated["rules"], &json!(missing));
        }
    }
    updated
}

fn add_missing(list: &mut Value, wanted: &Value) {
    let mut items = list.as_array().cloned().unwrap_or_default();
    for item in wanted.as_array().into_iter().flatten() {
        if !items.contains(item) {
            items.push(item.clone());
        }
    }
    if !items.is_empty() {
        *list = Value::Array(items);
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Data {
    cluster_roles: Vec<Role>,
    cluster_role_bindings: Vec<Binding>,
    roles: Vec<Role>,
    role_bindings: Vec<Binding>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Role {
    namespace: Option<String>,
    name: String,
    /// The role into which these rules are aggregated.
    aggregate_to: Option<String>,
    /// The role that others aggregate to is this one.
    aggregates: Option<String>,
    #[serde(default)]
    rules: Vec<Permission>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Permission {
    verbs: String,
    #[serde(default)]
    groups: String,
    #[serde(default)]
    resources: String,
    #[serde(default)]
    names: String,
    #[serde(default)]
    urls: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Binding {
    namespace: Option<String>,
    name: String,
    /// The role's name where it is not the binding's.
    role: Option<String>,
    /// `Kind name` or `Kind namespace/name`.
    subjects: Vec<String>,
}

impl Data {
    fn into_objects(self) -> Vec<Value> {
        let mut cluster_roles: Vec<_> = self
            .cluster_roles
            .iter()
            .map(|role| role.object("ClusterRole"))
            .collect();
        let mut settled = settle_aggregates(&cluster_roles);
        for role in &mut cluster_roles {
            let rules = role["metadata"]["name"]
                .as_str()
                .and_then(|name| settled.remove(name));
            if let Some(rules) = rules {
                role["rules"] = Value::Array(rules);
            }
        }
        cluster_roles.extend(
            self.cluster_role_bindings
                .iter()
                .map(|it| it.object("ClusterRoleBinding", "ClusterRole")),
        );
        cluster_roles.extend(self.roles.iter().map(|role| role.object("Role")));
        cluster_roles.extend(
            self.role_bindings
                .iter()
                .map(|it| it.object("RoleBinding", "Role")),
        );
        cluster_roles
    }
}

impl Role {
    fn object(&self, kind: &str) -> Value {
        let mut role = object(kind, self.namespace.as_deref(), &self.name);
        if let Some(target) = &self.aggregate_to {
            role["metadata"]["labels"][format!("{AGGREGATE_TO}{target}")] = json!("true");
        }
        if let Some(source) = &self.aggregates {
            let labels: Map<_, _> = [(format!("{AGGREGATE_TO}{source}"), json!("true"))]
                .into_iter()
                .collect();
            role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
        }
        role["rules"] = self
            .rules
            .iter()
            .map(|permission| json!(permission.rule()))
            .collect();
        role
    }
}

impl Permission {
    fn rule(&self) -> Rule {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let groups = self.groups.split_whitespace();
        Rule {
            verbs: words(&self.verbs),
            api_groups: groups
                .map(|group| if group == "core" { "" } else { group }.to_owned())
                .collect(),
            resources: words(&self.resources),
            resource_names: words(&self.names),
            non_resource_urls: words(&self.urls),
        }
    }
}

impl Binding {
    fn object(&self, kind: &str, role_kind: &str) -> Value {
        let mut binding = object(kind, self.namespace.as_deref(), &self.name);
        let role = self.role.as_ref().unwrap_or(&self.name);
        binding["roleRef"] = json!({"apiGroup": GROUP, "kind": role_kind, "name": role});
        if !self.subjects.is_empty() {
            binding["subjects"] = self
                .subjects
                .iter()
                .map(|subject| self::subject(subject))
                .collect();
        }
        binding
    }
}

fn object(kind: &str, namespace: Option<&str>, name: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {AUTOUPDATE: "true"},
    });
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": metadata})
}

fn subject(text: &str) -> Value {
    let (kind, name) = text.split_once(' ').unwrap_or(("User", text));
    match name.split_once('/') {
        Some((namespace, name)) => json!({"kind": kind, "namespace": namespace, "name": name}),
        None => json!({"apiGroup": GROUP, "kind": kind, "name": name}),
    }
}

#[cfg(test)]
mod tests;
