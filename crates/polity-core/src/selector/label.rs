//! Label selectors: what they mean, their JSON form (`matchLabels`, `matchExpressions`) and how they print.

mod parse;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value, json};

use crate::field::{FieldError, FieldErrors, FieldPath};
use crate::name;

/// Something with labels to look up.
pub trait Labels {
    /// The value of the label `key`, if there is one.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels for Map<String, Value> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }
}

/// `metadata.labels` as it stands in an object; anything but a JSON object has no labels.
impl Labels for Value {
    fn label(&self, key: &str) -> Option<&str> {
        self.as_object()?.label(key)
    }
}

impl<L: Labels> Labels for Option<L> {
    fn label(&self, key: &str) -> Option<&str> {
        self.as_ref()?.label(key)
    }
}

impl<L: Labels + ?Sized> Labels for &L {
    fn label(&self, key: &str) -> Option<&str> {
        (**self).label(key)
    }
}

/// How a requirement relates a label to its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelOperator {
    Equals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// One condition on one label; only valid ones exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelRequirement {
    key: String,
    operator: LabelOperator,
    values: BTreeSet<String>,
}

impl LabelRequirement {
    /// Builds a requirement, checking the key, the values and how many there are.
    pub fn new(
        key: impl Into<String>,
        operator: LabelOperator,
        values: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, LabelSelectorError> {
        let requirement = Self {
            key: key.into(),
            operator,
            values: values.into_iter().map(Into::into).collect(),
        };
        let errors = requirement.complaints();
        if errors.is_empty() {
            Ok(requirement)
        } else {
            Err(LabelSelectorError::requirement(&errors))
        }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn operator(&self) -> LabelOperator {
        self.operator
    }

    /// The values in byte order, each once.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.iter().map(String::as_str)
    }

    /// Whether the labels satisfy this requirement. `!=` and `notin` also hold without the label.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        let found = labels.label(&self.key);
        match self.operator {
            LabelOperator::Equals | LabelOperator::In => {
                found.is_some_and(|value| self.values.contains(value))
            }
            LabelOperator::NotEquals | LabelOperator::NotIn => {
                found.is_none_or(|value| !self.values.contains(value))
            }
            LabelOperator::Exists => found.is_some(),
            LabelOperator::DoesNotExist => found.is_none(),
            LabelOperator::GreaterThan => self
                .compare(found)
                .is_some_and(|(label, bound)| label > bound),
            LabelOperator::LessThan => self
                .compare(found)
                .is_some_and(|(label, bound)| label < bound),
        }
    }

    fn compare(&self, found: Option<&str>) -> Option<(i64, i64)> {
        Some((found?.parse().ok()?, self.values.first()?.parse().ok()?))
    }

    fn complaints(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let values = FieldPath::of("values");
        if let Err(wrong) = name::qualified_name(&self.key) {
            errors.push(FieldError::invalid(
                &FieldPath::of("key"),
                &json!(self.key),
                &wrong.join("; "),
            ));
        }
        let count_is_wrong = match self.operator {
            LabelOperator::In | LabelOperator::NotIn if self.values.is_empty() => {
                Some("for 'in', 'notin' operators, values set can't be empty")
            }
            LabelOperator::Equals | LabelOperator::NotEquals if self.values.len() != 1 => {
                Some("exact-match compatibility requires one single value")
            }
            LabelOperator::Exists | LabelOperator::DoesNotExist if !self.values.is_empty() => {
                Some("values set must be empty for exists and does not exist")
            }
            LabelOperator::GreaterThan | LabelOperator::LessThan if self.values.len() != 1 => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => None,
        };
        if let Some(detail) = count_is_wrong {
            errors.push(FieldError::invalid(&values, &json!(self.values), detail));
        }
        let is_numeric = matches!(
            self.operator,
            LabelOperator::GreaterThan | LabelOperator::LessThan
        );
        for (index, value) in self.values.iter().enumerate() {
            if is_numeric && value.parse::<i64>().is_err() {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(
                    &values.index(index),
                    &json!(value),
                    detail,
                ));
            }
        }
        for (index, value) in self.values.iter().enumerate() {
            if let Err(wrong) = name::label_value(value) {
                let field = values.index(index).key(&self.key);
                errors.push(FieldError::invalid(
                    &field,
                    &json!(value),
                    &wrong.join("; "),
                ));
            }
        }
        errors
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            operator,
            values,
        } = self;
        let values = values
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(",");
        match operator {
            LabelOperator::Equals => write!(f, "{key}={values}"),
            LabelOperator::NotEquals => write!(f, "{key}!={values}"),
            LabelOperator::In => write!(f, "{key} in ({values})"),
            LabelOperator::NotIn => write!(f, "{key} notin ({values})"),
            LabelOperator::Exists => write!(f, "{key}"),
            LabelOperator::DoesNotExist => write!(f, "!{key}"),
            LabelOperator::GreaterThan => write!(f, "{key}>{values}"),
            LabelOperator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// A text that is no label selector, in the words of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LabelSelectorError {
    message: String,
}

impl LabelSelectorError {
    fn new(message: String) -> Self {
        Self { message }
    }

    fn requirement(errors: &[FieldError]) -> Self {
        Self::new(crate::field::join(errors))
    }
}

/// Requirements that must all hold. The string grammar is parsed by `FromStr`, the JSON form by
/// [`LabelSelector::from_json`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LabelSelector {
    /// Selects no object, whatever its labels; what an absent selector means in most places. Prints as
    /// the empty string, as it has no written form.
    Nothing,
    /// All of these, in the order of their keys; none at all selects everything.
    All(Vec<LabelRequirement>),
}

impl LabelSelector {
    /// The selector without requirements.
    pub fn everything() -> Self {
        Self::All(Vec::new())
    }

    /// All of these requirements.
    pub fn of(requirements: impl IntoIterator<Item = LabelRequirement>) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self::All(requirements)
    }

    /// Exactly these labels, unchecked: what a workload's `selector` map means.
    pub fn from_labels<K: Into<String>, V: Into<String>>(
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        Self::of(labels.into_iter().map(|(key, value)| LabelRequirement {
            key: key.into(),
            operator: LabelOperator::Equals,
            values: BTreeSet::from([value.into()]),
        }))
    }

    /// Reads the JSON form at `path`: null selects nothing, `{}` everything. Of the errors, the first
    /// [`MAX_ERRORS`](crate::field::MAX_ERRORS) are returned.
    pub fn from_json(selector: &Value, path: &FieldPath) -> Result<Self, Vec<FieldError>> {
        if selector.is_null() {
            return Ok(Self::Nothing);
        }
        let Some(selector) = selector.as_object() else {
            return Err(vec![wrong_type(path, selector, "object")]);
        };
        let mut errors = FieldErrors::default();
        let mut requirements = Vec::new();
        let labels_path = path.child("matchLabels");
        for (key, value) in members(selector.get("matchLabels"), &labels_path, &mut errors) {
            if errors.is_full() {
                break;
            }
            match value.as_str() {
                Some(value) => requirements.extend(equals(key, value, &labels_path, &mut errors)),
                None => errors.push(wrong_type(&labels_path.key(key), value, "string")),
            }
        }
        let expressions_path = path.child("matchExpressions");
        let expressions = elements(
            selector.get("matchExpressions"),
            &expressions_path,
            &mut errors,
        );
        for (index, expression) in expressions.iter().enumerate() {
            if errors.is_full() {
                break;
            }
            requirements.extend(expressed(
                expression,
                &expressions_path.index(index),
                &mut errors,
            ));
        }
        if errors.is_empty() {
            Ok(Self::of(requirements))
        } else {
            Err(errors.into_vec())
        }
    }

    /// The requirements; `None` when nothing can match.
    pub fn requirements(&self) -> Option<&[LabelRequirement]> {
        match self {
            Self::Nothing => None,
            Self::All(requirements) => Some(requirements),
        }
    }

    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements().is_some_and(<[_]>::is_empty)
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        self.requirements()
            .is_some_and(|all| all.iter().all(|requirement| requirement.matches(labels)))
    }
}

impl Default for LabelSelector {
    fn default() -> Self {
        Self::everything()
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().unwrap_or_default().iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

/// One `matchLabels` entry. All its complaints are about the map, as Kubernetes has them.
fn equals(
    key: &str,
    value: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) -> Option<LabelRequirement> {
    let before = errors.len();
    for wrong in name::qualified_name(key).err().unwrap_or_default() {
        errors.push(FieldError::invalid(path, &json!(key), &wrong));
    }
    for wrong in name::label_value(value).err().unwrap_or_default() {
        errors.push(FieldError::invalid(path, &json!(value), &wrong));
    }
    (errors.len() == before).then(|| LabelRequirement {
        key: key.to_owned(),
        operator: LabelOperator::Equals,
        values: BTreeSet::from([value.to_owned()]),
    })
}

/// One `matchExpressions` entry.
fn expressed(
    expression: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) -> Option<LabelRequirement> {
    let before = errors.len();
    let text = |field: &str| {
        expression
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (key, operator) = (text("key"), text("operator"));
    let values_path = path.child("values");
    let mut values = Vec::new();
    for (index, value) in elements(expression.get("values"), &values_path, errors)
        .iter()
        .enumerate()
    {
        match value.as_str() {
            Some(value) => values.push(value.to_owned()),
            None => errors.add(|| wrong_type(&values_path.index(index), value, "string")),
        }
    }
    let parsed = match operator {
        "In" => Some(LabelOperator::In),
        "NotIn" => Some(LabelOperator::NotIn),
        "Exists" => Some(LabelOperator::Exists),
        "DoesNotExist" => Some(LabelOperator::DoesNotExist),
        _ => None,
    };
    match parsed {
        Some(LabelOperator::In | LabelOperator::NotIn) if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&values_path, detail));
        }
        Some(LabelOperator::Exists | LabelOperator::DoesNotExist) if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&values_path, detail));
        }
        None => {
            let field = path.child("operator");
            errors.push(FieldError::invalid(
                &field,
                &json!(operator),
                "not a valid selector operator",
            ));
        }
        Some(_) => {}
    }
    for wrong in name::qualified_name(key).err().unwrap_or_default() {
        errors.push(FieldError::invalid(&path.child("key"), &json!(key), &wrong));
    }
    for (index, value) in values.iter().enumerate() {
        for wrong in name::label_value(value).err().unwrap_or_default() {
            errors.add(|| FieldError::invalid(&values_path.index(index), &json!(value), &wrong));
        }
    }
    let operator = parsed.filter(|_| errors.len() == before)?;
    Some(LabelRequirement {
        key: key.to_owned(),
        operator,
        values: values.into_iter().collect(),
    })
}

fn members<'a>(
    value: Option<&'a Value>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    let map = match value {
        None | Some(Value::Null) => None,
        Some(Value::Object(map)) => Some(map),
        Some(other) => {
            errors.push(wrong_type(path, other, "object"));
            None
        }
    };
    map.into_iter().flatten()
}

fn elements<'a>(
    value: Option<&'a Value>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) -> &'a [Value] {
    match value {
        None | Some(Value::Null) => &[],
        Some(Value::Array(list)) => list,
        Some(other) => {
            errors.push(wrong_type(path, other, "array"));
            &[]
        }
    }
}

fn wrong_type(path: &FieldPath, value: &Value, wanted: &str) -> FieldError {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    FieldError::type_invalid(path, &json!(kind), &format!("must be of type {wanted}"))
}

#[cfg(test)]
mod tests;
