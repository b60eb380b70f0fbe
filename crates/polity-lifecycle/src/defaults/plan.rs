//! What to do about each document, and about what has none any more.

use std::collections::BTreeMap;

use super::documents::{Document, Documents, Problem};
use super::record::Record;
use crate::kinds::OwnedKey;

/// An object that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its UID.
    pub uid: String,
    /// Whether we made it for this ConfigMap, and nobody took it over.
    pub is_ours: bool,
    /// Whether it is being deleted.
    pub is_going: bool,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan<'a> {
    /// What to write, in this order.
    pub steps: Vec<Step<'a>>,
    /// What is to be told about documents that are not applied.
    pub problems: Vec<Problem>,
    /// Whether something must go before its document can be applied.
    pub is_waiting: bool,
    /// What is recorded before any step.
    pub record: Record,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<'a> {
    /// Make an object so, as far as its fields are ours or nobody's.
    Apply(&'a OwnedKey, &'a Document),
    /// Delete an object that has no document any more.
    Delete(&'a OwnedKey, &'a Found),
}

/// What to do about one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Create the object, or bring it up to date.
    Apply,
    /// Nothing: it was applied, and what became of the object since is its owner's affair.
    Rest,
    /// Nothing yet: the object is on its way out.
    Wait,
    /// Nothing: the object is somebody else's.
    LeaveAlone,
}

/// What to do about a document with this hash, when the object was last brought up to `applied`.
pub fn decide(hash: &str, applied: Option<&str>, found: Option<&Found>) -> Decision {
    if applied == Some(hash) {
        return Decision::Rest;
    }
    match found {
        None => Decision::Apply,
        Some(found) if found.is_going => Decision::Wait,
        Some(found) if found.is_ours => Decision::Apply,
        Some(_) => Decision::LeaveAlone,
    }
}

impl<'a> Plan<'a> {
    /// What is due. `found` holds every object that a document is about or that carries our label.
    pub fn of(
        documents: &'a Documents,
        record: &Record,
        found: &'a BTreeMap<OwnedKey, Found>,
    ) -> Self {
        let mut plan = Self {
            steps: Vec::new(),
            problems: documents.problems.clone(),
            is_waiting: false,
            record: record.clone(),
        };
        for (key, document) in &documents.objects {
            match decide(&document.hash, record.applied(key), found.get(key)) {
                Decision::Apply => plan.steps.push(Step::Apply(key, document)),
                Decision::Rest => {}
                Decision::Wait => plan.is_waiting = true,
                Decision::LeaveAlone => plan.problems.push(Problem {
                    place: document.place.clone(),
                    reason: format!("{key} is there already and not from here: it is left alone"),
                }),
            }
        }
        // A slip in one document must not look as if its objects were no longer wanted.
        if !documents.has_unreadable {
            let vanished = found.iter().filter(|(key, found)| {
                found.is_ours && !found.is_going && !documents.objects.contains_key(key)
            });
            // Policies first: a server waits for them.
            let vanished = vanished.rev().map(|(key, found)| Step::Delete(key, found));
            plan.steps.extend(vanished);
            plan.record.keep(documents.objects.keys());
        }
        plan
    }
}
