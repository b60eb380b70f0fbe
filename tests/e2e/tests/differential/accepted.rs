//! Accepted differences, each with its reason. An entry that matches nothing is a failure, so the list stays short.

use serde_json::Value;

use crate::compare::Difference;

/// A difference that the suite accepts.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// Part of the case's name. Empty matches all cases.
    pub(crate) case: &'static str,
    /// The JSON pointer of the member. One `*` matches any text.
    pub(crate) at: &'static str,
    /// Part of the real server's value. Empty matches any value.
    pub(crate) real: &'static str,
    pub(crate) reason: &'static str,
}

const fn accept(
    case: &'static str,
    at: &'static str,
    real: &'static str,
    reason: &'static str,
) -> Accepted {
    Accepted {
        case,
        at,
        real,
        reason,
    }
}

const PARSER: &str = "another parser finds the same fault in other words";
const GO_TYPES: &str = "shows Go types and fields that do not exist here";
const PATCHED: &str = "both show the patched object, each with its members in its own order";
const NEVER_STORED: &str = "what is never stored has no owners of fields here";
const STATUS_ALONE: &str = "a status is checked as a part of its object, and once";
const CHOSEN: &str = "ours is another product";

pub(crate) const ACCEPTED: &[Accepted] = &[
    // Different wording.
    accept(
        "",
        "/body/message",
        "the object provided is unrecognized",
        PARSER,
    ),
    accept(
        "",
        "/body/message",
        "couldn't get version/kind; json parse error",
        PARSER,
    ),
    accept(
        "apply: refusals",
        "/body/message",
        "error encoding patch: yaml",
        PARSER,
    ),
    accept(
        "lists: pages",
        "/body/message",
        "looking for beginning of value",
        PARSER,
    ),
    accept(
        "crd: invalid",
        "/body/*message",
        "error parsing regexp",
        PARSER,
    ),
    accept(
        "cel: libraries",
        "/body/*message",
        "quantities must match",
        PARSER,
    ),
    accept(
        "webhooks: bad patches",
        "/body/*message",
        "operation does not apply",
        PARSER,
    ),
    accept("", "/body/*message", "patch: Invalid value: \"{", PATCHED),
    accept(
        "",
        "/body/details/causes/0/message",
        "Invalid value: \"{",
        PATCHED,
    ),
    accept(
        "patch: unknown",
        "/body/*message",
        "Invalid value: \"map[",
        PATCHED,
    ),
    accept("", "/body/message", "unknown conversion", GO_TYPES),
    accept(
        "",
        "/body/message",
        "the requested object is a list (*core",
        GO_TYPES,
    ),
    accept(
        "crd: invalid",
        "/body/*message",
        "\"Storage\":false",
        GO_TYPES,
    ),
    accept("builtins: pods", "/body/*message", "@@ -", GO_TYPES),
    accept(
        "crud: bad metadata",
        "/body/*message",
        "\"uid\":\"1\",\"controller\":true",
        GO_TYPES,
    ),
    accept(
        "",
        "/body/message",
        "StorageError: invalid object",
        "ours has no etcd and no keys in it",
    ),
    accept(
        "",
        "/body/message",
        "application/vnd.kubernetes.protobuf",
        "N10: protobuf is read, never written",
    ),
    accept(
        "crud: field managers",
        "/body/*message",
        "U+0007",
        "JSON spells control characters in its own way",
    ),
    accept(
        "",
        "/*/description",
        "",
        "columns are described in our own words",
    ),
    // Deliberate choices.
    accept("", "/body/compiler", "", CHOSEN),
    accept("", "/body/git*", "", CHOSEN),
    accept("", "/body/goVersion", "", CHOSEN),
    accept(
        "rbac: service accounts",
        "/body/*/audiences/0",
        "",
        "every cluster of a fleet is an issuer of its own",
    ),
    accept(
        "builtins: endpoints on loopback",
        "/*",
        "",
        "AD8b: Pods of the local runtime live on loopback",
    ),
    accept(
        "watch: old paths",
        "/*",
        "",
        "U6: the old watch paths are left out",
    ),
    accept("malformed: head", "/*", "", "U4: HEAD is served like GET"),
    accept(
        "crud: what only",
        "/body/metadata/generation",
        "",
        "M5: the generation is the server's",
    ),
    accept(
        "",
        "/body/resources/*/storageVersionHash",
        "",
        "D5: it may be left out",
    ),
    accept(
        "",
        "/*/managedFields/*/time",
        "",
        "the real server forgets when a scale was written",
    ),
    accept(
        "",
        "/*/f:metadata",
        "daemonset.template.generation",
        "an annotation for clients of an API that is gone",
    ),
    accept(
        "",
        "/body/metadata/annotations",
        "daemonset.template.generation",
        "an annotation for clients of an API that is gone",
    ),
    accept(
        "rbac: users cannot grant",
        "/body/metadata/managedFields",
        "f:rules",
        "an empty list is no list, also before it is stored",
    ),
    accept("crd: status", "/body/*", "replicas", STATUS_ALONE),
    accept(
        "crd: status",
        "/body/details/causes/0/reason",
        "FieldValueInvalid",
        STATUS_ALONE,
    ),
    accept("crd: status", "/body/message", "<causes>", STATUS_ALONE),
    accept(
        "rbac: reviews",
        "/body/metadata/managedFields",
        "",
        NEVER_STORED,
    ),
    accept(
        "rbac: service accounts",
        "/body/metadata/managedFields",
        "",
        NEVER_STORED,
    ),
];

/// Finds the entry that covers a difference.
pub(crate) fn covering(case: &str, difference: &Difference) -> Option<usize> {
    let real = difference
        .real
        .as_ref()
        .map_or_else(String::new, |value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
    ACCEPTED.iter().position(|accepted| {
        case.contains(accepted.case)
            && is_at(accepted.at, &difference.at)
            && real.contains(accepted.real)
    })
}

fn is_at(pattern: &str, pointer: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == pointer,
        Some((start, rest)) => match pointer.strip_prefix(start) {
            None => false,
            Some(pointer) => (0..=pointer.len())
                .filter(|at| pointer.is_char_boundary(*at))
                .any(|at| is_at(rest, &pointer[at..])),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        assert!(is_at("/body/message", "/body/message"));
        assert!(!is_at("/body/message", "/body/messages"));
        assert!(is_at("/body/*/x", "/body/a/b/x"));
        assert!(is_at(
            "/*/managedFields/*/time",
            "/body/metadata/managedFields/0/time"
        ));
        assert!(!is_at("/body/*/x", "/body/a/y"));
    }
}
