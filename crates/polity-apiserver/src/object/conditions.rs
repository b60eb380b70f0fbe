//! `status.conditions` of the objects the server's own controllers write.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::meta;

/// A condition to be set.
#[derive(Debug, Clone)]
pub struct Condition {
    pub kind: &'static str,
    pub status: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Condition {
    /// Sets this condition; its transition time moves only with its status. True when anything changed.
    pub fn set(&self, object: &mut Value, now: Timestamp) -> bool {
        if !object["status"]["conditions"].is_array() {
            object["status"]["conditions"] = json!([]);
        }
        let list = object["status"]["conditions"]
            .as_array_mut()
            .expect("made a list above");
        let status = if self.status { "True" } else { "False" };
        let found = list.iter_mut().find(|known| known["type"] == self.kind);
        let since = match &found {
            Some(known) if known["status"] == status => known["lastTransitionTime"].clone(),
            _ => json!(meta::time(now)),
        };
        let next = json!({
            "type": self.kind, "status": status, "reason": self.reason, "message": self.message,
            "lastTransitionTime": since,
        });
        match found {
            Some(known) => {
                let changed = *known != next;
                *known = next;
                changed
            }
            None => {
                list.push(next);
                true
            }
        }
    }
}

/// Whether a condition is True.
pub fn is_true(object: &Value, kind: &str) -> bool {
    object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let mut crd = json!({});
        let mut condition = Condition {
            kind: "Established",
            status: true,
            reason: "A",
            message: "m".into(),
        };
        assert!(condition.set(&mut crd, at("2026-01-01T00:00:00Z")));
        assert!(!condition.set(&mut crd, at("2026-01-02T00:00:00Z")));
        condition.reason = "B";
        assert!(condition.set(&mut crd, at("2026-01-03T00:00:00Z")));
        assert_eq!(
            crd["status"]["conditions"][0]["lastTransitionTime"],
            "2026-01-01T00:00:00Z"
        );
        condition.status = false;
        assert!(condition.set(&mut crd, at("2026-01-04T00:00:00Z")));
        assert_eq!(
            crd["status"]["conditions"][0]["lastTransitionTime"],
            "2026-01-04T00:00:00Z"
        );
        assert!(!is_true(&crd, "Established"));
    }
}
