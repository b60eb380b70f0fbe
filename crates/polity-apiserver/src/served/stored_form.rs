//! How objects of a kind are stored, and how they look when read.

use polity_merge::schema;
use serde_json::{Value, json};

use crate::object::Stored;
use crate::object::encode::Heads;
use crate::served::ServedResource;
use polity_kinds::jsonpath::JsonPath;
use polity_kinds::scale::{ScalePaths, SelectorSource};
use polity_kinds::{Subresource, builtin, events};

impl ServedResource {
    /// The apiVersion stored objects of this kind carry.
    fn storage_api_version(&self) -> String {
        match &self.custom {
            Some(custom) => custom.storage_api_version.clone(),
            None if self.is_new_event() => "v1".into(),
            None => self.gvk.api_version(),
        }
    }

    /// `events.k8s.io` Events are stored as the core group's.
    fn is_new_event(&self) -> bool {
        self.gvk.group == "events.k8s.io" && self.gvk.kind == "Event"
    }

    /// How stored bytes become served bytes.
    pub fn heads(&self) -> Heads {
        Heads::new(
            &self.storage_api_version(),
            &self.gvk.api_version(),
            &self.gvk.kind,
        )
    }

    /// Whether a read may return the stored bytes with only the apiVersion replaced.
    pub fn is_as_stored(&self, stored: &Stored) -> bool {
        match &self.custom {
            Some(custom) => {
                custom.is_current(stored.revision)
                    && self.heads().fits(&stored.bytes)
                    && (custom.is_stored_by(&self.schema) || self.knows_all_of(stored))
            }
            None => !self.is_new_event(),
        }
    }

    /// Whether this version has every field of an object that was stored in another one.
    fn knows_all_of(&self, stored: &Stored) -> bool {
        serde_json::from_slice(&stored.bytes)
            .is_ok_and(|mut object| schema::prune(&self.schema, &mut object).is_empty())
    }

    /// A stored object in this version, pruned and defaulted with the current schema. Fields that only another version
    /// has are hidden, and are lost when the object is written in this version.
    pub fn read(&self, stored: &Stored) -> Value {
        let mut object: Value = serde_json::from_slice(&stored.bytes).unwrap_or_else(|_| json!({}));
        match &self.custom {
            Some(custom) => {
                object["apiVersion"] = json!(self.gvk.api_version());
                let is_current = custom.is_current(stored.revision);
                if !is_current || !custom.is_stored_by(&self.schema) {
                    schema::prune(&self.schema, &mut object);
                }
                if !is_current {
                    schema::default(&self.schema, &mut object);
                }
            }
            None if self.is_new_event() => events::to_events(&mut object),
            None => {}
        }
        object
    }

    /// Turns an object of this version into the one that is stored.
    pub fn to_storage(&self, object: &mut Value) {
        match &self.custom {
            // Readers of the stored version find the object complete, as if it had been written in that version.
            Some(custom) if !custom.is_stored_by(&self.schema) => {
                schema::default(&custom.storage_schema, object);
            }
            _ if self.is_new_event() => events::to_core(object),
            _ => {}
        }
        object["apiVersion"] = json!(self.storage_api_version());
    }

    /// Where the scale subresource finds its numbers.
    pub fn scale_paths(&self) -> Option<ScalePaths> {
        if !self.has(Subresource::Scale) {
            return None;
        }
        match &self.custom {
            Some(custom) => custom.scale.clone(),
            None => Some(ScalePaths {
                spec_replicas: vec!["spec".into(), "replicas".into()],
                status_replicas: vec!["status".into(), "replicas".into()],
                selector: SelectorSource::Spec,
            }),
        }
    }

    /// The value of a selectable field, as field selectors compare it: absent is the empty string.
    pub fn selectable_value(&self, object: &Value, field: &str) -> String {
        if !self.is_custom() {
            return builtin::selectable_value(self, object, field);
        }
        let path: Option<JsonPath> = format!(".{field}").parse().ok();
        match path.as_ref().and_then(|path| path.first(object)) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }
}
