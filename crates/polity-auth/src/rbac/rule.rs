//! One permission: the requests that it matches, the rules that it covers, and its text in a refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::Attributes;

/// How many single permissions a coverage check compares before it refuses. The lists of a rule multiply, so a body of
/// a few kilobytes could otherwise require billions of comparisons.
const MAX_CHECKED: usize = 10_000;

const ANY: &str = "*";

/// A rule of a role: verbs on resources, or verbs on URL paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rule {
    #[serde(deserialize_with = "null_as_empty")]
    pub verbs: Vec<String>,
    #[serde(
        deserialize_with = "null_as_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub api_groups: Vec<String>,
    #[serde(
        deserialize_with = "null_as_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub resources: Vec<String>,
    #[serde(
        deserialize_with = "null_as_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub resource_names: Vec<String>,
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "null_as_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

fn null_as_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Option::<Vec<String>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Rule {
    /// Verbs on resources; an empty `names` means every object.
    pub fn on_resources(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Self {
        Self {
            verbs: owned(verbs),
            api_groups: owned(groups),
            resources: owned(resources),
            ..Self::default()
        }
    }

    /// Verbs on URL paths.
    pub fn on_urls(verbs: &[&str], urls: &[&str]) -> Self {
        Self {
            verbs: owned(verbs),
            non_resource_urls: owned(urls),
            ..Self::default()
        }
    }

    /// The two rules that allow everything.
    pub fn everything() -> [Self; 2] {
        [
            Self::on_resources(&[ANY], &[ANY], &[ANY]),
            Self::on_urls(&[ANY], &[ANY]),
        ]
    }

    /// Whether the rule allows the request.
    pub fn allows(&self, request: &Attributes<'_>) -> bool {
        match *request {
            Attributes::Resource {
                verb,
                group,
                resource,
                subresource,
                name,
                ..
            } => {
                has_or_any(&self.verbs, verb)
                    && has_or_any(&self.api_groups, group)
                    && self.allows_resource(resource, subresource)
                    && (self.resource_names.is_empty() || has(&self.resource_names, name))
            }
            Attributes::NonResource { verb, path } => {
                has_or_any(&self.verbs, verb) && any_url_covers(&self.non_resource_urls, path)
            }
        }
    }

    fn allows_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|own| match own.split_once('/') {
            _ if own == ANY => true,
            None => subresource.is_empty() && own == resource,
            Some((own, sub)) => {
                !subresource.is_empty() && sub == subresource && (own == ANY || own == resource)
            }
        })
    }

    /// Whether this rule alone grants all of `other`.
    fn covers(&self, other: &Self) -> bool {
        let names_are_covered = self.resource_names.is_empty()
            || (!other.resource_names.is_empty()
                && other
                    .resource_names
                    .iter()
                    .all(|name| has(&self.resource_names, name)));
        names_are_covered
            && other.verbs.iter().all(|verb| has_or_any(&self.verbs, verb))
            && other
                .api_groups
                .iter()
                .all(|group| has_or_any(&self.api_groups, group))
            && other
                .resources
                .iter()
                .all(|resource| self.covers_resource(resource))
            && other
                .non_resource_urls
                .iter()
                .all(|url| any_url_covers(&self.non_resource_urls, url))
    }

    fn covers_resource(&self, resource: &str) -> bool {
        has_or_any(&self.resources, resource)
            || resource.split_once('/').is_some_and(|(_, sub)| {
                self.resources
                    .iter()
                    .any(|own| own.strip_prefix("*/") == Some(sub))
            })
    }

    /// The rule as rules of one group, resource, verb and name each, lazily.
    fn single_permissions(&self) -> impl Iterator<Item = Self> {
        // Without names there is still one permission: that on every object.
        let n_names = self.resource_names.len().max(1);
        let on_resources = self.api_groups.iter().flat_map(move |group| {
            self.resources.iter().flat_map(move |resource| {
                self.verbs.iter().flat_map(move |verb| {
                    (0..n_names).map(move |index| Self {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        resource_names: self
                            .resource_names
                            .get(index)
                            .into_iter()
                            .cloned()
                            .collect(),
                        non_resource_urls: Vec::new(),
                    })
                })
            })
        });
        let on_urls = self.non_resource_urls.iter().flat_map(|url| {
            self.verbs.iter().map(move |verb| Self {
                verbs: vec![verb.clone()],
                non_resource_urls: vec![url.clone()],
                ..Self::default()
            })
        });
        on_resources.chain(on_urls)
    }

    /// Whether the rule grants nothing at all, as a rule without verbs or resources does.
    fn is_void(&self) -> bool {
        self.single_permissions().next().is_none()
    }
}

/// Whether the rules in `owned` grant everything in `needed`. If not, returns the missing rules.
///
/// Each permission must be covered by a single owned rule, as in Kubernetes. A `needed` set beyond the limit is
/// refused unless its rules are covered as a whole.
pub fn covers(owned: &[Rule], needed: &[Rule]) -> Result<(), Vec<Rule>> {
    let mut missing = Vec::new();
    let mut checked = 0;
    for rule in needed {
        if rule.is_void() || owned.iter().any(|own| own.covers(rule)) {
            continue;
        }
        for permission in rule.single_permissions() {
            checked += 1;
            if checked > MAX_CHECKED || !owned.iter().any(|own| own.covers(&permission)) {
                missing.push(permission);
            }
            if checked > MAX_CHECKED {
                return Err(missing);
            }
        }
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(missing)
    }
}

/// Single permissions with those on the same object joined, printed and sorted, for a refusal.
pub(super) fn describe(missing: &[Rule]) -> BTreeSet<String> {
    let mut by_object: BTreeMap<_, Rule> = BTreeMap::new();
    let mut described = BTreeSet::new();
    for rule in missing {
        if !rule.non_resource_urls.is_empty() {
            described.insert(rule.to_string());
            continue;
        }
        by_object
            .entry((&rule.api_groups, &rule.resources, &rule.resource_names))
            .and_modify(|joined| joined.verbs.extend(rule.verbs.iter().cloned()))
            .or_insert_with(|| rule.clone());
    }
    described.extend(by_object.values().map(Rule::to_string));
    described
}

/// The compact form of a refusal: `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let parts: Vec<_> = parts
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| format!("{name}:{}", quoted_list(values)))
            .collect();
        write!(f, "{{{}}}", parts.join(", "))
    }
}

/// A list as Go prints one: `["a" "b"]`.
pub fn quoted_list(values: &[String]) -> String {
    let quoted: Vec<_> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn has(values: &[String], wanted: &str) -> bool {
    values.iter().any(|value| value == wanted)
}

fn has_or_any(values: &[String], wanted: &str) -> bool {
    values.iter().any(|value| value == ANY || value == wanted)
}

fn any_url_covers(urls: &[String], wanted: &str) -> bool {
    urls.iter().any(|url| {
        url == wanted || (url.ends_with('*') && wanted.starts_with(url.trim_end_matches('*')))
    })
}

#[cfg(test)]
mod tests;
