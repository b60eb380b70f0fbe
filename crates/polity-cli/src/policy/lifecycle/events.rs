//! What the controller told about a policy: its Events, newest last.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::events::v1::Event as NewEvent;
use kube::api::ListParams;
use kube::{Api, Client};
use polity_runtime::client::describe;
use serde::Serialize;

use super::policy::Policy;

/// Where Events about cluster-wide objects are.
const DEFAULT_NAMESPACE: &str = "default";

/// The Events about a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Events {
    Listed(Vec<Told>),
    /// Why they cannot be read. That is worth a note, and nothing stops for it.
    Unreadable(String),
}

/// Something that was told, once or more often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Told {
    /// What tells one Event from another.
    #[serde(skip)]
    pub(super) name: String,
    /// Which of those of one moment came first.
    #[serde(skip)]
    pub(super) version: u64,
    pub(super) last: Option<Timestamp>,
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) reason: String,
    pub(super) note: String,
    pub(super) count: i32,
}

impl Events {
    /// What is known: none of it when they cannot be read.
    pub(super) fn told(&self) -> &[Told] {
        match self {
            Self::Listed(told) => told,
            Self::Unreadable(_) => &[],
        }
    }
}

impl Told {
    pub(super) fn is_warning(&self) -> bool {
        self.type_ == "Warning"
    }

    fn of(event: Event) -> Self {
        let series = event.series.unwrap_or_default();
        let last = [
            series.last_observed_time.as_ref(),
            event.event_time.as_ref(),
        ];
        let last = last.into_iter().flatten().map(|time| time.0).next();
        let last = last.or(event.last_timestamp.map(|time| time.0));
        let created = event.metadata.creation_timestamp.map(|time| time.0);
        Self {
            version: version(event.metadata.resource_version.as_deref()),
            name: event.metadata.name.unwrap_or_default(),
            last: last.or(created),
            type_: event.type_.unwrap_or_default(),
            reason: event.reason.unwrap_or_default(),
            note: event.message.unwrap_or_default(),
            count: series.count.or(event.count).unwrap_or(1),
        }
    }

    fn of_new(event: NewEvent) -> Self {
        let created = event.metadata.creation_timestamp.map(|time| time.0);
        let last = match &event.series {
            Some(series) => Some(series.last_observed_time.0),
            None => event.event_time.map(|time| time.0),
        };
        Self {
            version: version(event.metadata.resource_version.as_deref()),
            name: event.metadata.name.unwrap_or_default(),
            last: last.or(created),
            type_: event.type_.unwrap_or_default(),
            reason: event.reason.unwrap_or_default(),
            note: event.note.unwrap_or_default(),
            count: event.series.map_or(1, |series| series.count),
        }
    }
}

/// Reads the Events about a policy; about this very one, not about another that had its name.
pub(super) async fn about(client: &Client, policy: &Policy) -> Events {
    let namespace = policy.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let params = |field: &str| ListParams::default().fields(&format!("{field}={}", policy.uid));
    let old: Api<Event> = Api::namespaced(client.clone(), namespace);
    let listed = match old.list(&params("involvedObject.uid")).await {
        Ok(list) => Ok(list.items.into_iter().map(Told::of).collect()),
        // The same Events have two names, and a role may hold only one of them.
        Err(kube::Error::Api(status)) if status.is_forbidden() => {
            let new: Api<NewEvent> = Api::namespaced(client.clone(), namespace);
            let listed = new.list(&params("regarding.uid")).await;
            listed
                .map(|list| list.items.into_iter().map(Told::of_new).collect())
                .map_err(|_| status.message)
        }
        Err(error) => Err(describe(&error).message),
    };
    match listed {
        Ok(told) => Events::Listed(newest_last(told)),
        Err(why) => Events::Unreadable(why),
    }
}

fn newest_last(mut told: Vec<Told>) -> Vec<Told> {
    told.sort_by_key(|told| (told.last, told.version));
    told
}

fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// What was told since `before`: what is new, and what was told once more.
pub(super) fn fresh<'a>(before: &[Told], now: &'a [Told]) -> Vec<&'a Told> {
    let is_old = |told: &Told| {
        before
            .iter()
            .any(|earlier| earlier.name == told.name && earlier.count == told.count)
    };
    now.iter().filter(|told| !is_old(told)).collect()
}
