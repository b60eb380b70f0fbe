//! Which line a field stands on. Found when asked for: most documents are never complained about.

use std::fmt;
use std::sync::Arc;

use polity_core::FieldPath;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::documents::yaml_options;

/// The text of a document, and where in its file it stands.
#[derive(Debug, Clone)]
pub(super) struct Source {
    text: Arc<str>,
    first_line: usize,
    /// The object within the text: not the root for the items of a list.
    base: FieldPath,
}

impl Source {
    pub(super) fn new(text: &str, first_line: usize) -> Self {
        Self {
            text: Arc::from(text),
            first_line,
            base: FieldPath::root(),
        }
    }

    /// A value within this document, as a document of its own.
    pub(super) fn below(&self, path: &FieldPath) -> Self {
        Self {
            base: join(&self.base, path),
            ..self.clone()
        }
    }

    /// The line of a field, or of what is nearest around it; none if the text cannot be read so.
    pub(super) fn line_of(&self, field: &FieldPath) -> Option<usize> {
        let root = self.parse()?;
        let (line, _) = root.nearest(&join(&self.base, field));
        (line > 0).then_some(self.first_line + line - 1)
    }

    /// The lines of the items of a list, in their order.
    pub(super) fn lines_of_items(&self, list: &FieldPath) -> Vec<usize> {
        let Some(root) = self.parse() else {
            return Vec::new();
        };
        match root.nearest(&join(&self.base, list)) {
            (_, Content::List(items)) => items
                .iter()
                .map(|item| self.first_line + item.line.max(1) - 1)
                .collect(),
            _ => Vec::new(),
        }
    }

    fn parse(&self) -> Option<Node> {
        serde_saphyr::from_str_with_options(&self.text, yaml_options(&self.text)).ok()
    }
}

fn join(base: &FieldPath, field: &FieldPath) -> FieldPath {
    let steps = steps(field.as_str()).into_iter();
    steps.fold(base.clone(), |path, step| match step {
        Step::Name(name) if name.contains(['.', '[']) => path.key(&name),
        Step::Name(name) => path.child(&name),
        Step::Index(index) => path.index(index),
    })
}

enum Step {
    Name(String),
    Index(usize),
}

/// The steps of a path such as `spec.rules[0].host` or `data[a.b]`.
fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (key, after) = inside.split_once(']').unwrap_or((inside, ""));
            steps.push(match key.parse() {
                Ok(index) => Step::Index(index),
                Err(_) => Step::Name(key.to_owned()),
            });
            rest = after;
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        if end > 0 {
            steps.push(Step::Name(rest[..end].to_owned()));
        }
        rest = &rest[end..];
    }
    steps
}

/// A value of which only the places are kept.
struct Node {
    line: usize,
    content: Content,
}

enum Content {
    Scalar,
    List(Vec<Node>),
    Map(Vec<(Spanned<String>, Node)>),
}

impl Node {
    /// The line and the content of what a path leads to, as far as it leads.
    fn nearest(&self, path: &FieldPath) -> (usize, &Content) {
        let mut line = self.line;
        let mut content = &self.content;
        for step in steps(path.as_str()) {
            let found = match (content, step) {
                (Content::Map(entries), Step::Name(name)) => entries
                    .iter()
                    .find(|(key, _)| key.value == name)
                    .map(|(key, value)| (key.referenced.line() as usize, value)),
                (Content::List(items), Step::Index(index)) => {
                    items.get(index).map(|item| (item.line, item))
                }
                _ => None,
            };
            let Some((at, value)) = found else { break };
            line = at;
            content = &value.content;
        }
        (line, content)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        Ok(Self {
            line: spanned.referenced.line() as usize,
            content: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

/// Visits of values that have nothing inside.
macro_rules! scalars {
    ($($visit:ident: $type:ty),*) => {
        $(fn $visit<E>(self, _: $type) -> Result<Content, E> { Ok(Content::Scalar) })*
    };
}

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    scalars!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_u128: u128, visit_f64: f64, visit_str: &str, visit_bytes: &[u8]);

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        Content::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Content::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Content::Map(entries))
    }
}
