//! Tells owners of objects what happened, as Events about them. One that cannot be written is logged and blocks nothing.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tracing::warn;

use crate::names::spelled;

/// Where Events about cluster-wide objects go.
const DEFAULT_NAMESPACE: &str = "default";

/// Something worth telling about an object.
#[derive(Debug, Clone)]
pub(crate) struct Story<'a> {
    /// The object, with its UID.
    pub(crate) about: ObjectReference,
    /// What happened, in a word.
    pub(crate) reason: &'a str,
    /// What happened, in a sentence.
    pub(crate) note: &'a str,
    /// Whether somebody should look.
    pub(crate) is_warning: bool,
    /// Who tells it.
    pub(crate) manager: &'a str,
}

/// Writes an Event. The same one again is counted on the one that is there.
pub(crate) async fn tell(client: &Client, story: &Story<'_>, now: Timestamp) {
    let event = story.event(now);
    let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    if let Err(error) = publish(&api, &event, now).await {
        warn!(
            kind = story.about.kind,
            name = story.about.name,
            reason = story.reason,
            error = &error as &dyn std::error::Error,
            "could not write an event"
        );
    }
}

async fn publish(api: &Api<Event>, event: &Event, now: Timestamp) -> kube::Result<()> {
    match api.create(&PostParams::default(), event).await {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
        other => return other.map(drop),
    }
    let name = event.metadata.name.as_deref().unwrap_or_default();
    let mut there = api.get(name).await?;
    let n_before = there.series.as_ref().map_or(1, |series| series.count);
    there.series = Some(EventSeries {
        count: n_before + 1,
        last_observed_time: MicroTime(now),
    });
    api.replace(name, &PostParams::default(), &there)
        .await
        .map(drop)
}

impl Story<'_> {
    fn event(&self, now: Timestamp) -> Event {
        let namespace = self.about.namespace.as_deref();
        let kind = if self.is_warning { "Warning" } else { "Normal" };
        Event {
            metadata: ObjectMeta {
                name: Some(self.name()),
                namespace: Some(namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned()),
                ..ObjectMeta::default()
            },
            action: Some("Reconcile".to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(self.note.chars().take(1024).collect()),
            reason: Some(self.reason.to_owned()),
            regarding: Some(self.about.clone()),
            reporting_controller: Some(self.manager.to_owned()),
            reporting_instance: Some(self.manager.to_owned()),
            type_: Some(kind.to_owned()),
            ..Event::default()
        }
    }

    /// The same story has the same name, whoever tells it.
    fn name(&self) -> String {
        let uid = self.about.uid.as_deref().unwrap_or_default();
        let hash = spelled(&format!("{uid}/{}/{}", self.reason, self.note), 12);
        let name = self.about.name.as_deref().unwrap_or_default();
        let name: String = name.chars().take(240).collect();
        format!("{}.{hash}", name.trim_end_matches(['.', '-']))
    }
}
