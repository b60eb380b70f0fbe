//! The properties that only custom resources have.

use std::sync::Arc;

use polity_core::field::{FieldError, FieldErrorKind, FieldPath};
use polity_merge::schema::{self, Schema};
use polity_store::Revision;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::compiled::Compiled;
use crate::object::meta;
use polity_kinds::scale::ScalePaths;
use polity_kinds::table::CustomTable;

/// The properties that only custom resources have, for one served version.
#[derive(Debug)]
pub struct CustomDef {
    /// The name of its definition.
    pub definition: String,
    /// The apiVersion objects are written with.
    pub storage_api_version: String,
    /// The schema of that version.
    pub storage_schema: Arc<Schema>,
    pub scale: Option<ScalePaths>,
    pub table: CustomTable,
    /// Sent with every response for a deprecated version.
    pub deprecation_warning: Option<String>,
    /// The schema and its rules.
    pub compiled: Arc<Compiled>,
    pub terminating: bool,
    /// Objects older than this may lack newer defaults or hold pruned fields.
    pub schema_since: Revision,
    /// The digest of the definition from which this was created.
    pub source: DefinitionDigest,
    /// Ends the watches of this version of the definition.
    pub gone: CancellationToken,
}

impl CustomDef {
    pub fn is_terminating(&self) -> bool {
        self.terminating
    }

    /// Whether it was created from this text of a definition.
    pub fn is_made_from(&self, source: DefinitionDigest) -> bool {
        self.source == source
    }

    /// Whether another kind was created from the same definition and shares its watches.
    pub fn continues(&self, before: &Self) -> bool {
        self.source == before.source
    }

    /// Whether objects are stored by this schema: that of the version they are written in, or of one that looks the
    /// same.
    pub fn is_stored_by(&self, schema: &Arc<Schema>) -> bool {
        Arc::ptr_eq(&self.storage_schema, schema)
    }

    /// Whether an object of this revision was written under the present schema.
    pub fn is_current(&self, revision: Revision) -> bool {
        revision >= self.schema_since
    }

    /// Validates the schema, and then the rules unless schema errors make them meaningless.
    pub fn validate(
        &self,
        schema: &Schema,
        object: &Value,
        live: Option<&Value>,
    ) -> Vec<FieldError> {
        let mut errors = match live {
            None => schema::validate(schema, object),
            Some(live) => schema::validate_update(schema, object, live),
        };
        let blocks = |kind: FieldErrorKind| {
            matches!(
                kind,
                FieldErrorKind::NotSupported
                    | FieldErrorKind::Required
                    | FieldErrorKind::TooLong
                    | FieldErrorKind::TooMany
                    | FieldErrorKind::TypeInvalid
            )
        };
        if errors.iter().any(|error| blocks(error.kind)) {
            if !self.compiled.rules.is_empty() {
                errors.push(FieldError::invalid(
                    &FieldPath::root(),
                    &Value::Null,
                    "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
                ));
            }
            return errors;
        }
        errors.extend(self.compiled.rules.validate(object, live));
        errors
    }
}

/// A digest of everything in a definition that affects serving. Equal digests serve the same kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefinitionDigest([u8; 32]);

impl DefinitionDigest {
    pub fn of(crd: &Value) -> Self {
        let parts = [
            &json!(meta::uid(crd)),
            &crd["spec"],
            &crd["status"]["acceptedNames"],
        ];
        let text = serde_json::to_vec(&parts).expect("a JSON value serialises into memory");
        Self(Sha256::digest(text).into())
    }
}
