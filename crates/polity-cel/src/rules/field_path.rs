//! The `fieldPath` of a rule: `.spec.replicas` or `.labels['app.kubernetes.io/name']`.

use polity_core::FieldPath;
use serde_json::Value;

/// The path as errors print it, or `None` if the schema does not contain it.
pub(super) fn normalize(path: &str, schema: &Value) -> Option<String> {
    let mut rest = path;
    let mut schema = schema;
    let mut found = FieldPath::root();
    while !rest.is_empty() {
        let name;
        (name, rest) = next_name(rest)?;
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            schema = properties.get(&name)?;
            found = found.child(&name);
        } else {
            schema = schema
                .get("additionalProperties")
                .filter(|additional| additional.is_object())?;
            found = found.key(&name);
        }
    }
    Some(found.to_string())
}

/// The first accessor of a path, and the rest.
fn next_name(path: &str) -> Option<(String, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        return (end > 0).then(|| (rest[..end].to_owned(), &rest[end..]));
    }
    let mut name = String::new();
    let mut rest = path.strip_prefix("['")?.chars();
    loop {
        match rest.next()? {
            '\'' => break,
            '\\' => name.push(match rest.next()? {
                'a' => '\x07',
                'b' => '\x08',
                'f' => '\x0c',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\x0b',
                quoted @ ('\'' | '\\') => quoted,
                _ => return None,
            }),
            other => name.push(other),
        }
    }
    Some((name, rest.as_str().strip_prefix(']')?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn field_paths_are_looked_up_in_the_schema() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"a.b": {"type": "string"}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        }});
        let cases = [
            (".spec", Some("spec")),
            (".spec['a.b']", Some("spec.a.b")),
            ("['spec']", Some("spec")),
            (".labels.app", Some("labels[app]")),
            (".labels['it\\'s']", Some("labels[it's]")),
            (".labels.app.x", None),
            (".nope", None),
            ("spec", None),
            (".", None),
            (".spec[0]", None),
            (".spec['a.b'", None),
            (".labels['\\q']", None),
        ];
        for (path, expected) in cases {
            assert_eq!(normalize(path, &schema).as_deref(), expected, "{path}");
        }
    }
}
