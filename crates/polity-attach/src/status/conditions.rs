//! The words of conditions: what each of them says when a policy is accepted, refused, in conflict or overridden.

use super::{Beater, Condition};
use crate::graph::{Effectiveness, Refusal};
use crate::kind::PolicyKind;
use crate::object::ObjectRef;
use crate::settings::Strategy;

/// The most policies that a message names.
const MAX_NAMED: usize = 10;
/// The longest message of a condition.
const MAX_MESSAGE: usize = 32_768;

impl Condition {
    pub(super) fn new(
        kind: &str,
        is_true: bool,
        reason: &str,
        message: String,
        generation: Option<i64>,
    ) -> Self {
        Self {
            kind: kind.to_owned(),
            status: if is_true { "True" } else { "False" },
            reason: reason.to_owned(),
            message: cut(message),
            observed_generation: generation,
        }
    }
}

/// Cuts a message to what a condition may hold, with a sign that it was cut.
fn cut(message: String) -> String {
    const SIGN: &str = " … (cut)";
    if message.len() <= MAX_MESSAGE {
        return message;
    }
    let mut end = MAX_MESSAGE - SIGN.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{SIGN}", &message[..end])
}

pub(super) fn accepted_conditions(generation: Option<i64>) -> Vec<Condition> {
    vec![
        Condition::new(
            "Accepted",
            true,
            "Accepted",
            "the policy is accepted".to_owned(),
            generation,
        ),
        Condition::new(
            "ResolvedRefs",
            true,
            "ResolvedRefs",
            "the target exists".to_owned(),
            generation,
        ),
    ]
}

pub(super) fn conflicted_conditions(winner: &ObjectRef, generation: Option<i64>) -> Vec<Condition> {
    let message = format!("conflicts with {winner}, which comes first");
    vec![
        Condition::new("Accepted", false, "Conflicted", message, generation),
        Condition::new(
            "ResolvedRefs",
            true,
            "ResolvedRefs",
            "the target exists".to_owned(),
            generation,
        ),
    ]
}

pub(super) fn refused_conditions(refusal: &Refusal, generation: Option<i64>) -> Vec<Condition> {
    let (reason, resolved, message) = match refusal {
        Refusal::Invalid(message) => ("Invalid", None, message),
        Refusal::NotPermitted(message) => ("Invalid", Some("RefNotPermitted"), message),
        Refusal::NotFound(message) => ("TargetNotFound", Some("TargetNotFound"), message),
    };
    let mut conditions = vec![Condition::new(
        "Accepted",
        false,
        reason,
        message.clone(),
        generation,
    )];
    conditions.extend(
        resolved.map(|reason| {
            Condition::new("ResolvedRefs", false, reason, message.clone(), generation)
        }),
    );
    conditions
}

/// `Programmed` for kinds that Polity controls, `polity.dev/Effective` for others.
pub(super) fn effective_condition(
    managed: bool,
    effectiveness: Effectiveness,
    beaten_by: &[Beater],
    kind: &PolicyKind,
    generation: Option<i64>,
) -> Condition {
    let (is_true, programmed, effective) = match effectiveness {
        Effectiveness::Full => (true, "Programmed", "Full"),
        Effectiveness::Partial => (true, "PartiallyProgrammed", "Partial"),
        Effectiveness::Overridden => (false, "Overridden", "Overridden"),
    };
    let message = match effectiveness {
        Effectiveness::Full => "all fields are in force everywhere".to_owned(),
        Effectiveness::Partial => format!(
            "some fields are overridden somewhere {}",
            by(beaten_by, kind)
        ),
        Effectiveness::Overridden => format!(
            "all fields are overridden everywhere {}",
            by(beaten_by, kind)
        ),
    };
    if managed {
        Condition::new("Programmed", is_true, programmed, message, generation)
    } else {
        Condition::new(
            "polity.dev/Effective",
            is_true,
            effective,
            message,
            generation,
        )
    }
}

/// `by A, B and 3 more`, with the strategy where it is not field by field.
fn by(beaten_by: &[Beater], kind: &PolicyKind) -> String {
    if beaten_by.is_empty() {
        return "by the objects themselves".to_owned();
    }
    let names: Vec<String> = beaten_by
        .iter()
        .take(MAX_NAMED)
        .map(|beater| beater.policy.to_string())
        .collect();
    let mut text = format!("by {}", names.join(", "));
    if beaten_by.len() > MAX_NAMED {
        text.push_str(&format!(" and {} more", beaten_by.len() - MAX_NAMED));
    }
    if kind.strategy != Strategy::Fields {
        text.push_str(&format!(" (strategy {:?})", kind.strategy));
    }
    text
}
