//! Permissions to impersonate, and the resulting user.

use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::*;
use crate::{AuthorizationMode, Roles};

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(
            HeaderName::try_from(*name).unwrap(),
            HeaderValue::try_from(*value).unwrap(),
        );
    }
    headers
}

/// Roles of one user `boss`, with these rules in all namespaces.
fn roles(rules: &Value) -> Roles {
    Roles::from_objects(&[
        json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}),
        json!({
            "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "boss"}],
        }),
    ])
}

fn boss() -> UserInfo {
    UserInfo {
        username: "boss".to_owned(),
        groups: vec![AUTHENTICATED.to_owned()],
        ..UserInfo::default()
    }
}

const LIST_PODS: Attributes<'_> = Attributes::Resource {
    verb: "list",
    group: "",
    version: "v1",
    resource: "pods",
    subresource: "",
    name: "",
    namespace: "ns",
};

fn act(rules: &Value, pairs: &[(&str, &str)]) -> Result<UserInfo, ApiError> {
    let roles = roles(rules);
    let authorizer = Authorizer {
        mode: AuthorizationMode::Rbac,
        roles: &roles,
    };
    let impersonation = Impersonation::from_headers(&headers(pairs))
        .unwrap()
        .unwrap();
    impersonation.authorize(&authorizer, &boss(), &LIST_PODS)
}

fn may(resources: &[&str], names: &[&str]) -> Value {
    json!([{
        "verbs": ["impersonate"], "apiGroups": ["", GROUP], "resources": resources, "resourceNames": names,
    }])
}

#[test]
fn headers_select_the_user() {
    assert_eq!(Impersonation::from_headers(&HeaderMap::new()), Ok(None));
    let pairs = [
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("impersonate-group", "b"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-Scopes", "view"),
        ("Impersonate-Extra-scopes", "edit"),
        ("Impersonate-Extra-acme.com%2Fproject", "x"),
        ("Impersonate-Extra-odd%zz", "y"),
    ];
    let wanted = Impersonation::from_headers(&headers(&pairs))
        .unwrap()
        .unwrap()
        .wanted;
    assert_eq!(
        json!(wanted),
        json!({
            "username": "jane", "uid": "7", "groups": ["a", "b"],
            "extra": {"scopes": ["view", "edit"], "acme.com/project": ["x"], "odd%zz": ["y"]},
        })
    );
}

#[test]
fn a_group_alone_is_a_mistake() {
    for (pairs, expected) in [
        (
            [("Impersonate-Group", "a")],
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"a\"}, Extra:map[string][]string(nil)} \
             without impersonating a user name",
        ),
        (
            [("Impersonate-Extra-k", "v")],
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string(nil), \
             Extra:map[string][]string{\"k\":[]string{\"v\"}}} without impersonating a user name",
        ),
    ] {
        let error = Impersonation::from_headers(&headers(&pairs)).unwrap_err();
        assert_eq!(
            (error.code.as_u16(), error.message.as_str()),
            (400, expected)
        );
    }
}

#[test]
fn the_user_gets_the_groups_that_follow() {
    let everything = may(&["*"], &[]);
    let account = "system:serviceaccount:ns:robot";
    let accounts = [
        "system:serviceaccounts",
        "system:serviceaccounts:ns",
        AUTHENTICATED,
    ];
    for (pairs, expected) in [
        (vec![("Impersonate-User", "jane")], vec![AUTHENTICATED]),
        (
            vec![("Impersonate-User", "jane"), ("Impersonate-Group", "a")],
            vec!["a", AUTHENTICATED],
        ),
        (
            vec![
                ("Impersonate-User", "jane"),
                ("Impersonate-Group", AUTHENTICATED),
            ],
            vec![AUTHENTICATED],
        ),
        (
            vec![
                ("Impersonate-User", "jane"),
                ("Impersonate-Group", UNAUTHENTICATED),
            ],
            vec![UNAUTHENTICATED],
        ),
        (vec![("Impersonate-User", ANONYMOUS)], vec![UNAUTHENTICATED]),
        (vec![("Impersonate-User", account)], accounts.to_vec()),
        (
            vec![("Impersonate-User", account), ("Impersonate-Group", "a")],
            vec!["a", AUTHENTICATED],
        ),
        (
            vec![("Impersonate-User", "system:node:n1")],
            vec![AUTHENTICATED],
        ),
    ] {
        assert_eq!(
            act(&everything, &pairs).unwrap().groups,
            expected,
            "{pairs:?}"
        );
    }
}

#[test]
fn each_part_needs_its_permission() {
    let jane = ("Impersonate-User", "jane");
    let account = ("Impersonate-User", "system:serviceaccount:ns:robot");
    let extra = ("Impersonate-Extra-scopes", "view");
    for (rules, pairs, is_allowed) in [
        (may(&["users"], &[]), vec![jane], true),
        (may(&["users"], &["jane"]), vec![jane], true),
        (may(&["users"], &["joe"]), vec![jane], false),
        (may(&["users"], &[]), vec![account], false),
        (may(&["serviceaccounts"], &["robot"]), vec![account], true),
        (
            may(&["users"], &[]),
            vec![jane, ("Impersonate-Group", "a")],
            false,
        ),
        (
            may(&["users", "groups"], &["jane", "a"]),
            vec![jane, ("Impersonate-Group", "a")],
            true,
        ),
        (
            may(&["users", "groups"], &[]),
            vec![jane, ("Impersonate-Group", MASTERS)],
            true,
        ),
        (
            may(&["users"], &[]),
            vec![jane, ("Impersonate-Uid", "7")],
            false,
        ),
        (
            may(&["users", "uids"], &[]),
            vec![jane, ("Impersonate-Uid", "7")],
            true,
        ),
        (
            may(&["users", "userextras/scopes"], &["jane", "view"]),
            vec![jane, extra],
            true,
        ),
        (
            may(&["users", "userextras/other"], &[]),
            vec![jane, extra],
            false,
        ),
        (
            json!([{"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]}]),
            vec![jane],
            false,
        ),
    ] {
        assert_eq!(
            act(&rules, &pairs).is_ok(),
            is_allowed,
            "{rules} for {pairs:?}"
        );
    }
}

#[test]
fn constrained_impersonation_needs_both_halves() {
    let on = |mode: &str, verb: &str| json!({"verbs": [format!("impersonate-on:{mode}:{verb}")], "apiGroups": [""], "resources": ["pods"]});
    let whom = |mode: &str, resource: &str| json!({"verbs": [format!("impersonate:{mode}")], "apiGroups": [GROUP], "resources": [resource]});
    let jane = ("Impersonate-User", "jane");
    let node = ("Impersonate-User", "system:node:n1");
    for (rules, pairs, expected) in [
        (
            json!([on("user-info", "list"), whom("user-info", "users")]),
            vec![jane],
            Ok(vec![AUTHENTICATED]),
        ),
        (
            json!([on("user-info", "get"), whom("user-info", "users")]),
            vec![jane],
            Err("impersonate-on:user-info:list"),
        ),
        (
            json!([on("user-info", "list")]),
            vec![jane],
            Err("impersonate:user-info resource \"users\""),
        ),
        (
            json!([on("user-info", "list"), whom("user-info", "*")]),
            vec![jane, ("Impersonate-Group", MASTERS)],
            Err("impersonating the system:masters group is not allowed"),
        ),
        (
            json!([
                on("arbitrary-node", "list"),
                whom("arbitrary-node", "nodes")
            ]),
            vec![node],
            Ok(vec!["system:nodes", AUTHENTICATED]),
        ),
        (
            json!([on("user-info", "list"), whom("user-info", "users")]),
            vec![node],
            Err("impersonate-on:arbitrary-node"),
        ),
    ] {
        match (act(&rules, &pairs), expected) {
            (Ok(user), Ok(groups)) => assert_eq!(user.groups, groups),
            (Err(error), Err(part)) => assert!(error.message.contains(part), "{}", error.message),
            (result, expected) => panic!("{pairs:?}: {result:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn a_refusal_names_the_missing_permission() {
    let error = act(&json!([]), &[("Impersonate-User", "jane")]).unwrap_err();
    assert_eq!(
        error.message,
        "pods is forbidden: User \"boss\" cannot impersonate-on:user-info:list resource \"pods\" in API group \"\" in the \
         namespace \"ns\""
    );
    assert_eq!(error.code.as_u16(), 403);
}
