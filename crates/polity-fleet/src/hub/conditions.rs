//! Conditions of the kinds that the hub writes.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// What a condition should say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionUpdate<'a> {
    pub status: &'static str,
    pub reason: &'a str,
    pub message: &'a str,
}

impl<'a> ConditionUpdate<'a> {
    pub fn is_true(reason: &'a str, message: &'a str) -> Self {
        Self::new("True", reason, message)
    }

    pub fn is_false(reason: &'a str, message: &'a str) -> Self {
        Self::new("False", reason, message)
    }

    pub fn is_unknown(reason: &'a str, message: &'a str) -> Self {
        Self::new("Unknown", reason, message)
    }

    /// `True` or `False`.
    pub fn of(is_true: bool, reason: &'a str, message: &'a str) -> Self {
        match is_true {
            true => Self::is_true(reason, message),
            false => Self::is_false(reason, message),
        }
    }

    fn new(status: &'static str, reason: &'a str, message: &'a str) -> Self {
        Self {
            status,
            reason,
            message,
        }
    }
}

/// Sets one condition. Its transition time moves only with its status.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    type_: &str,
    update: ConditionUpdate<'_>,
    generation: Option<i64>,
    now: Timestamp,
) {
    let ConditionUpdate {
        status,
        reason,
        message,
    } = update;
    let wanted = |last_transition_time| Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time,
    };
    // The API stores whole seconds; a finer time would differ from what is read back.
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    match conditions.iter_mut().find(|found| found.type_ == type_) {
        Some(found) if found.status == status => {
            *found = wanted(found.last_transition_time.clone());
        }
        Some(found) => *found = wanted(now),
        None => conditions.push(wanted(now)),
    }
}

/// The status of one condition.
pub fn condition_status<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a str> {
    let found = conditions.iter().find(|found| found.type_ == type_)?;
    Some(&found.status)
}
