//! The settings of a policy: a JSON object, kept as the text that guests get.

use std::{fmt, sync::Arc};

use serde_json::{Value, value::RawValue};

/// Settings that are not an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The value is not an object, but for example a list.
    #[error("settings must be an object")]
    NotAnObject,
    /// Not JSON.
    #[error("settings are not JSON: {0}")]
    Json(String),
}

/// The settings of a policy. Clones share the text.
#[derive(Clone)]
pub struct Settings(Arc<RawValue>);

impl Settings {
    /// Settings from a JSON value; null is an empty object.
    pub fn from_value(value: &Value) -> Result<Self, SettingsError> {
        match value {
            Value::Null => Ok(Self::default()),
            Value::Object(_) => Self::from_text(value.to_string()),
            _ => Err(SettingsError::NotAnObject),
        }
    }

    /// Parses JSON.
    pub fn parse(text: &str) -> Result<Self, SettingsError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| SettingsError::Json(error.to_string()))?;
        match value {
            // The text itself is kept, so that numbers beyond 64 bits do not change.
            Value::Object(_) => Self::from_text(text.to_owned()),
            other => Self::from_value(&other),
        }
    }

    fn from_text(text: String) -> Result<Self, SettingsError> {
        RawValue::from_string(text)
            .map(|raw| Self(raw.into()))
            .map_err(|error| SettingsError::Json(error.to_string()))
    }

    /// The object, as JSON.
    pub fn as_raw(&self) -> &RawValue {
        &self.0
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::from_text("{}".to_owned()).expect("{} is JSON")
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get())
    }
}

impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}
