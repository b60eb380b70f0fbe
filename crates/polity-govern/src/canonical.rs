//! Dependencies in the form a cluster can look them up: by the name that a replica has there.

use crate::objects::{Dependency, PolicySet};
use polity_core::governance::names;

/// Rewrites dependencies as a replica of a policy of `root_namespace` has them.
pub fn canonical(
    dependencies: &[Dependency],
    root_namespace: &str,
    sets: &[PolicySet],
) -> Vec<Dependency> {
    dependencies
        .iter()
        .flat_map(|dependency| rewrite(dependency, root_namespace, sets))
        .collect()
}

fn rewrite(dependency: &Dependency, root_namespace: &str, sets: &[PolicySet]) -> Vec<Dependency> {
    match (dependency.kind.as_str(), dependency.api_version.as_str()) {
        ("Policy", names::V1) => vec![Dependency {
            name: replica_name(dependency, root_namespace),
            namespace: None,
            ..dependency.clone()
        }],
        ("PolicySet", names::V1BETA1) => members(dependency, root_namespace, sets),
        _ => vec![dependency.clone()],
    }
}

fn replica_name(dependency: &Dependency, root_namespace: &str) -> String {
    match &dependency.namespace {
        Some(namespace) => names::replica_name(namespace, &dependency.name),
        // A name with a dot counts as the name of a replica. A policy with a dot in its name needs its namespace.
        None if dependency.name.contains('.') => dependency.name.clone(),
        None => names::replica_name(root_namespace, &dependency.name),
    }
}

/// One dependency for each member; a set that is missing or empty stays, and is reported as unmet on the cluster.
fn members(dependency: &Dependency, root_namespace: &str, sets: &[PolicySet]) -> Vec<Dependency> {
    let namespace = dependency.namespace.as_deref().unwrap_or(root_namespace);
    let set = sets
        .iter()
        .find(|set| set.namespace == namespace && set.name == dependency.name)
        .filter(|set| !set.policies.is_empty());
    let Some(set) = set else {
        return vec![dependency.clone()];
    };
    set.policies
        .iter()
        .map(|member| Dependency {
            api_version: names::V1.to_owned(),
            kind: "Policy".to_owned(),
            name: names::replica_name(namespace, member),
            namespace: None,
            compliance: dependency.compliance,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use polity_core::governance::Compliance;

    use super::*;

    fn dependency(kind: &str, namespace: &str, name: &str) -> Dependency {
        Dependency {
            api_version: Dependency::default_api_version(kind).to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            compliance: Compliance::Compliant,
        }
    }

    #[test]
    fn dependencies_get_the_names_that_replicas_have_on_the_cluster() {
        let sets = [PolicySet {
            namespace: "policies".to_owned(),
            name: "base".to_owned(),
            policies: vec!["a".to_owned(), "b.c".to_owned()],
            exclusions: vec![],
        }];
        let mut foreign = dependency("Policy", "x", "p");
        foreign.api_version = "example.com/v1".to_owned();
        for (given, expected) in [
            (dependency("Policy", "other", "p"), vec!["Policy other.p"]),
            (
                dependency("Policy", "other", "p.q"),
                vec!["Policy other.p.q"],
            ),
            (dependency("Policy", "", "other.p"), vec!["Policy other.p"]),
            (dependency("Policy", "", "p"), vec!["Policy policies.p"]),
            (
                dependency("PolicySet", "", "base"),
                vec!["Policy policies.a", "Policy policies.b.c"],
            ),
            (
                dependency("PolicySet", "policies", "base"),
                vec!["Policy policies.a", "Policy policies.b.c"],
            ),
            (dependency("PolicySet", "", "gone"), vec!["PolicySet gone"]),
            (
                dependency("ConfigurationPolicy", "", "p"),
                vec!["ConfigurationPolicy p"],
            ),
            (foreign, vec!["Policy x/p"]),
        ] {
            let found: Vec<String> = canonical(std::slice::from_ref(&given), "policies", &sets)
                .iter()
                .map(|dependency| {
                    let namespace = dependency
                        .namespace
                        .as_ref()
                        .map(|namespace| format!("{namespace}/"));
                    format!(
                        "{} {}{}",
                        dependency.kind,
                        namespace.unwrap_or_default(),
                        dependency.name
                    )
                })
                .collect();
            assert_eq!(found, expected, "{given:?}");
        }
    }
}
