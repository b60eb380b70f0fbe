//! The permissions of a new cluster, and the changes of a later start.

use std::collections::BTreeSet;

use super::*;
use crate::{
    AUTHENTICATED, Attributes, MASTERS, Roles, UNAUTHENTICATED, UserInfo, service_account,
};

fn find<'a>(objects: &'a [Value], kind: &str, namespace: &str, name: &str) -> Option<&'a Value> {
    objects.iter().find(|object| {
        let metadata = &object["metadata"];
        object["kind"] == kind
            && metadata["namespace"].as_str().unwrap_or_default() == namespace
            && metadata["name"] == name
    })
}

/// Whether a user with a ClusterRole in `ns` may do `verb` on `resource[.group]`.
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
fn admin_edit_and_view_have_their_permissions() {
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
fn public_information_is_visible_to_everyone() {
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
fn a_start_adds_missing_permissions_and_keeps_additional_ones() {
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
        role["rules"] = json!([extra]);
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
        binding["subjects"] = json!([]);
    });
    edit("ClusterRoleBinding", "system:basic-user", &|binding| {
        binding["roleRef"]["name"] = json!("other");
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
                assert_eq!(binding["subjects"][0]["name"], AUTHENTICATED);
            }
            Change::Recreate(binding) => {
                assert_eq!(binding["roleRef"]["name"], "system:basic-user");
            }
            Change::Create(object) => panic!("nothing was missing: {object}"),
        }
    }
}
