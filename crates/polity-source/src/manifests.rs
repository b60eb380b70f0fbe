//! Loads manifests from files and directories. Every object keeps its file and line, and gets the defaults of the
//! CustomResourceDefinitions among the files.
//!
//! A document that cannot be used becomes a [`Problem`]; the other documents are loaded all the same.

mod definitions;
mod documents;
mod files;
mod lines;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use polity_core::{FieldPath, GroupVersionKind};
use serde_json::Value;

pub use self::definitions::Definition;
pub use self::documents::describe_yaml_error;
pub use self::files::{Input, LoadError};

/// Where something was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The file as the user would name it; `stdin` for standard input.
    pub file: Arc<str>,
    /// Its line, from 1.
    pub line: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Something in the files that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub origin: Origin,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

/// One object, with the place it came from.
#[derive(Debug, Clone)]
pub struct Document {
    pub origin: Origin,
    pub kind: GroupVersionKind,
    /// The object, with the defaults of its CRD if that is among the files.
    pub object: Value,
    source: lines::Source,
}

impl Document {
    /// `metadata.name`, empty when there is none.
    pub fn name(&self) -> &str {
        self.metadata("name").unwrap_or_default()
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> Option<&str> {
        self.metadata("namespace")
    }

    fn metadata(&self, field: &str) -> Option<&str> {
        self.object["metadata"][field].as_str()
    }

    /// The place of a field, or of the nearest thing around it that was written down.
    pub fn locate(&self, field: &FieldPath) -> Origin {
        Origin {
            file: Arc::clone(&self.origin.file),
            line: self.source.line_of(field).unwrap_or(self.origin.line),
        }
    }
}

/// Everything that was read, in the order of its files and lines.
#[derive(Debug, Default)]
pub struct Manifests {
    pub documents: Vec<Document>,
    pub problems: Vec<Problem>,
    /// The kinds that CRDs among the files define, by group, version and kind.
    pub definitions: BTreeMap<GroupVersionKind, Definition>,
}

impl Manifests {
    /// Reads files and, recursively, directories. Fails only if an input does not exist or contains no manifest.
    pub fn load<I: Into<Input>>(inputs: impl IntoIterator<Item = I>) -> Result<Self, LoadError> {
        let mut manifests = Self::default();
        for text in files::read(inputs.into_iter().map(Into::into))? {
            match text {
                Ok(text) => manifests.add(&text.name, &text.content),
                Err(problem) => manifests.problems.push(problem),
            }
        }
        manifests.complete();
        Ok(manifests)
    }

    /// Reads one text, as if it were a file of that name.
    pub fn from_text(name: &str, content: &str) -> Self {
        let mut manifests = Self::default();
        manifests.add(name, content);
        manifests.complete();
        manifests
    }

    /// The objects of one kind, whatever the version.
    pub fn of_kind<'a>(
        &'a self,
        group: &'a str,
        kind: &'a str,
    ) -> impl Iterator<Item = &'a Document> {
        self.documents
            .iter()
            .filter(move |document| document.kind.group == group && document.kind.kind == kind)
    }

    fn add(&mut self, name: &str, content: &str) {
        let (documents, problems) = documents::read(name, content);
        self.documents.extend(documents);
        self.problems.extend(problems);
    }

    fn complete(&mut self) {
        self.drop_repetitions();
        let (definitions, problems) = definitions::collect(&self.documents);
        self.problems.extend(problems);
        self.definitions = definitions;
        for document in &mut self.documents {
            if let Some(schema) = self
                .definitions
                .get(&document.kind)
                .and_then(|definition| definition.schema.as_ref())
            {
                polity_merge::schema::default(schema, &mut document.object);
            }
        }
        self.problems.sort_by(|a, b| a.origin.cmp(&b.origin));
    }

    /// Two objects of one name cannot both be meant: the first one stays.
    fn drop_repetitions(&mut self) {
        let mut seen: BTreeMap<(String, String, String, String), Origin> = BTreeMap::new();
        let mut problems = Vec::new();
        self.documents.retain(|document| {
            if document.name().is_empty() {
                return true;
            }
            let key = (
                document.kind.group.clone(),
                document.kind.kind.clone(),
                document.namespace().unwrap_or_default().to_owned(),
                document.name().to_owned(),
            );
            if let Some(first) = seen.get(&key) {
                problems.push(Problem {
                    origin: document.origin.clone(),
                    message: format!(
                        "{} {} is there already, at {first}; this one is left out",
                        document.kind.kind,
                        document.name()
                    ),
                });
                return false;
            }
            seen.insert(key, document.origin.clone());
            true
        });
        self.problems.extend(problems);
    }
}

#[cfg(test)]
mod tests;
