//! Whether a policy applies to an object, from metadata alone. See docs/spec/reports.md#5-3.
//!
//! Rules, scope and selectors as they stand in the webhook. `matchConditions` need the object and belong to evaluation.

use polity_core::GroupVersionResource;
use polity_core::selector::{LabelSelector, Labels};

/// One rule of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchRule {
    pub api_groups: Vec<String>,
    pub api_versions: Vec<String>,
    pub resources: Vec<String>,
    pub scope: Scope,
    pub operations: Vec<String>,
}

/// Which objects a rule is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    All,
    Namespaced,
    Cluster,
}

impl Scope {
    /// Unknown words are refused by the API server; what cannot be is read as the default.
    pub fn parse(word: &str) -> Self {
        match word {
            "Namespaced" => Self::Namespaced,
            "Cluster" => Self::Cluster,
            _ => Self::All,
        }
    }
}

/// What a policy is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    pub rules: Vec<MatchRule>,
    /// Whether the other versions of a kind count as the same kind (`matchPolicy: Equivalent`).
    pub equivalent: bool,
    pub namespace_selector: LabelSelector,
    pub object_selector: LabelSelector,
    /// The namespace of a namespaced policy, the only one it acts in.
    pub namespace: Option<String>,
    /// Polity's own namespace, which no policy acts in.
    pub excluded_namespace: Option<String>,
}

/// An object, as far as matching is concerned.
#[derive(Debug)]
pub struct Target<'a, L> {
    pub resource: &'a GroupVersionResource,
    /// The same kind in other versions.
    pub equivalents: &'a [GroupVersionResource],
    pub namespace: Option<InNamespace<'a, L>>,
    /// The name of a Namespace object: the selector of namespaces is about its own labels.
    pub namespace_name: Option<&'a str>,
    pub labels: &'a L,
}

/// The namespace of an object.
#[derive(Debug)]
pub struct InNamespace<'a, L> {
    pub name: &'a str,
    pub labels: &'a L,
}

impl Matcher {
    /// Whether the policy applies, at whatever operation.
    pub fn applies<L: Labels>(&self, target: &Target<'_, L>) -> bool {
        self.applies_by(target, |_| true)
    }

    /// Whether a background pass may evaluate it: that simulates the creation of the object.
    pub fn applies_in_background<L: Labels>(&self, target: &Target<'_, L>) -> bool {
        self.applies_by(target, |rule| {
            holds_any(&rule.operations, |operation| {
                matches!(operation, "CREATE" | "*")
            })
        })
    }

    fn applies_by<L: Labels>(
        &self,
        target: &Target<'_, L>,
        counts: impl Fn(&MatchRule) -> bool,
    ) -> bool {
        self.selects_namespace(target)
            && self.object_selector.matches(target.labels)
            && self
                .rules
                .iter()
                .any(|rule| counts(rule) && self.rule_matches(rule, target))
    }

    fn selects_namespace<L: Labels>(&self, target: &Target<'_, L>) -> bool {
        let name = target
            .namespace
            .as_ref()
            .map(|namespace| namespace.name)
            .or(target.namespace_name);
        if name.is_some() && name == self.excluded_namespace.as_deref() {
            return false;
        }
        if let Some(own) = &self.namespace {
            let is_inside = target
                .namespace
                .as_ref()
                .is_some_and(|namespace| namespace.name == own);
            if !is_inside {
                return false;
            }
        }
        match (&target.namespace, target.namespace_name) {
            (Some(namespace), _) => self.namespace_selector.matches(namespace.labels),
            (None, Some(_)) => self.namespace_selector.matches(target.labels),
            // Other cluster-scoped objects are in no namespace that could be left out.
            (None, None) => true,
        }
    }

    fn rule_matches<L>(&self, rule: &MatchRule, target: &Target<'_, L>) -> bool {
        let fits_scope = match rule.scope {
            Scope::All => true,
            Scope::Namespaced => target.namespace.is_some(),
            Scope::Cluster => target.namespace.is_none(),
        };
        fits_scope
            && (rule.names(target.resource)
                || (self.equivalent && target.equivalents.iter().any(|other| rule.names(other))))
    }
}

impl MatchRule {
    fn names(&self, resource: &GroupVersionResource) -> bool {
        let is = |wanted: &str, found: &str| wanted == "*" || wanted == found;
        holds_any(&self.api_groups, |group| is(group, &resource.group))
            && holds_any(&self.api_versions, |version| is(version, &resource.version))
            && holds_any(&self.resources, |pattern| {
                // A subresource is never reported: only `pods`, `pods/*`, `*` and `*/*` mean the object itself.
                match pattern.split_once('/') {
                    None => is(pattern, &resource.resource),
                    Some((name, "*")) => is(name, &resource.resource),
                    Some(_) => false,
                }
            })
    }
}

fn holds_any(words: &[String], test: impl Fn(&str) -> bool) -> bool {
    words.iter().any(|word| test(word))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Map = BTreeMap<String, String>;

    fn words(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    fn rule(groups: &str, versions: &str, resources: &str) -> MatchRule {
        MatchRule {
            api_groups: words(groups),
            api_versions: words(versions),
            resources: words(resources),
            scope: Scope::All,
            operations: words("CREATE"),
        }
    }

    fn matcher(rules: Vec<MatchRule>) -> Matcher {
        Matcher {
            rules,
            equivalent: true,
            namespace_selector: LabelSelector::everything(),
            object_selector: LabelSelector::everything(),
            namespace: None,
            excluded_namespace: Some("kubewarden".to_owned()),
        }
    }

    fn labels(pairs: &[(&str, &str)]) -> Map {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    struct Case {
        resource: GroupVersionResource,
        equivalents: Vec<GroupVersionResource>,
        namespace: Option<(&'static str, Map)>,
        namespace_name: Option<&'static str>,
        labels: Map,
    }

    impl Case {
        fn pod() -> Self {
            Self {
                resource: GroupVersionResource::new("", "v1", "pods"),
                equivalents: Vec::new(),
                namespace: Some(("shop", labels(&[("env", "prod")]))),
                namespace_name: None,
                labels: labels(&[("app", "web")]),
            }
        }

        fn namespace_object(name: &'static str) -> Self {
            Self {
                resource: GroupVersionResource::new("", "v1", "namespaces"),
                namespace: None,
                namespace_name: Some(name),
                labels: labels(&[("env", "prod")]),
                ..Self::pod()
            }
        }

        fn node() -> Self {
            Self {
                resource: GroupVersionResource::new("", "v1", "nodes"),
                namespace: None,
                ..Self::pod()
            }
        }

        fn asks<R>(&self, ask: impl Fn(&Target<'_, Map>) -> R) -> R {
            ask(&Target {
                resource: &self.resource,
                equivalents: &self.equivalents,
                namespace: self
                    .namespace
                    .as_ref()
                    .map(|(name, labels)| InNamespace { name, labels }),
                namespace_name: self.namespace_name,
                labels: &self.labels,
            })
        }
    }

    #[test]
    fn rules_name_groups_versions_and_resources() {
        for (rule, expected) in [
            (rule("", "v1", "pods"), true),
            (rule("*", "*", "*"), true),
            (rule("*", "*", "*/*"), true),
            (rule("", "v1", "pods/*"), true),
            (rule("", "v1", "pods/status"), false),
            (rule("", "v1", "*/scale"), false),
            (rule("apps", "v1", "pods"), false),
            (rule("", "v2", "pods"), false),
            (rule("", "v1", "services"), false),
            (rule("apps,", "v2,v1", "services,pods"), true),
        ] {
            let found = Case::pod().asks(|target| matcher(vec![rule.clone()]).applies(target));
            assert_eq!(found, expected, "{rule:?}");
        }
        let none = matcher(Vec::new());
        assert!(!Case::pod().asks(|target| none.applies(target)));
    }

    #[test]
    fn other_versions_of_a_kind_count_unless_the_match_is_exact() {
        let case = Case {
            resource: GroupVersionResource::new("apps", "v1", "deployments"),
            equivalents: vec![GroupVersionResource::new("apps", "v1beta1", "deployments")],
            ..Case::pod()
        };
        let mut matcher = matcher(vec![rule("apps", "v1beta1", "deployments")]);
        assert!(case.asks(|target| matcher.applies(target)));
        matcher.equivalent = false;
        assert!(!case.asks(|target| matcher.applies(target)));
    }

    #[test]
    fn scopes() {
        for (scope, pod, node) in [
            ("*", true, true),
            ("Namespaced", true, false),
            ("Cluster", false, true),
        ] {
            let matcher = matcher(vec![MatchRule {
                scope: Scope::parse(scope),
                ..rule("*", "*", "*")
            }]);
            assert_eq!(
                Case::pod().asks(|target| matcher.applies(target)),
                pod,
                "{scope}"
            );
            assert_eq!(
                Case::node().asks(|target| matcher.applies(target)),
                node,
                "{scope}"
            );
        }
    }

    #[test]
    fn selectors_look_at_the_object_and_its_namespace() {
        let everything = || matcher(vec![rule("*", "*", "*")]);
        let of = |text: &str| text.parse::<LabelSelector>().unwrap();
        for (namespaces, objects, pod, namespace, node) in [
            ("", "", true, true, true),
            ("env=prod", "", true, true, true),
            ("env=test", "", false, false, true),
            ("", "app=web", true, false, true),
            ("", "app=db", false, false, false),
        ] {
            let matcher = Matcher {
                namespace_selector: of(namespaces),
                object_selector: of(objects),
                ..everything()
            };
            for (case, expected) in [
                (Case::pod(), pod),
                (Case::namespace_object("x"), namespace),
                (Case::node(), node),
            ] {
                let found = case.asks(|target| matcher.applies(target));
                assert_eq!(
                    found, expected,
                    "{namespaces:?} {objects:?} {:?}",
                    case.resource
                );
            }
        }
    }

    #[test]
    fn own_namespace_is_left_out_and_a_namespaced_policy_stays_inside() {
        let own = Case {
            namespace: Some(("kubewarden", Map::new())),
            ..Case::pod()
        };
        let everywhere = matcher(vec![rule("*", "*", "*")]);
        assert!(!own.asks(|target| everywhere.applies(target)));
        assert!(!Case::namespace_object("kubewarden").asks(|target| everywhere.applies(target)));
        for (namespace, expected) in [("shop", true), ("other", false)] {
            let inside = Matcher {
                namespace: Some(namespace.to_owned()),
                ..everywhere.clone()
            };
            assert_eq!(Case::pod().asks(|target| inside.applies(target)), expected);
            assert!(!Case::node().asks(|target| inside.applies(target)));
            assert!(!Case::namespace_object("shop").asks(|target| inside.applies(target)));
        }
    }

    #[test]
    fn a_background_pass_simulates_creation() {
        for (operations, expected) in [
            ("CREATE", true),
            ("*", true),
            ("UPDATE,CREATE", true),
            ("UPDATE", false),
            ("DELETE,CONNECT", false),
        ] {
            let matcher = matcher(vec![MatchRule {
                operations: words(operations),
                ..rule("", "v1", "pods")
            }]);
            assert!(Case::pod().asks(|target| matcher.applies(target)));
            let found = Case::pod().asks(|target| matcher.applies_in_background(target));
            assert_eq!(found, expected, "{operations}");
        }
    }
}
