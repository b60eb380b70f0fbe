//! The claim of a policy server's cache: created once, and observed until it is bound.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use polity_api::policies::v1::PolicyServer;

use super::ensure::check_owner;
use super::{ServerError, Servers};
use crate::objects;

/// How long a claim may stay unbound before the status reports it, and how often it is checked meanwhile.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);

impl Servers {
    /// Creates the claim. It is never updated: most of its fields are immutable.
    pub(super) async fn make_claim(&self, server: &PolicyServer) -> Result<(), ServerError> {
        let Some(wanted) = objects::claim(server, &self.setup) else {
            return Ok(());
        };
        let claims: Api<PersistentVolumeClaim> = self.namespaced();
        let Some(found) = claims.get_opt(&wanted.name_any()).await? else {
            return self.ensure(server, &wanted).await;
        };
        check_owner(&found, server)?;
        if is_bound(&found) || !has_waited(&found, self.clock.now()) {
            return Ok(());
        }
        Err(ServerError::Unbound {
            claim: found.name_any(),
            words: self.words_about(&found).await?,
        })
    }

    /// Whether the claim is bound, or there is none.
    pub(super) async fn is_cache_bound(&self, server: &PolicyServer) -> Result<bool, ServerError> {
        let Some(wanted) = objects::claim(server, &self.setup) else {
            return Ok(true);
        };
        let claims: Api<PersistentVolumeClaim> = self.namespaced();
        let found = claims.get_opt(&wanted.name_any()).await?;
        Ok(found.is_none_or(|found| is_bound(&found)))
    }

    /// The note of the last Event about a claim, which is where provisioners report.
    async fn words_about(&self, claim: &PersistentVolumeClaim) -> Result<String, ServerError> {
        let events: Api<Event> = self.namespaced();
        let selector = format!("regarding.uid={}", claim.uid().unwrap_or_default());
        let told = events
            .list(&ListParams::default().fields(&selector))
            .await?
            .items;
        let when = |event: &Event| {
            let series = event.series.as_ref();
            let last = series.map(|series| series.last_observed_time.0);
            last.or(event.event_time.as_ref().map(|time| time.0))
                .or(event.deprecated_last_timestamp.as_ref().map(|time| time.0))
        };
        let last = told.into_iter().max_by_key(when);
        let words = last.and_then(|event| event.note);
        Ok(words.unwrap_or_else(|| "no Event about it gives a reason".to_owned()))
    }
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let phase = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    phase == Some("Bound")
}

fn has_waited(claim: &PersistentVolumeClaim, now: Timestamp) -> bool {
    let created = claim.metadata.creation_timestamp.as_ref();
    created.is_some_and(|created| {
        let since = Duration::try_from(now.duration_since(created.0));
        since.is_ok_and(|since| since >= PATIENCE)
    })
}
