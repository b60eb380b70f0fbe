//! Events about what is not run, and why.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt as _};
use sha2::{Digest as _, Sha256};
use tracing::warn;

use super::{Shared, WRITE_PATIENCE};
use crate::hex;
use crate::pod::Unready;

const COMPONENT: &str = "polity-local";
/// The longest name of an Event, before the part that tells Events of an object apart.
const NAME_MAX: usize = 200;

/// Writes a Warning about an object. The same one is written once, whoever writes it.
pub(super) async fn forbidden<K>(shared: &Shared, object: &K, why: &str)
where
    K: Resource<DynamicType = ()>,
{
    let event = event(object, why, &shared.options.node, shared.now());
    let namespace = event.metadata.namespace.clone().unwrap_or_default();
    warn!(
        kind = %K::kind(&()),
        namespace,
        name = object.name_any(),
        reason = why,
        "not run on this machine"
    );
    let api: Api<Event> = Api::namespaced(shared.client.clone(), &namespace);
    let params = PostParams::default();
    let write = api.create(&params, &event);
    match tokio::time::timeout(WRITE_PATIENCE, write).await {
        Ok(Ok(_)) => {}
        // It was written before, or the namespace ends.
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 403 | 404 | 409) => {}
        Ok(Err(error)) => {
            warn!(
                error = &error as &dyn std::error::Error,
                "event not written"
            );
        }
        Err(_) => warn!("event not written in time"),
    }
}

fn event<K>(object: &K, why: &str, node: &str, now: Timestamp) -> Event
where
    K: Resource<DynamicType = ()>,
{
    let about: ObjectReference = object.object_ref(&());
    let uid = about.uid.clone().unwrap_or_default();
    let digest = hex(&Sha256::digest(format!("{uid}/{why}"))[..6]);
    let name: String = object.name_any().chars().take(NAME_MAX).collect();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{digest}", name.trim_end_matches(['.', '-']))),
            namespace: object.namespace(),
            ..ObjectMeta::default()
        },
        involved_object: about,
        type_: Some("Warning".into()),
        reason: Some(Unready::FORBIDDEN.into()),
        message: Some(format!("not run on this machine: {why}")),
        action: Some("Start".into()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        event_time: Some(MicroTime(now)),
        source: Some(EventSource {
            component: Some(COMPONENT.into()),
            host: Some(node.to_owned()),
        }),
        reporting_component: Some(COMPONENT.into()),
        reporting_instance: Some(node.to_owned()),
        ..Event::default()
    }
}
