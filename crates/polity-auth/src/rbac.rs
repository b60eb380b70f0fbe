//! Role-based access control: an index of roles and bindings that answers permission checks.

mod aggregate;
mod escalation;
mod rule;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use aggregate::{aggregated_rules, settle_aggregates};
pub use escalation::{RoleWrite, confirm_no_escalation};
pub use rule::{Rule, covers, quoted_list};

use crate::authorize::Decision;
use crate::{Attributes, UserInfo, service_account};

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// An immutable set of roles and bindings that is cheap to clone.
///
/// Cluster-wide ones are stored under the empty namespace. A rule or binding that cannot be parsed grants nothing.
#[derive(Debug, Clone, Default)]
pub struct Roles {
    roles: ByNamespace<Vec<Rule>>,
    bindings: ByNamespace<Binding>,
}

type ByNamespace<T> = BTreeMap<String, BTreeMap<String, Arc<T>>>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct RoleRef {
    kind: String,
    name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

#[derive(Debug)]
struct Binding {
    role: RoleRef,
    subjects: Vec<Subject>,
}

/// A binding refers to a role that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    #[error("{kind}.{GROUP} {name:?} not found")]
    NotFound { kind: &'static str, name: String },
    #[error("Namespace parameter required.")]
    NoNamespace,
    #[error("unsupported role reference kind: {kind:?}")]
    UnsupportedKind { kind: String },
}

impl Roles {
    /// Indexes these objects. Objects of other kinds are skipped.
    pub fn from_objects<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut roles = Self::default();
        for object in objects {
            roles.apply(object);
        }
        roles
    }

    /// The same with this object added or replaced.
    #[must_use]
    pub fn with(&self, object: &Value) -> Self {
        let mut roles = self.clone();
        roles.apply(object);
        roles
    }

    /// The same without this object.
    #[must_use]
    pub fn without(&self, object: &Value) -> Self {
        let mut roles = self.clone();
        let (namespace, name) = namespace_and_name(object);
        match Kind::of(object) {
            Some(Kind::Role) => remove(&mut roles.roles, namespace, name),
            Some(Kind::Binding) => remove(&mut roles.bindings, namespace, name),
            None => {}
        }
        roles
    }

    fn apply(&mut self, object: &Value) {
        let (namespace, name) = namespace_and_name(object);
        match Kind::of(object) {
            Some(Kind::Role) => {
                let rules = Arc::new(rules_of(object));
                self.roles
                    .entry(namespace.to_owned())
                    .or_default()
                    .insert(name.to_owned(), rules);
            }
            Some(Kind::Binding) => {
                let binding = Arc::new(Binding {
                    role: read(&object["roleRef"]).unwrap_or_default(),
                    subjects: read_all(&object["subjects"]),
                });
                self.bindings
                    .entry(namespace.to_owned())
                    .or_default()
                    .insert(name.to_owned(), binding);
            }
            None => {}
        }
    }

    /// Whether a role bound to the user allows the request.
    pub fn decide(&self, user: &UserInfo, request: &Attributes<'_>) -> Decision {
        let namespace = match request {
            Attributes::Resource { namespace, .. } => namespace,
            Attributes::NonResource { .. } => "",
        };
        let mut errors = Vec::new();
        for grant in self.grants(user, namespace) {
            match self.rules_of_role(&grant.binding.role, grant.namespace) {
                Ok(rules) if rules.iter().any(|rule| rule.allows(request)) => {
                    return Decision::Allow {
                        reason: format!("RBAC: allowed by {grant}"),
                    };
                }
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
        }
        let reason = if errors.is_empty() {
            String::new()
        } else {
            format!("RBAC: {}", unresolved(&errors))
        };
        Decision::NoOpinion { reason }
    }

    /// All rules of the user in a namespace (`None` means cluster scope), and the resolution errors.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<Rule>, Vec<RoleError>) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for grant in self.grants(user, namespace) {
            match self.rules_of_role(&grant.binding.role, grant.namespace) {
                Ok(found) => rules.extend_from_slice(found),
                Err(error) => errors.push(error),
            }
        }
        (rules, errors)
    }

    /// The bindings that name the user: first the cluster-wide ones, then those of the namespace.
    fn grants<'a>(
        &'a self,
        user: &'a UserInfo,
        namespace: &'a str,
    ) -> impl Iterator<Item = Grant<'a>> {
        let namespaces = if namespace.is_empty() {
            vec![""]
        } else {
            vec!["", namespace]
        };
        namespaces.into_iter().flat_map(move |namespace| {
            self.bindings
                .get(namespace)
                .into_iter()
                .flatten()
                .filter_map(move |(name, binding)| {
                    let subject = binding
                        .subjects
                        .iter()
                        .find(|subject| subject.is(user, namespace))?;
                    Some(Grant {
                        namespace,
                        name,
                        binding,
                        subject,
                    })
                })
        })
    }

    fn rules_of_role(&self, role: &RoleRef, namespace: &str) -> Result<&[Rule], RoleError> {
        let (kind, namespace) = match role.kind.as_str() {
            "ClusterRole" => ("clusterrole", ""),
            "Role" if namespace.is_empty() => return Err(RoleError::NoNamespace),
            "Role" => ("role", namespace),
            _ => {
                return Err(RoleError::UnsupportedKind {
                    kind: role.kind.clone(),
                });
            }
        };
        self.roles
            .get(namespace)
            .and_then(|roles| roles.get(&role.name))
            .map(|rules| rules.as_slice())
            .ok_or_else(|| RoleError::NotFound {
                kind,
                name: role.name.clone(),
            })
    }
}

/// A binding together with the subject through which it applies.
struct Grant<'a> {
    namespace: &'a str,
    name: &'a str,
    binding: &'a Binding,
    subject: &'a Subject,
}

impl std::fmt::Display for Grant<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RoleRef { kind, name } = &self.binding.role;
        if self.namespace.is_empty() {
            write!(f, "ClusterRoleBinding {:?}", self.name)?;
        } else {
            write!(
                f,
                "RoleBinding {:?}",
                format!("{}/{}", self.name, self.namespace)
            )?;
        }
        write!(f, " of {kind} {name:?} to {} ", self.subject.kind)?;
        if self.subject.kind == "ServiceAccount" {
            let namespace = self.subject.namespace_or(self.namespace);
            write!(f, "{:?}", format!("{}/{namespace}", self.subject.name))
        } else {
            write!(f, "{:?}", self.subject.name)
        }
    }
}

impl Subject {
    fn is(&self, user: &UserInfo, binding_namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => user.username == self.name,
            "Group" => user.is_in(&self.name),
            "ServiceAccount" => {
                let namespace = self.namespace_or(binding_namespace);
                !namespace.is_empty()
                    && service_account::split(&user.username)
                        == Some((namespace, self.name.as_str()))
            }
            _ => false,
        }
    }

    fn namespace_or<'a>(&'a self, binding_namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() {
            binding_namespace
        } else {
            &self.namespace
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Role,
    Binding,
}

impl Kind {
    fn of(object: &Value) -> Option<Self> {
        match object["kind"].as_str()? {
            "Role" | "ClusterRole" => Some(Self::Role),
            "RoleBinding" | "ClusterRoleBinding" => Some(Self::Binding),
            _ => None,
        }
    }
}

fn namespace_and_name(object: &Value) -> (&str, &str) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

/// The rules of a Role or ClusterRole; one that cannot be read grants nothing.
pub(super) fn rules_of(role: &Value) -> Vec<Rule> {
    read_all(&role["rules"])
}

fn read<'a, T: Deserialize<'a>>(value: &'a Value) -> Option<T> {
    T::deserialize(value).ok()
}

fn read_all<'a, T: Deserialize<'a>>(list: &'a Value) -> Vec<T> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(read)
        .collect()
}

fn remove<T>(index: &mut ByNamespace<T>, namespace: &str, name: &str) {
    if let Some(objects) = index.get_mut(namespace) {
        objects.remove(name);
        if objects.is_empty() {
            index.remove(namespace);
        }
    }
}

/// Formats resolution errors: a single one unchanged, several in brackets without duplicates.
pub fn unresolved(errors: impl IntoIterator<Item = impl ToString>) -> String {
    let mut seen = HashSet::new();
    let mut texts: Vec<String> = errors.into_iter().map(|error| error.to_string()).collect();
    texts.retain(|text| seen.insert(text.clone()));
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests;
