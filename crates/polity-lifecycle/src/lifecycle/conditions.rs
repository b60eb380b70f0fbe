//! Conditions of policies and revisions: how they are made, ordered, and carried from one status to the next.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polity_api::policies::v1::{
    ConditionStatus, ConditionType, PolicyCondition, ReadyReason, ScheduledReason,
};

/// The longest message of a condition.
const MESSAGE_MAX: usize = 1024;

/// A condition about a generation.
pub(super) fn condition(
    type_: ConditionType,
    status: ConditionStatus,
    reason: &str,
    message: impl Into<String>,
    generation: i64,
    now: Timestamp,
) -> PolicyCondition {
    PolicyCondition {
        type_: type_.as_str().to_owned(),
        status,
        reason: reason.to_owned(),
        message: cut(message.into()),
        generation: Some(generation),
        replica: None,
        last_transition_time: Some(Time(now)),
        observed_generation: Some(generation),
    }
}

/// `Scheduled=False`, with a reason.
pub(super) fn not_scheduled(
    reason: ScheduledReason,
    message: impl Into<String>,
    generation: i64,
    now: Timestamp,
) -> PolicyCondition {
    condition(
        ConditionType::Scheduled,
        ConditionStatus::False,
        reason.as_str(),
        message,
        generation,
        now,
    )
}

/// `Ready=Unknown` of a replica, with a reason.
pub(super) fn replica_unknown(
    reason: ReadyReason,
    message: impl Into<String>,
    generation: i64,
    replica: i32,
    now: Timestamp,
) -> PolicyCondition {
    PolicyCondition {
        replica: Some(replica),
        ..condition(
            ConditionType::Ready,
            ConditionStatus::Unknown,
            reason.as_str(),
            message,
            generation,
            now,
        )
    }
}

/// The order of conditions: by generation, then Scheduled, Initialized and Ready by replica; the older kinds of
/// conditions stand after all of these.
pub(super) fn sort(conditions: &mut [PolicyCondition]) {
    conditions.sort_by_key(|condition| {
        let type_ = ConditionType::parse(&condition.type_);
        let is_legacy = type_ > Some(ConditionType::Ready);
        (
            is_legacy,
            condition.generation,
            type_.is_none(),
            type_,
            condition.replica,
        )
    });
}

/// Makes new conditions out of old ones: where the status is the same, the time of its last change stays.
pub(super) fn keep_times(
    conditions: &mut [PolicyCondition],
    before: &[PolicyCondition],
    now: Timestamp,
) {
    for condition in conditions {
        let earlier = before.iter().find(|earlier| is_same(earlier, condition));
        match earlier {
            Some(earlier) if earlier.status == condition.status => {
                condition
                    .last_transition_time
                    .clone_from(&earlier.last_transition_time);
            }
            Some(_) => condition.last_transition_time = Some(Time(now)),
            None => {}
        }
        condition.last_transition_time.get_or_insert(Time(now));
    }
}

/// Whether two conditions speak about the same thing. The older kinds exist once, whatever the generation.
pub(super) fn is_same(one: &PolicyCondition, other: &PolicyCondition) -> bool {
    let is_legacy = ConditionType::parse(&one.type_) > Some(ConditionType::Ready);
    one.type_ == other.type_
        && one.replica == other.replica
        && (is_legacy || one.generation == other.generation)
}

fn cut(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(MESSAGE_MAX) {
        message.truncate(end);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_stand_in_the_order_of_section_19_2() {
        let now = Timestamp::UNIX_EPOCH;
        let at = |type_, generation, replica| PolicyCondition {
            replica,
            ..condition(type_, ConditionStatus::True, "R", "", generation, now)
        };
        let ordered = [
            at(ConditionType::Scheduled, 1, None),
            at(ConditionType::Initialized, 1, None),
            at(ConditionType::Ready, 1, Some(0)),
            at(ConditionType::Ready, 1, Some(1)),
            at(ConditionType::Ready, 1, Some(10)),
            at(ConditionType::Scheduled, 2, None),
            at(ConditionType::PolicyActive, 1, None),
            at(ConditionType::PolicyUniquelyReachable, 2, None),
        ];
        let mut shuffled: Vec<_> = ordered.iter().rev().cloned().collect();
        sort(&mut shuffled);
        assert_eq!(shuffled, ordered);
    }

    #[test]
    fn the_time_changes_only_with_the_status() {
        let (then, now) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        let made = |status, at| condition(ConditionType::Ready, status, "R", "", 1, at);
        let after = |status| {
            let mut conditions = [made(status, now)];
            keep_times(&mut conditions, &[made(ConditionStatus::True, then)], now);
            conditions[0]
                .last_transition_time
                .as_ref()
                .map(|time| time.0)
        };
        assert_eq!(after(ConditionStatus::True), Some(then));
        assert_eq!(after(ConditionStatus::Unknown), Some(now));
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let long = condition(
            ConditionType::Ready,
            ConditionStatus::False,
            "R",
            "é".repeat(2000),
            1,
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(long.message.chars().count(), 1024);
    }
}
