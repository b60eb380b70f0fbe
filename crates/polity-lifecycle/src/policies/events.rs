//! Writes Events about policies.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use polity_api::policies::GROUP;
use polity_reconcile::{ObjectEvent, publish_event};

use super::MANAGER;
use crate::lifecycle::{Event, Policy};

/// Writes Events about a policy.
pub(super) async fn publish(client: &Client, policy: &Policy, events: &[Event], now: Timestamp) {
    for event in events {
        let event = ObjectEvent {
            about: reference(policy),
            reason: event.reason.as_str(),
            note: &event.note,
            is_warning: event.reason.is_warning(),
            manager: MANAGER,
            rank: event.reason.rank(),
        };
        publish_event(client, &event, now).await;
    }
}

fn reference(policy: &Policy) -> ObjectReference {
    ObjectReference {
        api_version: Some(format!("{GROUP}/v1")),
        kind: Some(policy.kind.as_str().to_owned()),
        name: Some(policy.name.clone()),
        namespace: policy.namespace().map(str::to_owned),
        uid: Some(policy.uid.clone()),
        ..ObjectReference::default()
    }
}
