//! Values by their printed form, by which lists are compared and sorted. See docs/spec/governance.md#11-4.

use polity_core::go_text;
use serde_json::Value;

/// Whether two values have the same printed form, without printing where that can be seen at once.
pub(crate) fn same_text(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        _ => a == b || go_text::value(a) == go_text::value(b),
    }
}

/// How Go calls the type of a decoded value.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_text_may_come_from_other_types() {
        assert!(same_text(&json!("80"), &json!(80)));
        assert!(same_text(&json!("true"), &json!(true)));
        assert!(!same_text(&json!("a"), &json!("b")));
        assert!(same_text(&json!("[a b]"), &json!(["a", "b"])));
    }
}
