//! The status of a ConfigurationPolicy, and its declared form.

use std::fmt;

use jiff::Timestamp;
use polity_api::decode_fields;
use polity_api::policy::v1;
use polity_core::FieldPath;
use serde_json::{Map, Value, json};

use crate::prune::Prunable;
use crate::related::Related;

/// How many messages are remembered.
const HISTORY: usize = 10;

/// A compliance state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Unknown,
    Compliant,
    NonCompliant,
    Terminating,
}

impl State {
    /// The state as it stands in a status; unknown is the empty text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Compliant => "Compliant",
            Self::NonCompliant => "NonCompliant",
            Self::Terminating => "Terminating",
        }
    }

    /// The state that a status has; another text is unknown.
    fn parse(text: Option<&str>) -> Self {
        match text {
            Some("Compliant") => Self::Compliant,
            Some("NonCompliant") => Self::NonCompliant,
            Some("Terminating") => Self::Terminating,
            _ => Self::Unknown,
        }
    }

    /// The state of a compliant thing, or of one that is not.
    pub fn of(compliant: bool) -> Self {
        if compliant {
            Self::Compliant
        } else {
            Self::NonCompliant
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a condition reports a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionType {
    Notification,
    Violation,
}

impl ConditionType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Notification => "notification",
            Self::Violation => "violation",
        }
    }
}

/// The result of one object template, in one reason and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub kind: ConditionType,
    pub reason: String,
    pub message: String,
}

/// One entry of `compliancyDetails`: an object template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    pub state: State,
    pub condition: Option<Condition>,
}

/// One entry of `history`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    pub at: Timestamp,
    pub message: String,
}

/// The status of a policy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    pub state: State,
    pub details: Vec<Detail>,
    pub related: Vec<Related>,
    /// Objects that the policy no longer lists; they are pruned once the policy enforces.
    pub prunable: Vec<Prunable>,
    pub last_evaluated: Option<Timestamp>,
    pub last_evaluated_generation: i64,
    /// Newest first.
    pub history: Vec<Remembered>,
}

/// The state of a policy with these details. See docs/spec/governance.md#11-5.
pub fn state_of(details: &[Detail], deleting: bool) -> State {
    let is = |state: State| details.iter().any(|detail| detail.state == state);
    if deleting || is(State::Terminating) {
        State::Terminating
    } else if details.is_empty() {
        State::Unknown
    } else {
        State::of(!is(State::NonCompliant))
    }
}

impl Status {
    /// Puts a message in front of the history; the same one again is not repeated, unless it is sent anyway.
    pub fn remember(&mut self, message: &str, at: Timestamp, sent: bool) {
        let known = self
            .history
            .first()
            .is_some_and(|newest| newest.message == message);
        if known && !sent {
            return;
        }
        let newest = Remembered {
            at,
            message: message.to_owned(),
        };
        self.history.insert(0, newest);
        self.history.truncate(HISTORY);
    }

    /// Reads the `status` of an object. A field of the wrong type counts as absent.
    pub fn from_json(status: &Value) -> Self {
        let (wire, _) =
            decode_fields::<v1::ConfigurationPolicyStatus>(status, &FieldPath::of("status"));
        let wire = wire.unwrap_or_default();
        let entries = |field: &str| status[field].as_array().into_iter().flatten();
        Self {
            state: State::parse(wire.compliant.as_deref()),
            details: wire.compliancy_details.iter().map(Detail::from).collect(),
            related: entries("relatedObjects").map(Related::from_json).collect(),
            prunable: entries("prunableObjects")
                .map(Prunable::from_json)
                .collect(),
            last_evaluated: wire.last_evaluated.and_then(|text| text.parse().ok()),
            last_evaluated_generation: wire.last_evaluated_generation.unwrap_or_default(),
            history: wire
                .history
                .iter()
                .filter_map(Remembered::from_wire)
                .collect(),
        }
    }

    /// The `status` of the object. `previous` conditions that say the same keep their transition time.
    pub fn to_json(&self, now: Timestamp, previous: &Value) -> Value {
        let (previous, _) =
            decode_fields::<v1::ConfigurationPolicyStatus>(previous, &FieldPath::of("status"));
        let previous = previous.unwrap_or_default().compliancy_details;
        let details = self.details.iter().enumerate();
        let wire = v1::ConfigurationPolicyStatus {
            compliant: Some(self.state.as_str().to_owned()),
            last_evaluated: self.last_evaluated.map(seconds),
            last_evaluated_generation: Some(self.last_evaluated_generation),
            compliancy_details: details
                .map(|(index, detail)| detail.to_wire(now, previous.get(index)))
                .collect(),
            related_objects: self.related.iter().map(Related::to_wire).collect(),
            prunable_objects: self.prunable.iter().map(Prunable::to_wire).collect(),
            history: self.history.iter().map(Remembered::to_wire).collect(),
        };
        json!(wire)
    }
}

impl From<&v1::TemplateCompliance> for Detail {
    fn from(wire: &v1::TemplateCompliance) -> Self {
        let condition = wire.conditions.first().map(|condition| Condition {
            kind: match condition.type_.as_str() {
                "violation" => ConditionType::Violation,
                _ => ConditionType::Notification,
            },
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        });
        Self {
            state: State::parse(wire.compliant.as_deref()),
            condition,
        }
    }
}

impl Detail {
    fn to_wire(
        &self,
        now: Timestamp,
        previous: Option<&v1::TemplateCompliance>,
    ) -> v1::TemplateCompliance {
        let old = previous.and_then(|detail| detail.conditions.first());
        v1::TemplateCompliance {
            compliant: Some(self.state.as_str().to_owned()),
            validity: Map::new(),
            conditions: self
                .condition
                .iter()
                .map(|condition| condition.to_wire(now, old))
                .collect(),
        }
    }
}

impl Condition {
    fn to_wire(&self, now: Timestamp, old: Option<&v1::ObjectCondition>) -> v1::ObjectCondition {
        let mut wire = v1::ObjectCondition {
            type_: self.kind.as_str().to_owned(),
            status: "True".to_owned(),
            reason: self.reason.clone(),
            message: self.message.clone(),
            last_transition_time: old.and_then(|old| old.last_transition_time.clone()),
        };
        if old != Some(&wire) || wire.last_transition_time.is_none() {
            wire.last_transition_time = Some(seconds(now));
        }
        wire
    }
}

impl Remembered {
    fn from_wire(wire: &v1::HistoryMessage) -> Option<Self> {
        Some(Self {
            at: wire.last_timestamp.as_ref()?.parse().ok()?,
            message: wire.message.clone(),
        })
    }

    fn to_wire(&self) -> v1::HistoryMessage {
        v1::HistoryMessage {
            last_timestamp: Some(self.at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()),
            message: self.message.clone(),
        }
    }
}

fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_state_follows_from_the_details() {
        let detail = |state| Detail {
            state,
            condition: None,
        };
        let (good, bad) = (detail(State::Compliant), detail(State::NonCompliant));
        assert_eq!(state_of(&[], false), State::Unknown);
        assert_eq!(
            state_of(std::slice::from_ref(&good), false),
            State::Compliant
        );
        assert_eq!(state_of(&[good.clone(), bad], false), State::NonCompliant);
        assert_eq!(state_of(&[good], true), State::Terminating);
    }

    #[test]
    fn a_status_is_read_as_it_was_written() {
        let mut status = Status {
            state: State::NonCompliant,
            details: vec![Detail {
                state: State::NonCompliant,
                condition: Some(Condition {
                    kind: ConditionType::Violation,
                    reason: "K8s does not have a `must have` object".to_owned(),
                    message: "pods [web] not found in namespace default".to_owned(),
                }),
            }],
            related: vec![Related::from_json(&json!({
                "compliant": "NonCompliant", "reason": "Resource not found but should exist",
                "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}},
                "properties": {"createdByPolicy": true, "uid": "u"},
            }))],
            last_evaluated: Some(at(100)),
            last_evaluated_generation: 3,
            ..Status::default()
        };
        status.remember(
            "NonCompliant; violation - pods [web] not found",
            at(100),
            true,
        );
        let written = status.to_json(at(100), &json!({}));
        assert_eq!(Status::from_json(&written), status);
        assert_eq!(
            Status::from_json(&json!({"compliant": 7})),
            Status::default()
        );
    }

    #[test]
    fn history_is_short_and_newest_first() {
        let mut status = Status::default();
        for n in 0..12 {
            status.remember(&format!("m{n}"), at(n), true);
        }
        status.remember("m11", at(20), false);
        assert_eq!(status.history.len(), 10);
        assert_eq!(status.history[0].message, "m11");
        assert_eq!(status.history[9].message, "m2");
    }

    #[test]
    fn transition_times_move_with_the_condition() {
        let status = |message: &str| Status {
            state: State::Compliant,
            details: vec![Detail {
                state: State::Compliant,
                condition: Some(Condition {
                    kind: ConditionType::Notification,
                    reason: "r".to_owned(),
                    message: message.to_owned(),
                }),
            }],
            ..Status::default()
        };
        let first = status("a").to_json(at(0), &Value::Null);
        let when = |status: &Value| {
            status["compliancyDetails"][0]["conditions"][0]["lastTransitionTime"].clone()
        };
        assert_eq!(when(&first), "1970-01-01T00:00:00Z");
        assert_eq!(
            when(&status("a").to_json(at(60), &first)),
            "1970-01-01T00:00:00Z"
        );
        assert_eq!(
            when(&status("b").to_json(at(60), &first)),
            "1970-01-01T00:01:00Z"
        );
        assert_eq!(first["compliancyDetails"][0]["Validity"], json!({}));
    }
}
