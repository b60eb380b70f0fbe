//! Lists: which snapshot, which page, which objects (docs/spec/apiserver.md#8).

use std::time::Duration;

use http::StatusCode;
use polity_store::{HistoryError, Revision};

use super::Call;
use super::select::Selection;
use super::token::Token;
use crate::object::{Page, Snapshot, Stored};
use crate::request::query::{ListOptions, VersionMatch};
use polity_kinds::status::{ApiError, Cause, Details};

/// How long a list waits for a version that does not exist yet.
const FUTURE_PATIENCE: Duration = Duration::from_secs(3);

impl Call<'_> {
    /// Lists the collection this call names.
    pub async fn list(&self, options: &ListOptions) -> Result<Page, ApiError> {
        let selection = Selection::parse(&self.def, options)?;
        let token = match options.continue_token.as_str() {
            "" => None,
            text => Some(Token::decode(text)?),
        };
        let snapshot = self.snapshot(options, token.as_ref()).await?;
        Ok(self.page(&snapshot, &selection, options.limit, token.as_ref()))
    }

    /// The snapshot for the version parameters.
    async fn snapshot(
        &self,
        options: &ListOptions,
        token: Option<&Token>,
    ) -> Result<Snapshot, ApiError> {
        let store = self.cluster.store();
        if let Some(token) = token {
            if !matches!(options.resource_version.as_str(), "" | "0") {
                return Err(ApiError::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            return match token.revision {
                None => Ok(store.current()),
                Some(revision) => store
                    .at_bucket(&self.def.bucket, Revision(revision))
                    .map_err(|error| expired_token(&error, token)),
            };
        }
        let Some(wanted) = options.version_number()?.filter(|number| *number > 0) else {
            return Ok(store.current());
        };
        let wanted = Revision(wanted);
        self.reach(wanted).await?;
        let exact = match options.version_match {
            VersionMatch::Exact => true,
            VersionMatch::NotOlderThan => false,
            VersionMatch::Unset => options.limit > 0,
        };
        if exact {
            store
                .at_bucket(&self.def.bucket, wanted)
                .map_err(|error| expired(&error, wanted))
        } else {
            Ok(store.current())
        }
    }

    /// Waits briefly for a version that does not exist yet.
    pub async fn reach(&self, wanted: Revision) -> Result<(), ApiError> {
        let store = self.cluster.store();
        if store.current().revision() >= wanted {
            return Ok(());
        }
        if tokio::time::timeout(FUTURE_PATIENCE, store.wait_for(wanted))
            .await
            .is_ok()
        {
            return Ok(());
        }
        let newest = store.current().revision();
        let why = format!("Too large resource version: {wanted}, current: {newest}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: String::new(),
        };
        let error = ApiError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            format!("Timeout: {why}"),
        );
        Err(error.with_details(Details {
            causes: vec![cause],
            retry_after_seconds: 1,
            ..Details::default()
        }))
    }

    fn page(
        &self,
        snapshot: &Snapshot,
        selection: &Selection,
        limit: u64,
        token: Option<&Token>,
    ) -> Page {
        let namespace = (!self.namespace.is_empty()).then_some(self.namespace);
        let after = token.map(|token| (token.namespace.as_str(), token.name.as_str()));
        let limit = if limit == 0 {
            usize::MAX
        } else {
            limit as usize
        };
        let mut all = snapshot
            .range(&self.def.bucket, namespace, after)
            .filter(|stored| selection.matches(stored));
        let mut items: Vec<Stored> = Vec::new();
        while items.len() < limit {
            match all.next() {
                Some(stored) => items.push(stored.clone()),
                None => break,
            }
        }
        let more = if items.len() < limit {
            0
        } else if selection.is_everything() {
            all.count()
        } else {
            usize::from(all.next().is_some())
        };
        let continue_token = items.last().filter(|_| more > 0).map(|last| {
            Token {
                revision: Some(snapshot.revision().0),
                namespace: last.key.namespace.to_string(),
                name: last.key.name.to_string(),
            }
            .encode()
        });
        let remaining =
            (continue_token.is_some() && selection.is_everything()).then_some(more as u64);
        Page {
            items,
            revision: snapshot.revision(),
            continue_token,
            remaining,
        }
    }
}

fn expired(error: &HistoryError, wanted: Revision) -> ApiError {
    match error {
        HistoryError::Compacted { oldest } => ApiError::expired(format!(
            "The resourceVersion for the provided list is too old: {wanted} (oldest kept: {oldest})"
        )),
        HistoryError::Future { newest } => ApiError::timeout(&format!(
            "Too large resource version: {wanted}, current: {newest}"
        )),
    }
}

/// The response to an expired token contains a token that continues from the same key in the newest snapshot.
fn expired_token(error: &HistoryError, token: &Token) -> ApiError {
    match error {
        HistoryError::Future { .. } => ApiError::bad_request(
            "continue key is not valid: it names a version that does not exist yet",
        ),
        HistoryError::Compacted { .. } => {
            let fresh = Token {
                revision: None,
                ..token.clone()
            };
            let mut error = ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list \
                 without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
                 results. Continuing with the provided token results in an inconsistent list - objects that were created, \
                 modified, or deleted between the time the first chunk was returned and now may show up in the list.",
            );
            error.continue_token = Some(fresh.encode());
            error
        }
    }
}
