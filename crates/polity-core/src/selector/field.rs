//! Field selectors: equality on fields that a kind offers for it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Whether a field must have the value or must not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldOperator {
    Equals,
    NotEquals,
}

/// One condition on one field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldRequirement {
    /// The field as it was written, such as `metadata.name`; whether a kind has it is the caller's business.
    pub field: String,
    pub operator: FieldOperator,
    pub value: String,
}

/// Requirements that must all hold; none at all selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// A text that is no field selector, in the words of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    NoOperator { selector: String, term: String },
    #[error("invalid field selector: invalid escape sequence: {sequence}")]
    InvalidEscape { sequence: String },
    // Kubernetes prints the character as its number.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.character))]
    Unescaped { character: char },
}

impl FieldSelector {
    /// All of these requirements.
    pub fn of(requirements: impl IntoIterator<Item = FieldRequirement>) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort();
        Self { requirements }
    }

    /// The requirements, in the order of their fields.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The value a field must have, if one is demanded: lets a list by name be a get.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|requirement| {
                requirement.field == field && requirement.operator == FieldOperator::Equals
            })
            .map(|requirement| requirement.value.as_str())
    }

    /// Whether an object is selected whose fields `value_of` tells; an absent one compares as empty.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<Cow<'a, str>>) -> bool {
        self.requirements.iter().all(|requirement| {
            let is_equal = value_of(&requirement.field).unwrap_or_default() == requirement.value;
            is_equal == (requirement.operator == FieldOperator::Equals)
        })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (
            index,
            FieldRequirement {
                field,
                operator,
                value,
            },
        ) in self.requirements.iter().enumerate()
        {
            let comma = if index == 0 { "" } else { "," };
            let operator = match operator {
                FieldOperator::Equals => "=",
                FieldOperator::NotEquals => "!=",
            };
            write!(f, "{comma}{field}{operator}{}", escape(value))?;
        }
        Ok(())
    }
}

impl FromStr for FieldSelector {
    type Err = FieldSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, operator, value)) = split_term(term) else {
                return Err(FieldSelectorError::NoOperator {
                    selector: text.to_owned(),
                    term: term.to_owned(),
                });
            };
            requirements.push(FieldRequirement {
                field: field.to_owned(),
                operator,
                value: unescape(value)?,
            });
        }
        Ok(Self::of(requirements))
    }
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut is_escaped = false;
    text.split(|c| {
        let splits = c == ',' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        splits
    })
    .collect()
}

/// Splits at the first operator; a field cannot contain one.
fn split_term(term: &str) -> Option<(&str, FieldOperator, &str)> {
    let equals = term.find('=')?;
    let (field, rest) = term.split_at(equals);
    if let Some(field) = field.strip_suffix('!') {
        return Some((field, FieldOperator::NotEquals, rest.strip_prefix('=')?));
    }
    let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
    Some((field, FieldOperator::Equals, value))
}

fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn unescape(text: &str) -> Result<String, FieldSelectorError> {
    let mut value = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                other => {
                    let sequence = std::iter::once('\\').chain(other).collect();
                    return Err(FieldSelectorError::InvalidEscape { sequence });
                }
            },
            ',' | '=' => return Err(FieldSelectorError::Unescaped { character: c }),
            _ => value.push(c),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn written_selectors_print_canonically() {
        for (text, canonical) in [
            ("", ""),
            (",,", ""),
            ("a=b", "a=b"),
            ("a==b", "a=b"),
            ("a!=b", "a!=b"),
            ("b=2,a=1", "a=1,b=2"),
            ("involvedObject.namespace=", "involvedObject.namespace="),
            (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
            ("a=b!", "a=b!"),
            ("=x", "=x"),
        ] {
            assert_eq!(
                text.parse::<FieldSelector>().unwrap().to_string(),
                canonical,
                "{text:?}"
            );
        }
    }

    #[test]
    fn mistakes_are_errors() {
        for (text, expected) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
            (
                "a===b",
                "invalid field selector: unescaped character in value: 61",
            ),
            (
                r"a=\b",
                r"invalid field selector: invalid escape sequence: \b",
            ),
            (
                r"a=b\",
                r"invalid field selector: invalid escape sequence: \",
            ),
        ] {
            assert_eq!(
                text.parse::<FieldSelector>().unwrap_err().to_string(),
                expected,
                "{text:?}"
            );
        }
    }

    #[test]
    fn requirements_select_by_field_value() {
        let fields = |field: &str| match field {
            "metadata.name" => Some(Cow::Borrowed("web")),
            "spec.hostNetwork" => Some(Cow::Owned(true.to_string())),
            _ => None,
        };
        for (text, expected) in [
            ("", true),
            ("metadata.name=web", true),
            ("metadata.name!=web", false),
            ("metadata.name=web,spec.hostNetwork==true", true),
            ("metadata.name=web,spec.hostNetwork=false", false),
            ("involvedObject.namespace=", true),
            ("involvedObject.namespace!=", false),
        ] {
            assert_eq!(
                text.parse::<FieldSelector>().unwrap().matches(fields),
                expected,
                "{text:?}"
            );
        }
        let selector: FieldSelector = "metadata.name!=a,metadata.name=b".parse().unwrap();
        assert_eq!(selector.exact("metadata.name"), Some("b"));
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_back(
            terms in proptest::collection::vec(("[a-z.]{1,6}", any::<bool>(), "\\PC{0,8}"), 0..4)
        ) {
            let selector = FieldSelector::of(terms.into_iter().map(|(field, equal, value)| FieldRequirement {
                field,
                operator: if equal { FieldOperator::Equals } else { FieldOperator::NotEquals },
                value,
            }));
            prop_assert_eq!(selector.to_string().parse::<FieldSelector>().unwrap(), selector);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}|[a-c=!,\\\\é]{0,20}") {
            if let Ok(selector) = text.parse::<FieldSelector>() {
                prop_assert_eq!(selector.to_string().parse::<FieldSelector>().unwrap(), selector);
            }
        }
    }
}
