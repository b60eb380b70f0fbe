//! Which kinds a dry run knows: the built-in ones, those of a mappings file, and those of CRDs among the files.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use polity_comply::Kind;
use polity_core::GroupVersionKind;
use serde_json::Value;

use polity_source::Manifests;
use polity_source::manifests::describe_yaml_error;

/// How a mappings file calls kinds that live in namespaces; all others are `root`.
pub(super) const NAMESPACE_SCOPE: &str = "namespace";

/// The kinds, by group, version and kind.
#[derive(Debug, Clone)]
pub(super) struct Kinds(BTreeMap<GroupVersionKind, Kind>);

impl Kinds {
    /// The built-in kinds, and those of a mappings file.
    pub(super) fn load(mappings: Option<&Path>) -> anyhow::Result<Self> {
        let built_in = polity_kinds::known().map(|known| Kind {
            gvk: known.gvk,
            plural: known.plural,
            namespaced: known.namespaced,
        });
        let mut all = Self(built_in.map(|kind| (kind.gvk.clone(), kind)).collect());
        if let Some(path) = mappings {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("reading the mappings file {}", path.display()))?;
            all.add_mappings(&text)
                .with_context(|| format!("the mappings file {} cannot be used", path.display()))?;
        }
        Ok(all)
    }

    /// Adds the kinds that CRDs among the files define.
    pub(super) fn add_definitions(&mut self, manifests: &Manifests) {
        for (gvk, definition) in &manifests.definitions {
            self.add(Kind {
                gvk: gvk.clone(),
                plural: definition.plural.clone(),
                namespaced: definition.namespaced,
            });
        }
    }

    pub(super) fn get(&self, gvk: &GroupVersionKind) -> Option<&Kind> {
        self.0.get(gvk)
    }

    fn add(&mut self, kind: Kind) {
        self.0.insert(kind.gvk.clone(), kind);
    }

    fn add_mappings(&mut self, text: &str) -> anyhow::Result<()> {
        let mappings: Value = serde_saphyr::from_str(text).map_err(|error| {
            let (line, words) = describe_yaml_error(&error);
            anyhow::anyhow!("line {line}: {words}")
        })?;
        let Some(mappings) = mappings.as_array() else {
            anyhow::bail!("it is not a list");
        };
        for (index, mapping) in mappings.iter().enumerate() {
            let kind = read(mapping).with_context(|| format!("entry {index}"))?;
            self.add(kind);
        }
        Ok(())
    }
}

/// One entry: `Group, Version, Kind, Singular, Plural, Scope`, in any case of the letters.
fn read(mapping: &Value) -> anyhow::Result<Kind> {
    let fields = mapping.as_object().context("it is not an object")?;
    let text = |name: &str| {
        let field = fields
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        field
            .and_then(|(_, value)| value.as_str())
            .unwrap_or_default()
    };
    for required in ["Version", "Kind", "Plural"] {
        if text(required).is_empty() {
            anyhow::bail!("it has no {required}");
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
        let mut kinds = Kinds::load(None).unwrap();
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
            let mut kinds = Kinds::load(None).unwrap();
            assert!(kinds.add_mappings(text).is_err(), "{text:?}");
        }
    }
}
