//! Aggregation: ClusterRoles whose rules come from the ClusterRoles that their selectors match.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashSet};

use polity_core::field::FieldPath;
use polity_core::selector::LabelSelector;
use serde_json::Value;

/// The rules of an aggregating ClusterRole, given all ClusterRoles. `None` if it does not aggregate. Each rule occurs
/// once, in the order of selectors and role names.
pub fn aggregated_rules<V: Borrow<Value>>(role: &Value, all: &[V]) -> Option<Vec<Value>> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array()?;
    let mut rules = Vec::new();
    let mut seen = HashSet::new();
    for selector in selectors {
        // A selector that cannot be read finds nothing; validation refuses to store one.
        let selector = LabelSelector::from_json(selector, &FieldPath::root())
            .unwrap_or(LabelSelector::Nothing);
        let mut found: Vec<&Value> = all
            .iter()
            .map(Borrow::borrow)
            .filter(|other| {
                name(other) != name(role) && selector.matches(&other["metadata"]["labels"])
            })
            .collect();
        found.sort_by_key(|other| name(other));
        for rule in found
            .into_iter()
            .filter_map(|other| other["rules"].as_array())
            .flatten()
        {
            if seen.insert(rule.to_string()) {
                rules.push(rule.clone());
            }
        }
    }
    Some(rules)
}

/// The rules that aggregating ClusterRoles should have and do not, by name, with roles that aggregate
/// aggregating roles taken into account.
pub fn settle_aggregates<'a>(
    all: impl IntoIterator<Item = &'a Value>,
) -> BTreeMap<String, Vec<Value>> {
    let mut roles: Vec<Value> = all.into_iter().cloned().collect();
    let mut changed = BTreeMap::new();
    // A chain is at most as long as there are roles; roles that aggregate each other may never settle.
    for _ in 0..=roles.len() {
        let mut is_settled = true;
        for index in 0..roles.len() {
            let Some(rules) = aggregated_rules(&roles[index], &roles) else {
                continue;
            };
            if roles[index]["rules"]
                .as_array()
                .map_or(&[][..], Vec::as_slice)
                != rules
            {
                is_settled = false;
                changed.insert(name(&roles[index]).to_owned(), rules.clone());
                roles[index]["rules"] = Value::Array(rules);
            }
        }
        if is_settled {
            break;
        }
    }
    changed
}

fn name(role: &Value) -> &str {
    role["metadata"]["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(name: &str, aggregate_to: &str, rules: &[&str]) -> Value {
        let rules: Vec<_> = rules.iter().map(|verb| json!({"verbs": [verb]})).collect();
        json!({"kind": "ClusterRole", "metadata": {"name": name, "labels": {"to": aggregate_to}}, "rules": rules})
    }

    fn aggregating(name: &str, aggregate_to: &str, from: &str) -> Value {
        let mut role = role(name, aggregate_to, &["stale"]);
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"to": from}}]});
        role
    }

    #[test]
    fn rules_of_matching_roles_are_united_in_order() {
        let all = [
            role("b", "view", &["watch", "get"]),
            role("a", "view", &["get", "list"]),
            role("c", "edit", &["create"]),
            aggregating("view", "view", "view"),
        ];
        let rules = aggregated_rules(&all[3], &all).unwrap();
        assert_eq!(
            rules,
            [
                json!({"verbs": ["get"]}),
                json!({"verbs": ["list"]}),
                json!({"verbs": ["watch"]})
            ]
        );
        assert_eq!(aggregated_rules(&all[0], &all), None);
    }

    #[test]
    fn chains_settle_whatever_their_order() {
        let all = [
            aggregating("admin", "", "admin"),
            aggregating("edit", "admin", "edit"),
            aggregating("view", "edit", "view"),
            role("a", "view", &["get"]),
            role("b", "edit", &["create"]),
        ];
        let settled = settle_aggregates(&all);
        assert_eq!(settled["view"], [json!({"verbs": ["get"]})]);
        assert_eq!(
            settled["edit"],
            [json!({"verbs": ["create"]}), json!({"verbs": ["get"]})]
        );
        assert_eq!(settled["admin"], settled["edit"]);
    }

    #[test]
    fn roles_that_aggregate_each_other_come_to_an_end() {
        let all = [
            aggregating("x", "y", "x"),
            aggregating("y", "x", "y"),
            role("a", "x", &["get"]),
        ];
        let settled = settle_aggregates(&all);
        assert!(settled["x"].contains(&json!({"verbs": ["get"]})));
    }

    #[test]
    fn aggregated_roles_that_are_current_are_not_changed() {
        let all = [
            aggregating("view", "", "view"),
            role("a", "view", &["stale"]),
        ];
        assert!(settle_aggregates(&all).is_empty());
    }
}
