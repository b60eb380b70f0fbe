//! Where a policy stands, for people.

use jiff::Timestamp;
use polity_api::policies::v1::{ConditionStatus, Phase, PolicyCondition};

use super::events::Told;
use super::view::{Awaited, Generation, View};
use crate::output::{Paint, age, columns, one_line};

/// The whole answer, as it is printed.
pub(super) fn page(view: &View, now: Timestamp, paint: Paint) -> String {
    let place = view.namespace.as_deref();
    let place = place
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    let title = format!("{} {place}{}", view.kind, view.name);
    let server = one_line(&view.policy_server);
    let mut text = format!(
        "{}, on policy server {server}, mode {}\n\n{}\n{}",
        paint.bold(&title),
        one_line(&view.mode),
        columns(&summary(view, paint)),
        columns(&conditions(view, now, paint)),
    );
    if !view.events.is_empty() {
        text.push('\n');
        text.push_str(&columns(&events(&view.events, now, paint)));
    }
    text
}

fn summary(view: &View, paint: Paint) -> Vec<Vec<String>> {
    let phase = match view.phase {
        Some(phase) if phase == Phase::Active && view.mode == "monitor" => format!(
            "{} in monitor mode: requests are reported, not refused",
            in_colour(phase, paint)
        ),
        Some(phase) => in_colour(phase, paint),
        None => paint.warn("not known yet"),
    };
    let serving = match view.serving_generation {
        Some(serving) => format!("generation {serving}"),
        None => paint.warn("nothing"),
    };
    let line = |name: &str, value: String| vec![name.to_owned(), value];
    let mut lines = vec![
        line("PHASE", phase),
        line("", one_line(&view.message)),
        line("CURRENT", format!("generation {}", view.generation)),
        line("SERVING", serving),
    ];
    if let Some(awaited) = &view.awaited {
        lines.push(line("AWAITED", in_words(awaited)));
    }
    if let Some(to) = &view.rollback_to_generation {
        let asked = format!("to generation {} is asked for", one_line(to));
        lines.push(line("ROLLBACK", asked));
    }
    lines
}

fn in_colour(phase: Phase, paint: Paint) -> String {
    match phase {
        Phase::Active => paint.good("Active"),
        Phase::Failed => paint.bad("Failed"),
        Phase::Pending => paint.warn("Pending"),
        Phase::Updating => paint.warn("Updating"),
    }
}

fn in_words(awaited: &Awaited) -> String {
    match awaited {
        Awaited::Controller => "the controller".to_owned(),
        Awaited::PolicyServer { reason: None } => "the policy server".to_owned(),
        Awaited::PolicyServer {
            reason: Some(reason),
        } => format!("the policy server ({})", one_line(reason)),
        Awaited::Leader { retries: None } => {
            "the policy server, which pulls, compiles and checks it".to_owned()
        }
        Awaited::Leader {
            retries: Some(reason),
        } => format!(
            "the policy server, which tries again after {}",
            one_line(reason)
        ),
        Awaited::Owner { reason } => format!(
            "a change of the policy or of its server: {} is not tried again",
            one_line(reason)
        ),
        Awaited::Replicas { replicas } => match replicas.as_slice() {
            [] => "every replica".to_owned(),
            [one] => format!("replica {one}"),
            several => {
                let several: Vec<_> = several.iter().map(ToString::to_string).collect();
                format!("replicas {}", several.join(", "))
            }
        },
    }
}

fn conditions(view: &View, now: Timestamp, paint: Paint) -> Vec<Vec<String>> {
    let head = [
        "GENERATION",
        "CONDITION",
        "STATUS",
        "REASON",
        "SINCE",
        "MESSAGE",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for generation in &view.generations {
        let mut label = label(generation);
        if generation.conditions.is_empty() {
            rows.push(vec![
                label.clone(),
                "nothing is said about it yet".to_owned(),
            ]);
        }
        for condition in &generation.conditions {
            let mut row = vec![std::mem::take(&mut label)];
            row.extend(cells(condition, now, paint));
            rows.push(row);
        }
    }
    rows
}

fn label(generation: &Generation) -> String {
    let number = generation.generation;
    match (generation.is_serving, generation.is_current) {
        (true, true) => format!("{number}, current, serving"),
        (true, false) => format!("{number}, serving"),
        (false, true) => format!("{number}, current"),
        (false, false) => number.to_string(),
    }
}

fn cells(condition: &PolicyCondition, now: Timestamp, paint: Paint) -> [String; 5] {
    let type_ = one_line(&condition.type_);
    let (status, message) = match condition.status {
        // What is fine needs no sentence.
        ConditionStatus::True => (paint.good("True"), String::new()),
        ConditionStatus::False => (paint.bad("False"), one_line(&condition.message)),
        ConditionStatus::Unknown => (paint.warn("Unknown"), one_line(&condition.message)),
    };
    [
        match condition.replica {
            Some(replica) => format!("{type_}, replica {replica}"),
            None => type_,
        },
        status,
        one_line(&condition.reason),
        age(
            condition.last_transition_time.as_ref().map(|time| time.0),
            now,
        ),
        message,
    ]
}

fn events(events: &[Told], now: Timestamp, paint: Paint) -> Vec<Vec<String>> {
    let head = ["LAST SEEN", "EVENT", "NOTE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(events.iter().map(|told| {
        let reason = one_line(&told.reason);
        let times = match told.count {
            ..=1 => String::new(),
            count => format!(" ({count} times)"),
        };
        vec![
            age(told.last, now),
            if told.is_warning() {
                paint.warn(&reason)
            } else {
                reason
            },
            format!("{}{times}", one_line(&told.note)),
        ]
    }));
    rows
}
