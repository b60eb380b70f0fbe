//! The history of a template, from Events and from what its controller remembers. See docs/spec/governance.md#10-5.

use jiff::Timestamp;
use polity_core::governance::Compliance;
use polity_govern::objects::{HistoryEntry, TemplateStatus};
use polity_govern::report::compliance_of_message;

/// The most entries that are kept.
const MAX_ENTRIES: usize = 10;
/// Two entries with the same message and less than this between them are one.
const SAME_NANOSECONDS: i128 = 5_000;
/// What Kubernetes puts before the message of Events that it has combined.
const COMBINED: &str = "(combined from similar events):";

/// An Event that reports compliance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComplianceEvent {
    pub name: String,
    /// The template that it is about.
    pub template: String,
    pub message: String,
    pub at: Option<Timestamp>,
}

impl ComplianceEvent {
    /// Reads the template from the reason of an Event: `policy: <namespace>/<name>`, or `policy: <name>`.
    pub fn template_of_reason(reason: &str) -> Option<&str> {
        const PREFIX: &str = "policy:";
        let is_prefixed = reason
            .get(..PREFIX.len())
            .is_some_and(|prefix| prefix.eq_ignore_ascii_case(PREFIX));
        if !is_prefixed {
            return None;
        }
        let rest = reason[PREFIX.len()..].trim_start();
        let is_namespace = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-')
        };
        let name = match rest.split_once('/') {
            Some((namespace, name)) if is_namespace(namespace.trim_end()) => name,
            _ => rest,
        };
        (!name.is_empty()).then_some(name)
    }
}

/// One entry of the history that the controller of a template keeps in its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RememberedMessage {
    pub message: String,
    pub at: Timestamp,
}

/// Where the entries of a template come from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The name of the policy, in its cluster namespace.
    pub policy: &'a str,
    /// The Events about this template.
    pub events: &'a [&'a ComplianceEvent],
    /// What its controller remembers; empty unless the object belongs to the policy.
    pub remembered: &'a [RememberedMessage],
    /// The entries that the policy had before; empty if the object belongs to another policy.
    pub previous: &'a [HistoryEntry],
}

/// The status of one template: the newest entries first, and the compliance that the newest one reports.
pub fn template_status(name: &str, sources: Sources<'_>) -> TemplateStatus {
    let mut entries: Vec<(i128, HistoryEntry)> = Vec::new();
    let mut add = |entry: HistoryEntry| {
        let is_new = entries
            .iter()
            .all(|(_, known)| known.event_name != entry.event_name);
        if is_new {
            entries.push((time_of(&entry), entry));
        }
    };
    for event in sources.events {
        add(HistoryEntry {
            event_name: event.name.clone(),
            at: event.at,
            message: event
                .message
                .trim_start_matches(COMBINED)
                .trim_start()
                .to_owned(),
        });
    }
    for remembered in sources.remembered {
        add(HistoryEntry {
            event_name: event_name(sources.policy, remembered.at),
            at: Some(remembered.at),
            message: remembered.message.clone(),
        });
    }
    for previous in sources.previous {
        add(previous.clone());
    }
    // Entries of the same time stay in the order of their sources.
    entries.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    let mut kept: Vec<(i128, HistoryEntry)> = Vec::new();
    for (time, entry) in entries {
        let repeats = kept.last().is_some_and(|(newer, last)| {
            newer - time < SAME_NANOSECONDS && last.message == entry.message
        });
        if !repeats && kept.len() < MAX_ENTRIES {
            kept.push((time, entry));
        }
    }
    let history: Vec<HistoryEntry> = kept
        .into_iter()
        .map(|(time, entry)| HistoryEntry {
            at: whole_seconds(time).or(entry.at),
            ..entry
        })
        .collect();
    let compliant: Option<Compliance> = history
        .first()
        .map(|newest| compliance_of_message(&newest.message));
    TemplateStatus {
        name: name.to_owned(),
        compliant,
        history,
    }
}

/// The name of a compliance event: the policy, and the time in hexadecimal nanoseconds.
pub fn event_name(policy: &str, at: Timestamp) -> String {
    format!("{policy}.{:x}", at.as_nanosecond())
}

/// The time of an entry in nanoseconds: that in the name of its Event, which is finer than the timestamps.
pub(in crate::agent) fn time_of(entry: &HistoryEntry) -> i128 {
    let in_name = entry
        .event_name
        .rsplit_once('.')
        .and_then(|(_, hex)| i128::from_str_radix(hex, 16).ok())
        .filter(|nanoseconds| Timestamp::from_nanosecond(*nanoseconds).is_ok());
    in_name.unwrap_or_else(|| entry.at.map_or(0, Timestamp::as_nanosecond))
}

fn whole_seconds(nanoseconds: i128) -> Option<Timestamp> {
    let time = Timestamp::from_nanosecond(nanoseconds).ok()?;
    Timestamp::from_second(time.as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanosecond: i128) -> Timestamp {
        Timestamp::from_nanosecond(1_800_000_000_000_000_000 + nanosecond).unwrap()
    }

    fn event(nanosecond: i128, message: &str) -> ComplianceEvent {
        ComplianceEvent {
            name: event_name("ns.p", at(nanosecond)),
            template: "t".to_owned(),
            message: message.to_owned(),
            at: Some(at(0)),
        }
    }

    fn status(events: &[ComplianceEvent], sources: Sources<'_>) -> TemplateStatus {
        let events: Vec<&ComplianceEvent> = events.iter().collect();
        template_status(
            "t",
            Sources {
                events: &events,
                ..sources
            },
        )
    }

    const NOTHING: Sources<'static> = Sources {
        policy: "ns.p",
        events: &[],
        remembered: &[],
        previous: &[],
    };

    fn messages(status: &TemplateStatus) -> Vec<&str> {
        let entries = status.history.iter();
        entries.map(|entry| entry.message.as_str()).collect()
    }

    #[test]
    fn the_template_is_read_from_the_reason() {
        for (reason, expected) in [
            ("policy: managed/my-template", Some("my-template")),
            ("policy: my-template", Some("my-template")),
            ("POLICY:managed / my-template", Some(" my-template")),
            ("policy: ", None),
            ("PolicySpecSync", None),
        ] {
            assert_eq!(
                ComplianceEvent::template_of_reason(reason),
                expected,
                "{reason}"
            );
        }
    }

    #[test]
    fn the_newest_message_decides_and_names_order_events_of_one_second() {
        let events = [
            event(1_000_000, "NonCompliant; violation - a"),
            event(2_000_000, "Compliant; notification - b"),
        ];
        let found = status(&events, NOTHING);
        assert_eq!(found.compliant, Some(Compliance::Compliant));
        assert_eq!(
            messages(&found),
            ["Compliant; notification - b", "NonCompliant; violation - a"]
        );
        assert_eq!(found.history[0].at, Some(at(0)), "whole seconds");
    }

    #[test]
    fn what_a_controller_remembers_is_the_same_entry_as_its_event() {
        let remembered = [
            RememberedMessage {
                message: "Compliant; b".to_owned(),
                at: at(2_000),
            },
            RememberedMessage {
                message: "NonCompliant; c".to_owned(),
                at: at(9_000_000),
            },
        ];
        let sources = Sources {
            remembered: &remembered,
            ..NOTHING
        };
        // The event of the first message was named three microseconds later.
        let found = status(&[event(5_000, "Compliant; b")], sources);
        assert_eq!(messages(&found), ["NonCompliant; c", "Compliant; b"]);
    }

    #[test]
    fn older_entries_stay_up_to_ten() {
        let previous: Vec<HistoryEntry> = (0..20)
            .map(|n| HistoryEntry {
                event_name: format!("ns.p.old{n}"),
                at: Some(at(-1_000_000_000 * n)),
                message: format!("NonCompliant; {n}"),
            })
            .collect();
        let sources = Sources {
            previous: &previous,
            ..NOTHING
        };
        let found = status(&[event(1, "Compliant; new")], sources);
        assert_eq!(found.history.len(), 10);
        assert_eq!(messages(&found)[..2], ["Compliant; new", "NonCompliant; 0"]);
    }

    #[test]
    fn combined_events_report_their_own_message() {
        let events = [event(
            1,
            "(combined from similar events): Compliant; all is well",
        )];
        let found = status(&events, NOTHING);
        assert_eq!(found.compliant, Some(Compliance::Compliant));
    }
}
