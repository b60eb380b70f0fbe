//! Validation of values, with ratcheting on update.
//!
//! The checks, their order and their messages follow the real server, including which branch of a failed `anyOf` is
//! reported: the one in which most checks passed.

mod number;
mod ratchet;

use std::collections::HashSet;
use std::fmt::Write;

use polity_core::field::{MAX_ERRORS, shortened};
use polity_core::{FieldError, FieldErrorKind, FieldPath};
use serde_json::{Map, Value};

use super::{Additional, Checks, Schema, Type, embedded, format::Format, lists};
use crate::text::{Num, quoted, shown};

use number::is_json_integer;
use ratchet::{MapList, Old, unchanged};

/// Returns the errors in `value`, at most a thousand.
pub fn validate(schema: &Schema, value: &Value) -> Vec<FieldError> {
    validate_at(schema, value, &FieldPath::root())
}

/// Returns the errors in a `value` at `path` of its object, such as `status`.
pub fn validate_at(schema: &Schema, value: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = schema_errors(schema, value, path);
    embedded::check(schema, value, path, &mut errors);
    lists::check(schema, value, path, &mut errors);
    errors
}

/// Returns the errors in `new` that `old` does not have: unchanged parts are tolerated.
pub fn validate_update(schema: &Schema, new: &Value, old: &Value) -> Vec<FieldError> {
    validate_update_at(schema, new, old, &FieldPath::root())
}

/// [`validate_update`] for a value at `path` of its object.
pub fn validate_update_at(
    schema: &Schema,
    new: &Value,
    old: &Value,
    path: &FieldPath,
) -> Vec<FieldError> {
    let mut walk = Walk {
        root: path.is_root(),
        ..Walk::default()
    };
    walk.correlated(schema, new, Some(Old { schema, value: old }));
    let mut errors = walk.finish(path);
    embedded::check(schema, new, path, &mut errors);
    let mut before = Vec::new();
    lists::check(schema, old, path, &mut before);
    if before.is_empty() {
        lists::check(schema, new, path, &mut errors);
    }
    errors
}

/// The errors of the schema alone: neither embedded resources nor duplicates in lists.
pub(super) fn schema_errors(schema: &Schema, value: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut walk = Walk::default();
    walk.node(schema, value, None);
    walk.finish(path)
}

#[derive(Default)]
struct Walk {
    path: String,
    root: bool,
    errors: Vec<FieldError>,
}

impl Walk {
    /// Prefixes the errors with the path of the value and drops repetitions.
    fn finish(self, path: &FieldPath) -> Vec<FieldError> {
        let mut seen = HashSet::new();
        let mut errors: Vec<_> = self
            .errors
            .into_iter()
            .filter(|error| seen.insert((error.field.clone(), error.message.clone())))
            .collect();
        for error in &mut errors {
            let name = error.field.trim_start_matches('.');
            error.field = if name.is_empty() {
                path.to_string()
            } else {
                path.child(name).to_string()
            };
        }
        errors
    }

    /// Checks a node with a known stored counterpart. An unchanged node is valid.
    fn correlated(&mut self, schema: &Schema, value: &Value, old: Option<Old<'_>>) -> usize {
        let mark = self.errors.len();
        let matches = self.node(schema, value, old);
        if self.errors.len() > mark && old.is_some_and(|old| unchanged(old, value)) {
            self.errors.truncate(mark);
        }
        matches
    }

    /// Checks one node and returns how many of its checks passed.
    fn node(&mut self, schema: &Schema, value: &Value, old: Option<Old<'_>>) -> usize {
        if value.is_null() {
            return self.null(schema);
        }
        let mut matches = 1;
        let checks = schema.checks.as_deref();
        let format = checks.and_then(|checks| checks.format.as_ref());
        if schema.kind != Type::Any || format.is_some() {
            matches += self.kind(schema, value, format.map(Format::name)) + 1;
        }
        matches += checks.map_or(1, |checks| self.junctors(checks, value, old)) + 1;
        match value {
            Value::String(text) => {
                matches += 1;
                if let Some(checks) = checks {
                    self.text(checks, text);
                    if let Some(format) = format.filter(|_| checks_strings(schema.kind)) {
                        matches += 1;
                        if !format.accepts(text) {
                            self.wrong_type(format.name(), text);
                        }
                    }
                }
            }
            Value::Number(number) => matches += self.number(schema, checks, number) + 1,
            Value::Array(items) => matches += self.items(schema, items, old) + 1,
            Value::Bool(_) | Value::Object(_) | Value::Null => {}
        }
        matches += 1;
        if let Some(checks) = checks {
            self.choices(checks, value);
        }
        if let Value::Object(map) = value {
            matches += self.object(schema, map, old) + 1;
        }
        matches
    }

    fn null(&mut self, schema: &Schema) -> usize {
        let accepted = schema.kind == Type::Any || schema.nullable;
        if !accepted {
            self.wrong_type(schema.kind.names(), "null");
        }
        if let Some(checks) = schema.checks.as_deref() {
            self.choices(checks, &Value::Null);
        }
        usize::from(accepted)
    }

    fn kind(&mut self, schema: &Schema, value: &Value, format: Option<&str>) -> usize {
        let kind = schema.kind;
        let (name, value_format) = match value {
            Value::Null => ("null", ""),
            Value::Bool(_) => ("boolean", ""),
            Value::String(_) => ("string", ""),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
            Value::Number(number) => match Num::of(number) {
                Num::Int(_) => ("integer", "int64"),
                Num::Float(_) => ("number", "float64"),
            },
        };
        let whole = matches!(value, Value::Number(number)
            if matches!(Num::of(number), Num::Float(float) if is_json_integer(float)));
        let fits = kind.accepts(name)
            || (whole && kind.accepts("integer"))
            || (name == "integer" && kind.accepts("number"));
        let textual = name == "string" || name == "array";
        if let Some(format) = format {
            if !textual && !fits && value_format != format {
                self.wrong_type(format, value_format);
                return 0;
            }
            if textual && !kind.accepts("number") && !kind.accepts("integer") {
                return 1;
            }
        }
        if !fits {
            self.wrong_type(kind.names(), name);
            return 0;
        }
        1
    }

    fn junctors(&mut self, checks: &Checks, value: &Value, old: Option<Old<'_>>) -> usize {
        let mut matches = 1;
        if !checks.any_of.is_empty() {
            matches += self.any_of(&checks.any_of, value, old);
        }
        if !checks.one_of.is_empty() {
            matches += self.one_of(&checks.one_of, value, old);
        }
        if !checks.all_of.is_empty() {
            let mut valid = 0;
            for branch in &checks.all_of {
                let mark = self.errors.len();
                matches += self.node(branch, value, old);
                valid += usize::from(self.errors.len() == mark);
            }
            if valid != checks.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                self.plain(&format!(
                    "{} must validate all the schemas (allOf){none}",
                    quoted(&self.place())
                ));
            }
        }
        if let Some(not) = &checks.not {
            let (_, errors) = self.branch(not, value, old);
            if errors.is_empty() {
                self.plain(&format!(
                    "{} must not validate the schema (not)",
                    quoted(&self.place())
                ));
            }
        }
        matches
    }

    fn any_of(&mut self, branches: &[Schema], value: &Value, old: Option<Old<'_>>) -> usize {
        let mut best: Option<(usize, Vec<FieldError>)> = None;
        for branch in branches {
            let (matches, errors) = self.branch(branch, value, old);
            if errors.is_empty() {
                return matches;
            }
            if best.as_ref().is_none_or(|(most, _)| matches > *most) {
                best = Some((matches, errors));
            }
        }
        self.plain(&format!(
            "{} must validate at least one schema (anyOf)",
            quoted(&self.place())
        ));
        self.keep(best)
    }

    fn one_of(&mut self, branches: &[Schema], value: &Value, old: Option<Old<'_>>) -> usize {
        let mut best: Option<(usize, Vec<FieldError>)> = None;
        let mut first_match = 0;
        let mut valid = 0;
        for branch in branches {
            let (matches, errors) = self.branch(branch, value, old);
            if errors.is_empty() {
                valid += 1;
                best = None;
                if valid == 1 {
                    first_match = matches;
                }
            } else if valid == 0 && best.as_ref().is_none_or(|(most, _)| matches > *most) {
                best = Some((matches, errors));
            }
        }
        if valid == 1 {
            return first_match;
        }
        let found = if valid == 0 {
            "Found none valid".to_owned()
        } else {
            format!("Found {valid} valid alternatives")
        };
        self.plain(&format!(
            "{} must validate one and only one schema (oneOf). {found}",
            quoted(&self.place())
        ));
        self.keep(best)
    }

    /// Checks a branch on the side.
    fn branch(
        &mut self,
        schema: &Schema,
        value: &Value,
        old: Option<Old<'_>>,
    ) -> (usize, Vec<FieldError>) {
        let mark = self.errors.len();
        let matches = self.node(schema, value, old);
        (matches, self.errors.split_off(mark))
    }

    fn keep(&mut self, best: Option<(usize, Vec<FieldError>)>) -> usize {
        best.map_or(0, |(matches, errors)| {
            self.errors.extend(errors);
            matches
        })
    }

    fn text(&mut self, checks: &Checks, text: &str) {
        let length = || text.chars().count() as i64;
        if let Some(max) = checks.max_length.filter(|max| length() > *max) {
            let bytes = if max == 1 { "byte" } else { "bytes" };
            let message = format!("Too long: may not be more than {max} {bytes}");
            self.error(FieldErrorKind::TooLong, message);
        } else if let Some(min) = checks.min_length.filter(|min| length() < *min) {
            self.invalid(
                &quoted(text),
                &format!("should be at least {min} chars long"),
            );
        } else if let Some((pattern, regex)) = &checks.pattern
            && !regex.is_match(text)
        {
            self.invalid(&quoted(text), &format!("should match '{pattern}'"));
        }
    }

    fn items(&mut self, schema: &Schema, items: &[Value], old: Option<Old<'_>>) -> usize {
        let mut matches = 1;
        if let Some(item_schema) = schema.items() {
            let stored = old.and_then(|old| MapList::of(old.schema, old.value));
            for (index, item) in items.iter().enumerate() {
                let old = stored.as_ref().and_then(|stored| stored.get(item));
                let length = self.path.len();
                let _ = write!(self.path, "[{index}]");
                matches += self.correlated(item_schema, item, old);
                self.path.truncate(length);
            }
        }
        let Some(checks) = schema.checks.as_deref() else {
            return matches;
        };
        let size = items.len() as i64;
        if let Some(min) = checks.min_items.filter(|min| size < *min) {
            self.invalid(
                &size.to_string(),
                &format!("should have at least {min} items"),
            );
        }
        if let Some(max) = checks.max_items.filter(|max| size > *max) {
            self.too_many(size, max);
        }
        matches
    }

    fn object(&mut self, schema: &Schema, map: &Map<String, Value>, old: Option<Old<'_>>) -> usize {
        let mut matches = 0;
        let checks = schema.checks.as_deref();
        if let Some(checks) = checks {
            let size = map.len() as i64;
            if let Some(min) = checks.min_properties.filter(|min| size < *min) {
                self.invalid(
                    &size.to_string(),
                    &format!("should have at least {min} properties"),
                );
            }
            if let Some(max) = checks.max_properties.filter(|max| size > *max) {
                self.too_many(size, max);
            }
        }
        for (key, value) in map
            .iter()
            .filter(|(key, _)| !schema.properties.contains_key(*key))
        {
            match &schema.additional {
                Additional::Allowed(false) => {
                    let message = format!(
                        "Invalid value: {}: {}.{key} in body is a forbidden property",
                        quoted(key),
                        self.place()
                    );
                    self.error(FieldErrorKind::Invalid, message);
                }
                Additional::Schema(additional) => {
                    matches += self.field(additional, key, value, old, true);
                }
                Additional::Allowed(true) | Additional::Absent => {}
            }
        }
        for (name, property) in &schema.properties {
            if let Some(value) = map.get(name) {
                matches += self.field(property, name, value, old, false);
            }
        }
        for name in checks
            .into_iter()
            .flat_map(|checks| &checks.required)
            .filter(|name| !map.contains_key(*name))
        {
            let field = shortened(&format!("{}.{name}", self.place()));
            self.push(FieldError {
                kind: FieldErrorKind::Required,
                field,
                message: "Required value".to_owned(),
            });
        }
        matches
    }

    fn field(
        &mut self,
        schema: &Schema,
        name: &str,
        value: &Value,
        old: Option<Old<'_>>,
        additional: bool,
    ) -> usize {
        // A change of version is invisible here: both sides were converted. So these are never tolerated.
        let type_meta = self.root && self.path.is_empty() && matches!(name, "apiVersion" | "kind");
        let old = old.filter(|_| !type_meta).and_then(|old| {
            Some(Old {
                schema: old.schema.declared(name)?,
                value: old.value.as_object()?.get(name)?,
            })
        });
        let length = self.path.len();
        if length > 0 || additional {
            self.path.push('.');
        }
        self.path.push_str(name);
        let matches = self.correlated(schema, value, old);
        self.path.truncate(length);
        matches
    }

    fn choices(&mut self, checks: &Checks, value: &Value) {
        if checks.choices.is_empty() || checks.choices.iter().any(|choice| is_choice(value, choice))
        {
            return;
        }
        let supported: Vec<_> = checks
            .choices
            .iter()
            .map(|choice| match choice {
                Value::String(text) => quoted(text),
                other => quoted(&other.to_string()),
            })
            .collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            shown(value),
            supported.join(", ")
        );
        self.error(FieldErrorKind::NotSupported, message);
    }

    fn too_many(&mut self, size: i64, max: i64) {
        let items = if max == 1 { "item" } else { "items" };
        self.error(
            FieldErrorKind::TooMany,
            format!("Too many: {size}: must have at most {max} {items}"),
        );
    }

    fn wrong_type(&mut self, wanted: &str, found: &str) {
        let found = quoted(found);
        let message = format!(
            "Invalid value: {found}: {} in body must be of type {wanted}: {found}",
            self.place()
        );
        self.error(FieldErrorKind::TypeInvalid, message);
    }

    fn invalid(&mut self, value: &str, complaint: &str) {
        let message = format!(
            "Invalid value: {value}: {} in body {complaint}",
            self.place()
        );
        self.error(FieldErrorKind::Invalid, message);
    }

    fn error(&mut self, kind: FieldErrorKind, message: String) {
        self.push(FieldError {
            kind,
            field: self.place(),
            message,
        });
    }

    /// Adds an error unless the limit is reached. Decisions that depend on the absence of errors (a branch of `anyOf`,
    /// a tolerated part) only happen below a node that has enough errors already.
    fn push(&mut self, error: FieldError) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }

    /// The path as errors show it.
    fn place(&self) -> String {
        shortened(&self.path)
    }

    /// An error about the whole value rather than the field it was found in.
    fn plain(&mut self, message: &str) {
        let message = format!("Invalid value: \"\": {message}");
        self.push(FieldError {
            kind: FieldErrorKind::Invalid,
            field: String::new(),
            message,
        });
    }
}

/// Whether a node of this type checks the format of a string.
fn checks_strings(kind: Type) -> bool {
    !matches!(kind, Type::Integer | Type::Number)
}

/// Numbers are compared after conversion to the choice's own representation.
fn is_choice(value: &Value, choice: &Value) -> bool {
    match (value, choice) {
        (Value::Null, _) => false,
        (Value::Number(value), Value::Number(choice)) => match (Num::of(value), Num::of(choice)) {
            (Num::Int(value), Num::Int(choice)) => value == choice,
            (Num::Float(value), Num::Int(choice)) => value as i64 == choice,
            #[expect(clippy::float_cmp, reason = "an enum holds exact values")]
            (value, Num::Float(choice)) => value.as_f64() == choice,
        },
        (value, choice) => value == choice,
    }
}
