//! The scale subresource: one small object over any kind that has replicas.

use polity_core::FieldPath;
use polity_core::selector::LabelSelector;
use serde_json::{Value, json};

use super::patch::{PatchKind, forget_live_version};
use super::{Call, Written};
use crate::object::meta;
use crate::request::body::{self, Decoded};
use crate::request::query::WriteOptions;
use polity_kinds::scale::{ScalePaths, SelectorSource};
use polity_kinds::status::ApiError;

fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, name| value.get(name))
}

/// Sets a value, making the objects on the way to it.
fn set(object: &mut Value, path: &[String], value: Value) {
    let mut place = object;
    for name in path {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name.as_str()];
    }
    *place = value;
}

impl Call<'_> {
    /// The Scale of an object.
    pub fn scale_of(&self, object: &Value) -> Result<Value, ApiError> {
        let paths = self.def.scale_paths().ok_or_else(|| self.not_found())?;
        let Some(replicas) = at(object, &paths.spec_replicas).and_then(Value::as_i64) else {
            return Err(ApiError::internal(format!(
                "the spec replicas field {:?} does not exist",
                paths.spec_replicas.join(".")
            )));
        };
        let status = at(object, &paths.status_replicas)
            .and_then(Value::as_i64)
            .unwrap_or(0);
        let mut metadata = json!({});
        for field in [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
        ] {
            if let Some(value) = meta::of(object).get(field) {
                metadata[field] = value.clone();
            }
        }
        let mut scale = json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
            "spec": {}, "status": {"replicas": status},
        });
        if replicas != 0 {
            scale["spec"]["replicas"] = json!(replicas);
        }
        let selector = selector_text(&paths, object);
        if !selector.is_empty() {
            scale["status"]["selector"] = json!(selector);
        }
        Ok(scale)
    }

    /// Replaces the Scale of an object.
    pub async fn update_scale(
        &self,
        body: Decoded,
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let written = self
            .change(options, |live| self.scaled(live, &body.value))
            .await?;
        self.scale_written(&written)
    }

    /// Patches the Scale of an object.
    pub async fn patch_scale(
        &self,
        kind: PatchKind,
        document: &[u8],
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let document = match kind {
            PatchKind::Apply => body::yaml(document)?.value,
            _ => body::json(document)?.value,
        };
        let written = self
            .change(options, |live| {
                let mut scale = self.scale_of(live)?;
                match kind {
                    PatchKind::Json => polity_merge::patch::json_patch(&mut scale, &document)
                        .map_err(|error| ApiError::bad_request(error.to_string()))?,
                    // Scale has no lists, so every other kind of patch is a merge.
                    _ => polity_merge::patch::merge_patch(&mut scale, &document),
                }
                forget_live_version(live, &mut scale);
                self.scaled(live, &scale)
            })
            .await?;
        self.scale_written(&written)
    }

    fn scale_written(&self, written: &Written) -> Result<Value, ApiError> {
        match written {
            Written::Stored(stored) => self.scale_of(&self.value(stored)),
            Written::Dry(value) => self.scale_of(value),
        }
    }

    fn negative_replicas(&self, paths: &ScalePaths, replicas: i64) -> ApiError {
        if self.def.is_custom() {
            let field = FieldPath::of(&format!(".{}", paths.spec_replicas.join(".")));
            let error = polity_core::FieldError::invalid(
                &field,
                &json!(replicas),
                "should be a non-negative integer",
            );
            return self.invalid(self.name, &[error]);
        }
        let field = FieldPath::of("spec").child("replicas");
        let error = polity_core::FieldError::invalid(
            &field,
            &json!(replicas),
            "must be greater than or equal to 0",
        );
        ApiError::invalid("Scale", "autoscaling", self.name, &[error])
    }

    /// The object with the replicas of a Scale.
    pub(super) fn scaled(&self, live: &Value, scale: &Value) -> Result<Option<Value>, ApiError> {
        let paths = self.def.scale_paths().ok_or_else(|| self.not_found())?;
        let replicas = match scale.pointer("/spec/replicas") {
            None | Some(Value::Null) => 0,
            Some(value) => value
                .as_i64()
                .ok_or_else(|| ApiError::bad_request("spec.replicas must be an integer"))?,
        };
        if replicas < 0 {
            return Err(self.negative_replicas(&paths, replicas));
        }
        let mut new = live.clone();
        set(&mut new, &paths.spec_replicas, json!(replicas));
        let version = meta::resource_version(scale).to_owned();
        meta::set(&mut new, "resourceVersion", json!(version));
        Ok(Some(new))
    }
}

fn selector_text(paths: &ScalePaths, object: &Value) -> String {
    match &paths.selector {
        SelectorSource::None => return String::new(),
        SelectorSource::Text(path) => {
            return at(object, path)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
        }
        SelectorSource::Spec => {}
    }
    let Some(selector) = object.pointer("/spec/selector") else {
        return String::new();
    };
    // Replication controllers have a plain map of labels.
    let selector =
        if selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some() {
            selector.clone()
        } else {
            json!({"matchLabels": selector})
        };
    LabelSelector::from_json(&selector, &FieldPath::root())
        .map(|selector| selector.to_string())
        .unwrap_or_default()
}
