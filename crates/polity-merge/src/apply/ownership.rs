//! How ownership moves when an object changes.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::Value;

use super::conflict::Conflict;
use super::managers::{Id, Managed, Managers};
use crate::fields::FieldSet;
use crate::typed::{self, Comparison, Emptied, Type};

/// Fields that the server maintains; they have no owner.
static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_paths(&[
        "apiVersion",
        "kind",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.creationTimestamp",
        "metadata.selfLink",
        "metadata.uid",
        "metadata.clusterName",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.resourceVersion",
    ])
});

/// A write: its manager, its time, and the fields that it must not own.
pub(super) struct Write<'a> {
    pub(super) id: Id,
    pub(super) api_version: &'a str,
    pub(super) now: Timestamp,
    pub(super) ignore: &'a FieldSet,
}

impl Write<'_> {
    fn time(&self) -> String {
        self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

/// After a write other than an apply: the writer owns the fields it changed, and removed fields have no owner.
pub(super) fn update(
    ty: Type<'_>,
    old: &Value,
    new: &Value,
    managers: &mut Managers,
    write: &Write<'_>,
) {
    let found = typed::compare(ty, old, new).without(write.ignore);
    settle(&found, managers, None);
    let taken = found.changed().difference(&NEVER_OWNED);
    if taken.is_empty() {
        return;
    }
    let entry = managers
        .by_id
        .entry(write.id.clone())
        .or_insert_with(|| Managed {
            set: FieldSet::new(),
            api_version: write.api_version.to_owned(),
            time: None,
        });
    entry.set.extend(&taken);
    write.api_version.clone_into(&mut entry.api_version);
    entry.time = Some(write.time());
}

/// Merges an applied configuration. With `force`, other managers lose the fields that change.
pub(super) fn apply(
    ty: Type<'_>,
    live: &Value,
    body: &Value,
    mut managers: Managers,
    write: &Write<'_>,
    force: bool,
) -> Result<(Value, Managers), Vec<Conflict>> {
    let merged = typed::merge(ty, live, body);
    let set = typed::fields_of(ty, body).difference_below(write.ignore);
    let last = managers.by_id.remove(&write.id);
    let time = last.as_ref().and_then(|last| last.time.clone());
    managers.by_id.insert(
        write.id.clone(),
        Managed {
            set: set.clone(),
            api_version: write.api_version.to_owned(),
            time,
        },
    );
    let abandoned = match &last {
        Some(last) if !last.set.difference(&set).is_empty() => {
            abandoned(ty, &merged, &managers, &last.set)
        }
        Some(_) | None => FieldSet::new(),
    };
    let (new, found) = if abandoned.is_empty() {
        let found = typed::compare(ty, live, &merged);
        (merged, found)
    } else {
        // For the owners of a container that lost its last part, the container is still there.
        let nulled = typed::remove(ty, merged.clone(), &abandoned, Emptied::Null);
        let found = typed::compare(ty, live, &nulled);
        // Merge again: a field that is applied as empty must not be removed with its last part.
        let kept = typed::remove(ty, merged, &abandoned, Emptied::Gone);
        (typed::merge(ty, &kept, body), found)
    };
    let found = found.without(write.ignore);
    let conflicts = conflicts_with(&found, &managers, &write.id);
    if !force && !conflicts.is_empty() {
        return Err(conflicts);
    }
    settle(&found, &mut managers, Some(&write.id));
    let owned = set.difference(&NEVER_OWNED);
    if owned.is_empty() {
        managers.by_id.remove(&write.id);
    } else if let Some(entry) = managers.by_id.get_mut(&write.id) {
        entry.set = owned;
        if !typed::equal(live, &new) {
            entry.time = Some(write.time());
        }
    }
    Ok((new, managers))
}

/// The fields that the manager applied before, does not apply now, and no other manager owns.
fn abandoned(ty: Type<'_>, merged: &Value, managers: &Managers, last: &FieldSet) -> FieldSet {
    let named = |set: &FieldSet| set.with_named_parents(Some(ty));
    let last = named(last);
    let in_merged = named(&typed::fields_of(ty, merged));
    let mut owned = FieldSet::new();
    for managed in managers.by_id.values() {
        owned.extend(&managed.set);
    }
    // First removes all fields of the manager, then restores those that other managers own.
    let bare = typed::remove(ty, merged.clone(), &last, Emptied::Null);
    let mut kept = named(&typed::fields_of(ty, &bare));
    kept.extend(&named(&owned));
    let owned_only = typed::remove(
        ty,
        merged.clone(),
        &in_merged.difference(&kept),
        Emptied::Null,
    );
    // Fields below a removed parent that the manager never owned stay.
    let kept = named(&typed::fields_of(ty, &owned_only));
    in_merged.difference(&kept).intersection(&last)
}

fn conflicts_with(found: &Comparison, managers: &Managers, except: &Id) -> Vec<Conflict> {
    let changed = found.changed();
    let others = managers.by_id.iter().filter(|(id, _)| *id != except);
    others
        .flat_map(|(id, managed)| {
            let paths = managed.set.intersection(&changed).paths();
            paths.into_iter().map(|path| Conflict {
                manager: id.manager.clone(),
                operation: id.operation,
                api_version: id.api_version.clone(),
                subresource: id.subresource.clone(),
                // The identity of an entry does not include its time, so there is none to report.
                time: None,
                path,
            })
        })
        .collect()
}

/// Removes changed and deleted fields from every other manager. Managers without fields are dropped.
fn settle(found: &Comparison, managers: &mut Managers, except: Option<&Id>) {
    let mut lost = found.changed();
    lost.extend(&found.removed);
    if !lost.is_empty() {
        for (_, managed) in managers
            .by_id
            .iter_mut()
            .filter(|(id, _)| Some(*id) != except)
        {
            managed.set = managed.set.difference(&lost);
        }
    }
    managers.by_id.retain(|_, managed| !managed.set.is_empty());
}
