//! The roles and bindings every cluster starts with, and how a later start brings them up to date.
//!
//! `bootstrap.json` holds what a kube-apiserver 1.37 writes, as far as it speaks of API groups served
//! here and of controllers that have something to do here. Lists are words, `core` is the group
//! without a name.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::rbac::{self, GROUP, Rule, covers, settle_aggregates};

const DATA: &str = include_str!("bootstrap.json");
const AGGREGATE_TO: &str = "rbac.authorization.k8s.io/aggregate-to-";
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// What a start must do to one of the objects.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It is not there.
    Create(Value),
    /// It is there and lacks something.
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

/// What must be written so that every object is there and grants at least what it should.
///
/// Changes made by people stay: extra rules, subjects, labels and annotations are kept, and an object
/// whose autoupdate annotation is `false` is left alone. `stored` finds by kind, namespace and name.
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

/// The existing object with what it lacks of the expected one.
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
    /// The role whose rules these become a part of.
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
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::auth::{
        AUTHENTICATED, Attributes, MASTERS, Roles, UNAUTHENTICATED, UserInfo, service_account,
    };

    fn find<'a>(
        objects: &'a [Value],
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<&'a Value> {
        objects.iter().find(|object| {
            let metadata = &object["metadata"];
            object["kind"] == kind
                && metadata["namespace"].as_str().unwrap_or_default() == namespace
                && metadata["name"] == name
        })
    }

    /// Whether someone bound to a ClusterRole in `ns` may do `verb` on `resource[.group]`.
    fn may(role: &str, verb: &str, resource: &str) -> bool {
        let binding = json!({
            "kind": "RoleBinding", "metadata": {"name": "b", "namespace": "ns"},
            "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": "u"}],
        });
        let user = UserInfo {
            username: "u".to_owned(),
            ..UserInfo::default()
        };
        let (path, group) = resource.split_once('.').unwrap_or((resource, ""));
        let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
        let request = Attributes::Resource {
            verb,
            group,
            version: "v1",
            resource,
            subresource,
            name: "x",
            namespace: "ns",
        };
        Roles::from_objects(objects())
            .with(&binding)
            .decide(&user, &request)
            .is_allowed()
    }

    #[test]
    fn every_binding_finds_its_role_and_every_object_is_marked() {
        for object in objects() {
            assert_eq!(
                object["metadata"]["labels"]["kubernetes.io/bootstrapping"],
                "rbac-defaults"
            );
            assert_eq!(object["metadata"]["annotations"][AUTOUPDATE], "true");
            let Some(role) = object.get("roleRef") else {
                continue;
            };
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let kind = text(&role["kind"]);
            let namespace = if kind == "Role" {
                text(&object["metadata"]["namespace"])
            } else {
                String::new()
            };
            assert!(
                find(objects(), &kind, &namespace, &text(&role["name"])).is_some(),
                "{object}"
            );
        }
        let names: BTreeSet<_> = objects()
            .iter()
            .map(|it| (it["kind"].to_string(), it["metadata"].to_string()))
            .collect();
        assert_eq!(names.len(), objects().len());
    }

    #[test]
    fn au7_admin_edit_and_view_may_what_they_should() {
        for (resource, verb, admin, edit, view) in [
            ("configmaps", "get", true, true, true),
            ("configmaps", "create", true, true, false),
            ("secrets", "get", true, true, false),
            ("secrets", "list", true, true, false),
            ("pods", "watch", true, true, true),
            ("pods/log", "get", true, true, true),
            ("pods/exec", "create", true, true, false),
            ("pods/eviction", "create", true, true, false),
            ("services", "delete", true, true, false),
            ("serviceaccounts", "get", true, true, true),
            ("serviceaccounts/token", "create", true, true, false),
            ("serviceaccounts", "impersonate", true, true, false),
            ("events", "list", true, true, true),
            ("endpoints", "get", true, true, true),
            ("limitranges", "get", true, true, true),
            ("limitranges", "create", false, false, false),
            ("resourcequotas", "list", true, true, true),
            ("resourcequotas", "create", false, false, false),
            ("persistentvolumeclaims", "patch", true, true, false),
            ("persistentvolumes", "get", false, false, false),
            ("nodes", "get", false, false, false),
            ("namespaces", "get", true, true, true),
            ("namespaces", "delete", false, false, false),
            ("deployments.apps", "deletecollection", true, true, false),
            ("deployments/scale.apps", "update", true, true, false),
            ("statefulsets.apps", "list", true, true, true),
            ("daemonsets/status.apps", "get", true, true, true),
            ("controllerrevisions.apps", "get", true, true, true),
            ("jobs.batch", "create", true, true, false),
            ("cronjobs.batch", "get", true, true, true),
            ("ingresses.networking.k8s.io", "patch", true, true, false),
            ("networkpolicies.networking.k8s.io", "get", true, true, true),
            ("poddisruptionbudgets.policy", "create", true, true, false),
            (
                "horizontalpodautoscalers.autoscaling",
                "update",
                true,
                true,
                false,
            ),
            ("leases.coordination.k8s.io", "create", true, true, false),
            ("leases.coordination.k8s.io", "get", true, true, false),
            ("endpointslices.discovery.k8s.io", "get", true, true, true),
            (
                "roles.rbac.authorization.k8s.io",
                "create",
                true,
                false,
                false,
            ),
            (
                "rolebindings.rbac.authorization.k8s.io",
                "get",
                true,
                false,
                false,
            ),
            (
                "clusterroles.rbac.authorization.k8s.io",
                "get",
                false,
                false,
                false,
            ),
            (
                "localsubjectaccessreviews.authorization.k8s.io",
                "create",
                true,
                false,
                false,
            ),
            (
                "customresourcedefinitions.apiextensions.k8s.io",
                "get",
                false,
                false,
                false,
            ),
            (
                "validatingwebhookconfigurations.admissionregistration.k8s.io",
                "get",
                false,
                false,
                false,
            ),
        ] {
            let verdicts = ["admin", "edit", "view"].map(|role| may(role, verb, resource));
            assert_eq!(verdicts, [admin, edit, view], "{verb} {resource}");
        }
    }

    #[test]
    fn everyone_may_see_what_everyone_may_see() {
        let roles = Roles::from_objects(objects());
        let in_group = |group: &str| UserInfo {
            groups: vec![group.to_owned()],
            ..UserInfo::default()
        };
        let get = |path| Attributes::NonResource { verb: "get", path };
        let review = Attributes::Resource {
            verb: "create",
            group: "authorization.k8s.io",
            version: "v1",
            resource: "selfsubjectaccessreviews",
            subresource: "",
            name: "",
            namespace: "",
        };
        for (group, request, expected) in [
            (UNAUTHENTICATED, get("/version"), true),
            (UNAUTHENTICATED, get("/readyz"), true),
            (UNAUTHENTICATED, get("/api"), false),
            (UNAUTHENTICATED, get("/openid/v1/jwks"), false),
            (UNAUTHENTICATED, review, false),
            (AUTHENTICATED, get("/api"), true),
            (AUTHENTICATED, get("/apis/apps/v1"), true),
            (AUTHENTICATED, get("/openapi/v3"), true),
            (AUTHENTICATED, get("/metrics"), false),
            (AUTHENTICATED, review, true),
            ("system:monitoring", get("/metrics"), true),
            (MASTERS, get("/anything"), true),
            (
                service_account::groups("ns")[0].as_str(),
                get("/openid/v1/jwks"),
                true,
            ),
        ] {
            assert_eq!(
                roles.decide(&in_group(group), &request).is_allowed(),
                expected,
                "{group} {request:?}"
            );
        }
    }

    #[test]
    fn a_new_cluster_gets_all_and_a_second_start_changes_nothing() {
        let changes = reconcile(|_, _, _| None);
        assert_eq!(changes.len(), objects().len());
        assert!(
            changes
                .iter()
                .all(|change| matches!(change, Change::Create(_)))
        );
        assert_eq!(
            reconcile(|kind, namespace, name| find(objects(), kind, namespace, name)),
            []
        );
    }

    #[test]
    fn a_start_adds_what_is_missing_and_keeps_what_is_extra() {
        let mut stored = objects().to_vec();
        let mut edit = |kind: &str, name: &str, change: &dyn Fn(&mut Value)| {
            change(
                stored
                    .iter_mut()
                    .find(|it| it["kind"] == kind && it["metadata"]["name"] == name)
                    .unwrap(),
            );
        };
        let extra = json!({"verbs": ["get"], "apiGroups": ["x"], "resources": ["y"]});
        edit("ClusterRole", "system:basic-user", &|role| {
            role["rules"] = json!([extra])
        });
        edit("ClusterRole", "system:discovery", &|role| {
            role["metadata"]["annotations"][AUTOUPDATE] = json!("false");
            role["rules"] = json!([]);
        });
        edit("ClusterRole", "view", &|role| {
            role["metadata"]["labels"] = json!({"mine": "too"});
            role["rules"] = json!([]);
        });
        edit("ClusterRoleBinding", "system:discovery", &|binding| {
            binding["subjects"] = json!([])
        });
        edit("ClusterRoleBinding", "system:basic-user", &|binding| {
            binding["roleRef"]["name"] = json!("other")
        });

        let changes = reconcile(|kind, namespace, name| find(&stored, kind, namespace, name));
        assert_eq!(changes.len(), 4, "{changes:?}");
        for change in changes {
            match change {
                Change::Update(role) if role["metadata"]["name"] == "system:basic-user" => {
                    assert_eq!(role["rules"][0], extra);
                    let expected = find(objects(), "ClusterRole", "", "system:basic-user").unwrap();
                    assert_eq!(
                        covers(&rbac::rules_of(&role), &rbac::rules_of(expected)),
                        Ok(())
                    );
                }
                Change::Update(role) if role["metadata"]["name"] == "view" => {
                    assert_eq!(role["metadata"]["labels"]["mine"], "too");
                    assert_eq!(
                        role["metadata"]["labels"][format!("{AGGREGATE_TO}edit")],
                        "true"
                    );
                    assert_eq!(role["rules"], json!([]), "aggregation fills them");
                }
                Change::Update(binding) => {
                    assert_eq!(binding["subjects"][0]["name"], AUTHENTICATED)
                }
                Change::Recreate(binding) => {
                    assert_eq!(binding["roleRef"]["name"], "system:basic-user")
                }
                Change::Create(object) => panic!("nothing was missing: {object}"),
            }
        }
    }
}
