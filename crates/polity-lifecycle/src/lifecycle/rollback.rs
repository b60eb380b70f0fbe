//! Returning to an earlier generation: the annotation asks, the policy gets that specification as a new generation
//! (docs/spec/admission.md#19-8). Nothing else treats it specially.

use kube::api::DynamicObject;
use polity_api::policies::names;
use serde_json::Value;

use super::events::{Event, EventReason};
use super::observed::Observed;
use super::plan::{Step, Write};

/// What to do about the annotation, if there is one. It is looked at before anything else and works in every phase.
pub(super) fn step(observed: &Observed) -> Option<Step> {
    let policy = &observed.policy;
    let wanted = policy.annotation(names::ROLLBACK_TO_GENERATION)?;
    let without = without_annotation(&policy.object);
    let failed = |why: String| {
        let note = format!("The policy was not rolled back: {why}.");
        Step {
            write: Write::UpdatePolicy(Box::new(without.clone())),
            events: vec![Event::new(EventReason::RollbackFailed, note)],
        }
    };
    let Ok(generation) = wanted.parse::<i64>() else {
        return Some(failed(format!("{wanted:?} is not a generation")));
    };
    let revision = observed.revision(generation);
    let spec = revision.and_then(|revision| revision.spec.data.get("spec"));
    let Some(Value::Object(spec)) = spec else {
        return Some(failed(format!("generation {generation} is not kept")));
    };
    if *spec == policy.spec() {
        let note = format!("The policy already is as in generation {generation}: nothing changed.");
        return Some(Step {
            write: Write::UpdatePolicy(Box::new(without)),
            events: vec![Event::new(EventReason::PolicyRolledBack, note)],
        });
    }
    let mut rolled_back = without.clone();
    rolled_back.data["spec"] = Value::Object(spec.clone());
    let made = policy.generation + 1;
    rolled_back
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(
            names::ROLLED_BACK.to_owned(),
            format!("{made}={generation}"),
        );
    let note =
        format!("The policy was rolled back to generation {generation}, as generation {made}.");
    Some(Step {
        write: Write::RollBack {
            rolled_back: Box::new(rolled_back),
            refused: Box::new(without),
        },
        events: vec![Event::new(EventReason::PolicyRolledBack, note)],
    })
}

/// The Event for a rollback that the API server did not take.
pub fn refused(words: &str) -> Event {
    let words = words.trim_end_matches('.');
    let note = format!("The policy was not rolled back: {words}.");
    Event::new(EventReason::RollbackFailed, note)
}

fn without_annotation(object: &DynamicObject) -> DynamicObject {
    let mut object = object.clone();
    if let Some(annotations) = object.metadata.annotations.as_mut() {
        annotations.remove(names::ROLLBACK_TO_GENERATION);
    }
    object
}
