//! Events: created through the API and shown by kubectl.

use e2e::Kubectl;
use serde_json::json;

e2e::scenarios![shows_events];

/// `events`, `get events`, and the events of one object in `describe`.
fn shows_events(k: &Kubectl) {
    k.ok("create deployment web --image=nginx:1");
    let uid = k.field("deploy/web", ".metadata.uid");
    let event = |name: &str, reason: &str, kind: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": k.namespace()},
            "involvedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": k.namespace(), "name": "web", "uid": uid},
            "reason": reason, "message": format!("it is {reason}"), "type": kind, "count": 2,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:01Z",
            "source": {"component": "tester"},
        })
        .to_string()
    };
    k.ok_with_input("create -f -", &event("web.1", "Scaled", "Normal"));
    k.ok_with_input("create -f -", &event("web.2", "Broken", "Warning"));
    let table = k.ok("get events");
    assert!(table.starts_with("LAST SEEN"), "{table}");
    assert!(
        table.contains("deployment/web") && table.contains("it is Scaled"),
        "{table}"
    );
    let own = k.ok("events --for deployment/web");
    assert!(own.contains("Broken") && own.contains("Scaled"), "{own}");
    let warnings = k.ok("events --types=Warning");
    assert!(
        warnings.contains("Broken") && !warnings.contains("Scaled"),
        "{warnings}"
    );
    assert_eq!(
        k.ok("get events --field-selector=reason=Broken -o name"),
        "event/web.2"
    );
    assert_eq!(
        k.ok("get events --field-selector=involvedObject.name=other -o name"),
        ""
    );
    let text = k.describe("deployment web");
    assert!(
        text.contains("it is Broken") && text.contains("tester"),
        "{text}"
    );
    assert_eq!(
        k.ok("get events.events.k8s.io web.1 -o jsonpath={.note}"),
        "it is Scaled"
    );
    let misplaced = event("web.3", "Lost", "Normal").replace(
        &format!("\"namespace\":\"{}\",\"uid\"", k.namespace()),
        "\"namespace\":\"other\",\"uid\"",
    );
    let refused = k.fails_with_input("create -f -", &misplaced);
    assert!(refused.contains("involvedObject.namespace"), "{refused}");
}
