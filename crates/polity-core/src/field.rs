//! Field paths and field errors, spelled the way Kubernetes spells them.

mod errors;

use std::collections::HashSet;
use std::fmt::{self, Write};

use serde_json::Value;

pub use errors::{FieldErrors, MAX_ERRORS};

/// The longest path, in bytes. The names in a path come from foreign input; without a limit, each
/// path below a very long name costs as much as that name.
pub const MAX_PATH_BYTES: usize = 2048;

/// What stands for the rest of a path that is too long.
const ELLIPSIS: &str = "...";

/// The path of a field inside an object: `spec.containers[0].name`, `metadata.labels[app]`.
///
/// A path that would be longer than [`MAX_PATH_BYTES`] ends with `...` instead.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(String);

impl FieldPath {
    /// The object itself; prints as the empty string.
    pub fn root() -> Self {
        Self::default()
    }

    /// A path that starts with one named field.
    pub fn of(name: &str) -> Self {
        Self::root().then(format_args!("{}", Shortened(name)))
    }

    /// The field `name` of the value at this path.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() {
            Self::of(name)
        } else {
            self.then(format_args!(".{}", Shortened(name)))
        }
    }

    /// The list element `index` of the value at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.then(format_args!("[{index}]"))
    }

    /// The map entry `key` of the value at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.then(format_args!("[{}]", Shortened(key)))
    }

    /// This path, with one more step.
    fn then(&self, step: fmt::Arguments<'_>) -> Self {
        if self.0.len() > MAX_PATH_BYTES {
            return self.clone();
        }
        let mut path = String::with_capacity(self.0.len() + 32);
        path.push_str(&self.0);
        let _ = path.write_fmt(step);
        if path.len() > MAX_PATH_BYTES {
            path.truncate(path.floor_char_boundary(MAX_PATH_BYTES - ELLIPSIS.len()));
            path.push_str(ELLIPSIS);
            // Marks the path as complete: nothing is added to it any more.
            while path.len() <= MAX_PATH_BYTES {
                path.push('.');
            }
        }
        Self(path)
    }

    /// Whether this is the object itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text without what a path has no space for.
struct Shortened<'a>(&'a str);

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One byte more than fits, so that the path is cut.
        f.write_str(&self.0[..self.0.floor_char_boundary(MAX_PATH_BYTES + 4)])
    }
}

/// A path as text, without what is beyond [`MAX_PATH_BYTES`].
pub fn shortened(path: &str) -> String {
    FieldPath::of(path).0
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is wrong with a field. The variants are the cause reasons of a Kubernetes Status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldErrorKind {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    Forbidden,
    NotFound,
    TooLong,
    TooMany,
    TooFew,
    TypeInvalid,
    Internal,
}

impl FieldErrorKind {
    /// The `reason` of a Status cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }
}

/// One thing wrong with one field; prints as `field: message`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldError {
    pub kind: FieldErrorKind,
    pub field: String,
    /// The message without the field, such as `Required value: name is required`.
    pub message: String,
}

impl FieldError {
    fn new(kind: FieldErrorKind, field: &FieldPath, message: String) -> Self {
        Self {
            kind,
            field: field.to_string(),
            message,
        }
    }

    /// `Required value[: detail]`
    pub fn required(field: &FieldPath, detail: &str) -> Self {
        Self::new(
            FieldErrorKind::Required,
            field,
            with_detail("Required value".into(), detail),
        )
    }

    /// `Invalid value: V[: detail]`
    pub fn invalid(field: &FieldPath, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {}", shown(value));
        Self::new(FieldErrorKind::Invalid, field, with_detail(message, detail))
    }

    /// `Invalid value: V[: detail]` with the reason for a wrong type; V is a type name such as `"string"`.
    pub fn type_invalid(field: &FieldPath, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {}", shown(value));
        Self::new(
            FieldErrorKind::TypeInvalid,
            field,
            with_detail(message, detail),
        )
    }

    /// `Unsupported value: V: supported values: "A", "B"`
    pub fn not_supported(field: &FieldPath, value: &Value, supported: &[&str]) -> Self {
        let mut message = format!("Unsupported value: {}", shown(value));
        if !supported.is_empty() {
            let quoted: Vec<_> = supported.iter().map(|s| format!("{s:?}")).collect();
            message = format!("{message}: supported values: {}", quoted.join(", "));
        }
        Self::new(FieldErrorKind::NotSupported, field, message)
    }

    /// `Duplicate value: V`
    pub fn duplicate(field: &FieldPath, value: &Value) -> Self {
        Self::new(
            FieldErrorKind::Duplicate,
            field,
            format!("Duplicate value: {}", shown(value)),
        )
    }

    /// `Forbidden: detail`
    pub fn forbidden(field: &FieldPath, detail: &str) -> Self {
        Self::new(
            FieldErrorKind::Forbidden,
            field,
            with_detail("Forbidden".into(), detail),
        )
    }

    /// `Not found: V`
    pub fn not_found(field: &FieldPath, value: &Value) -> Self {
        Self::new(
            FieldErrorKind::NotFound,
            field,
            format!("Not found: {}", shown(value)),
        )
    }

    /// `Too long: may not be more than N bytes`
    pub fn too_long(field: &FieldPath, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let message = format!("Too long: may not be more than {max} {unit}");
        Self::new(FieldErrorKind::TooLong, field, message)
    }

    /// `Too many: N: must have at most M items`
    pub fn too_many(field: &FieldPath, actual: usize, max: usize) -> Self {
        let plural = if max == 1 { "item" } else { "items" };
        let message = format!("Too many: {actual}: must have at most {max} {plural}");
        Self::new(FieldErrorKind::TooMany, field, message)
    }

    /// `Internal error: detail`
    pub fn internal(field: &FieldPath, detail: &str) -> Self {
        Self::new(
            FieldErrorKind::Internal,
            field,
            with_detail("Internal error".into(), detail),
        )
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            write!(f, "<nil>: {}", self.message)
        } else {
            write!(f, "{}: {}", self.field, self.message)
        }
    }
}

/// Joins errors as a Status message does: one as it is, several in brackets, each once.
pub fn join(errors: &[FieldError]) -> String {
    let mut seen = HashSet::new();
    let mut texts: Vec<String> = Vec::new();
    for error in errors
        .iter()
        .filter(|error| seen.insert((&error.field, &error.message)))
    {
        texts.push(error.to_string());
    }
    match texts.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

fn with_detail(message: String, detail: &str) -> String {
    if detail.is_empty() {
        message
    } else {
        format!("{message}: {detail}")
    }
}

/// A value as an error shows it: strings quoted, everything else as JSON, whole numbers without a fraction.
fn shown(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if value.is_f64() && number.fract() == 0.0 && number.abs() < 1e21 => {
            format!("{number:.0}")
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_print_as_kubernetes_prints_them() {
        let path = FieldPath::of("spec")
            .child("containers")
            .index(0)
            .child("name");
        assert_eq!(path.to_string(), "spec.containers[0].name");
        assert_eq!(
            FieldPath::of("metadata")
                .child("labels")
                .key("a/b")
                .to_string(),
            "metadata.labels[a/b]"
        );
        assert_eq!(FieldPath::root().child("spec").to_string(), "spec");
    }

    #[test]
    fn a_path_below_a_long_name_has_a_bounded_length() {
        let long = "é".repeat(1 << 20);
        let parents = [
            FieldPath::of(&long),
            FieldPath::of("spec").child(&long),
            FieldPath::of("spec").key(&long),
        ];
        for parent in parents {
            for path in [
                parent.child("a"),
                parent.index(7),
                parent.key("b").child("c"),
            ] {
                assert!(path.as_str().len() <= MAX_PATH_BYTES + 1);
                assert!(path.as_str().ends_with("..."), "{path}");
            }
        }
        let exact = "x".repeat(MAX_PATH_BYTES - 4);
        assert_eq!(
            FieldPath::of("spec").child(&exact[1..]).as_str().len(),
            MAX_PATH_BYTES
        );
    }

    #[test]
    fn errors_read_as_kubernetes_errors() {
        let field = FieldPath::of("spec").child("x");
        let cases = [
            (FieldError::required(&field, ""), "spec.x: Required value"),
            (
                FieldError::required(&field, "why"),
                "spec.x: Required value: why",
            ),
            (
                FieldError::invalid(&field, &json!("v"), "bad"),
                "spec.x: Invalid value: \"v\": bad",
            ),
            (
                FieldError::invalid(&field, &json!(3), ""),
                "spec.x: Invalid value: 3",
            ),
            (
                FieldError::not_supported(&field, &json!("c"), &["A", "B"]),
                "spec.x: Unsupported value: \"c\": supported values: \"A\", \"B\"",
            ),
            (
                FieldError::duplicate(&field, &json!("c")),
                "spec.x: Duplicate value: \"c\"",
            ),
            (FieldError::forbidden(&field, "no"), "spec.x: Forbidden: no"),
            (
                FieldError::too_long(&field, 63),
                "spec.x: Too long: may not be more than 63 bytes",
            ),
            (
                FieldError::too_many(&field, 9, 8),
                "spec.x: Too many: 9: must have at most 8 items",
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn several_errors_are_bracketed_and_listed_once() {
        let a = FieldError::required(&FieldPath::of("a"), "");
        let b = FieldError::required(&FieldPath::of("b"), "");
        assert_eq!(join(std::slice::from_ref(&a)), "a: Required value");
        assert_eq!(
            join(&[a.clone(), b, a]),
            "[a: Required value, b: Required value]"
        );
    }
}
