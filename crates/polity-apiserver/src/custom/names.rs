//! Decides which definition may use which names, and the resulting status.

use std::collections::BTreeMap;

use jiff::Timestamp;
use polity_core::GroupVersionKind;
use polity_merge::apply;
use polity_merge::fields::FieldSet;
use serde_json::{Value, json};

use super::Summary;
use crate::object::conditions::{Condition, is_true};
use crate::object::meta;
use polity_kinds::schemas;

/// The names taken in one group, each with the definition that has it.
#[derive(Debug, Default)]
pub struct Taken {
    /// Plurals, singulars and short names share one name space.
    resources: BTreeMap<String, String>,
    /// Kinds and list kinds share another.
    kinds: BTreeMap<String, String>,
}

impl Taken {
    /// The names other accepted definitions of the group hold.
    pub fn of_others<'a>(own: &Summary, all: impl Iterator<Item = &'a Summary>) -> Self {
        let mut taken = Self::default();
        for other in all.filter(|other| other.name != own.name && other.group == own.group) {
            let (names, owner) = (&other.names, &other.name);
            for field in ["plural", "singular"] {
                taken.resource(names[field].as_str(), owner);
            }
            for short in meta::strings(names.get("shortNames")) {
                taken.resource(Some(short), owner);
            }
            for field in ["kind", "listKind"] {
                if let Some(kind) = names[field].as_str().filter(|kind| !kind.is_empty()) {
                    taken.kinds.insert(kind.to_owned(), owner.clone());
                }
            }
        }
        taken
    }

    fn resource(&mut self, name: Option<&str>, owner: &str) {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            self.resources.insert(name.to_owned(), owner.to_owned());
        }
    }

    /// The names that are available, and the condition if some are not. Every conflict overwrites the previous one, as
    /// on a real server.
    fn judge(&self, crd: &Value) -> (Value, Option<Condition>) {
        let names = &crd["spec"]["names"];
        let mut accepted = crd["status"]["acceptedNames"].clone();
        let mut conflict = None;
        let mut refuse = |reason: &'static str, name: &str| {
            let message = format!("{name:?} is already in use");
            conflict = Some(Condition {
                kind: "NamesAccepted",
                status: false,
                reason,
                message,
            });
        };
        let fields = [
            ("plural", "PluralConflict", &self.resources),
            ("singular", "SingularConflict", &self.resources),
            ("shortNames", "ShortNamesConflict", &self.resources),
            ("kind", "KindConflict", &self.kinds),
            ("listKind", "ListKindConflict", &self.kinds),
        ];
        for (field, reason, taken) in fields {
            let wanted: Vec<&str> = match &names[field] {
                Value::String(name) => vec![name],
                list => meta::strings(Some(list)),
            };
            match wanted.iter().find(|name| taken.contains_key(**name)) {
                Some(name) => refuse(reason, name),
                None if names[field].is_null() => {
                    if let Some(accepted) = accepted.as_object_mut() {
                        accepted.remove(field);
                    }
                }
                None => accepted[field] = names[field].clone(),
            }
        }
        if conflict.is_none() {
            accepted = names.clone();
        }
        (accepted, conflict)
    }
}

/// Records that the server itself wrote the status.
pub fn record(live: &Value, next: &mut Value, now: Timestamp) {
    let kind = GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    apply::track_update(apply::UpdateInput {
        schema: &schemas::schema_of(&kind),
        live: Some(live),
        blank: None,
        new: next,
        manager: "polity",
        subresource: "status",
        api_version: &kind.api_version(),
        now,
        ignore: &FieldSet::of_paths(&["spec"]),
    });
}

/// The status that the definition should have; `None` if it has it already.
pub fn accept(crd: &Value, taken: &Taken, now: Timestamp) -> Option<Value> {
    let mut next = crd.clone();
    let (names, conflict) = taken.judge(crd);
    let accepted = conflict.is_none();
    next["status"]["acceptedNames"] = names;
    let condition = conflict.unwrap_or(Condition {
        kind: "NamesAccepted",
        status: true,
        reason: "NoConflicts",
        message: "no conflicts found".into(),
    });
    condition.set(&mut next, now);
    let already = is_true(crd, "Established");
    if accepted || !already {
        let established = if accepted {
            Condition {
                kind: "Established",
                status: true,
                reason: "InitialNamesAccepted",
                message: "the initial names have been accepted".into(),
            }
        } else {
            Condition {
                kind: "Established",
                status: false,
                reason: "NotAccepted",
                message: "not all names are accepted".into(),
            }
        };
        established.set(&mut next, now);
    }
    if next["status"].get("storedVersions").is_none() {
        next["status"]["storedVersions"] = json!([]);
    }
    (next != *crd).then_some(next)
}

#[cfg(test)]
mod tests {
    use polity_store::Revision;

    use super::*;

    fn crd(name: &str, kind: &str, short: &str) -> Value {
        json!({
            "metadata": {"name": format!("{name}.example.com")},
            "spec": {"group": "example.com", "names": {
                "plural": name, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"), "shortNames": [short],
            }},
            "status": {"storedVersions": ["v1"]},
        })
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn free_names_are_accepted_at_once_and_only_once() {
        let accepted = accept(&crd("widgets", "Widget", "w"), &Taken::default(), now()).unwrap();
        assert!(is_true(&accepted, "NamesAccepted") && is_true(&accepted, "Established"));
        assert_eq!(accepted["status"]["acceptedNames"]["plural"], "widgets");
        assert!(
            accept(&accepted, &Taken::default(), now()).is_none(),
            "nothing to write the second time"
        );
    }

    #[test]
    fn a_refusal_lists_the_names_in_use() {
        let first = accept(&crd("widgets", "Widget", "w"), &Taken::default(), now()).unwrap();
        for (other, reason) in [
            (crd("gadgets", "Widget", "g"), "ListKindConflict"),
            (crd("gadgets", "Gadget", "w"), "ShortNamesConflict"),
            (crd("w", "Gadget", "g"), "PluralConflict"),
            (crd("gadgets", "WidgetList", "g"), "KindConflict"),
        ] {
            let [own, first] = [&other, &first].map(|crd| Summary::of(Revision(1), crd));
            let taken = Taken::of_others(&own, [&first].into_iter());
            let refused = accept(&other, &taken, now()).unwrap();
            assert!(!is_true(&refused, "Established"));
            assert_eq!(refused["status"]["conditions"][0]["reason"], reason);
        }
    }
}
