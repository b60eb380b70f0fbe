//! Create (POST, and writes that create).

use polity_merge::apply;
use polity_store::{Change, CommitError, Expect, Write};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Call, Written, admit, special};
use crate::object::{encode, meta};
use crate::request::body::Decoded;
use crate::request::query::WriteOptions;
use polity_kinds::normalise;
use polity_kinds::status::ApiError;
use polity_webhooks::Operation;

/// How often a generated name may collide.
const NAME_ATTEMPTS: usize = 8;

impl Call<'_> {
    /// Creates an object from a POST body.
    pub async fn create(&self, body: Decoded, options: &WriteOptions) -> Result<Written, ApiError> {
        let mut object = self.accept(body, options)?;
        if !meta::resource_version(&object).is_empty() {
            return Err(ApiError::unexpected(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if object.get("metadata").is_some() {
            for field in [
                "managedFields",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "selfLink",
            ] {
                meta::of_mut(&mut object).remove(field);
            }
        }
        self.default(&mut object);
        self.track(None, &mut object, options);
        self.create_tracked(object, options).await
    }

    /// Records the field owners of a write other than an apply.
    pub fn track(&self, live: Option<&Value>, object: &mut Value, options: &WriteOptions) {
        let blank = if live.is_none() {
            normalise::blank(&self.def.gvk)
        } else {
            None
        };
        apply::track_update(apply::UpdateInput {
            schema: &self.def.schema,
            live,
            blank: blank.as_ref(),
            new: object,
            manager: self.manager(options),
            subresource: self.subresource_name(),
            api_version: &self.def.gvk.api_version(),
            now: self.now,
            ignore: &self.unowned_paths(),
        });
    }

    pub fn manager<'o>(&'o self, options: &'o WriteOptions) -> &'o str {
        if options.field_manager.is_empty() {
            &self.default_manager
        } else {
            &options.field_manager
        }
    }

    /// Creates an object whose defaults are set and whose field owners are recorded.
    pub async fn create_tracked(
        &self,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Written, ApiError> {
        special::check_namespace(self, meta::name(&object))?;
        if self
            .def
            .custom
            .as_ref()
            .is_some_and(|custom| custom.is_terminating())
        {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::forbidden(
                self.def.resource_name(),
                meta::name(&object),
                why,
            ));
        }
        let review = admit::Review {
            operation: Operation::Create,
            options,
            old: None,
        };
        admit::mutate(self, &review, &mut object).await?;
        self.drop_duplicate_owners(&mut object);
        let generated =
            meta::name(&object).is_empty() && !meta::text(&object, "generateName").is_empty();
        let prefix = meta::text(&object, "generateName").to_owned();
        for _ in 0..NAME_ATTEMPTS {
            if generated {
                let random = Uuid::new_v4().as_u128() as u64;
                meta::set(
                    &mut object,
                    "name",
                    json!(meta::generate_name(&prefix, random)),
                );
            }
            match self.create_named(object.clone(), &review).await {
                Err(error) if generated && error.reason == "AlreadyExists" => {}
                other => return other,
            }
        }
        let mut error = ApiError::already_exists(self.def.resource_name(), meta::name(&object));
        if let Some(details) = &mut error.details {
            details.retry_after_seconds = 1;
        }
        Err(error)
    }

    async fn create_named(
        &self,
        mut object: Value,
        review: &admit::Review<'_>,
    ) -> Result<Written, ApiError> {
        self.stamp_new(&mut object);
        special::complete_new(self, &mut object)?;
        self.validate(&object, None)?;
        special::authorize_write(self, &object, None)?;
        admit::validate(self, review, &object).await?;
        let key = self.key_of(meta::name(&object));
        if review.options.dry_run {
            if let Some(existing) = self.cluster.store().current().get(&key) {
                return Err(self.exists(existing.index.is_deleting(), meta::name(&object)));
            }
            return Ok(Written::Dry(object));
        }
        self.def.to_storage(&mut object);
        let payload = encode::payload(
            object
                .as_object()
                .expect("identity settled: it is an object"),
        );
        let write = Write {
            key,
            expect: Expect::Absent,
            change: Change::Put(payload),
        };
        match self.cluster.commit(write).await {
            Ok(stored) => Ok(Written::Stored(stored)),
            Err(CommitError::Exists { current }) => {
                Err(self.exists(current.index.is_deleting(), meta::name(&object)))
            }
            Err(error) => Err(commit_failed(&error)),
        }
    }

    fn drop_duplicate_owners(&self, object: &mut Value) {
        let dropped = meta::drop_duplicate_owners(object);
        if !dropped.is_empty() {
            self.warnings.add(format!(
                ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, \
                 and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
                dropped.join(", ")
            ));
        }
    }

    fn exists(&self, deleting: bool, name: &str) -> ApiError {
        let mut error = ApiError::already_exists(self.def.resource_name(), name);
        if deleting {
            error.message = format!("object is being deleted: {}", error.message);
        }
        error
    }
}

/// A commit that failed for a reason that is not the client's.
pub fn commit_failed(error: &CommitError<crate::object::index::ObjectIndex>) -> ApiError {
    match error {
        CommitError::Full { .. } => ApiError::new(
            http::StatusCode::INSUFFICIENT_STORAGE,
            "InsufficientStorage",
            format!("the write was refused: {error}"),
        ),
        CommitError::Closed => ApiError::new(
            http::StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            "the server is shutting down",
        ),
        CommitError::ValueTooLarge { .. } | CommitError::KeyTooLong { .. } => {
            ApiError::too_large(error.to_string())
        }
        _ => ApiError::internal(error),
    }
}
