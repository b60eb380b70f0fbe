//! Nobody gives away what they do not hold (AU7): the check before a role or binding is written.

use serde_json::{Map, Value};

use super::rule::{Rule, covers, describe, quoted_list};
use super::{GROUP, RoleError, RoleRef, read, rules_of};
use crate::auth::{Attributes, Authorizer, MASTERS, UserInfo};
use crate::status::{ApiError, ResourceName};

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
    /// The object as it is stored, if it is.
    pub old: Option<&'a Value>,
}

/// Refuses a write that would grant what the user does not hold, unless they may `escalate` this role
/// or `bind` that one. Objects of other kinds pass.
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
        self.holds(&rules_of(self.write.new))
            .map_err(|why| self.refusal(plural, &why))?;
        // An aggregation rule can gather anything, now and later.
        let aggregates = |role: &Value| {
            role["aggregationRule"]["clusterRoleSelectors"]
                .as_array()
                .is_some_and(|list| !list.is_empty())
        };
        if (aggregates(self.write.new) || self.write.old.is_some_and(aggregates))
            && self.holds(&Rule::everything()).is_err()
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
        let rules = self
            .authorizer
            .roles
            .rules_of_role(&role, self.write.namespace)
            .map_err(|error| match error {
                RoleError::NotFound { resource, name } => ApiError::not_found(
                    ResourceName {
                        group: GROUP,
                        plural: resource,
                    },
                    &name,
                ),
                RoleError::UnsupportedKind { .. } => ApiError::internal(error),
            })?;
        self.holds(rules).map_err(|why| self.refusal(plural, &why))
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
    fn holds(&self, needed: &[Rule]) -> Result<(), String> {
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
            let errors = super::joined(errors.iter().map(ToString::to_string).collect());
            why = format!("{why}; resolution errors: [{errors}]");
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

/// Whether a write changes nothing but what garbage collection changes; that grants nobody anything.
fn is_garbage_collection(new: &Value, old: &Value) -> bool {
    const BOOKKEEPING: [&str; 4] = [
        "ownerReferences",
        "finalizers",
        "managedFields",
        "resourceVersion",
    ];
    fn substance<'a>(
        object: &'a Value,
    ) -> Option<(Map<String, Value>, Vec<(&'a String, &'a Value)>)> {
        let object = object.as_object()?;
        let mut metadata = object.get("metadata")?.as_object()?.clone();
        metadata.retain(|key, _| !BOOKKEEPING.contains(&key.as_str()));
        Some((
            metadata,
            object
                .iter()
                .filter(|(key, _)| *key != "metadata")
                .collect(),
        ))
    }
    substance(new).is_some_and(|new| Some(new) == substance(old))
}
