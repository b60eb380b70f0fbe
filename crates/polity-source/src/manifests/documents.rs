//! From the text of a file to its objects: many YAML documents, JSON values one after the other, lists.

use std::sync::Arc;

use polity_core::{FieldPath, GroupVersion, GroupVersionKind};
use serde_json::Value;

use super::lines::Source;
use super::{Document, Origin, Problem};

/// A part of a file that holds one value.
struct Part<'a> {
    /// The line its first character stands on, from 1.
    line: usize,
    text: &'a str,
}

/// Reads all documents of a text.
pub(super) fn read(name: &str, content: &str) -> (Vec<Document>, Vec<Problem>) {
    let file: Arc<str> = Arc::from(name);
    let content = content.strip_prefix('\u{feff}').unwrap_or(content);
    let mut reading = Reading {
        file,
        documents: Vec::new(),
        problems: Vec::new(),
    };
    for part in split(content) {
        reading.part(&part);
    }
    (reading.documents, reading.problems)
}

struct Reading {
    file: Arc<str>,
    documents: Vec<Document>,
    problems: Vec<Problem>,
}

impl Reading {
    fn part(&mut self, part: &Part<'_>) {
        // JSON may be indented with tabs and follow itself without a separator; YAML may not.
        if part.text.trim_start().starts_with('{') && self.json(part) {
            return;
        }
        match parse_yaml(part.text) {
            Ok(Value::Null) => {}
            Ok(value) => self.value(value, part),
            Err((line, message)) => {
                self.problem(part.line + line - 1, format!("not YAML: {message}"));
            }
        }
    }

    /// Reads JSON values; false if the text is something else.
    fn json(&mut self, part: &Part<'_>) -> bool {
        let mut values = serde_json::Deserializer::from_str(part.text).into_iter::<Value>();
        let mut read = Vec::new();
        loop {
            let before = values.byte_offset();
            match values.next() {
                None => break,
                Some(Err(_)) => return false,
                Some(Ok(value)) => {
                    let gap = &part.text[before..];
                    let start = before + gap.len() - gap.trim_start().len();
                    read.push((start, values.byte_offset(), value));
                }
            }
        }
        for (start, end, value) in read {
            let line = part.line + newlines(&part.text[..start]);
            let text = &part.text[start..end];
            self.value(value, &Part { line, text });
        }
        true
    }

    fn value(&mut self, value: Value, part: &Part<'_>) {
        // A document begins at its first line of content, not at a remark before it.
        let before = part.text.lines().take_while(|line| is_remark(line)).count();
        let source = Source::new(part.text, part.line);
        self.object(value, part.line + before, source);
    }

    fn object(&mut self, value: Value, line: usize, source: Source) {
        let Value::Object(mut fields) = value else {
            self.problem(
                line,
                "not an object: a manifest has apiVersion, kind and metadata",
            );
            return;
        };
        let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or("");
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        for (field, value) in [("apiVersion", api_version), ("kind", kind)] {
            if value.is_empty() {
                let message = format!("not a Kubernetes object: it has no {field}");
                self.problem(line, message);
                return;
            }
        }
        let Ok(group_version) = api_version.parse::<GroupVersion>() else {
            let message = format!("apiVersion {api_version:?} is not a group and a version");
            self.problem(line, message);
            return;
        };
        let kind = GroupVersionKind::new(group_version.group, group_version.version, kind);
        if kind.kind.ends_with("List") && fields.get("items").is_some_and(Value::is_array) {
            self.list(kind, fields.remove("items"), line, &source);
            return;
        }
        self.documents.push(Document {
            origin: self.at(line),
            kind,
            object: Value::Object(fields),
            source,
        });
    }

    /// The items of a list, each as if it stood alone. What a typed list leaves out is the list's.
    fn list(&mut self, list: GroupVersionKind, items: Option<Value>, line: usize, source: &Source) {
        let Some(Value::Array(items)) = items else {
            return;
        };
        let item_kind = list.kind.trim_end_matches("List");
        let at = FieldPath::of("items");
        let lines = source.lines_of_items(&at);
        for (index, mut item) in items.into_iter().enumerate() {
            let source = source.below(&at.index(index));
            let line = lines.get(index).copied().unwrap_or(line);
            if let (false, Value::Object(fields)) = (item_kind.is_empty(), &mut item) {
                fields
                    .entry("apiVersion")
                    .or_insert_with(|| list.api_version().into());
                fields.entry("kind").or_insert_with(|| item_kind.into());
            }
            self.object(item, line, source);
        }
    }

    fn at(&self, line: usize) -> Origin {
        Origin {
            file: Arc::clone(&self.file),
            line,
        }
    }

    fn problem(&mut self, line: usize, message: impl Into<String>) {
        let origin = self.at(line);
        self.problems.push(Problem {
            origin,
            message: message.into(),
        });
    }
}

/// Cuts a stream at its document marks. A mark at the start of a line is one even within a block of
/// text, so no parser is needed to find them.
fn split(content: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut first_line = 1;
    let mut offset = 0;
    for (index, line) in content.split_inclusive('\n').enumerate() {
        let rest = line.strip_prefix("---").or(line.strip_prefix("..."));
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n'])) {
            parts.push(Part {
                line: first_line,
                text: &content[start..offset],
            });
            // What follows a mark on its line belongs to the document it opens.
            start = offset + 3;
            first_line = index + 1;
        }
        offset += line.len();
    }
    parts.push(Part {
        line: first_line,
        text: &content[start..],
    });
    parts
}

/// A YAML document as Kubernetes reads it, or the line (from 1) and what is wrong there.
fn parse_yaml(text: &str) -> Result<Value, (usize, String)> {
    if text.lines().all(is_remark) {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str_with_options(text, yaml_options(text))
        .map_err(|error| describe_yaml_error(&error))
}

/// How a text is read. A large text may hold many values, as the list of all Pods does; only what aliases make of it is
/// bounded by a number.
pub(super) fn yaml_options(text: &str) -> serde_saphyr::Options {
    const MADE_BY_ALIASES: usize = 250_000;
    let written = text.len();
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        budget: serde_saphyr::budget! {
            max_nodes: written + MADE_BY_ALIASES,
            max_events: 2 * (written + MADE_BY_ALIASES),
            max_total_scalar_bytes: written + (64 << 20),
        },
    }
}

/// What is wrong with a text, and on which of its lines: without the picture of the source that the parser draws,
/// and without its own idea of the line, which counts from the start of the document.
pub fn describe_yaml_error(error: &serde_saphyr::Error) -> (usize, String) {
    let line = error.location().map_or(1, |at| at.line().max(1) as usize);
    let message = error.to_string();
    let first = message.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let words = match first
        .strip_prefix("line ")
        .and_then(|rest| rest.split_once(": "))
    {
        Some((_, words)) => words,
        None => first,
    };
    let words = match words {
        bounded if bounded.starts_with("budget breached") => "aliases make too much of it",
        "recursion limit exceeded" => "nested too deeply",
        other => other,
    };
    (line, words.to_owned())
}

/// A line that holds nothing of the document: empty, a comment, a directive.
fn is_remark(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with(['#', '%'])
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}
