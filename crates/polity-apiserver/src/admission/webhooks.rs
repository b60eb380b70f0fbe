//! Placeholder.
use polity_core::FieldError;
use serde_json::Value;

#[derive(Debug, Default)]
pub struct Configs;

impl Configs {
    pub fn refreshed(&self, _objects: &[Value]) -> Self {
        Self
    }
}

pub fn validate_match_conditions(_: &Value) -> Vec<FieldError> {
    Vec::new()
}
