//! The steps of every write before it is stored: type, namespace and name, unknown fields, defaults, system metadata,
//! generation, status separation, validation.

use polity_core::field::{FieldError, FieldErrors, FieldPath};
use polity_core::{Findings, name};
use polity_merge::schema;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Call, special};
use crate::custom;
use crate::object::meta;
use crate::request::body::Decoded;
use crate::request::query::{FieldValidation, WriteOptions};
use polity_kinds::status::ApiError;
use polity_kinds::{GenerationRule, Subresource, create, decode, defaults, normalise, validation};

/// Which error a finding about unknown and duplicate fields becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// A whole object: 400.
    Object,
    /// The result of a patch: 422 on the field `patch`.
    Patch,
}

impl Call<'_> {
    /// Checks that kind, namespace and name of the body match the URL, and sets missing ones.
    pub fn settle_identity(&self, object: &mut Value) -> Result<(), ApiError> {
        // Go decodes a null into an object without members.
        if object.is_null() && !self.def.is_custom() {
            *object = json!({});
        }
        if !object.is_object()
            || ["apiVersion", "kind"].iter().any(|key| {
                object
                    .get(*key)
                    .is_some_and(|text| !text.is_string() && !text.is_null())
            })
        {
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get version/kind",
                self.def.gvk.kind
            )));
        }
        if let Some(metadata) = object
            .get("metadata")
            .filter(|metadata| !metadata.is_object() && !metadata.is_null())
        {
            let why = format!(
                "json: cannot unmarshal {} into Go struct field {}.metadata of type v1.ObjectMeta",
                decode::kind_of(metadata),
                self.def.gvk.kind
            );
            return Err(self.cannot_handle(&self.def.gvk.version, &self.def.gvk.kind, &why));
        }
        self.settle_type(object)?;
        self.settle_name(object)?;
        self.settle_namespace(object)
    }

    fn settle_type(&self, object: &mut Value) -> Result<(), ApiError> {
        let expected = self.def.gvk.api_version();
        let api_version = object
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let kind = object
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if self.def.is_custom() && (api_version.is_empty() || kind.is_empty()) {
            let missing = if kind.is_empty() {
                "Kind"
            } else {
                "apiVersion"
            };
            return Err(ApiError::bad_request(format!(
                "Object '{missing}' is missing in the body"
            )));
        }
        if !api_version.is_empty() && api_version != expected {
            if self.def.is_custom() {
                return Err(ApiError::bad_request(format!(
                    "the API version in the data ({api_version}) does not match the expected API version ({expected})"
                )));
            }
            let version = api_version.rsplit('/').next().unwrap_or_default();
            let why = format!("no kind {kind:?} is registered for version {api_version:?}");
            return Err(self.cannot_handle(version, &kind, &why));
        }
        if !kind.is_empty() && kind != self.def.gvk.kind {
            return Err(self.wrong_kind(object, &kind));
        }
        object["apiVersion"] = json!(expected);
        object["kind"] = json!(self.def.gvk.kind);
        Ok(())
    }

    fn settle_name(&self, object: &mut Value) -> Result<(), ApiError> {
        let name = meta::name(object).to_owned();
        if self.name.is_empty() {
            return Ok(());
        }
        if name.is_empty() {
            meta::set(object, "name", json!(self.name));
        } else if name != self.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.name
            )));
        }
        Ok(())
    }

    fn settle_namespace(&self, object: &mut Value) -> Result<(), ApiError> {
        let namespace = meta::namespace(object).to_owned();
        if !self.def.is_namespaced() {
            meta::of_mut(object).remove("namespace");
            return Ok(());
        }
        if namespace.is_empty() {
            meta::set(object, "namespace", json!(self.namespace));
        } else if namespace != self.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }

    /// A body of another kind: of no use to a typed kind, merely invalid for a custom resource.
    fn wrong_kind(&self, object: &Value, kind: &str) -> ApiError {
        if self.def.is_custom() {
            let detail = format!("must be {}", self.def.gvk.kind);
            let error = FieldError::invalid(&FieldPath::of("kind"), &json!(kind), &detail);
            return ApiError::invalid(kind, &self.def.gvk.group, meta::name(object), &[error]);
        }
        let why = format!(
            "the kind in the data ({kind}) does not match the expected kind ({})",
            self.def.gvk.kind
        );
        self.cannot_handle(&self.def.gvk.version, kind, &why)
    }

    /// `{kind} in version "{v}" cannot be handled as a {Kind}: {why}`
    fn cannot_handle(&self, version: &str, kind: &str, why: &str) -> ApiError {
        ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {}: {why}",
            self.def.gvk.kind
        ))
    }

    /// The object of a POST or PUT body, with matching name and types and without unknown fields.
    pub fn accept(&self, body: Decoded, options: &WriteOptions) -> Result<Value, ApiError> {
        let mut object = body.value;
        self.settle_identity(&mut object)?;
        self.check_types(&object)?;
        self.drop_unknown(
            &mut object,
            &body.duplicates,
            options.field_validation,
            BodyKind::Object,
        )?;
        Ok(object)
    }

    /// Drops unknown fields, and reports them as the client requested.
    pub fn drop_unknown(
        &self,
        object: &mut Value,
        duplicates: &Findings,
        validation: FieldValidation,
        body: BodyKind,
    ) -> Result<(), ApiError> {
        let unknown = schema::prune(&self.def.schema, object);
        if validation == FieldValidation::Ignore {
            return Ok(());
        }
        let mut findings = unknown.map(|path| format!("unknown field {path:?}"));
        findings.append(duplicates.map(|path| format!("duplicate field {path:?}")));
        if findings.is_empty() {
            return Ok(());
        }
        if validation == FieldValidation::Warn {
            self.warnings.add_all(findings);
            return Ok(());
        }
        let why = format!("strict decoding error: {findings}");
        match body {
            BodyKind::Object => {
                Err(self.cannot_handle(&self.def.gvk.version, &self.def.gvk.kind, &why))
            }
            BodyKind::Patch => Err(invalid_patch(object, &why)),
        }
    }

    /// Built-ins are typed: a string instead of a number is an error (400). `null` is allowed everywhere, as in Go:
    /// clients send `creationTimestamp: null`.
    pub fn check_types(&self, object: &Value) -> Result<(), ApiError> {
        if self.def.is_custom() {
            return Ok(());
        }
        decode::check(&self.def.gvk, object)
            .map_err(|why| self.cannot_handle(&self.def.gvk.version, &self.def.gvk.kind, &why))
    }

    /// Sets the defaults of the kind.
    pub fn default(&self, object: &mut Value) {
        if self.def.is_custom() {
            schema::default(&self.def.schema, object);
        } else {
            normalise::normalise(&self.def.gvk, object);
            defaults::apply_defaults(&self.def.gvk, object);
            if &*self.def.bucket == custom::DEFINITIONS {
                custom::definition::apply_defaults(object);
            }
        }
    }

    pub fn invalid(&self, name: &str, errors: &[FieldError]) -> ApiError {
        // Events of both groups are one kind to a real server.
        let group = if &*self.def.bucket == "events" {
            ""
        } else {
            &self.def.gvk.group
        };
        ApiError::invalid(&self.def.gvk.kind, group, name, errors)
    }

    /// The metadata only the server sets, on a new object.
    pub fn stamp_new(&self, object: &mut Value) {
        let metadata = meta::of_mut(object);
        for field in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "resourceVersion",
            "generation",
        ] {
            metadata.remove(field);
        }
        metadata.insert("uid".into(), json!(Uuid::new_v4().to_string()));
        metadata.insert("creationTimestamp".into(), json!(meta::time(self.now)));
        if self.def.generation != GenerationRule::Never {
            metadata.insert("generation".into(), json!(1));
        }
        if self.def.is_custom() {
            if self.def.has(Subresource::Status)
                && let Some(root) = object.as_object_mut()
            {
                root.remove("status");
            }
        } else {
            let uid = meta::uid(object).to_owned();
            create::prepare_create(&self.def.gvk, object, &uid);
        }
    }

    /// The metadata only the server sets, on a changed object.
    pub fn carry_system_metadata(&self, live: &Value, object: &mut Value) {
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
        ] {
            meta::carry(live, object, field);
        }
        meta::of_mut(object).remove("selfLink");
    }

    /// Restores the fields that a write through this path may not change from the stored object.
    pub fn separate_status(&self, live: &Value, object: &mut Value) {
        let Some(root) = object.as_object_mut() else {
            return;
        };
        let take = |root: &mut serde_json::Map<String, Value>, field: &str| match live.get(field) {
            Some(value) => {
                root.insert(field.to_owned(), value.clone());
            }
            None => {
                root.remove(field);
            }
        };
        match self.subresource {
            Some(Subresource::Status) => {
                let status = root.remove("status");
                let managed = root
                    .get("metadata")
                    .and_then(|m| m.get("managedFields"))
                    .cloned();
                let metadata = root.remove("metadata");
                let fields: Vec<String> = root
                    .keys()
                    .chain(live.as_object().map(|l| l.keys()).into_iter().flatten())
                    .cloned()
                    .collect();
                for field in fields
                    .iter()
                    .filter(|field| !matches!(field.as_str(), "apiVersion" | "kind"))
                {
                    take(root, field);
                }
                match status {
                    Some(status) => root.insert("status".into(), status),
                    None => root.remove("status"),
                };
                if !self.def.is_custom() {
                    if let Some(metadata) = metadata {
                        root.insert("metadata".into(), metadata);
                    }
                    if self.def.gvk.kind == "Deployment" {
                        meta::carry(live, object, "labels");
                    }
                } else if let Some(managed) = managed {
                    meta::set(object, "managedFields", managed);
                }
            }
            Some(Subresource::Finalize) => {}
            _ if self.def.has(Subresource::Status) => {
                take(root, "status");
                special::keep_spec_finalizers(&self.def, live, object);
            }
            _ => {}
        }
    }

    /// Counts the generation up when the part that matters changed.
    pub fn count_generation(&self, live: &Value, object: &mut Value) {
        if self.subresource == Some(Subresource::Status) {
            return;
        }
        let changed = |field: &str| live.get(field) != object.get(field);
        let grown = match &self.def.generation {
            GenerationRule::Never | GenerationRule::Fixed => false,
            GenerationRule::On(fields) => fields.iter().any(|field| changed(field)),
            GenerationRule::SpecOrAnnotations => {
                changed("spec")
                    || meta::of(live).get("annotations") != meta::of(object).get("annotations")
            }
            GenerationRule::ContentOrLabels => {
                content_changed(live, object, &[])
                    || meta::of(live).get("labels") != meta::of(object).get("labels")
            }
            GenerationRule::Custom if self.def.has(Subresource::Status) => {
                content_changed(live, object, &["status"])
            }
            GenerationRule::Custom => content_changed(live, object, &[]),
        };
        if grown {
            meta::set(object, "generation", json!(meta::generation(live) + 1));
        }
    }

    /// Validates an object that is about to be stored.
    pub fn validate(&self, object: &Value, live: Option<&Value>) -> Result<(), ApiError> {
        let mut errors = FieldErrors::default();
        if live.is_none() {
            errors.extend(self.prefix_errors(meta::text(object, "generateName")));
            errors.extend(self.name_errors(meta::name(object)));
        }
        errors.extend(meta::validate(object, live).into_vec());
        if let Some(live) = live {
            errors.extend(immutable_metadata(object, live));
        }
        match &self.def.custom {
            Some(custom) => errors.extend(custom.validate(&self.def.schema, object, live)),
            None => {
                if &*self.def.bucket != custom::DEFINITIONS {
                    errors.extend(meta::validate_plain_finalizers(object));
                }
                errors.extend(validation::validate(&self.def.gvk, object, live));
                errors.extend(special::validate(self, object, live));
            }
        }
        if !errors.is_empty() {
            return Err(self.invalid(meta::name(object), &errors.into_distinct()));
        }
        if self.def.is_custom() {
            for warning in meta::finalizer_warnings(object, live) {
                self.warnings.add(warning);
            }
        }
        Ok(())
    }

    fn prefix_errors(&self, prefix: &str) -> Vec<FieldError> {
        if prefix.is_empty() {
            return Vec::new();
        }
        let field = FieldPath::of("metadata").child("generateName");
        let check = if self.def.is_custom() {
            name::dns_subdomain(&name::mask_trailing_dash(prefix))
        } else {
            validation::validate_name(&self.def.gvk, prefix, true)
        };
        let wrong = check.err().unwrap_or_default();
        wrong
            .into_iter()
            .map(|detail| FieldError::invalid(&field, &json!(prefix), &detail))
            .collect()
    }

    fn name_errors(&self, name: &str) -> Vec<FieldError> {
        let field = FieldPath::of("metadata").child("name");
        if name.is_empty() {
            return vec![FieldError::required(
                &field,
                "name or generateName is required",
            )];
        }
        let check = if self.def.is_custom() {
            name::dns_subdomain(name)
        } else {
            validation::validate_name(&self.def.gvk, name, false)
        };
        check
            .err()
            .unwrap_or_default()
            .into_iter()
            .map(|detail| FieldError::invalid(&field, &json!(name), &detail))
            .collect()
    }
}

/// The error about the result of a patch, which names neither kind nor object.
pub fn invalid_patch(object: &Value, why: &str) -> ApiError {
    let shown = Value::String(object.to_string());
    ApiError::invalid(
        "",
        "",
        "",
        &[FieldError::invalid(&FieldPath::of("patch"), &shown, why)],
    )
}

fn immutable_metadata(object: &Value, live: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        let (new, old) = (meta::of(object).get(field), meta::of(live).get(field));
        if new != old {
            let path = FieldPath::of("metadata").child(field);
            errors.push(FieldError::invalid(
                &path,
                new.unwrap_or(&Value::Null),
                "field is immutable",
            ));
        }
    }
    errors
}

/// Whether anything but the metadata and the given fields differs.
fn content_changed(live: &Value, object: &Value, except: &[&str]) -> bool {
    let (Some(live), Some(object)) = (live.as_object(), object.as_object()) else {
        return true;
    };
    let counts =
        |key: &str| !matches!(key, "metadata" | "apiVersion" | "kind") && !except.contains(&key);
    live.keys()
        .chain(object.keys())
        .filter(|key| counts(key))
        .any(|key| live.get(key) != object.get(key))
}
