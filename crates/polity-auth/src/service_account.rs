//! How service accounts are called as users.

/// The prefix of the user names of all service accounts.
const USERNAME_PREFIX: &str = "system:serviceaccount:";
/// The group of all service accounts.
const ALL: &str = "system:serviceaccounts";

/// `system:serviceaccount:{namespace}:{name}`
pub fn username(namespace: &str, name: &str) -> String {
    format!("{USERNAME_PREFIX}{namespace}:{name}")
}

/// The groups a service account of this namespace is in.
pub fn groups(namespace: &str) -> Vec<String> {
    vec![ALL.to_owned(), format!("{ALL}:{namespace}")]
}

/// Namespace and name of the service account with this user name, if it is one's.
pub fn split(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix(USERNAME_PREFIX)?.split_once(':')?;
    let is_valid = polity_core::name::dns_label(namespace).is_ok()
        && polity_core::name::dns_subdomain(name).is_ok();
    is_valid.then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names_of_service_accounts() {
        assert_eq!(username("ns", "sa"), "system:serviceaccount:ns:sa");
        assert_eq!(
            groups("ns"),
            ["system:serviceaccounts", "system:serviceaccounts:ns"]
        );
        for (username, expected) in [
            ("system:serviceaccount:ns:sa", Some(("ns", "sa"))),
            ("system:serviceaccount:ns:s.a", Some(("ns", "s.a"))),
            ("system:serviceaccount:ns", None),
            ("system:serviceaccount::sa", None),
            ("system:serviceaccount:ns:", None),
            ("system:serviceaccount:ns:a:b", None),
            ("system:serviceaccount:n.s:a", None),
            ("alice", None),
        ] {
            assert_eq!(split(username), expected, "{username}");
        }
    }
}
