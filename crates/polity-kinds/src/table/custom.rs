//! Printer columns of custom resources.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Column, column, human_duration, text};
use crate::jsonpath::{JsonPath, JsonPathError};

/// The table of one version of a custom resource.
#[derive(Debug, Clone)]
pub struct CustomTable {
    columns: Vec<Column>,
    /// One for each column after the name.
    paths: Vec<JsonPath>,
}

impl CustomTable {
    /// Reads `additionalPrinterColumns`; without any, the age is shown.
    pub fn new(printer_columns: &[Value]) -> Result<Self, JsonPathError> {
        let age = [json!({
            "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
            "description": "Time since the object was created.",
        })];
        let given = if printer_columns.is_empty() {
            &age[..]
        } else {
            printer_columns
        };
        let mut table = Self {
            columns: vec![column("Name", "string", 0, "")],
            paths: Vec::new(),
        };
        for definition in given {
            let path = text(definition, "jsonPath");
            table.paths.push(path.parse()?);
            let description = match text(definition, "description") {
                "" => format!("The value at {path}."),
                given => given.to_owned(),
            };
            table.columns.push(Column {
                name: text(definition, "name").to_owned(),
                ty: text(definition, "type").to_owned(),
                format: text(definition, "format").to_owned(),
                description,
                priority: definition["priority"]
                    .as_i64()
                    .and_then(|n| i32::try_from(n).ok())
                    .unwrap_or_default(),
            });
        }
        Ok(table)
    }

    /// The columns, the name first.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The cells of one object, one for each column. A cell is null if the path matches nothing.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = json!(text(object, "metadata.name"));
        let types = self.columns.iter().skip(1).map(|column| column.ty.as_str());
        let rest = self
            .paths
            .iter()
            .zip(types)
            .map(|(path, ty)| match path.first(object) {
                Some(value) => cell(ty, value, now),
                None => Value::Null,
            });
        std::iter::once(name).chain(rest).collect()
    }
}

fn cell(ty: &str, value: &Value, now: Timestamp) -> Value {
    match (ty, value) {
        ("string", Value::Null) => Value::Null,
        ("string", Value::String(text)) => json!(text),
        ("string", other) => json!(other.to_string()),
        ("integer", Value::Number(number)) => number
            .as_i64()
            .or_else(|| number.as_f64().map(|float| float as i64))
            .map_or(Value::Null, Value::from),
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(then) => json!(human_duration(then, now)),
            Err(_) => json!("<invalid>"),
        },
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    #[test]
    fn printer_columns_follow_the_name() {
        let table = CustomTable::new(&[
            json!({"name": "Size", "type": "integer", "jsonPath": ".spec.size"}),
            json!({"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}),
            json!({"name": "On", "type": "boolean", "jsonPath": ".spec.on", "priority": 1, "description": "Whether."}),
            json!({"name": "Since", "type": "date", "jsonPath": ".spec.since"}),
            json!({"name": "All", "type": "string", "jsonPath": ".spec.list"}),
            json!({"name": "Missing", "type": "string", "jsonPath": ".spec.missing"}),
            json!({"name": "Odd", "type": "integer", "jsonPath": ".spec.on"}),
        ])
        .unwrap();
        let names: Vec<_> = table
            .columns()
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "Name", "Size", "Ready", "On", "Since", "All", "Missing", "Odd"
            ]
        );
        assert_eq!(table.columns()[0].format, "name");
        assert_eq!(table.columns()[3].priority, 1);
        let object = json!({
            "metadata": {"name": "w"},
            "spec": {"size": 3, "on": true, "since": "2026-01-01T00:00:00Z", "list": [1, "a"]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        assert_eq!(
            json!(table.cells(&object, now())),
            json!(["w", 3, "True", true, "60m", "[1,\"a\"]", null, null])
        );
    }

    #[test]
    fn without_columns_the_age_is_shown() {
        let table = CustomTable::new(&[]).unwrap();
        let object =
            json!({"metadata": {"name": "w", "creationTimestamp": "2025-12-31T23:00:00Z"}});
        assert_eq!(json!(table.cells(&object, now())), json!(["w", "120m"]));
        assert!(CustomTable::new(&[json!({"jsonPath": "nonsense["})]).is_err());
    }
}
