//! Checks on single fields, from the table.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::LazyLock;

use polity_core::FieldPath;
use polity_core::name::{self, Check};
use polity_core::selector::LabelSelector;
use serde_json::{Value, json};

use super::{Errors, Object};

enum Rule {
    /// With the detail the error gives.
    Required(&'static str),
    OneOf(Vec<&'static str>),
    Min(i64),
    Positive,
    Range(i64, i64),
    Name(fn(&str) -> Check),
    Labels,
    Selector,
    /// Elements differ in this field.
    Unique(&'static str),
    Port,
    Amount,
    Ip,
}

static RULES: LazyLock<HashMap<&'static str, Vec<(&'static str, Rule)>>> = LazyLock::new(|| {
    let mut by_type: HashMap<_, Vec<_>> = HashMap::new();
    for line in include_str!("checks.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let columns: Vec<&'static str> = line.split('\t').collect();
        let [ty, field, rule, argument] = columns[..] else {
            unreachable!("checks.tsv has four columns: {line:?}")
        };
        by_type
            .entry(ty)
            .or_default()
            .push((field, parse(rule, argument)));
    }
    by_type
});

fn parse(rule: &'static str, argument: &'static str) -> Rule {
    let number = |text: &str| text.parse().expect("checks.tsv has a number here");
    match rule {
        "required" => Rule::Required(argument),
        "one-of" => Rule::OneOf(argument.split(',').collect()),
        "min" => Rule::Min(number(argument)),
        "positive" => Rule::Positive,
        "range" => {
            let (least, most) = argument.split_once('-').expect("a range has two ends");
            Rule::Range(number(least), number(most))
        }
        "dns-label" => Rule::Name(name::dns_label),
        "dns-subdomain" => Rule::Name(name::dns_subdomain),
        "dns-1035" => Rule::Name(name::dns_1035_label),
        "qualified-name" => Rule::Name(name::qualified_name),
        "path-segment" => Rule::Name(name::path_segment),
        "env-name" => Rule::Name(env_name),
        "port-name" => Rule::Name(port_name),
        "labels" => Rule::Labels,
        "selector" => Rule::Selector,
        "unique" => Rule::Unique(argument),
        "port" => Rule::Port,
        "amount" => Rule::Amount,
        "ip" => Rule::Ip,
        other => unreachable!("checks.tsv names check {other}"),
    }
}

/// Applies the rules of a type to one object of it.
pub(super) fn check(ty: &str, object: &Object, path: &FieldPath, errors: &mut Errors) {
    let mut missing = "";
    for (field, rule) in RULES.get(ty).into_iter().flatten() {
        let value = super::field(object, field);
        if *field == missing || !rule.concerns(value) {
            continue;
        }
        rule.check(value, &path.child(field), errors);
        if matches!(rule, Rule::Required(_)) {
            missing = field;
        }
    }
}

impl Rule {
    /// An absent field is only missing where it is required.
    fn concerns(&self, value: &Value) -> bool {
        match self {
            Self::Required(_) => is_absent(value),
            Self::Name(_) | Self::OneOf(_) => value.as_str().is_some_and(|text| !text.is_empty()),
            _ => !value.is_null(),
        }
    }

    fn check(&self, value: &Value, path: &FieldPath, errors: &mut Errors) {
        match self {
            Self::Required(detail) => errors.required(path, detail),
            Self::OneOf(supported) => {
                if !supported.contains(&value.as_str().unwrap_or_default()) {
                    errors.not_supported(path, value, supported);
                }
            }
            Self::Min(least) => {
                if value.as_i64().is_some_and(|number| number < *least) {
                    errors.invalid(
                        path,
                        value,
                        &format!("must be greater than or equal to {least}"),
                    );
                }
            }
            Self::Positive => {
                if value.as_i64().is_some_and(|number| number <= 0) {
                    errors.invalid(path, value, "must be greater than 0");
                }
            }
            Self::Range(least, most) => {
                if value
                    .as_i64()
                    .is_some_and(|number| !(*least..=*most).contains(&number))
                {
                    errors.invalid(
                        path,
                        value,
                        &format!("must be between {least} and {most}, inclusive"),
                    );
                }
            }
            Self::Name(check) => {
                errors.named(path, value, check(value.as_str().unwrap_or_default()));
            }
            Self::Labels => labels(value, path, errors),
            Self::Selector => selector(value, path, errors),
            Self::Unique(key) => unique(value, key, path, errors),
            Self::Port => port(value, path, errors),
            Self::Amount => amount(value, path, errors),
            Self::Ip => ip(value, path, errors),
        }
    }
}

/// Whether the value is missing or the zero value in Go.
pub(super) fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Object(_) | Value::Bool(_) => false,
    }
}

/// A map of labels: keys and values in their formats.
pub(super) fn labels(value: &Value, path: &FieldPath, errors: &mut Errors) {
    for (key, value) in value.as_object().into_iter().flatten() {
        if errors.0.is_full() {
            return;
        }
        errors.named(path, &json!(key), name::qualified_name(key));
        errors.named(
            path,
            value,
            name::label_value(value.as_str().unwrap_or_default()),
        );
    }
}

pub(super) fn selector(value: &Value, path: &FieldPath, errors: &mut Errors) {
    if let Err(found) = LabelSelector::from_json(value, path) {
        errors.0.extend(found);
    }
}

fn unique(value: &Value, key: &str, path: &FieldPath, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        let Some(name) = item
            .get(key)
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty())
        else {
            continue;
        };
        if !seen.insert(name) {
            errors.duplicate(&path.index(index).child(key), &json!(name));
        }
    }
}

/// A port, by number or by name.
pub(super) fn port(value: &Value, path: &FieldPath, errors: &mut Errors) {
    match value {
        Value::Number(number)
            if !number
                .as_i64()
                .is_some_and(|port| (1..=65535).contains(&port)) =>
        {
            errors.invalid(path, value, "must be between 1 and 65535, inclusive");
        }
        Value::String(text) => errors.named(path, value, port_name(text)),
        _ => {}
    }
}

/// An address of either family.
pub(super) fn ip(value: &Value, path: &FieldPath, errors: &mut Errors) {
    if value
        .as_str()
        .unwrap_or_default()
        .parse::<IpAddr>()
        .is_err()
    {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.invalid(path, value, detail);
    }
}

/// A number that is not negative, or a percentage.
fn amount(value: &Value, path: &FieldPath, errors: &mut Errors) {
    match value {
        Value::Number(number) if number.as_i64().is_none_or(|number| number < 0) => {
            errors.invalid(path, value, "must be greater than or equal to 0");
        }
        Value::String(text) if percent(text).is_none() => errors.invalid(
            path,
            value,
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
        ),
        _ => {}
    }
}

/// The number before a percent sign.
pub(super) fn percent(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty())?;
    digits
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| digits.parse().unwrap_or(u64::MAX))
}

/// The name of an environment variable: anything printable but `=`.
fn env_name(text: &str) -> Check {
    if text
        .bytes()
        .all(|b| (b' '..=b'~').contains(&b) && b != b'=')
    {
        return Ok(());
    }
    Err(vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".into()])
}

/// The name of a port: up to 15 letters, digits and single dashes, at least one of them a letter.
pub(super) fn port_name(text: &str) -> Check {
    let mut wrong = Vec::new();
    if text.len() > 15 {
        wrong.push("must be no more than 15 characters".to_owned());
    }
    if !text
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    {
        wrong.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    #[test]
    fn every_line_of_the_table_names_a_field() {
        let has = |message: &wire::Message, field: &str| {
            message.fields.iter().any(|known| known.name == field)
        };
        for (ty, rules) in RULES.iter() {
            let message = wire::table()
                .by_type(ty)
                .unwrap_or_else(|| panic!("{ty} is a type"));
            for (field, _) in rules {
                let inline = message.fields.iter().filter_map(|known| match known.ty {
                    wire::FieldType::Message(id) if known.presence == wire::Presence::Inline => {
                        Some(wire::table().message(id))
                    }
                    _ => None,
                });
                let known =
                    has(message, field) || inline.into_iter().any(|inner| has(inner, field));
                assert!(known, "{ty} has {field}");
            }
        }
    }
}
