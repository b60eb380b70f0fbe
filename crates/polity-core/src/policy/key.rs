//! The key of one admission policy, and the two unique names that policy servers know it by.

use std::fmt;

use super::PolicyKind;

/// Identifies one admission policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyKey {
    /// One of the four kinds of admission policies.
    pub kind: PolicyKind,
    /// The namespace of the policy; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// `metadata.name` of the policy.
    pub name: String,
}

/// Why a kind, a namespace and a name do not identify a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyKeyError {
    /// The kind is namespaced and there is no namespace.
    #[error("{kind} {name} needs a namespace")]
    NamespaceMissing { kind: String, name: String },
    /// The kind is cluster-scoped and there is a namespace.
    #[error("{kind} {name} has no namespace, {namespace:?} was given")]
    NamespaceUnexpected {
        kind: String,
        name: String,
        namespace: String,
    },
}

impl PolicyKey {
    /// The key of a policy, if the namespace fits the scope of the kind. An empty namespace counts as none.
    pub fn new(
        kind: PolicyKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Self, PolicyKeyError> {
        let namespace = PolicyKeyError::check(kind.is_namespaced(), kind, namespace, name)?;
        Ok(Self {
            kind,
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        })
    }

    /// The [`unique_name`] of this policy.
    pub fn unique_name(&self) -> String {
        unique_name(self.kind, self.namespace.as_deref(), &self.name)
    }

    /// The [`dotted_name`] of this policy.
    pub fn dotted_name(&self) -> String {
        dotted_name(self.kind, self.namespace.as_deref(), &self.name)
    }
}

impl PolicyKeyError {
    /// The namespace, unless it is missing or unexpected for a kind of this scope.
    pub fn check<'a>(
        is_namespaced: bool,
        kind: impl fmt::Display,
        namespace: Option<&'a str>,
        name: &str,
    ) -> Result<Option<&'a str>, Self> {
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        match (is_namespaced, namespace) {
            (true, None) => Err(Self::NamespaceMissing {
                kind: kind.to_string(),
                name: name.to_owned(),
            }),
            (false, Some(namespace)) => Err(Self::NamespaceUnexpected {
                kind: kind.to_string(),
                name: name.to_owned(),
                namespace: namespace.to_owned(),
            }),
            _ => Ok(namespace),
        }
    }
}

/// The kind with `namespace/name`, or with the name alone.
impl fmt::Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// The name by which policy servers, webhooks and metrics have always known a policy, such as `clusterwide-no-root`
/// or `namespaced-group-shop-labels`.
///
/// Namespaces and names are joined by dashes and may contain dashes, so two policies can have the same unique name.
/// [`dotted_name`] is the form that cannot collide.
pub fn unique_name(kind: PolicyKind, namespace: Option<&str>, name: &str) -> String {
    let group = if kind.is_group() { "group-" } else { "" };
    match namespace {
        Some(namespace) => format!("namespaced-{group}{namespace}-{name}"),
        None => format!("clusterwide-{group}{name}"),
    }
}

/// The unique name in the form that no other policy can have, such as `kw.cap.no-root` or `kw.apg.shop.labels`.
///
/// It is unambiguous because a namespace contains no dot.
pub fn dotted_name(kind: PolicyKind, namespace: Option<&str>, name: &str) -> String {
    let short = kind.short();
    match namespace {
        Some(namespace) => format!("kw.{short}.{namespace}.{name}"),
        None => format!("kw.{short}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_names_in_both_forms() {
        use PolicyKind::*;
        for (kind, namespace, unique, dotted, shown) in [
            (
                ClusterAdmissionPolicy,
                None,
                "clusterwide-n",
                "kw.cap.n",
                "ClusterAdmissionPolicy n",
            ),
            (
                AdmissionPolicy,
                Some("ns"),
                "namespaced-ns-n",
                "kw.ap.ns.n",
                "AdmissionPolicy ns/n",
            ),
            (
                ClusterAdmissionPolicyGroup,
                None,
                "clusterwide-group-n",
                "kw.capg.n",
                "ClusterAdmissionPolicyGroup n",
            ),
            (
                AdmissionPolicyGroup,
                Some("ns"),
                "namespaced-group-ns-n",
                "kw.apg.ns.n",
                "AdmissionPolicyGroup ns/n",
            ),
        ] {
            let key = PolicyKey::new(kind, namespace, "n").unwrap();
            assert_eq!(key.unique_name(), unique);
            assert_eq!(key.dotted_name(), dotted);
            assert_eq!(key.to_string(), shown);
        }
    }

    #[test]
    fn a_key_has_a_namespace_exactly_when_its_kind_is_namespaced() {
        let error = |kind, namespace| {
            PolicyKey::new(kind, namespace, "n")
                .unwrap_err()
                .to_string()
        };
        for namespace in [None, Some("")] {
            assert_eq!(
                error(PolicyKind::AdmissionPolicy, namespace),
                "AdmissionPolicy n needs a namespace"
            );
        }
        assert_eq!(
            error(PolicyKind::ClusterAdmissionPolicy, Some("ns")),
            "ClusterAdmissionPolicy n has no namespace, \"ns\" was given"
        );
        let key = PolicyKey::new(PolicyKind::ClusterAdmissionPolicy, Some(""), "n");
        assert_eq!(key.unwrap().namespace, None);
    }
}
