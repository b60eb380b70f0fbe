//! How people name objects: `KIND[.group]/NAME`, by kind, plural or short name.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use polity_attach::{Graph, ObjectRef, Through};
use serde_json::Value;

use crate::exit::Hinted;

/// A kind as objects have it.
pub(super) type Kind = (String, String);

/// The names that kinds answer to.
pub(super) struct Names {
    by_name: BTreeMap<String, BTreeSet<Kind>>,
}

impl Names {
    /// All kinds of a graph: those of its objects, and those its CRDs define.
    pub(super) fn of(graph: &Graph) -> Self {
        let objects = graph.objects();
        Self::of_objects(objects.into_iter().map(|(_, value)| value))
    }

    /// As [`Self::of`], of objects that are not in a graph yet.
    pub(super) fn of_objects<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut names = Self {
            by_name: BTreeMap::new(),
        };
        let objects = objects.into_iter();
        for (object, value) in objects.filter_map(|value| Some((ObjectRef::of(value)?, value))) {
            names.add(&object.kind, &object.group, &object.kind);
            if object.kind == "CustomResourceDefinition" {
                let spec = &value["spec"];
                let group = spec["group"].as_str().unwrap_or("");
                let kind = spec["names"]["kind"].as_str().unwrap_or("");
                let written = ["plural", "singular"]
                    .into_iter()
                    .filter_map(|name| spec["names"][name].as_str());
                let short = spec["names"]["shortNames"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str);
                for name in written.chain(short) {
                    names.add(name, group, kind);
                }
                names.add(kind, group, kind);
            }
        }
        for (short, group, kind) in [
            ("ns", "", "Namespace"),
            ("svc", "", "Service"),
            ("cm", "", "ConfigMap"),
            ("deploy", "apps", "Deployment"),
        ] {
            names.add(short, group, kind);
            names.add(kind, group, kind);
        }
        names
    }

    fn add(&mut self, name: &str, group: &str, kind: &str) {
        if name.is_empty() || kind.is_empty() {
            return;
        }
        let lower = name.to_lowercase();
        let after_vowel = lower
            .trim_end_matches('y')
            .ends_with(['a', 'e', 'i', 'o', 'u']);
        let plural = match lower.strip_suffix('y') {
            Some(stem) if !after_vowel => format!("{stem}ies"),
            None if lower.ends_with('s') => format!("{lower}es"),
            _ => format!("{lower}s"),
        };
        for name in [lower, plural] {
            self.by_name
                .entry(name)
                .or_default()
                .insert((group.to_owned(), kind.to_owned()));
        }
    }

    /// The kind that `KIND` or `KIND.group` means.
    pub(super) fn kind(&self, text: &str) -> anyhow::Result<Kind> {
        let (name, group) = match text.split_once('.') {
            Some((name, group)) => (name, Some(group)),
            None => (text, None),
        };
        let found = self.by_name.get(&name.to_lowercase()).into_iter().flatten();
        let found: Vec<&Kind> = found
            .filter(|(of, _)| group.is_none_or(|group| of == group))
            .collect();
        match found.as_slice() {
            [one] => Ok((*one).clone()),
            [] => {
                let near: BTreeSet<&str> = self
                    .by_name
                    .iter()
                    .filter(|(known, _)| similar(known, &name.to_lowercase()))
                    .flat_map(|(_, kinds)| kinds.iter().map(|(_, kind)| kind.as_str()))
                    .collect();
                let near: Vec<&str> = near.into_iter().collect();
                let hint = if near.is_empty() {
                    "no object and no CRD is of such a kind".to_owned()
                } else {
                    format!("did you mean {}?", near.join(", "))
                };
                bail!(Hinted::new(format!("no kind is called {text}"), hint))
            }
            many => {
                let names: Vec<String> = many
                    .iter()
                    .map(|(group, kind)| format!("{kind}.{group}"))
                    .collect();
                bail!(Hinted::new(
                    format!("{text} may mean {}", names.join(" or ")),
                    "name the group too: KIND.group/NAME"
                ))
            }
        }
    }

    /// The object that `KIND/NAME` or `KIND/NAMESPACE/NAME` means, which must be there.
    pub(super) fn object(
        &self,
        graph: &Graph,
        text: &str,
        namespace: &str,
    ) -> anyhow::Result<ObjectRef> {
        let (object, _) = self.reference(graph, text, namespace)?;
        if graph.exists_ref(&object) {
            return Ok(object);
        }
        bail!(Hinted::new(
            format!("{object} is not found or not readable"),
            "name another namespace with -n, or another source with -m"
        ))
    }

    /// The object that a text means, whether it is there or not, and the section after `#`.
    pub(super) fn reference(
        &self,
        graph: &Graph,
        text: &str,
        namespace: &str,
    ) -> anyhow::Result<(ObjectRef, Option<String>)> {
        let (text, section) = match text.split_once('#') {
            Some((text, section)) => (text, Some(section.to_owned())),
            None => (text, None),
        };
        let Some((kind, name)) = text.split_once('/') else {
            bail!(Hinted::new(
                format!("{text} names no object"),
                "write KIND/NAME"
            ));
        };
        let (group, kind) = self.kind(kind)?;
        let object = match name.split_once('/') {
            Some((namespace, name)) => ObjectRef::new(&group, &kind, Some(namespace), name),
            None if graph.is_cluster_scoped(&group, &kind) => {
                ObjectRef::new(&group, &kind, None, name)
            }
            None => ObjectRef::new(&group, &kind, Some(namespace), name),
        };
        Ok((object, section))
    }

    /// `--through Gateway/NS/NAME#LISTENER`.
    pub(super) fn through(
        &self,
        graph: &Graph,
        text: &str,
        namespace: &str,
    ) -> anyhow::Result<Through> {
        let (object, section) = self.reference(graph, text, namespace)?;
        Ok(Through { object, section })
    }
}

/// Whether one name begins like the other, or holds it.
fn similar(known: &str, asked: &str) -> bool {
    let head: String = asked.chars().take(4).collect();
    !head.is_empty() && (known.starts_with(&head) || known.contains(asked))
}
