//! The new status of a policy, from its evaluation and the results of its writes. See docs/spec/governance.md#11-5.

use jiff::Timestamp;

use crate::custom_message;
use crate::decide::{Finding, Write, gone_message, strict_message};
use crate::evaluate::{Evaluation, TemplateFindings};
use crate::event::{Event, Reason, reasons};
use crate::message::{self, Told};
use crate::policy::{ConfigurationPolicy, Interval};
use crate::related::{self, Properties, Related};
use crate::status::{Condition, ConditionType, Detail, State, Status, state_of};
use crate::{Templates, prune};

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was done; the UID of the object that is there now.
    Done {
        uid: String,
    },
    Failed(Failure),
}

/// Why a write failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A field nobody knows: `strict decoding error: …`.
    Strict(String),
    /// The object to update is gone.
    NotFound,
    /// The old object could not be deleted in order to recreate it.
    DeletingFirst(String),
    /// The old object was still there after the third attempt to create the new one.
    StillThere,
    /// Anything else.
    Other(String),
}

/// The end of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    pub status: Status,
    /// The messages to send as compliance events, in order: what was found before it was mended comes first.
    /// Only the last one is the state of things; whether it has to be sent is in `changed`.
    pub messages: Vec<String>,
    /// The last message must be sent: it, the state or the generation is new.
    pub changed: bool,
    /// Objects that the policy no longer lists and that may have to be pruned.
    pub prune: Vec<prune::Target>,
}

impl Evaluation<'_> {
    /// The writes that would make the objects comply, in order.
    pub fn writes(&self) -> impl Iterator<Item = (&Finding, &Write)> {
        self.templates
            .iter()
            .flat_map(|template| &template.findings)
            .filter_map(|finding| Some((finding, finding.write.as_ref()?)))
    }

    /// The new status. `outcomes` are those of [`Evaluation::writes`], in the same order; a write without one was
    /// not carried out.
    pub fn conclude(
        &self,
        previous: &Status,
        outcomes: &[Outcome],
        templates: &dyn Templates,
        now: Timestamp,
    ) -> Conclusion {
        let policy = self.policy;
        let mut outcomes = outcomes.iter();
        let mut status = Status {
            details: previous.details.clone(),
            ..previous.clone()
        };
        status.details.truncate(self.templates.len());
        let mut found: Vec<Related> = Vec::new();
        let mut messages = Vec::new();
        for (index, template) in self.templates.iter().enumerate() {
            let told = after_writes(template, &mut outcomes);
            for (finding, story) in template.findings.iter().zip(&told) {
                if let (Some(last), false) = (story.events.last(), finding.failed) {
                    found.extend(finding.related(last, story.properties.as_ref()));
                }
            }
            let mut conditions = conditions(policy, template, &told);
            if still_failing(&conditions, status.details.get(index)) {
                conditions.clear();
            }
            let n_conditions = conditions.len();
            for (step, condition) in conditions.into_iter().enumerate() {
                let changed = set_detail(&mut status.details, index, condition);
                if changed && step + 1 < n_conditions {
                    status.state = state_of(&status.details, policy.deleting);
                    messages.push(message::cut(message::whole(status.state, &status.details)));
                }
            }
        }
        let related = related::merge(found, &previous.related);
        let pruning = prune::after(policy, previous, &related, self.complete);
        status.prunable = pruning.remembered;
        status.related = related;
        status.state = state_of(&status.details, policy.deleting);
        let last = message::cut(custom_message::message(
            policy,
            &status,
            templates,
            &self.objects,
        ));
        let changed = status.state != previous.state
            || policy.generation != previous.last_evaluated_generation
            || previous
                .history
                .first()
                .is_none_or(|newest| newest.message != last);
        status.last_evaluated = Some(now);
        status.last_evaluated_generation = policy.generation;
        for message in &messages {
            status.remember(message, now, true);
        }
        status.remember(&last, now, changed);
        messages.push(last);
        Conclusion {
            status,
            messages,
            changed,
            prune: pruning.targets,
        }
    }
}

/// The events of a finding, in order, after its write was tried.
struct FindingReport {
    events: Vec<Event>,
    properties: Option<Properties>,
}

fn after_writes<'a>(
    template: &TemplateFindings,
    outcomes: &mut impl Iterator<Item = &'a Outcome>,
) -> Vec<FindingReport> {
    let story = |finding: &Finding| {
        let outcome = finding.write.as_ref().and_then(|_| outcomes.next());
        tell(finding, outcome)
    };
    template.findings.iter().map(story).collect()
}

fn tell(finding: &Finding, outcome: Option<&Outcome>) -> FindingReport {
    let mut story = FindingReport {
        events: vec![finding.event.clone()],
        properties: finding.properties.clone(),
    };
    let (Some(write), Some(outcome)) = (&finding.write, outcome) else {
        return story;
    };
    match outcome {
        Outcome::Done { uid } => done(finding, write, uid, &mut story),
        Outcome::Failed(failure) => story.events.push(failed(finding, write, failure)),
    }
    if *write == Write::Delete {
        // That it was there is only said while it is: a deletion is one event.
        story.events.remove(0);
    }
    story
}

fn done(finding: &Finding, write: &Write, uid: &str, story: &mut FindingReport) {
    let created = || Properties {
        created_by_policy: true,
        uid: uid.to_owned(),
        ..Properties::default()
    };
    let event = match write {
        Write::Create { .. } => {
            story.properties = Some(created());
            if finding.wants_status {
                Event {
                    compliant: false,
                    reason: Reason::Other("K8s creation success, status unchecked".into()),
                    message: format!(
                        "{} was created successfully, the status of the object will be verified in \
                         the next evaluation",
                        finding.prefix()
                    ),
                }
            } else {
                Event::of(Reason::Created)
            }
        }
        Write::Delete => Event::of(Reason::Deleted),
        Write::Update { .. } | Write::Recreate { .. } => {
            if matches!(write, Write::Recreate { .. }) {
                let diff = story.properties.take().unwrap_or_default().diff;
                story.properties = Some(Properties { diff, ..created() });
            }
            Event::of(match finding.status_mismatch {
                true => Reason::Mismatch,
                false => Reason::Updated,
            })
        }
    };
    story.events.push(event);
}

fn failed(finding: &Finding, write: &Write, failure: &Failure) -> Event {
    let prefix = finding.prefix();
    let text = match failure {
        Failure::Strict(error) | Failure::DeletingFirst(error) | Failure::Other(error) => error,
        Failure::NotFound => "not found",
        Failure::StillThere => "object is being deleted",
    };
    let action = match write {
        Write::Create { .. } => {
            let message = format!("{prefix} is missing, and cannot be created, reason: `{text}`");
            return Event::violation(reasons::CREATION_ERROR, message);
        }
        Write::Delete => {
            let message = format!("{prefix} exists, and cannot be deleted, reason: `{text}`");
            return Event::violation(reasons::DELETION_ERROR, message);
        }
        Write::Update { .. } => "update",
        Write::Recreate { .. } => "recreate",
    };
    let name = finding.names.first().map_or("", String::as_str);
    let message = match failure {
        Failure::Strict(error) => strict_message(name, error),
        Failure::NotFound => gone_message(&finding.kind.gvk.kind),
        Failure::DeletingFirst(error) => {
            format!("{prefix} failed to delete when recreating with the error {error}")
        }
        Failure::StillThere => format!(
            "{prefix} timed out waiting for the object to delete during recreate, will retry on the \
             next policy evaluation"
        ),
        Failure::Other(error) => format!("{prefix} failed to {action} with the error `{error}`"),
    };
    Event::violation(reasons::UPDATE_ERROR, message)
}

/// The conditions of a template in order. All stories end in the last one; those with an earlier part share
/// the ones before.
fn conditions(
    policy: &ConfigurationPolicy,
    template: &TemplateFindings,
    stories: &[FindingReport],
) -> Vec<Condition> {
    if let Some(event) = &template.settled {
        let told = Told {
            names: &[],
            namespace: None,
            event,
        };
        return vec![never_again(policy, message::condition("", &[told]))];
    }
    let n_steps = stories
        .iter()
        .map(|story| story.events.len())
        .max()
        .unwrap_or_default();
    let plural = template
        .findings
        .first()
        .map_or("", |finding| finding.kind.plural.as_str());
    let step = |step: usize| {
        let told: Vec<Told<'_>> = template
            .findings
            .iter()
            .zip(stories)
            .filter_map(|(finding, story)| {
                let own = (step + story.events.len()).checked_sub(n_steps)?;
                Some(Told {
                    names: &finding.names,
                    namespace: finding.namespace.as_deref(),
                    event: story.events.get(own)?,
                })
            })
            .collect();
        never_again(policy, message::condition(plural, &told))
    };
    (0..n_steps).map(step).collect()
}

/// Adds a note to the message of a policy that is not evaluated again because its interval is `never`.
fn never_again(policy: &ConfigurationPolicy, mut condition: Condition) -> Condition {
    let compliant = condition.kind == ConditionType::Notification;
    let (interval, state) = match compliant {
        true => (policy.evaluation_interval.compliant, "compliant"),
        false => (policy.evaluation_interval.noncompliant, "noncompliant"),
    };
    if interval == Interval::Never {
        condition.message.push_str(&format!(
            ". This policy will not be evaluated again due to spec.evaluationInterval.{state} being set \
             to \"never\"."
        ));
    }
    condition
}

/// A write that failed again as it did before is no news, and neither is what was seen before it.
fn still_failing(conditions: &[Condition], known: Option<&Detail>) -> bool {
    let Some(last) = conditions.last() else {
        return false;
    };
    conditions.len() > 1
        && last.kind == ConditionType::Violation
        && known.is_some_and(|known| known.condition.as_ref() == Some(last))
}

/// Puts a condition in its place; says whether it is news.
fn set_detail(details: &mut Vec<Detail>, index: usize, condition: Condition) -> bool {
    let compliant = condition.kind == ConditionType::Notification;
    let detail = Detail {
        state: State::of(compliant),
        condition: Some(condition),
    };
    while details.len() <= index {
        details.push(Detail {
            state: State::Unknown,
            condition: None,
        });
    }
    let changed = details[index] != detail;
    details[index] = detail;
    changed
}
