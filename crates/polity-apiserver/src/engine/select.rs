//! Which objects of a collection are meant: label and field selectors.

use std::borrow::Cow;
use std::sync::Arc;

use polity_core::selector::{FieldSelector, LabelSelector};
use serde_json::Value;

use crate::object::Stored;
use crate::request::query::ListOptions;
use crate::served::ServedResource;
use polity_kinds::status::ApiError;

/// A parsed pair of selectors.
#[derive(Debug, Clone)]
pub struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    def: Arc<ServedResource>,
    /// Whether a field of the kind's own is selected, so that objects must be parsed.
    own_fields: bool,
}

impl Selection {
    /// Parses the selectors of a request; 400 when they are malformed or name an unknown field.
    pub fn parse(def: &Arc<ServedResource>, options: &ListOptions) -> Result<Self, ApiError> {
        let labels: LabelSelector = options
            .label_selector
            .parse()
            .map_err(|error| ApiError::bad_request(format!("{error}")))?;
        let fields: FieldSelector = options
            .field_selector
            .parse()
            .map_err(|error| ApiError::bad_request(format!("{error}")))?;
        let mut own_fields = false;
        for requirement in fields.requirements() {
            let field = requirement.field.as_str();
            match field {
                "metadata.name" => {}
                "metadata.namespace" if def.is_namespaced() || !def.is_custom() => {}
                _ if def.selectable_fields.iter().any(|known| known == field) => own_fields = true,
                _ => return Err(unsupported(def, field)),
            }
        }
        Ok(Self {
            labels,
            fields,
            def: def.clone(),
            own_fields,
        })
    }

    /// Whether every object is meant.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// The only name that can match, if the selector has one.
    pub fn name(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }

    /// Whether a stored object is meant.
    pub fn matches(&self, stored: &Stored) -> bool {
        if !self.labels.matches(&stored.index.labels) {
            return false;
        }
        if self.fields.is_everything() {
            return true;
        }
        let object = if self.own_fields {
            self.def.read(stored)
        } else {
            Value::Null
        };
        self.fields.matches(|field| {
            Some(match field {
                "metadata.name" => Cow::Borrowed(&*stored.key.name),
                "metadata.namespace" => Cow::Borrowed(&*stored.key.namespace),
                _ => Cow::Owned(self.def.selectable_value(&object, field)),
            })
        })
    }
}

fn unsupported(def: &ServedResource, field: &str) -> ApiError {
    if def.is_custom() {
        return ApiError::bad_request(format!("field label not supported: {field}"));
    }
    if def.selectable_fields.is_empty() {
        return ApiError::bad_request(format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ));
    }
    ApiError::bad_request(format!("field label not supported: {field}"))
}
