//! Update (PUT, and every patch of an object that exists).

use polity_core::field::{FieldError, FieldPath};
use polity_merge::fields::FieldSet;
use polity_store::{Change, CommitError, Expect, Write};
use serde_json::{Value, json};

use super::create::commit_failed;
use super::{Call, Written, admit, special};
use crate::object::Stored;
use crate::object::{encode, meta};
use crate::request::body::Decoded;
use crate::request::query::WriteOptions;
use polity_kinds::Subresource;
use polity_kinds::status::ApiError;
use polity_webhooks::Operation;

/// How often a write without a version is retried after a conflict.
const RACE_ATTEMPTS: usize = 50;

/// The response to PUT, with whether it created the object.
pub type Updated = (Written, bool);

impl Call<'_> {
    /// Replaces an object by a PUT body.
    pub async fn update(&self, body: Decoded, options: &WriteOptions) -> Result<Updated, ApiError> {
        let mut object = self.accept(body, options)?;
        self.default(&mut object);
        let exists = self.cluster.store().current().get(&self.key()).is_some();
        if !exists {
            if self.subresource.is_none() && self.def.flags.create_on_update {
                if !meta::uid(&object).is_empty() {
                    return Err(self.uid_conflict(meta::uid(&object), ""));
                }
                special::authorize_create(self)?;
                meta::of_mut(&mut object).remove("managedFields");
                meta::of_mut(&mut object).remove("resourceVersion");
                self.track(None, &mut object, options);
                return Ok((self.create_tracked(object, options).await?, true));
            }
            return Err(self.not_found());
        }
        self.needs_version(&object)?;
        let written = self.change(options, |_| Ok(Some(object.clone()))).await?;
        Ok((written, false))
    }

    fn needs_version(&self, object: &Value) -> Result<(), ApiError> {
        let required = self.def.is_custom() || self.def.flags.update_needs_version;
        if !required || !meta::resource_version(object).is_empty() {
            return Ok(());
        }
        let field = FieldPath::of("metadata").child("resourceVersion");
        let error = FieldError::invalid(&field, &json!(0), "must be specified for an update");
        // A real server names the resource here, not the kind.
        Err(ApiError::invalid(
            &self.def.plural,
            &self.def.gvk.group,
            meta::name(object),
            &[error],
        ))
    }

    /// Changes the stored object with a function, and retries on a conflict.
    ///
    /// `transform` returns the new object with the field owners that the client sent (they are recorded here), or
    /// `None` if nothing changes.
    pub async fn change(
        &self,
        options: &WriteOptions,
        transform: impl Fn(&Value) -> Result<Option<Value>, ApiError> + Sync,
    ) -> Result<Written, ApiError> {
        self.change_with(options, |live| {
            let Some(mut new) = transform(live)? else {
                return Ok(None);
            };
            self.track(Some(live), &mut new, options);
            Ok(Some(new))
        })
        .await
    }

    /// As [`Self::change`], for a transform that records the field owners itself.
    pub async fn change_with(
        &self,
        options: &WriteOptions,
        transform: impl Fn(&Value) -> Result<Option<Value>, ApiError> + Sync,
    ) -> Result<Written, ApiError> {
        for _ in 0..RACE_ATTEMPTS {
            let stored = self.live()?;
            let live = self.value(&stored);
            let Some(new) = transform(&live)? else {
                return Ok(Written::Stored(stored));
            };
            if let Some(written) = self.try_change(&stored, &live, new, options).await? {
                return Ok(written);
            }
        }
        Err(self.modified())
    }

    /// One attempt; `None` when the object changed in between and the client named no version.
    async fn try_change(
        &self,
        stored: &Stored,
        live: &Value,
        mut new: Value,
        options: &WriteOptions,
    ) -> Result<Option<Written>, ApiError> {
        let wanted = meta::resource_version(&new).to_owned();
        let unconditional = wanted.is_empty() || wanted == "0";
        if !unconditional && wanted != stored.revision.to_string() {
            if wanted.parse::<u64>().is_err() {
                return Err(ApiError::unexpected(format!(
                    "strconv.ParseUint: parsing {wanted:?}: invalid syntax"
                )));
            }
            return Err(self.modified());
        }
        let uid = meta::uid(&new);
        if !uid.is_empty() && uid != meta::uid(live) {
            return Err(self.uid_conflict(uid, meta::uid(live)));
        }
        self.carry_system_metadata(live, &mut new);
        self.separate_status(live, &mut new);
        meta::set(
            &mut new,
            "resourceVersion",
            json!(stored.revision.to_string()),
        );
        let review = admit::Review {
            operation: Operation::Update,
            options,
            old: Some(live),
        };
        admit::mutate(self, &review, &mut new).await?;
        // A hook may not reach past the path either.
        self.carry_system_metadata(live, &mut new);
        self.separate_status(live, &mut new);
        self.count_generation(live, &mut new);
        special::complete_changed(self, live, &mut new)?;
        self.validate(&new, Some(live))?;
        special::authorize_write(self, &new, Some(live))?;
        admit::validate(self, &review, &new).await?;
        meta::set(
            &mut new,
            "resourceVersion",
            json!(stored.revision.to_string()),
        );
        if options.dry_run {
            return Ok(Some(Written::Dry(new)));
        }
        if new == *live && self.def.is_as_stored(stored) {
            return Ok(Some(Written::Stored(stored.clone())));
        }
        self.store_change(stored, new, unconditional).await
    }

    async fn store_change(
        &self,
        stored: &Stored,
        mut new: Value,
        unconditional: bool,
    ) -> Result<Option<Written>, ApiError> {
        let finished = special::deletion_is_finished(&self.def, &new);
        self.def.to_storage(&mut new);
        let payload = encode::payload(new.as_object().expect("identity settled: it is an object"));
        let change = if finished {
            Change::Delete(payload)
        } else {
            Change::Put(payload)
        };
        let write = Write {
            key: self.key(),
            expect: Expect::Exactly(stored.revision),
            change,
        };
        match self.cluster.commit(write).await {
            Ok(stored) => Ok(Some(Written::Stored(stored))),
            Err(CommitError::Changed { .. }) if unconditional => Ok(None),
            Err(CommitError::Changed { current: None, .. } | CommitError::Missing { .. }) => {
                Err(self.not_found())
            }
            Err(CommitError::Changed { .. }) => Err(self.modified()),
            Err(error) => Err(commit_failed(&error)),
        }
    }

    pub fn modified(&self) -> ApiError {
        ApiError::conflict(
            self.def.resource_name(),
            self.name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    fn uid_conflict(&self, given: &str, stored: &str) -> ApiError {
        let why = format!(
            "Precondition failed: UID in precondition: {given}, UID in object meta: {stored}"
        );
        ApiError::conflict(self.def.resource_name(), self.name, &why)
    }

    /// How managed fields name the subresource of this call.
    pub fn subresource_name(&self) -> &'static str {
        match self.subresource {
            Some(Subresource::Status) => "status",
            Some(Subresource::Scale) => "scale",
            Some(Subresource::Finalize) => "finalize",
            _ => "",
        }
    }

    /// The fields that a write through this path never owns.
    pub fn unowned_paths(&self) -> FieldSet {
        match self.subresource {
            Some(Subresource::Status) if self.def.is_custom() => {
                FieldSet::of_paths(&["metadata", "spec"])
            }
            Some(Subresource::Status) => FieldSet::of_paths(&["spec"]),
            _ if self.def.has(Subresource::Status) => FieldSet::of_paths(&["status"]),
            _ => FieldSet::new(),
        }
    }
}
