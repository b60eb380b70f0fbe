//! The four kinds of patch (docs/spec/apiserver.md#10).

use http::StatusCode;
use polity_core::field::{FieldError, FieldPath};
use polity_merge::{apply, patch};
use serde_json::Value;

use super::prepare::{BodyKind, invalid_patch};
use super::update::Updated;
use super::{Call, special};
use crate::object::meta;
use crate::request::body;
use crate::request::query::WriteOptions;
use polity_kinds::decode;
use polity_kinds::status::{ApiError, Cause, Details};

/// The kind of a patch, from its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchKind {
    /// Strategic merge needs typed kinds, so custom resources respond with 415.
    pub fn of(media: Option<&str>, custom: bool) -> Result<Self, ApiError> {
        match media {
            Some("application/json-patch+json") => Ok(Self::Json),
            Some("application/merge-patch+json") => Ok(Self::Merge),
            Some("application/strategic-merge-patch+json") if !custom => Ok(Self::Strategic),
            Some("application/apply-patch+yaml") => Ok(Self::Apply),
            _ if custom => Err(ApiError::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(ApiError::bare(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UnsupportedMediaType",
                "415: Unsupported Media Type",
            )),
        }
    }
}

impl Call<'_> {
    /// Patches the object this call names; an apply may create it.
    pub async fn patch(
        &self,
        kind: PatchKind,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Updated, ApiError> {
        if kind == PatchKind::Apply {
            return self.apply(body, options).await;
        }
        if options.force.is_some() {
            let field = FieldPath::of("force");
            let error = FieldError::forbidden(&field, "may not be specified for non-apply patch");
            return Err(ApiError::invalid(
                "PatchOptions",
                "meta.k8s.io",
                "",
                &[error],
            ));
        }
        let document = match body::json(body) {
            Err(_) if kind == PatchKind::Merge => {
                return Err(ApiError::bad_request("invalid JSON patch"));
            }
            other => other?,
        };
        let target = match kind {
            PatchKind::Json => "[]handlers.jsonPatchOp",
            _ => "map[string]interface {}",
        };
        if document.value.is_array() != (kind == PatchKind::Json) {
            let found = decode::kind_of(&document.value);
            return Err(ApiError::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {found} into Go value of type {target}"
            )));
        }
        if kind == PatchKind::Merge && document.value.is_null() {
            return Err(ApiError::bad_request("Invalid JSON Patch"));
        }
        let written = self
            .change(options, |live| {
                let mut new = self.patched(kind, live, &document.value)?;
                forget_live_version(live, &mut new);
                self.check_patched_type(&new)?;
                if meta::name(&new).is_empty() {
                    let why = format!("the name of the object ({} based on URL) was undeterminable: name must be provided", self.name);
                    return Err(ApiError::bad_request(why));
                }
                self.settle_identity(&mut new)?;
                self.check_types(&new).map_err(|error| invalid_patch(&new, &error.message))?;
                self.drop_unknown(&mut new, &document.duplicates, options.field_validation, BodyKind::Patch)?;
                self.default(&mut new);
                self.check_patched_uid(live, &new)?;
                Ok(Some(new))
            })
            .await?;
        Ok((written, false))
    }

    fn patched(&self, kind: PatchKind, live: &Value, document: &Value) -> Result<Value, ApiError> {
        match kind {
            PatchKind::Json => {
                let mut new = live.clone();
                patch::json_patch(&mut new, document).map_err(|error| json_patch_failed(&error))?;
                Ok(new)
            }
            PatchKind::Merge => {
                let mut new = live.clone();
                patch::merge_patch(&mut new, document);
                Ok(new)
            }
            PatchKind::Strategic => patch::strategic(&self.def.schema, live, document)
                .map_err(|error| ApiError::unexpected(error.to_string())),
            PatchKind::Apply => unreachable!("apply has its own path"),
        }
    }

    /// A patch cannot change the kind of an object.
    fn check_patched_type(&self, new: &Value) -> Result<(), ApiError> {
        let unchanged = new["kind"] == self.def.gvk.kind.as_str()
            && new["apiVersion"] == self.def.gvk.api_version().as_str();
        if unchanged || self.def.is_custom() {
            return Ok(());
        }
        self.settle_identity(&mut new.clone())
            .map_err(|error| invalid_patch(new, &error.message))
    }

    /// A patch that changes the uid is invalid, where a PUT would be a conflict.
    fn check_patched_uid(&self, live: &Value, new: &Value) -> Result<(), ApiError> {
        let uid = meta::uid(new);
        if !uid.is_empty() && uid != meta::uid(live) {
            let field = FieldPath::of("metadata").child("uid");
            let error = FieldError::invalid(&field, &Value::from(uid), "field is immutable");
            return Err(self.invalid(self.name, &[error]));
        }
        Ok(())
    }

    async fn apply(&self, body: &[u8], options: &WriteOptions) -> Result<Updated, ApiError> {
        let document = self.apply_document(body, options)?;
        let first = self.apply_once(&document, options).await;
        match first {
            // Another writer created it in between: merge into that object.
            Err(error) if error.reason == "AlreadyExists" => {
                self.apply_once(&document, options).await
            }
            other => other,
        }
    }

    async fn apply_once(
        &self,
        document: &Value,
        options: &WriteOptions,
    ) -> Result<Updated, ApiError> {
        let exists = self.cluster.store().current().get(&self.key()).is_some();
        if exists {
            let written = self
                .change_with(options, |live| {
                    let merged = self.merge_applied(Some(live), document, options)?;
                    Ok(Some(self.complete_applied(merged)))
                })
                .await?;
            return Ok((written, false));
        }
        if self.subresource.is_some() {
            return Err(self.not_found());
        }
        let uid = meta::uid(document);
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(ApiError::conflict(
                self.def.resource_name(),
                self.name,
                &why,
            ));
        }
        special::authorize_create(self)?;
        let merged = self.merge_applied(None, document, options)?;
        let mut object = self.complete_applied(merged);
        self.settle_identity(&mut object)?;
        meta::of_mut(&mut object).remove("resourceVersion");
        Ok((self.create_tracked(object, options).await?, true))
    }

    fn apply_document(&self, body: &[u8], options: &WriteOptions) -> Result<Value, ApiError> {
        if options.field_manager.is_empty() {
            let field = FieldPath::of("fieldManager");
            let error = FieldError::required(&field, "is required for apply patch");
            return Err(ApiError::invalid(
                "PatchOptions",
                "meta.k8s.io",
                "",
                &[error],
            ));
        }
        let decoded = body::yaml(body)?;
        let document = decoded.value;
        if !document.is_object() {
            return Err(ApiError::bad_request(format!(
                "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                decode::kind_of(&document)
            )));
        }
        let text = |key: &str| {
            document
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        if text("apiVersion") != self.def.gvk.api_version() || text("kind") != self.def.gvk.kind {
            let (group, version) = text("apiVersion")
                .split_once('/')
                .unwrap_or(("", text("apiVersion")));
            return Err(ApiError::bad_request(format!(
                "invalid object type: {group}/{version}, Kind={}",
                text("kind")
            )));
        }
        // Only checked: fields that the body omits must not be set on behalf of the manager.
        self.settle_identity(&mut document.clone())?;
        if !decoded.duplicates.is_empty() {
            self.drop_unknown(
                &mut document.clone(),
                &decoded.duplicates,
                options.field_validation,
                BodyKind::Object,
            )?;
        }
        Ok(document)
    }

    fn merge_applied(
        &self,
        live: Option<&Value>,
        document: &Value,
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let input = apply::ApplyInput {
            schema: &self.def.schema,
            live,
            body: document,
            manager: &options.field_manager,
            subresource: self.subresource_name(),
            api_version: &self.def.gvk.api_version(),
            force: options.force.unwrap_or(false),
            now: self.now,
            ignore: &self.unowned_paths(),
        };
        let mut merged = apply::apply(&input).map_err(|error| apply_failed(&error))?;
        if let Some(live) = live {
            forget_live_version(live, &mut merged);
        }
        Ok(merged)
    }

    fn complete_applied(&self, mut merged: Value) -> Value {
        self.default(&mut merged);
        merged
    }
}

/// The version of the live object is not a precondition. If another write was faster, the patch is applied to the
/// newer object, and a version in the patch itself no longer matches.
pub(super) fn forget_live_version(live: &Value, new: &mut Value) {
    if meta::resource_version(new) == meta::resource_version(live) {
        meta::of_mut(new).remove("resourceVersion");
    }
}

fn json_patch_failed(error: &patch::JsonPatchError) -> ApiError {
    match error {
        patch::JsonPatchError::TooManyOperations(_) => ApiError::too_large(error.to_string()),
        _ => ApiError::rejected(),
    }
}

fn apply_failed(error: &apply::ApplyError) -> ApiError {
    match error {
        apply::ApplyError::Conflicts(conflicts) => {
            let causes = apply::conflict_causes(conflicts)
                .into_iter()
                .map(|cause| Cause {
                    reason: "FieldManagerConflict".into(),
                    message: cause.message,
                    field: cause.field,
                })
                .collect();
            ApiError::new(StatusCode::CONFLICT, "Conflict", error.to_string()).with_details(
                Details {
                    causes,
                    ..Details::default()
                },
            )
        }
        apply::ApplyError::ManagedFieldsInBody => ApiError::bad_request(error.to_string()),
        apply::ApplyError::NotTyped(_) | apply::ApplyError::LiveManagedFields(_) => {
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", error.to_string())
        }
    }
}
