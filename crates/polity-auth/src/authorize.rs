//! The authorizer: roles, the group that may do everything, and the messages of a refusal.

use crate::rbac::{RoleError, Roles, Rule};
use crate::{AUTHENTICATED, Attributes, MASTERS, UserInfo};
use polity_kinds::status::{ApiError, Details, ResourceName};

/// How requests are authorized.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// By RBAC roles.
    #[default]
    Rbac,
    /// Every authenticated user may do everything. For others roles decide.
    AlwaysAllow,
}

/// The decision of an authorizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Allowed, with the rule that allows it; the reason may be empty.
    Allow { reason: String },
    /// No rule allows the request, so it is refused. The reason contains resolution errors.
    NoOpinion { reason: String },
}

impl Decision {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow { .. })
    }
}

/// Decides over requests by the roles of one moment.
#[derive(Debug, Clone, Copy)]
pub struct Authorizer<'a> {
    pub mode: AuthorizationMode,
    pub roles: &'a Roles,
}

impl Authorizer<'_> {
    /// Whether the user may do this.
    pub fn decide(&self, user: &UserInfo, request: &Attributes<'_>) -> Decision {
        if self.allows_everything(user) {
            return Decision::Allow {
                reason: String::new(),
            };
        }
        match self.roles.decide(user, request) {
            // A chain of authorizers names those without an opinion.
            Decision::NoOpinion { reason } if !reason.is_empty() => Decision::NoOpinion {
                reason: format!("rbac: {reason}"),
            },
            decision => decision,
        }
    }

    /// Checks whether the user may do this. Otherwise returns the error response.
    pub fn require(&self, user: &UserInfo, request: &Attributes<'_>) -> Result<(), ApiError> {
        match self.decide(user, request) {
            Decision::Allow { .. } => Ok(()),
            Decision::NoOpinion { reason } => Err(forbidden(user, request, &reason)),
        }
    }

    /// The permissions of the user in a namespace, and the roles that were not found.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<Rule>, Vec<RoleError>) {
        let (mut rules, errors) = self.roles.rules_for(user, namespace);
        if self.allows_everything(user) && !rules.starts_with(&Rule::everything()) {
            rules.splice(0..0, Rule::everything());
        }
        (rules, errors)
    }

    fn allows_everything(&self, user: &UserInfo) -> bool {
        user.is_in(MASTERS)
            || (self.mode == AuthorizationMode::AlwaysAllow && user.is_in(AUTHENTICATED))
    }
}

/// The refusal of a request, with the authorizer's reason if it gave one.
pub fn forbidden(user: &UserInfo, request: &Attributes<'_>, reason: &str) -> ApiError {
    let mut why = harmless(&cannot(user, request));
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    match *request {
        Attributes::Resource {
            group,
            resource,
            name,
            ..
        } => ApiError::forbidden(
            ResourceName {
                group,
                plural: resource,
            },
            name,
            &why,
        ),
        Attributes::NonResource { .. } => ApiError::new(
            http::StatusCode::FORBIDDEN,
            "Forbidden",
            format!("forbidden: {why}"),
        )
        .with_details(Details::default()),
    }
}

fn cannot(user: &UserInfo, request: &Attributes<'_>) -> String {
    let username = &user.username;
    match *request {
        Attributes::NonResource { verb, path } => {
            format!("User {username:?} cannot {verb} path {path:?}")
        }
        Attributes::Resource {
            verb,
            group,
            resource,
            subresource,
            namespace,
            ..
        } => {
            let slash = if subresource.is_empty() { "" } else { "/" };
            let scope = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {namespace:?}")
            };
            let resource = format!("{resource}{slash}{subresource}");
            format!(
                "User {username:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}"
            )
        }
    }
}

/// Prevents a browser from interpreting a refusal as HTML, because user names and paths come from clients.
fn harmless(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(name: &str, groups: &[&str]) -> UserInfo {
        UserInfo {
            username: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..UserInfo::default()
        }
    }

    fn on<'a>(path: &'a str, namespace: &'a str, name: &'a str) -> Attributes<'a> {
        let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
        Attributes::Resource {
            verb: "get",
            group: "apps",
            version: "v1",
            resource,
            subresource,
            name,
            namespace,
        }
    }

    #[test]
    fn refusals_name_user_verb_resource_and_namespace() {
        let alice = user("alice", &[]);
        for (request, reason, expected) in [
            (
                on("deployments", "ns", "web"),
                "",
                "deployments.apps \"web\" is forbidden: User \"alice\" cannot get resource \"deployments\" in API group \
                 \"apps\" in the namespace \"ns\"",
            ),
            (
                on("deployments/scale", "", ""),
                "RBAC: x",
                "deployments.apps is forbidden: User \"alice\" cannot get resource \"deployments/scale\" in API group \
                 \"apps\" at the cluster scope: RBAC: x",
            ),
            (
                Attributes::NonResource {
                    verb: "get",
                    path: "/<b>",
                },
                "",
                "forbidden: User \"alice\" cannot get path \"/&lt;b&gt;\"",
            ),
        ] {
            let error = forbidden(&alice, &request, reason);
            assert_eq!(error.message, expected);
            assert_eq!(
                (error.code.as_u16(), error.reason.as_str()),
                (403, "Forbidden")
            );
            assert!(error.details.is_some());
        }
    }

    #[test]
    fn masters_and_always_allow() {
        let roles = Roles::default();
        let (rbac, always) = (AuthorizationMode::Rbac, AuthorizationMode::AlwaysAllow);
        for (mode, user, expected) in [
            (rbac, user("root", &[MASTERS]), true),
            (rbac, user("alice", &[AUTHENTICATED]), false),
            (always, user("alice", &[AUTHENTICATED]), true),
            (always, UserInfo::anonymous(), false),
        ] {
            let authorizer = Authorizer {
                mode,
                roles: &roles,
            };
            assert_eq!(
                authorizer
                    .decide(&user, &on("deployments", "", ""))
                    .is_allowed(),
                expected,
                "{user:?}"
            );
            let (rules, _) = authorizer.rules_for(&user, "ns");
            assert_eq!(!rules.is_empty(), expected, "{user:?}");
        }
    }

    #[test]
    fn missing_roles_are_named_in_the_refusal() {
        let binding = json!({
            "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "gone"}, "subjects": [{"kind": "User", "name": "alice"}],
        });
        let roles = Roles::from_objects([&binding]);
        let authorizer = Authorizer {
            mode: AuthorizationMode::Rbac,
            roles: &roles,
        };
        let error = authorizer
            .require(&user("alice", &[]), &on("deployments", "", ""))
            .unwrap_err();
        assert!(
            error.message.ends_with(
                "at the cluster scope: rbac: RBAC: clusterrole.rbac.authorization.k8s.io \"gone\" not found"
            ),
            "{}",
            error.message
        );
    }
}
