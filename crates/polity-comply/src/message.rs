//! Conditions and messages of object templates, from the events of an evaluation. See docs/spec/governance.md#11-5.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Event, Reason};
use crate::status::{Condition, ConditionType, Detail, State};

/// The longest message; longer ones are cut.
pub const MAX_MESSAGE: usize = 4096;
const CUT: &str = "...[truncated]";

/// An event with what it is about.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    /// No names: an unnamed definition that found nothing.
    pub names: &'a [String],
    /// `None` for cluster-scoped kinds.
    pub namespace: Option<&'a str>,
    pub event: &'a Event,
}

/// The condition of one object template: noncompliant events push all others out; the rest is grouped by
/// reason, then by the namespaces they share.
pub fn condition(plural: &str, told: &[Told<'_>]) -> Condition {
    let compliant = told.iter().all(|told| told.event.compliant);
    let mut by_reason: BTreeMap<&Reason, Vec<Told<'_>>> = BTreeMap::new();
    for one in told.iter().filter(|told| told.event.compliant == compliant) {
        by_reason.entry(&one.event.reason).or_default().push(*one);
    }
    let mut reasons = Vec::new();
    let mut sentences = Vec::new();
    for (reason, group) in by_reason {
        reasons.push(reason.condition());
        match reason.sentence() {
            Some(sentence) => sentences.extend(consolidated(plural, sentence, &group)),
            None => sentences.extend(verbatim(group)),
        }
    }
    Condition {
        kind: if compliant {
            ConditionType::Notification
        } else {
            ConditionType::Violation
        },
        reason: reasons.join("; "),
        message: sentences.join("; "),
    }
}

/// One sentence for all names that are in the same namespaces.
fn consolidated(plural: &str, sentence: &str, group: &[Told<'_>]) -> Vec<String> {
    let mut places: BTreeMap<Option<&str>, BTreeSet<&str>> = BTreeMap::new();
    for told in group {
        let names: Vec<Option<&str>> = if told.names.is_empty() {
            vec![None]
        } else {
            told.names.iter().map(|name| Some(name.as_str())).collect()
        };
        for name in names {
            places.entry(name).or_default().extend(told.namespace);
        }
    }
    let mut by_place: BTreeMap<&BTreeSet<&str>, Vec<&str>> = BTreeMap::new();
    for (name, namespaces) in &places {
        by_place
            .entry(namespaces)
            .or_default()
            .extend(name.iter().copied());
    }
    let mut sentences: Vec<(String, String)> = by_place
        .into_iter()
        .map(|(namespaces, names)| {
            let names = match names.is_empty() {
                true => String::new(),
                false => format!(" [{}]", names.join(", ")),
            };
            let text = format!("{plural}{names} {sentence}{}", place(namespaces));
            (names, text)
        })
        .collect();
    sentences.sort();
    sentences.into_iter().map(|(_, text)| text).collect()
}

fn place(namespaces: &BTreeSet<&str>) -> String {
    let names: Vec<&str> = namespaces.iter().copied().collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!(" in namespace {one}"),
        many => format!(" in namespaces: {}", many.join(", ")),
    }
}

fn verbatim(mut group: Vec<Told<'_>>) -> Vec<String> {
    group.sort_by_key(|told| (told.names, told.namespace));
    group
        .iter()
        .map(|told| told.event.message.clone())
        .collect()
}

/// The message of the whole policy: its state, then every detail.
pub fn whole(state: State, details: &[Detail]) -> String {
    if state == State::Unknown {
        return "ComplianceState is still unknown".to_owned();
    }
    let mut message = state.to_string();
    for detail in details {
        message.push_str("; ");
        if let Some(condition) = &detail.condition {
            message.push_str(condition.kind.as_str());
            message.push_str(" - ");
            message.push_str(&condition.message);
        }
    }
    message
}

/// Cuts a message that is too long for an event, between characters.
pub fn cut(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        let end = message.floor_char_boundary(MAX_MESSAGE - CUT.len());
        message.truncate(end);
        message.push_str(CUT);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rows: &[(&[&str], Option<&str>, Event)]) -> Condition {
        let names: Vec<Vec<String>> = rows
            .iter()
            .map(|(names, ..)| names.iter().map(|&name| name.to_owned()).collect())
            .collect();
        let told: Vec<Told<'_>> = rows
            .iter()
            .zip(&names)
            .map(|((_, namespace, event), names)| Told {
                names,
                namespace: *namespace,
                event,
            })
            .collect();
        condition("pods", &told)
    }

    /// The table of 11.5
    #[test]
    fn every_reason_has_its_words() {
        for (reason, related, condition, message) in [
            (
                Reason::Found,
                "Resource found as expected",
                "K8s `must have` object already exists",
                "pods [a, b] found as specified in namespace ns",
            ),
            (
                Reason::Created,
                "K8s creation success",
                "K8s creation success",
                "pods [a, b] was created successfully in namespace ns",
            ),
            (
                Reason::Updated,
                "K8s update success",
                "K8s update success",
                "pods [a, b] was updated successfully in namespace ns",
            ),
            (
                Reason::Deleted,
                "K8s deletion success",
                "K8s deletion success",
                "pods [a, b] was deleted successfully in namespace ns",
            ),
            (
                Reason::NotFound,
                "Resource not found but should exist",
                "K8s does not have a `must have` object",
                "pods [a, b] not found in namespace ns",
            ),
            (
                Reason::Mismatch,
                "Resource found but does not match",
                "K8s does not have a `must have` object",
                "pods [a, b] found but not as specified in namespace ns",
            ),
            (
                Reason::Absent,
                "Resource not found as expected",
                "K8s `must not have` object already missing",
                "pods [a, b] missing as expected in namespace ns",
            ),
            (
                Reason::Present,
                "Resource found but should not exist",
                "K8s has a `must not have` object",
                "pods [a, b] found in namespace ns",
            ),
        ] {
            assert_eq!(reason.related(), related);
            let event = Event::of(reason);
            let got = told(&[
                (&["b"], Some("ns"), event.clone()),
                (&["a"], Some("ns"), event),
            ]);
            assert_eq!(
                (got.reason.as_str(), got.message.as_str()),
                (condition, message)
            );
        }
    }

    #[test]
    fn sentences_are_put_together() {
        let of = Event::of;
        let message = |rows: &[(&[&str], Option<&str>, Event)]| told(rows).message;
        assert_eq!(
            message(&[
                (&[], Some("n1"), of(Reason::Mismatch)),
                (&[], Some("n3"), of(Reason::NotFound)),
                (&[], Some("n2"), of(Reason::NotFound)),
            ]),
            "pods not found in namespaces: n2, n3; pods found but not as specified in namespace n1",
            "S10"
        );
        assert_eq!(
            message(&[
                (&["p"], Some("a"), of(Reason::Found)),
                (&["p"], Some("b"), of(Reason::NotFound)),
            ]),
            "pods [p] not found in namespace b",
            "noncompliant ones push the others out"
        );
        assert_eq!(
            message(&[
                (&["a"], Some("n1"), of(Reason::Found)),
                (&["a"], Some("n2"), of(Reason::Found)),
                (&["b"], Some("n1"), of(Reason::Found)),
                (&["b"], Some("n2"), of(Reason::Found)),
                (&["c"], Some("n1"), of(Reason::Found)),
            ]),
            "pods [a, b] found as specified in namespaces: n1, n2; pods [c] found as specified in namespace n1"
        );
        assert_eq!(
            message(&[(&["a"], None, of(Reason::Found))]),
            "pods [a] found as specified"
        );
        let broken = |text: &str| Event::violation("K8s update template error", text);
        let got = told(&[
            (&["b"], Some("n"), broken("second")),
            (&["a"], Some("n"), broken("first")),
            (&["c"], Some("n"), of(Reason::NotFound)),
        ]);
        assert_eq!(
            got.message,
            "pods [c] not found in namespace n; first; second"
        );
        assert_eq!(
            got.reason,
            "K8s does not have a `must have` object; K8s update template error"
        );
    }

    #[test]
    fn whole_messages() {
        let detail = |event: Event, namespace: &'static str| Detail {
            state: if event.compliant {
                State::Compliant
            } else {
                State::NonCompliant
            },
            condition: Some(told(&[(&["p"], Some(namespace), event)])),
        };
        let details = [
            detail(Event::of(Reason::Found), "a"),
            detail(Event::of(Reason::NotFound), "b"),
        ];
        assert_eq!(
            whole(State::NonCompliant, &details),
            "NonCompliant; notification - pods [p] found as specified in namespace a; \
             violation - pods [p] not found in namespace b"
        );
        assert_eq!(
            whole(State::Unknown, &[]),
            "ComplianceState is still unknown"
        );
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(cut("short".to_owned()), "short");
        let long = cut("é".repeat(3000));
        assert!(long.len() <= MAX_MESSAGE && long.ends_with("é...[truncated]"));
        assert_eq!(cut("a".repeat(5000)).len(), MAX_MESSAGE);
    }
}
