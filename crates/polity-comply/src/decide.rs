//! Whether each object complies, and which write would make it comply. See docs/spec/governance.md#11-3.

use std::sync::Arc;

use polity_core::ObjectKey;
use polity_core::selector::LabelSelector;
use serde_json::Value;

use crate::cluster::{DryRun, Kind};
use crate::compare::{Comparison, Question, compare, matches_search};
use crate::diff::{self, Recorded};
use crate::event::{Event, Reason, prefix, reasons};
use crate::policy::{ComplianceType, RecreateOption};
use crate::related::{NO_NAME, ObjectRef, Properties, Related};
use crate::select::{Asked, Desired};

/// What would make an object comply.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Create it, with strict field validation.
    Create { object: Value },
    /// Put it in place of the existing one, with strict field validation.
    Update { object: Value },
    /// Delete the existing one, wait until it is gone, create this one.
    Recreate { object: Value },
    /// Delete it.
    Delete,
}

/// What was found about one object, or about one search.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub kind: Kind,
    /// `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// The object's name, or what a search found.
    pub names: Vec<String>,
    /// What is seen now.
    pub event: Event,
    /// What would mend it; only for policies that enforce.
    pub write: Option<Write>,
    /// The status is not as specified, which no write mends.
    pub(crate) status_mismatch: bool,
    /// The definition says something about the status.
    pub(crate) wants_status: bool,
    pub(crate) properties: Option<Properties>,
    /// The difference, for the log.
    pub logged_diff: Option<String>,
    /// Nothing can be said about what the object is like.
    pub(crate) failed: bool,
}

impl Finding {
    fn new(kind: &Kind, desired: &Desired, names: Vec<String>, event: Event) -> Self {
        Self {
            kind: kind.clone(),
            namespace: desired.namespace.clone(),
            names,
            event,
            write: None,
            status_mismatch: false,
            wants_status: desired.definition.get("status").is_some(),
            properties: None,
            logged_diff: None,
            failed: false,
        }
    }

    /// A search in one namespace that has nothing to name.
    pub(crate) fn nothing(kind: &Kind, namespace: Option<String>, event: Event) -> Self {
        let desired = Desired {
            namespace,
            name: None,
            definition: Value::Null,
        };
        Self::new(kind, &desired, Vec::new(), event)
    }

    /// How messages call the object.
    pub(crate) fn prefix(&self) -> String {
        let name = self.names.first().map_or("", String::as_str);
        prefix(&self.kind.plural, name, self.namespace.as_deref())
    }

    /// The entries of `relatedObjects` for this finding, after its last event.
    pub(crate) fn related<'a>(
        &'a self,
        last: &'a Event,
        properties: Option<&'a Properties>,
    ) -> impl Iterator<Item = Related> + 'a {
        let no_name =
            (self.names.is_empty() && last.reason.sentence().is_some()).then_some(NO_NAME);
        let names = self.names.iter().map(String::as_str).chain(no_name);
        names.map(move |name| Related {
            object: ObjectRef::new(&self.kind.gvk, self.namespace.as_deref(), name),
            compliant: last.compliant,
            reason: last.reason.related().to_owned(),
            properties: properties.cloned(),
        })
    }
}

/// How a template's objects are judged.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'a> {
    pub(crate) asked: Asked<'a>,
    pub(crate) kind: &'a Kind,
    /// Templates have touched secret data.
    pub(crate) sensitive: bool,
    pub(crate) full_diffs: bool,
}

impl Judge<'_> {
    /// Looks at what is there and decides.
    pub(crate) fn decide(&self, desired: &Desired) -> Finding {
        match &desired.name {
            Some(name) => self.named(desired, name),
            None => self.search(desired),
        }
    }

    fn enforces(&self) -> bool {
        self.asked.policy.enforces()
    }

    fn named(&self, desired: &Desired, name: &str) -> Finding {
        let key = ObjectKey {
            namespace: desired.namespace.clone(),
            name: name.to_owned(),
        };
        let finding = |event: Event| Finding::new(self.kind, desired, vec![name.to_owned()], event);
        let existing = match self.asked.cluster.get(self.kind, &key) {
            Ok(existing) => existing,
            Err(error) => return unread(finding(self.read_error(&error.to_string()))),
        };
        let should_exist = self.asked.template.compliance != ComplianceType::MustNotHave;
        match (existing, should_exist) {
            (None, true) => Finding {
                write: self.enforces().then(|| Write::Create {
                    object: desired.definition.clone(),
                }),
                ..finding(Event::of(Reason::NotFound))
            },
            (None, false) => finding(Event::of(Reason::Absent)),
            (Some(_), false) => Finding {
                write: self.enforces().then_some(Write::Delete),
                ..finding(Event::of(Reason::Present))
            },
            (Some(existing), true) => {
                self.existing(desired, finding(Event::of(Reason::Found)), &existing)
            }
        }
    }

    fn read_error(&self, error: &str) -> Event {
        let index = self.asked.index;
        Event::violation(
            reasons::API_ERROR,
            format!("Error retrieving an object for object-template at index [{index}]: {error}"),
        )
    }

    /// An object that is there and should be: is it as specified.
    fn existing(&self, desired: &Desired, mut finding: Finding, existing: &Value) -> Finding {
        finding.properties = Some(Properties {
            uid: uid(existing),
            ..Properties::default()
        });
        let comparison = match compare(self.question(desired, existing)) {
            Ok(comparison) => comparison,
            Err(error) => {
                finding.event = Event::violation(reasons::UPDATE_ERROR, error.to_string());
                return finding;
            }
        };
        finding.status_mismatch = comparison.status_mismatch;
        if !comparison.mismatch && !comparison.missing {
            if comparison.status_mismatch {
                finding.event = Event::of(Reason::Mismatch);
                self.record(&mut finding, existing, &comparison.wanted());
            }
            return finding;
        }
        self.confirm(desired, finding, existing, &comparison)
    }

    fn question<'a>(&'a self, desired: &'a Desired, object: &'a Value) -> Question<'a> {
        Question {
            definition: &desired.definition,
            object,
            compliance: self.asked.template.compliance,
            metadata_compliance: self.asked.template.metadata_compliance(),
        }
    }

    /// A difference was seen, or something was missing: a server has the last word.
    fn confirm(
        &self,
        desired: &Desired,
        mut finding: Finding,
        existing: &Value,
        comparison: &Comparison,
    ) -> Finding {
        let name = finding.names.first().cloned().unwrap_or_default();
        let answer = self
            .asked
            .cluster
            .dry_run_update(self.kind, existing, &comparison.updated);
        let (updated, invalid) = match answer {
            DryRun::Accepted(updated) => (updated, false),
            DryRun::Invalid(_) => (comparison.updated.clone(), true),
            DryRun::Strict(error) => {
                finding.event =
                    Event::violation(reasons::UPDATE_ERROR, strict_message(&name, &error));
                return finding;
            }
            DryRun::NotFound => {
                let message = gone_message(&self.kind.gvk.kind);
                finding.event = Event::violation(reasons::UPDATE_ERROR, message);
                return finding;
            }
            DryRun::Failed(error) => {
                let message = format!(
                    "Error issuing a dry run update request for the object `{name}`, the error is `{error}`"
                );
                finding.event = Event::violation(reasons::UPDATE_ERROR, message);
                return finding;
            }
        };
        if !invalid && diff::comparable(&updated) == diff::comparable(existing) {
            if let Some(properties) = &mut finding.properties {
                properties.matches_after_dry_run = true;
            }
            if comparison.status_mismatch {
                finding.event = Event::of(Reason::Mismatch);
                self.record(&mut finding, existing, &comparison.wanted());
            }
            return finding;
        }
        self.record(&mut finding, existing, &updated);
        finding.event = Event::of(Reason::Mismatch);
        if !self.enforces() {
            return finding;
        }
        let recreate = self.asked.template.recreate;
        if invalid && recreate == RecreateOption::None {
            let message = format!(
                "{} cannot be updated, likely due to immutable fields not matching, you may set \
                 spec[\"object-templates\"][].recreateOption to recreate the object",
                finding.prefix()
            );
            finding.event = Event::violation(reasons::UPDATE_ERROR, message);
        } else if invalid || recreate == RecreateOption::Always {
            finding.write = Some(Write::Recreate {
                object: desired.definition.clone(),
            });
        } else {
            finding.write = Some(Write::Update {
                object: comparison.updated.clone(),
            });
        }
        finding
    }

    fn record(&self, finding: &mut Finding, existing: &Value, updated: &Value) {
        let record = self.asked.template.record_diff(self.sensitive);
        match diff::record(record, existing, updated, self.full_diffs) {
            Recorded::InStatus(text) => {
                if let Some(properties) = &mut finding.properties {
                    properties.diff = text;
                }
            }
            Recorded::Log(text) => finding.logged_diff = Some(text),
            Recorded::Nothing => {}
        }
    }

    /// Any object that fits will do, or is too much. Nothing is mended, and no server asked.
    fn search(&self, desired: &Desired) -> Finding {
        let all = self.asked.cluster.list(
            self.kind,
            desired.namespace.as_deref(),
            &LabelSelector::everything(),
        );
        let all = match all {
            Ok(all) => all,
            Err(error) => {
                let event = self.read_error(&error.to_string());
                return unread(Finding::new(self.kind, desired, Vec::new(), event));
            }
        };
        let matching: Vec<&Arc<Value>> = all
            .iter()
            .filter(|object| matches_search(self.question(desired, object)))
            .collect();
        let reason = match (self.asked.template.compliance, matching.is_empty()) {
            (ComplianceType::MustNotHave, true) => Reason::Absent,
            (ComplianceType::MustNotHave, false) => Reason::Present,
            (_, false) => Reason::Found,
            (_, true) if all.is_empty() => Reason::NotFound,
            (_, true) => Reason::Mismatch,
        };
        let names = matching.iter().map(|object| name(object)).collect();
        let mut finding = Finding::new(self.kind, desired, names, Event::of(reason));
        if let ([only], Reason::Found) = (matching.as_slice(), &finding.event.reason) {
            finding.properties = Some(Properties {
                uid: uid(only),
                ..Properties::default()
            });
        }
        finding
    }
}

/// An object that could not be read leaves no trace among the related objects, so that nothing is pruned.
fn unread(finding: Finding) -> Finding {
    Finding {
        failed: true,
        ..finding
    }
}

pub(crate) fn strict_message(name: &str, error: &str) -> String {
    format!("Error validating the object {name}, the error is `{error}`")
}

pub(crate) fn gone_message(kind: &str) -> String {
    format!("`{kind}` is not present and must be created")
}

fn uid(object: &Value) -> String {
    let uid = object["metadata"]["uid"].as_str();
    uid.unwrap_or_default().to_owned()
}

fn name(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str();
    name.unwrap_or_default().to_owned()
}
