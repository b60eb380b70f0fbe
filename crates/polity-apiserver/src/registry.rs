//! Everything served right now: the built-in kinds and the established custom resources.
//!
//! Immutable; a changed CRD makes a new one, swapped in whole.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use polity_core::GroupVersion;

use crate::served::ServedResource;
use polity_kinds::builtin::builtin_resources;

/// An API group with its versions in order of priority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub name: String,
    pub versions: Vec<String>,
}

static BUILT_IN: LazyLock<Vec<Arc<ServedResource>>> = LazyLock::new(|| {
    let defs = builtin_resources().iter();
    defs.map(|def| Arc::new(ServedResource::built_in(def.clone())))
        .collect()
});

fn built_in() -> impl Iterator<Item = Arc<ServedResource>> {
    BUILT_IN.iter().cloned()
}

type Resources = BTreeMap<String, Arc<ServedResource>>;

/// The resources served, by path and by kind.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    by_version: HashMap<GroupVersion, Resources>,
    groups: Vec<Group>,
}

impl Registry {
    /// The built-in kinds and these custom ones.
    pub fn new(custom: impl IntoIterator<Item = Arc<ServedResource>>) -> Self {
        let mut registry = Self::default();
        let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut order: Vec<String> = Vec::new();
        for def in built_in().chain(custom) {
            let group = &def.gvk.group;
            if !versions.contains_key(group) {
                order.push(group.clone());
            }
            let of_group = versions.entry(group.clone()).or_default();
            if !of_group.contains(&def.gvk.version) {
                of_group.push(def.gvk.version.clone());
            }
            let resources = registry
                .by_version
                .entry(def.gvk.group_version())
                .or_default();
            // The built-in kinds take precedence and cannot be replaced.
            resources.entry(def.plural.clone()).or_insert(def);
        }
        registry.groups = order
            .into_iter()
            .map(|name| {
                let mut versions = versions.remove(&name).unwrap_or_default();
                versions.sort_by(|a, b| compare_versions(a, b));
                Group { name, versions }
            })
            .collect();
        registry
    }

    /// The resource at a path.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ServedResource>> {
        self.by_version
            .get(&GroupVersion::new(group, version))?
            .get(plural)
    }

    /// All resources of a group and version, by plural.
    pub fn resources(
        &self,
        group: &str,
        version: &str,
    ) -> Option<&BTreeMap<String, Arc<ServedResource>>> {
        self.by_version.get(&GroupVersion::new(group, version))
    }

    /// Groups in discovery order, versions by priority.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// A group by name.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// The resource of a kind, in the group's most preferred version that has it. A built-in kind takes precedence
    /// over a custom one of the same name in another version.
    pub fn of_kind(&self, group: &str, kind: &str) -> Option<&Arc<ServedResource>> {
        self.versions_of(group)
            .flat_map(BTreeMap::values)
            .filter(|def| def.gvk.kind == kind && !def.flags.create_only)
            .min_by_key(|def| def.is_custom())
    }

    /// One definition for each stored resource: its most preferred version.
    pub fn stored(&self) -> Vec<&Arc<ServedResource>> {
        let mut by_bucket: BTreeMap<&str, &Arc<ServedResource>> = BTreeMap::new();
        for group in &self.groups {
            for resources in self.versions_of(&group.name) {
                for def in resources.values().filter(|def| !def.flags.create_only) {
                    by_bucket.entry(&def.bucket).or_insert(def);
                }
            }
        }
        by_bucket.into_values().collect()
    }

    /// All custom resources, in every version.
    pub fn custom(&self) -> impl Iterator<Item = &Arc<ServedResource>> {
        self.by_version
            .values()
            .flat_map(BTreeMap::values)
            .filter(|def| def.is_custom())
    }

    /// The other served versions of a resource.
    pub fn siblings<'a>(
        &'a self,
        def: &'a ServedResource,
    ) -> impl Iterator<Item = &'a Arc<ServedResource>> {
        self.versions_of(&def.gvk.group)
            .filter_map(|resources| resources.get(&def.plural))
            // Only resources that share a bucket are the same resource.
            .filter(|other| other.bucket == def.bucket && other.gvk.version != def.gvk.version)
    }

    fn versions_of(&self, group: &str) -> impl Iterator<Item = &Resources> {
        let found = self.group(group).cloned();
        found
            .into_iter()
            .flat_map(|group| {
                group
                    .versions
                    .into_iter()
                    .map(move |version| GroupVersion::new(group.name.clone(), version))
            })
            .filter_map(|key| self.by_version.get(&key))
    }
}

/// GA before beta before alpha, higher numbers first, other names last and alphabetically.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (priority(a), priority(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// `(stability, major, minor)` of `v2`, `v1beta3`, `v1alpha1`.
fn priority(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (major, tail) = rest.split_at(digits);
    let major = number(major)?;
    if tail.is_empty() {
        return Some((2, major, 0));
    }
    if let Some(minor) = tail.strip_prefix("beta") {
        return Some((1, major, number(minor)?));
    }
    Some((0, major, number(tail.strip_prefix("alpha")?)?))
}

fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && !text.starts_with('0'))
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_priority() {
        let mut versions = [
            "v1alpha1", "foo", "v2beta1", "v10", "v1", "v2", "bar", "v1beta2", "v2beta10",
        ];
        versions.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(
            versions,
            [
                "v10", "v2", "v1", "v2beta10", "v2beta1", "v1beta2", "v1alpha1", "bar", "foo"
            ]
        );
    }
}
