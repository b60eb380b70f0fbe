//! Log entries and output of guests, as events with the target `policy_log`.

use polity_wasm::{LogBudget, Stream};
use serde_json::{Map, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Trace,
    Debug,
    Info,
    Warning,
    Error,
}

impl Level {
    fn parse(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "trace" => Some(Self::Trace),
            "debug" => Some(Self::Debug),
            "info" => Some(Self::Info),
            "warning" | "warn" => Some(Self::Warning),
            "error" => Some(Self::Error),
            _ => None,
        }
    }
}

/// Writes one entry of `tracing/log`, within the budget. An entry that cannot be parsed is written as text.
pub(super) fn entry(policy: &str, request_uid: &str, payload: &[u8], budget: &mut LogBudget) {
    // Truncated before it is parsed: a truncated entry is malformed and written as text.
    let text = String::from_utf8_lossy(payload);
    let Some(text) = budget.admit(&text) else {
        return;
    };
    match read(text) {
        Some((level, message, data)) => emit(level, policy, request_uid, &data, &message),
        None => emit(
            Level::Warning,
            policy,
            request_uid,
            text,
            "malformed log entry",
        ),
    }
}

/// Level, message, and all other fields as JSON.
fn read(text: &str) -> Option<(Level, String, String)> {
    let mut fields: Map<String, Value> = serde_json::from_str(text).ok()?;
    let level = Level::parse(fields.remove("level")?.as_str()?)?;
    let message = match fields.remove("message") {
        Some(Value::String(message)) => message,
        Some(other) if !other.is_null() => other.to_string(),
        _ => String::new(),
    };
    Some((level, message, Value::Object(fields).to_string()))
}

/// Writes the output of a guest.
pub(super) fn printed(policy: &str, request_uid: &str, stream: Stream, text: &str) {
    let level = match stream {
        Stream::Console | Stream::Stdout => Level::Debug,
        Stream::Stderr => Level::Warning,
    };
    emit(level, policy, request_uid, "{}", text);
}

/// Emits an event at a level that is known only at run time.
fn emit(level: Level, policy: &str, request_uid: &str, data: &str, message: &str) {
    // The span has the highest level, so that every visible event shows its policy.
    let span = tracing::error_span!(target: "policy_log", "policy_log", policy, request_uid);
    let _entered = span.enter();
    match level {
        Level::Trace => tracing::trace!(target: "policy_log", data, "{message}"),
        Level::Debug => tracing::debug!(target: "policy_log", data, "{message}"),
        Level::Info => tracing::info!(target: "policy_log", data, "{message}"),
        Level::Warning => tracing::warn!(target: "policy_log", data, "{message}"),
        Level::Error => tracing::error!(target: "policy_log", data, "{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_taken_apart() {
        for (text, expected) in [
            (
                r#"{"level":"INFO","message":"hi","n":1}"#,
                Some((Level::Info, "hi", r#"{"n":1}"#)),
            ),
            (r#"{"level":"warning"}"#, Some((Level::Warning, "", "{}"))),
            (
                r#"{"level":"error","message":null}"#,
                Some((Level::Error, "", "{}")),
            ),
            (r#"{"level":"loud","message":"hi"}"#, None),
            (r#"{"message":"hi"}"#, None),
            ("nonsense", None),
            ("[]", None),
        ] {
            let expected =
                expected.map(|(level, message, data)| (level, message.to_owned(), data.to_owned()));
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
