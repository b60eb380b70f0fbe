//! Finds objects by the names that people type: `KIND[.group]/NAME`, by kind, plural or short name.

use std::collections::{BTreeMap, BTreeSet};

use polity_attach::{Graph, ObjectRef, Through};
use serde_json::Value;

/// Group and kind.
pub type Kind = (String, String);

/// Why a name does not mean one object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("no kind is called {text}")]
    UnknownKind {
        text: String,
        /// Kinds with a similar name.
        similar: Vec<String>,
        /// All kinds that have a name here.
        known: Vec<String>,
    },
    #[error("{text} may mean {}", kinds.join(" or "))]
    AmbiguousKind { text: String, kinds: Vec<String> },
    #[error("{0} names no object")]
    NoName(String),
    #[error("{0} is not found")]
    NotFound(ObjectRef),
}

/// The kinds of a cluster by all their names.
pub struct Names {
    by_name: BTreeMap<String, BTreeSet<Kind>>,
}

impl Names {
    /// All kinds of a graph: those of its objects, and those its CRDs define.
    pub fn of(graph: &Graph) -> Self {
        let objects = graph.objects();
        Self::of_objects(objects.into_iter().map(|(_, value)| value))
    }

    /// As [`Self::of`], of objects that are not in a graph yet.
    pub fn of_objects<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
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
    pub fn kind(&self, text: &str) -> Result<Kind, NameError> {
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
                Err(NameError::UnknownKind {
                    text: text.to_owned(),
                    similar: near.into_iter().map(str::to_owned).collect(),
                    known: self.known(),
                })
            }
            many => {
                let kinds = many.iter().map(|(group, kind)| format!("{kind}.{group}"));
                Err(NameError::AmbiguousKind {
                    text: text.to_owned(),
                    kinds: kinds.collect(),
                })
            }
        }
    }

    fn known(&self) -> Vec<String> {
        let kinds = self.by_name.values().flatten();
        let kinds: BTreeSet<&String> = kinds.map(|(_, kind)| kind).collect();
        kinds.into_iter().cloned().collect()
    }

    /// The object that `KIND/NAME` or `KIND/NAMESPACE/NAME` means, which must be there.
    pub fn object(
        &self,
        graph: &Graph,
        text: &str,
        namespace: &str,
    ) -> Result<ObjectRef, NameError> {
        let (object, _) = self.reference(graph, text, namespace)?;
        if graph.exists_ref(&object) {
            return Ok(object);
        }
        Err(NameError::NotFound(object))
    }

    /// The object that a text means, whether it is there or not, and the section after `#`.
    pub fn reference(
        &self,
        graph: &Graph,
        text: &str,
        namespace: &str,
    ) -> Result<(ObjectRef, Option<String>), NameError> {
        let (text, section) = match text.split_once('#') {
            Some((text, section)) => (text, Some(section.to_owned())),
            None => (text, None),
        };
        let Some((kind, name)) = text.split_once('/') else {
            return Err(NameError::NoName(text.to_owned()));
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
    pub fn through(
        &self,
        graph: &Graph,
        text: &str,
        namespace: &str,
    ) -> Result<Through, NameError> {
        let (object, section) = self.reference(graph, text, namespace)?;
        Ok(Through { object, section })
    }
}

/// Whether one name begins like the other, or holds it.
fn similar(known: &str, asked: &str) -> bool {
    let head: String = asked.chars().take(4).collect();
    !head.is_empty() && (known.starts_with(&head) || known.contains(asked))
}
