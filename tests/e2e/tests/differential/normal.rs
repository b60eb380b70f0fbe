//! Removes everything from a response that differs between servers: times, ids, versions, addresses, random names.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::servers::Response;

/// Patterns and their replacements in all strings.
static TEXTS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    [
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "<uid>",
        ),
        (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z", "<time>"),
        (r"\b127\.0\.0\.1:\d+", "<address>"),
        (r"current: \d+$", "current: <version>"),
        (r"\bBad_[0-9a-z]{5}\b", "Bad_<random>"),
        // A source location in messages of the real server.
        (r#" in scheme "pkg/runtime/scheme.go:\d+""#, ""),
    ]
    .map(|(pattern, shown)| {
        (
            Regex::new(pattern).expect("the pattern is a constant"),
            shown,
        )
    })
    .into()
});

/// The field managers of the servers themselves.
const OWN_MANAGERS: &[&str] = &["polity", "kube-apiserver", "kube-controller-manager"];

/// The response as one JSON value with only the parts to compare.
pub(crate) fn normalise(
    response: &Response,
    is_watch: bool,
    variables: &BTreeMap<String, String>,
) -> Value {
    let header = |name: &str| {
        response
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let warnings: Vec<&str> = response
        .headers
        .get_all("warning")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let text = String::from_utf8_lossy(&response.body);
    let mut body = match serde_json::from_str::<Value>(&text) {
        Ok(body) if !is_watch => body,
        _ if is_watch && response.code.is_success() => events(&text),
        Ok(body) => body,
        Err(_) => json!(text),
    };
    clean(&mut body, "");
    sort_causes(&mut body);
    let mut shown = json!({
        "code": response.code.as_u16(),
        "type": header("content-type"),
        "warnings": warnings,
        "body": body,
    });
    replace_saved(&mut shown, variables);
    shown
}

/// The events of a watch. Bookmarks are removed because their number varies, except the one that ends the initial
/// events.
fn events(text: &str) -> Value {
    let events = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| json!(line)));
    events
        .filter(|event: &Value| {
            event["type"] != "BOOKMARK" || event.to_string().contains("initial-events-end")
        })
        .collect()
}

fn clean(value: &mut Value, key: &str) {
    match value {
        Value::Object(members) => clean_object(members),
        Value::Array(items) => {
            items.iter_mut().for_each(|item| clean(item, key));
            // Rules are listed in the order in which the bindings became known.
            if matches!(key, "resourceRules" | "nonResourceRules") {
                items.sort_by_key(Value::to_string);
            }
            if key == "managedFields" {
                // Entries are ordered by time, and their times may be equal on one server only.
                items.sort_by_key(|entry| {
                    ["operation", "manager", "apiVersion", "subresource"]
                        .map(|name| entry[name].to_string())
                });
            }
        }
        Value::String(text) => {
            let numeric = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            match key {
                "resourceVersion" if numeric && text != "0" => *text = "<version>".into(),
                "continue" if !text.is_empty() => *text = "<token>".into(),
                "clusterIP" | "clusterIPs" if text != "None" => *text = "<cluster ip>".into(),
                "token" if text.len() > 100 => *text = "<jwt>".into(),
                "hash" => *text = "<hash>".into(),
                "ca.crt" => *text = "<authority>".into(),
                "cells" if is_age(text) => *text = "<age>".into(),
                "manager" if OWN_MANAGERS.contains(&text.as_str()) => *text = "<the server>".into(),
                _ => {
                    for (pattern, shown) in TEXTS.iter() {
                        if pattern.is_match(text) {
                            *text = pattern.replace_all(text, *shown).into_owned();
                        }
                    }
                }
            }
        }
        Value::Number(_) if key == "nodePort" => *value = json!("<port>"),
        _ => {}
    }
}

fn clean_object(members: &mut Map<String, Value>) {
    let prefix = members
        .get("generateName")
        .and_then(Value::as_str)
        .map(str::to_owned);
    if let (Some(prefix), Some(Value::String(name))) = (prefix, members.get_mut("name"))
        && name.len() == prefix.len() + 5
        && name.starts_with(&prefix)
    {
        *name = format!("{prefix}<random>");
    }
    for (key, member) in members.iter_mut() {
        clean(member, key);
    }
    // Keys of field sets contain ids too.
    let renamed: Vec<String> = members
        .keys()
        .filter(|key| TEXTS[0].0.is_match(key))
        .cloned()
        .collect();
    for key in renamed {
        if let Some(member) = members.remove(&key) {
            members.insert(
                TEXTS[0].0.replace_all(&key, TEXTS[0].1).into_owned(),
                member,
            );
        }
    }
}

/// The order of several causes is undefined: the real server collects some of them from maps.
fn sort_causes(status: &mut Value) {
    let Some(causes) = status
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut)
        .filter(|causes| causes.len() > 1)
    else {
        return;
    };
    causes.sort_by_key(|cause| (cause["field"].to_string(), cause["message"].to_string()));
    if let Some(Value::String(message)) = status.get_mut("message")
        && let Some((head, _)) = message.split_once(" is invalid: [")
    {
        *message = format!("{head} is invalid: [<causes>]");
    }
}

/// A cell of a table such as `5s`.
fn is_age(text: &str) -> bool {
    text.strip_suffix('s').is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// A saved version or uid in a message differs between the servers.
fn replace_saved(value: &mut Value, variables: &BTreeMap<String, String>) {
    match value {
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| replace_saved(member, variables)),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| replace_saved(item, variables)),
        Value::String(text) => {
            for (variable, saved) in variables.iter().filter(|(variable, saved)| {
                !["ns", "group", "hook", "ca"].contains(&variable.as_str()) && saved.len() > 1
            }) {
                *text = text.replace(saved, &format!("<{variable}>"));
            }
        }
        _ => {}
    }
}
