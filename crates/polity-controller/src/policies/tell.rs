//! Tells the owner of a policy what happened, as Events about it. One that cannot be written is logged and blocks
//! nothing.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event as ApiEvent, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use polity_api::policies::GROUP;
use tracing::warn;

use super::MANAGER;
use crate::lifecycle::{Event, Policy};
use crate::names::spelled;

/// Where Events about cluster-wide objects go.
const DEFAULT_NAMESPACE: &str = "default";

/// Writes Events about a policy. The same one again is counted on the one that is there.
pub(super) async fn tell(client: &Client, policy: &Policy, events: &[Event], now: Timestamp) {
    let namespace = policy.namespace().unwrap_or(DEFAULT_NAMESPACE);
    let api: Api<ApiEvent> = Api::namespaced(client.clone(), namespace);
    for event in events {
        if let Err(error) = publish(&api, &event_object(policy, namespace, event, now), now).await {
            warn!(
                policy = policy.name,
                reason = event.reason.as_str(),
                error = &error as &dyn std::error::Error,
                "could not write an event"
            );
        }
    }
}

async fn publish(api: &Api<ApiEvent>, event: &ApiEvent, now: Timestamp) -> kube::Result<()> {
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

fn event_object(policy: &Policy, namespace: &str, event: &Event, now: Timestamp) -> ApiEvent {
    let kind = if event.reason.is_warning() {
        "Warning"
    } else {
        "Normal"
    };
    ApiEvent {
        metadata: ObjectMeta {
            name: Some(event_name(policy, event)),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        action: Some("Reconcile".to_owned()),
        event_time: Some(MicroTime(now)),
        note: Some(event.note.chars().take(1024).collect()),
        reason: Some(event.reason.as_str().to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some(format!("{GROUP}/v1")),
            kind: Some(policy.kind.as_str().to_owned()),
            name: Some(policy.name.clone()),
            namespace: policy.namespace().map(str::to_owned),
            uid: Some(policy.uid.clone()),
            ..ObjectReference::default()
        }),
        reporting_controller: Some(MANAGER.to_owned()),
        reporting_instance: Some(MANAGER.to_owned()),
        type_: Some(kind.to_owned()),
        ..ApiEvent::default()
    }
}

/// The same story has the same name, whoever tells it.
fn event_name(policy: &Policy, event: &Event) -> String {
    let text = format!("{}/{}/{}", policy.uid, event.reason.as_str(), event.note);
    let hash = spelled(&text, 12);
    let name: String = policy.name.chars().take(240).collect();
    format!("{}.{hash}", name.trim_end_matches(['.', '-']))
}
