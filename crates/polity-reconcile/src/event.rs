//! Writes Events about objects. A repeated Event is counted on the one that exists; an Event that cannot be written is
//! logged and blocks nothing.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSeries, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::{Api, Client, ResourceExt as _};
use tracing::warn;

use crate::hash::name_hash;
use crate::write::{WriteError, Writer};

/// The namespace of Events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";
/// The longest note of an Event.
const NOTE_MAX: usize = 1024;

/// An Event about an object, before it is written.
#[derive(Debug, Clone)]
pub struct ObjectEvent<'a> {
    /// The object, with its UID.
    pub about: ObjectReference,
    /// The reason, one word in CamelCase.
    pub reason: &'a str,
    /// The message.
    pub note: &'a str,
    /// Whether the owner of the object should act.
    pub is_warning: bool,
    /// The controller that reports it.
    pub manager: &'a str,
    /// The position among Events of the same second: kubectl sorts by whole seconds, and then by name.
    pub rank: u8,
}

/// Why an Event was not written.
#[derive(Debug, thiserror::Error)]
enum WriteEventError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("reading the event that is repeated")]
    Read(#[from] kube::Error),
}

/// Writes an Event, or counts it on the Event that exists. A failure is logged.
pub async fn publish_event(client: &Client, event: &ObjectEvent<'_>, now: Timestamp) {
    if let Err(error) = write(client, event, now).await {
        warn!(
            kind = event.about.kind,
            name = event.about.name,
            reason = event.reason,
            error = &error as &dyn std::error::Error,
            "could not write an event"
        );
    }
}

async fn write(
    client: &Client,
    event: &ObjectEvent<'_>,
    now: Timestamp,
) -> Result<(), WriteEventError> {
    let writer = Writer::<Event>::new(client, event.manager);
    let first = event.first(now);
    match writer.create(&first).await {
        Err(WriteError::AlreadyExists { .. }) => {}
        other => return Ok(other.map(drop)?),
    }
    let namespace = first.metadata.namespace.as_deref().unwrap_or_default();
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let found = events.get(&first.name_any()).await?;
    writer.update(&repeated(found, now)).await?;
    Ok(())
}

/// The Event after one more occurrence. Series and count say the same: newer clients read one, older ones the other.
fn repeated(mut event: Event, now: Timestamp) -> Event {
    let in_series = event.series.as_ref().and_then(|series| series.count);
    let count = in_series.or(event.count).unwrap_or(1).saturating_add(1);
    event.series = Some(EventSeries {
        count: Some(count),
        last_observed_time: Some(MicroTime(now)),
    });
    event.count = Some(count);
    event.first_timestamp = event
        .first_timestamp
        .or_else(|| event.event_time.clone().map(|time| Time(time.0)));
    event.last_timestamp = Some(Time(now));
    event
}

impl ObjectEvent<'_> {
    /// The Event at its first occurrence. It is written as core/v1, which alone takes the timestamps that `kubectl
    /// describe` sorts by.
    fn first(&self, now: Timestamp) -> Event {
        let namespace = self.about.namespace.as_deref();
        let kind = if self.is_warning { "Warning" } else { "Normal" };
        Event {
            metadata: ObjectMeta {
                name: Some(self.name()),
                namespace: Some(namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned()),
                ..ObjectMeta::default()
            },
            action: Some("Reconcile".to_owned()),
            count: Some(1),
            event_time: Some(MicroTime(now)),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            message: Some(self.note.chars().take(NOTE_MAX).collect()),
            reason: Some(self.reason.to_owned()),
            involved_object: self.about.clone(),
            reporting_component: Some(self.manager.to_owned()),
            reporting_instance: Some(self.manager.to_owned()),
            source: Some(EventSource {
                component: Some(self.manager.to_owned()),
                host: None,
            }),
            type_: Some(kind.to_owned()),
            ..Event::default()
        }
    }

    /// The name, which is the same for each occurrence, also in another process.
    fn name(&self) -> String {
        let uid = self.about.uid.as_deref().unwrap_or_default();
        let hash = name_hash(&format!("{uid}/{}/{}", self.reason, self.note), 12);
        let name = self.about.name.as_deref().unwrap_or_default();
        let name: String = name.chars().take(238).collect();
        let rank = char::from(b'a' + self.rank.min(25));
        format!("{}.{rank}{hash}", name.trim_end_matches(['.', '-']))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(reason: &str, rank: u8) -> ObjectEvent<'_> {
        ObjectEvent {
            about: ObjectReference {
                name: Some("p".to_owned()),
                uid: Some("u".to_owned()),
                ..ObjectReference::default()
            },
            reason,
            note: "a note",
            is_warning: false,
            manager: "polity/test",
            rank,
        }
    }

    #[test]
    fn an_event_has_the_times_and_the_count_of_both_kinds_of_clients() {
        let (then, now) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        let first = event("PolicyActive", 0).first(then);
        assert_eq!(first.count, Some(1));
        assert_eq!(first.event_time, Some(MicroTime(then)));
        assert_eq!(first.first_timestamp, Some(Time(then)));
        assert_eq!(first.last_timestamp, Some(Time(then)));
        assert_eq!(first.series, None);
        let mut third = repeated(repeated(first.clone(), then), now);
        let series = third.series.take().unwrap();
        assert_eq!((series.count, third.count), (Some(3), Some(3)));
        assert_eq!(series.last_observed_time, Some(MicroTime(now)));
        assert_eq!(third.first_timestamp, Some(Time(then)));
        assert_eq!(third.last_timestamp, Some(Time(now)));
    }

    #[test]
    fn an_event_of_an_older_release_gets_the_missing_times() {
        let (then, now) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        let older = Event {
            count: None,
            first_timestamp: None,
            last_timestamp: None,
            ..event("PolicyActive", 0).first(then)
        };
        let repeated = repeated(older, now);
        assert_eq!(repeated.count, Some(2));
        assert_eq!(repeated.first_timestamp, Some(Time(then)));
        assert_eq!(repeated.last_timestamp, Some(Time(now)));
    }

    #[test]
    fn events_of_one_second_are_listed_in_the_order_of_their_rank() {
        let names = ["Z", "M", "A"].map(|reason| {
            let rank = ["Z", "M", "A"].iter().position(|one| *one == reason);
            event(reason, u8::try_from(rank.unwrap()).unwrap()).name()
        });
        assert!(names.is_sorted(), "{names:?}");
        assert_eq!(event("A", 1).name(), event("A", 1).name());
    }
}
