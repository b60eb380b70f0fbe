//! Prevents privilege escalation: a user can only write roles and bindings whose permissions they hold.

use serde_json::Value;

use super::rule::{Rule, covers, describe, quoted_list};
use super::{GROUP, RoleError, RoleRef, read, rules_of, unresolved};
use crate::{Attributes, Authorizer, MASTERS, UserInfo};
use polity_kinds::status::{ApiError, ResourceName};

/// A role or binding about to be written.
#[derive(Debug, Clone, Copy)]
pub struct RoleWrite<'a> {
    /// The namespace of the request; empty for cluster-wide kinds.
    pub namespace: &'a str,
    /// The name in the request's URL; empty for POST, so that a grant of `escalate` on certain names
    /// does not reach it.
    pub request_name: &'a str,
    /// The object as it would be stored, with its kind.
    pub new: &'a Value,
    /// The stored object, if it exists.
    pub old: Option<&'a Value>,
}

/// Refuses a write that would grant permissions the user lacks, unless the user may `escalate` this role or `bind`
/// that one. Objects of other kinds are allowed.
pub fn confirm_no_escalation(
    authorizer: &Authorizer<'_>,
    user: &UserInfo,
    write: &RoleWrite<'_>,
) -> Result<(), ApiError> {
    if user.is_in(MASTERS)
        || write
            .old
            .is_some_and(|old| is_garbage_collection(write.new, old))
    {
        return Ok(());
    }
    let check = Check {
        authorizer,
        user,
        write,
    };
    match write.new["kind"].as_str() {
        Some("Role") => check.role("roles"),
        Some("ClusterRole") => check.role("clusterroles"),
        Some("RoleBinding") => check.binding("rolebindings"),
        Some("ClusterRoleBinding") => check.binding("clusterrolebindings"),
        _ => Ok(()),
    }
}

struct Check<'a> {
    authorizer: &'a Authorizer<'a>,
    user: &'a UserInfo,
    write: &'a RoleWrite<'a>,
}

impl Check<'_> {
    fn role(&self, plural: &str) -> Result<(), ApiError> {
        if self.may("escalate", plural, self.write.request_name) {
            return Ok(());
        }
        self.holds(plural, &rules_of(self.write.new))
            .map_err(|why| self.refusal(plural, &why))?;
        // An aggregation rule can gather anything, now and later.
        let aggregates = |role: &Value| {
            role["aggregationRule"]["clusterRoleSelectors"]
                .as_array()
                .is_some_and(|list| !list.is_empty())
        };
        if (aggregates(self.write.new) || self.write.old.is_some_and(aggregates))
            && self.holds(plural, &Rule::everything()).is_err()
        {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(self.refusal(plural, why));
        }
        Ok(())
    }

    fn binding(&self, plural: &str) -> Result<(), ApiError> {
        let role: RoleRef = read(&self.write.new["roleRef"]).unwrap_or_default();
        let bound = match role.kind.as_str() {
            "ClusterRole" => Some("clusterroles"),
            "Role" => Some("roles"),
            _ => None,
        };
        if bound.is_some_and(|bound| self.may("bind", bound, &role.name)) {
            return Ok(());
        }
        let roles = self.authorizer.roles;
        let rules = roles
            .rules_of_role(&role, self.write.namespace)
            .map_err(|error| unknown_role(plural, error))?;
        self.holds(plural, rules)
            .map_err(|why| self.refusal(plural, &why))
    }

    fn may(&self, verb: &str, resource: &str, name: &str) -> bool {
        let request = Attributes::Resource {
            verb,
            group: GROUP,
            version: "*",
            resource,
            subresource: "",
            name,
            namespace: self.write.namespace,
        };
        self.authorizer.decide(self.user, &request).is_allowed()
    }

    /// Whether the user holds all of these; if not, the sentence to refuse with.
    fn holds(&self, plural: &str, needed: &[Rule]) -> Result<(), String> {
        let (owned, errors) = self.authorizer.rules_for(self.user, self.write.namespace);
        let Err(missing) = covers(&owned, needed) else {
            return Ok(());
        };
        let mut why = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            self.user.username,
            quoted_list(&self.user.groups),
            describe(&missing)
                .into_iter()
                .collect::<Vec<_>>()
                .join("\n"),
        );
        if !errors.is_empty() {
            let errors = errors
                .into_iter()
                .map(|error| unknown_role(plural, error).message);
            why = format!("{why}; resolution errors: [{}]", unresolved(errors));
        }
        Err(why)
    }

    fn refusal(&self, plural: &str, why: &str) -> ApiError {
        let name = self.write.new["metadata"]["name"]
            .as_str()
            .unwrap_or_default();
        ApiError::forbidden(
            ResourceName {
                group: GROUP,
                plural,
            },
            name,
            why,
        )
    }
}

/// A role that cannot be found. Kubernetes looks it up in the name of the request, and so calls it by
/// the request's resource.
fn unknown_role(plural: &str, error: RoleError) -> ApiError {
    match error {
        RoleError::NotFound { name, .. } => ApiError::not_found(
            ResourceName {
                group: GROUP,
                plural,
            },
            &name,
        ),
        RoleError::NoNamespace => ApiError::bad_request(error.to_string()),
        RoleError::UnsupportedKind { .. } => ApiError::new(
            http::StatusCode::INTERNAL_SERVER_ERROR,
            "",
            error.to_string(),
        ),
    }
}

/// Whether a write only changes fields that garbage collection changes. Such a write grants nothing.
fn is_garbage_collection(new: &Value, old: &Value) -> bool {
    let substance = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for bookkeeping in [
                "ownerReferences",
                "finalizers",
                "managedFields",
                "resourceVersion",
            ] {
                metadata.remove(bookkeeping);
            }
        }
        object
    };
    substance(new) == substance(old)
}
