//! The kinds that are known without a cluster: their plural names and their scopes.

use polity_core::{GroupVersion, GroupVersionKind};

/// A kind and how its objects are addressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownKind {
    pub gvk: GroupVersionKind,
    /// The lower-case plural: the resource.
    pub plural: String,
    /// The lower-case singular.
    pub singular: String,
    pub namespaced: bool,
}

/// The built-in kinds of Kubernetes and the kinds of policies, in the order of the table.
pub fn known() -> impl Iterator<Item = KnownKind> {
    include_str!("known.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(read)
}

fn read(line: &str) -> Option<KnownKind> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [group_version, kind, plural, scope] = columns[..] else {
        return None;
    };
    let GroupVersion { group, version } = group_version.parse().ok()?;
    Some(KnownKind {
        gvk: GroupVersionKind::new(group, version, kind),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        namespaced: scope == "Namespaced",
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use polity_core::governance::names::ADMISSION_GROUP;
    use polity_core::policy::PolicyKind;

    use super::*;
    use crate::builtin::builtin_resources;

    #[test]
    fn every_line_is_a_kind_and_stands_once() {
        let lines = include_str!("known.tsv").lines();
        let n_lines = lines.filter(|line| !line.starts_with('#')).count();
        let kinds: BTreeSet<GroupVersionKind> = known().map(|kind| kind.gvk).collect();
        assert_eq!(kinds.len(), n_lines);
    }

    #[test]
    fn scopes_and_plurals() {
        let find = |group: &str, kind: &str| {
            let kind = known().find(|known| known.gvk.group == group && known.gvk.kind == kind);
            let kind = kind.unwrap();
            (kind.plural, kind.singular, kind.namespaced)
        };
        let row = |plural: &str, singular: &str, namespaced| {
            (plural.to_owned(), singular.to_owned(), namespaced)
        };
        assert_eq!(find("", "Endpoints"), row("endpoints", "endpoints", true));
        assert_eq!(
            find("networking.k8s.io", "Ingress"),
            row("ingresses", "ingress", true)
        );
        assert_eq!(find("", "Node"), row("nodes", "node", false));
        assert_eq!(
            find("policy.open-cluster-management.io", "Policy"),
            row("policies", "policy", true)
        );
    }

    #[test]
    fn policy_kinds_agree_with_their_enum() {
        for kind in PolicyKind::ALL {
            let known = known()
                .find(|known| known.gvk.group == ADMISSION_GROUP && known.gvk.kind == kind.as_str())
                .unwrap();
            assert_eq!(known.plural, kind.plural());
            assert_eq!(known.namespaced, kind.is_namespaced());
        }
    }

    #[test]
    fn the_kinds_that_are_served_agree_with_it() {
        for def in builtin_resources() {
            let Some(known) = known().find(|known| known.gvk == def.gvk) else {
                continue;
            };
            assert_eq!(known.plural, def.plural);
            assert_eq!(known.namespaced, def.is_namespaced());
        }
    }
}
