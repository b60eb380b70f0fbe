//! Lines are valid JSON for any field values, with the same content as the JSON format of `tracing-subscriber`.

use proptest::prelude::*;
use serde_json::{Value, json};
use tracing::field::Empty;
use tracing::{Subscriber, info, info_span, subscriber};

use super::*;
use crate::logs::captured::Captured;

fn ours(writer: Captured) -> impl Subscriber {
    tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .fmt_fields(JsonFields)
        .event_format(JsonLines)
        .finish()
}

fn theirs(writer: Captured) -> impl Subscriber {
    let lines = tracing_subscriber::fmt().with_writer(move || writer.clone());
    lines.json().finish()
}

/// The lines that `say` logs, without their times.
fn lines<S: Subscriber + Send + Sync + 'static>(
    subscriber: impl FnOnce(Captured) -> S,
    say: impl Fn(),
) -> Vec<Value> {
    let captured = Captured::default();
    subscriber::with_default(subscriber(captured.clone()), say);
    let text = captured.text();
    let read = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let time = line.as_object_mut().unwrap().remove("timestamp");
        assert!(time.unwrap().as_str().unwrap().ends_with('Z'));
        line
    };
    text.lines().map(read).collect()
}

#[test]
fn a_line_holds_its_event_and_its_spans() {
    let said = lines(ours, || {
        let outer = info_span!("request", uid = "u-1", code = Empty, allowed = Empty);
        let _outer = outer.enter();
        outer.record("code", 404_u64);
        outer.record("allowed", false);
        outer.record("code", 200_u64);
        let _inner = info_span!("judge").entered();
        info!(
            took_ms = 1.5,
            not_a_number = f64::NAN,
            n = -3,
            r#type = "Pod",
            "judged"
        );
    });
    let request = json!({"name": "request", "uid": "u-1", "allowed": false, "code": 200});
    let target = module_path!();
    assert_eq!(
        said,
        [json!({
            "level": "INFO",
            "target": target,
            "fields": {
                "message": "judged", "took_ms": 1.5, "not_a_number": null, "n": -3, "type": "Pod",
            },
            "spans": [request, {"name": "judge"}],
            "span": {"name": "judge"},
        })]
    );
    let alone = lines(ours, || info!("nobody asked"));
    assert_eq!(alone[0].get("span"), None);
}

proptest! {
    #[test]
    fn lines_equal_those_of_tracing_subscriber(
        words in proptest::collection::vec(any::<String>(), 4),
        numbers in any::<(i64, u64, f64, bool)>(),
    ) {
        let (a, b, c, d) = numbers;
        let say = || {
            let span = info_span!("one", first = words[0], late = Empty, last = Empty, a, b, d);
            span.record("late", &words[1]);
            span.record("last", tracing::field::debug(&words[2]));
            let _in = span.enter();
            info!(c, shown = %words[3], shown_so = ?words[0], "{}", words[1]);
        };
        prop_assert_eq!(lines(ours, say), lines(theirs, say));
    }
}
