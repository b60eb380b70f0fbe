//! Decisions by roles and bindings, and the refusal to grant more than one holds.

use serde_json::json;

use super::*;
use crate::{AUTHENTICATED, AuthorizationMode, Authorizer, MASTERS};
use polity_kinds::status::ApiError;

fn role(namespace: &str, name: &str, rules: &Value) -> Value {
    let kind = if namespace.is_empty() {
        "ClusterRole"
    } else {
        "Role"
    };
    json!({"kind": kind, "metadata": {"namespace": namespace, "name": name}, "rules": rules})
}

/// A binding of `kind/role` to subjects written as `Kind name`.
fn binding(namespace: &str, name: &str, role: &str, subjects: &[&str]) -> Value {
    let kind = if namespace.is_empty() {
        "ClusterRoleBinding"
    } else {
        "RoleBinding"
    };
    let (role_kind, role) = role.split_once('/').unwrap();
    let subjects: Vec<_> = subjects
        .iter()
        .map(|subject| {
            let (kind, name) = subject.split_once(' ').unwrap();
            match name.split_once('/') {
                Some((namespace, name)) => {
                    json!({"kind": kind, "namespace": namespace, "name": name})
                }
                None => json!({"kind": kind, "name": name}),
            }
        })
        .collect();
    json!({
        "kind": kind, "metadata": {"namespace": namespace, "name": name},
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role}, "subjects": subjects,
    })
}

fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo {
        username: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..UserInfo::default()
    }
}

fn get<'a>(resource: &'a str, namespace: &'a str) -> Attributes<'a> {
    Attributes::Resource {
        verb: "get",
        group: "",
        version: "v1",
        resource,
        subresource: "",
        name: "x",
        namespace,
    }
}

fn sample_roles() -> Vec<Value> {
    let on =
        |resource: &str| json!([{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]);
    vec![
        role("", "pods", &on("pods")),
        role("", "nodes", &on("nodes")),
        role("ns", "secrets", &on("secrets")),
        role(
            "",
            "health",
            &json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]),
        ),
        binding(
            "",
            "pods-everywhere",
            "ClusterRole/pods",
            &["User alice", "Group team"],
        ),
        binding("", "sa", "ClusterRole/nodes", &["ServiceAccount ns/robot"]),
        binding("ns", "secrets-here", "Role/secrets", &["User alice"]),
        binding(
            "ns",
            "pods-here",
            "ClusterRole/pods",
            &["User bob", "ServiceAccount local"],
        ),
        binding("ns", "health-here", "ClusterRole/health", &["User bob"]),
        binding("ns", "broken", "Role/gone", &["User carol"]),
        binding("", "broken", "ClusterRole/gone", &["User carol"]),
        binding("", "odd", "Role/secrets", &["User dave"]),
    ]
}

#[test]
fn bindings_grant_within_their_scope() {
    let roles = Roles::from_objects(&sample_roles());
    let health = Attributes::NonResource {
        verb: "get",
        path: "/healthz",
    };
    let (robot, local) = (
        "system:serviceaccount:ns:robot",
        "system:serviceaccount:ns:local",
    );
    let by = |text: &str| Decision::Allow {
        reason: format!("RBAC: allowed by {text}"),
    };
    let no = |text: &str| Decision::NoOpinion {
        reason: text.to_owned(),
    };
    let everywhere = "ClusterRoleBinding \"pods-everywhere\" of ClusterRole \"pods\" to";
    for (user, request, expected) in [
        (
            user("alice", &[]),
            get("pods", "other"),
            by(&format!("{everywhere} User \"alice\"")),
        ),
        (
            user("alice", &[]),
            get("pods", ""),
            by(&format!("{everywhere} User \"alice\"")),
        ),
        (
            user("zoe", &["team"]),
            get("pods", "ns"),
            by(&format!("{everywhere} Group \"team\"")),
        ),
        (
            user("alice", &[]),
            get("secrets", "ns"),
            by("RoleBinding \"secrets-here/ns\" of Role \"secrets\" to User \"alice\""),
        ),
        (user("alice", &[]), get("secrets", "other"), no("")),
        (user("alice", &[]), get("secrets", ""), no("")),
        (
            user("bob", &[]),
            get("pods", "ns"),
            by("RoleBinding \"pods-here/ns\" of ClusterRole \"pods\" to User \"bob\""),
        ),
        (user("bob", &[]), get("pods", "other"), no("")),
        (user("bob", &[]), health, no("")),
        (
            user(robot, &[]),
            get("nodes", ""),
            by("ClusterRoleBinding \"sa\" of ClusterRole \"nodes\" to ServiceAccount \"robot/ns\""),
        ),
        (user("robot", &[]), get("nodes", ""), no("")),
        (
            user(local, &[]),
            get("pods", "ns"),
            by(
                "RoleBinding \"pods-here/ns\" of ClusterRole \"pods\" to ServiceAccount \"local/ns\"",
            ),
        ),
        (
            user("carol", &[]),
            get("pods", "ns"),
            no(
                "RBAC: [clusterrole.rbac.authorization.k8s.io \"gone\" not found, \
                role.rbac.authorization.k8s.io \"gone\" not found]",
            ),
        ),
        (
            user("dave", &[]),
            get("secrets", "ns"),
            no("RBAC: Namespace parameter required."),
        ),
    ] {
        assert_eq!(
            roles.decide(&user, &request),
            expected,
            "{user:?} {request:?}"
        );
    }
}

#[test]
fn the_index_follows_writes() {
    let world = sample_roles();
    let roles = Roles::from_objects(&world);
    let alice = user("alice", &[]);
    let may = |roles: &Roles, resource| roles.decide(&alice, &get(resource, "ns")).is_allowed();
    assert!(may(&roles, "secrets"));
    assert!(
        !may(&roles.without(&world[6]), "secrets"),
        "without its binding"
    );
    assert!(
        !may(&roles.without(&world[2]), "secrets"),
        "without its role"
    );
    let narrowed = roles.with(&role("ns", "secrets", &json!([])));
    assert!(!may(&narrowed, "secrets"), "with an emptied role");
    assert!(may(&roles, "secrets"), "the old index is what it was");
    assert!(may(&roles.without(&world[6]).with(&world[6]), "secrets"));
    assert!(may(
        &roles.with(&json!({"kind": "ConfigMap", "metadata": {"name": "secrets"}})),
        "secrets"
    ));
}

#[test]
fn invalid_rules_grant_nothing() {
    let rules = json!([
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": [1]},
        {"verbs": "get", "apiGroups": [""], "resources": ["pods"]},
        7,
    ]);
    let objects = [
        role("", "r", &rules),
        binding("", "b", "ClusterRole/r", &["User alice"]),
        json!({"kind": "ClusterRoleBinding", "metadata": {"name": "c"}, "roleRef": 3, "subjects": {"a": 1}}),
        json!({"kind": "ClusterRole"}),
    ];
    let roles = Roles::from_objects(&objects);
    assert!(
        !roles
            .decide(&user("alice", &[]), &get("pods", ""))
            .is_allowed()
    );
}

fn check(roles: &Roles, user: &UserInfo, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let authorizer = Authorizer {
        mode: AuthorizationMode::Rbac,
        roles,
    };
    let (namespace, name) = namespace_and_name(new);
    let request_name = if old.is_some() { name } else { "" };
    confirm_no_escalation(
        &authorizer,
        user,
        &RoleWrite {
            namespace,
            request_name,
            new,
            old,
        },
    )
}

#[test]
fn users_cannot_grant_permissions_that_they_lack() {
    let mut world = sample_roles();
    let rbac = |verb: &str, resource: &str, names: &[&str]| json!([{"verbs": [verb], "apiGroups": [GROUP], "resources": [resource], "resourceNames": names}]);
    world.push(role("", "escalate", &rbac("escalate", "clusterroles", &[])));
    world.push(role(
        "",
        "escalate-one",
        &rbac("escalate", "clusterroles", &["one"]),
    ));
    world.push(role(
        "",
        "bind-pods",
        &rbac("bind", "clusterroles", &["pods"]),
    ));
    world.push(binding(
        "",
        "escalate",
        "ClusterRole/escalate",
        &["User eve"],
    ));
    world.push(binding(
        "",
        "escalate-one",
        "ClusterRole/escalate-one",
        &["User mallory"],
    ));
    world.push(binding(
        "",
        "bind-pods",
        "ClusterRole/bind-pods",
        &["User binder"],
    ));
    let roles = Roles::from_objects(&world);

    let pods = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let secrets = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"]}]);
    let alice = user("alice", &["team", AUTHENTICATED]);
    let refused = "is attempting to grant RBAC permissions not currently held";
    let cases = [
        ("held", &alice, role("", "one", &pods), None, None),
        (
            "not held",
            &alice,
            role("", "one", &secrets),
            None,
            Some(refused),
        ),
        (
            "held in that namespace only",
            &alice,
            role("ns", "one", &json!([secrets[0]])),
            None,
            Some(refused),
        ),
        (
            "masters",
            &user("root", &[MASTERS]),
            role("", "one", &secrets),
            None,
            None,
        ),
        (
            "escalate",
            &user("eve", &[]),
            role("", "one", &secrets),
            None,
            None,
        ),
        (
            "escalate another kind",
            &user("eve", &[]),
            role("ns", "one", &secrets),
            None,
            Some(refused),
        ),
        (
            "escalate by name, on POST",
            &user("mallory", &[]),
            role("", "one", &secrets),
            None,
            Some(refused),
        ),
        (
            "escalate by name",
            &user("mallory", &[]),
            role("", "one", &secrets),
            Some(role("", "one", &pods)),
            None,
        ),
        (
            "bind held",
            &alice,
            binding("", "b", "ClusterRole/pods", &["User z"]),
            None,
            None,
        ),
        (
            "bind not held",
            &alice,
            binding("", "b", "ClusterRole/nodes", &["User z"]),
            None,
            Some(refused),
        ),
        (
            "bind by verb",
            &user("binder", &[]),
            binding("ns", "b", "ClusterRole/pods", &["User z"]),
            None,
            None,
        ),
        (
            "bind another",
            &user("binder", &[]),
            binding("ns", "b", "ClusterRole/nodes", &[]),
            None,
            Some(refused),
        ),
        (
            "bind a local role",
            &alice,
            binding("ns", "b", "Role/secrets", &["User z"]),
            None,
            None,
        ),
        (
            "bind a missing role",
            &alice,
            binding("", "b", "ClusterRole/none", &[]),
            None,
            Some("clusterrolebindings.rbac.authorization.k8s.io \"none\" not found"),
        ),
    ];
    for (case, user, new, old, expected) in cases {
        let result = check(&roles, user, &new, old.as_ref());
        match expected {
            None => assert_eq!(result, Ok(()), "{case}"),
            Some(part) => {
                let error = result.expect_err(case);
                assert!(error.message.contains(part), "{case}: {}", error.message);
            }
        }
    }

    let error = check(&roles, &alice, &role("", "one", &secrets), None).unwrap_err();
    assert_eq!(
        error.message,
        "clusterroles.rbac.authorization.k8s.io \"one\" is forbidden: user \"alice\" (groups=[\"team\" \
         \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\"]}"
    );
    assert_eq!(error.code, http::StatusCode::FORBIDDEN);
}

#[test]
fn resolution_errors_name_the_resource_of_the_request() {
    let roles = Roles::from_objects(&sample_roles());
    let carol = user("carol", &[]);
    let secrets = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]);
    for (new, expected) in [
        (
            role("ns", "one", &secrets),
            "; resolution errors: [roles.rbac.authorization.k8s.io \"gone\" not found]",
        ),
        (
            binding("", "b", "ClusterRole/nodes", &[]),
            "; resolution errors: [clusterrolebindings.rbac.authorization.k8s.io \"gone\" not found]",
        ),
        (
            binding("", "b", "Role/secrets", &[]),
            "Namespace parameter required.",
        ),
        (
            binding("ns", "b", "Foo/secrets", &[]),
            "unsupported role reference kind: \"Foo\"",
        ),
    ] {
        let error = check(&roles, &carol, &new, None).unwrap_err();
        assert!(error.message.ends_with(expected), "{}", error.message);
    }
}

#[test]
fn aggregation_rules_need_everything() {
    let roles = Roles::from_objects(&sample_roles());
    let mut new = role("", "one", &json!([]));
    new["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let error = check(&roles, &user("alice", &[]), &new, None).unwrap_err();
    assert!(
        error
            .message
            .ends_with("must have cluster-admin privileges to use the aggregationRule")
    );
    let error = check(
        &roles,
        &user("alice", &[]),
        &role("", "one", &json!([])),
        Some(&new),
    )
    .unwrap_err();
    assert!(
        error.message.contains("aggregationRule"),
        "removing one needs it too"
    );
}

#[test]
fn bookkeeping_needs_no_permission() {
    let roles = Roles::from_objects(&sample_roles());
    let old = role(
        "",
        "one",
        &json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
    );
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!([]);
    new["metadata"]["resourceVersion"] = json!("7");
    assert_eq!(
        check(&roles, &user("nobody", &[]), &new, Some(&old)),
        Ok(())
    );
    new["metadata"]["labels"] = json!({"a": "b"});
    assert!(check(&roles, &user("nobody", &[]), &new, Some(&old)).is_err());
}

#[test]
fn rules_are_listed_with_resolution_errors() {
    let roles = Roles::from_objects(&sample_roles());
    let (rules, errors) = roles.rules_for(&user("alice", &[]), "ns");
    assert_eq!(rules.len(), 2);
    assert!(errors.is_empty());
    let (rules, errors) = roles.rules_for(&user("carol", &[]), "ns");
    assert!(rules.is_empty());
    assert_eq!(errors.len(), 2);
}
