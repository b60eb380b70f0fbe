//! The kinds of a cluster: the built-in ones, those of a mappings file, and those of CRDs among manifests.

use std::collections::BTreeMap;

use polity_comply::Kind;
use polity_core::GroupVersionKind;
use serde_json::Value;

use crate::manifests::{Manifests, describe_yaml_error};

/// The scope of namespaced kinds in a mappings file; that of all others is `root`.
pub const NAMESPACE_SCOPE: &str = "namespace";

/// Kinds by group, version and kind.
#[derive(Debug, Clone, Default)]
pub struct Kinds(BTreeMap<GroupVersionKind, Kind>);

/// Why a mappings file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MappingsError {
    #[error("line {line}: {message}")]
    NotYaml { line: usize, message: String },
    #[error("it is not a list")]
    NotAList,
    #[error("entry {index} is not an object")]
    NotAnObject { index: usize },
    #[error("entry {index} has no {field}")]
    MissingField { index: usize, field: &'static str },
}

impl Kinds {
    /// The kinds that are built into Kubernetes.
    pub fn built_in() -> Self {
        let kinds = polity_kinds::known().map(|known| Kind {
            gvk: known.gvk,
            plural: known.plural,
            namespaced: known.namespaced,
        });
        Self(kinds.map(|kind| (kind.gvk.clone(), kind)).collect())
    }

    /// Adds the kinds that CRDs among the manifests define.
    pub fn add_definitions(&mut self, manifests: &Manifests) {
        for (gvk, definition) in &manifests.definitions {
            self.add(Kind {
                gvk: gvk.clone(),
                plural: definition.plural.clone(),
                namespaced: definition.namespaced,
            });
        }
    }

    /// Adds the kinds of a mappings file: a list of `Group, Version, Kind, Singular, Plural, Scope`.
    pub fn add_mappings(&mut self, text: &str) -> Result<(), MappingsError> {
        let mappings: Value = serde_saphyr::from_str(text).map_err(|error| {
            let (line, message) = describe_yaml_error(&error);
            MappingsError::NotYaml { line, message }
        })?;
        let mappings = mappings.as_array().ok_or(MappingsError::NotAList)?;
        for (index, mapping) in mappings.iter().enumerate() {
            self.add(read(index, mapping)?);
        }
        Ok(())
    }

    /// One kind.
    pub fn get(&self, gvk: &GroupVersionKind) -> Option<&Kind> {
        self.0.get(gvk)
    }

    /// All kinds, in the order of group, version and kind.
    pub fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.0.values()
    }

    /// Adds or replaces a kind; says whether that changed anything.
    pub fn add(&mut self, kind: Kind) -> bool {
        if self.get(&kind.gvk) == Some(&kind) {
            return false;
        }
        self.0.insert(kind.gvk.clone(), kind);
        true
    }

    /// Removes a kind; says whether it was there.
    pub fn remove(&mut self, gvk: &GroupVersionKind) -> bool {
        self.0.remove(gvk).is_some()
    }
}

/// One entry, whose field names may be in any case.
fn read(index: usize, mapping: &Value) -> Result<Kind, MappingsError> {
    let fields = mapping
        .as_object()
        .ok_or(MappingsError::NotAnObject { index })?;
    let text = |name: &str| {
        let field = fields
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        field
            .and_then(|(_, value)| value.as_str())
            .unwrap_or_default()
    };
    for field in ["Version", "Kind", "Plural"] {
        if text(field).is_empty() {
            return Err(MappingsError::MissingField { index, field });
        }
    }
    Ok(Kind {
        gvk: GroupVersionKind::new(text("Group"), text("Version"), text("Kind")),
        plural: text("Plural").to_owned(),
        namespaced: text("Scope") == NAMESPACE_SCOPE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_add_to_the_built_in_kinds() {
        let mut kinds = Kinds::built_in();
        kinds
            .add_mappings(
                "- {Group: \"\", Kind: Fake, Plural: fakes, Scope: root, Singular: fake, Version: beta1}\n\
                 - {group: x.io, kind: Widget, plural: widgets, scope: namespace, singular: widget, version: v1}\n",
            )
            .unwrap();
        let kind = |group: &str, version: &str, kind: &str| {
            let kind = kinds.get(&GroupVersionKind::new(group, version, kind))?;
            Some((kind.plural.as_str(), kind.namespaced))
        };
        assert_eq!(kind("", "beta1", "Fake"), Some(("fakes", false)));
        assert_eq!(kind("x.io", "v1", "Widget"), Some(("widgets", true)));
        assert_eq!(kind("", "v1", "Pod"), Some(("pods", true)));
        assert_eq!(kind("x.io", "v2", "Widget"), None);
    }

    #[test]
    fn odd_mappings_are_refused() {
        for text in ["{}", "- 1", "- {Kind: A}", "[", ""] {
            let mut kinds = Kinds::built_in();
            assert!(kinds.add_mappings(text).is_err(), "{text:?}");
        }
    }
}
