//! Encodes a value to stored bytes, and stored bytes to the response, without parsing where possible.
//!
//! Stored bytes always begin with apiVersion and kind, so that both can be dropped (items of built-in lists) or
//! replaced (another version of a custom resource) by changing only the first bytes. The store inserts the revision
//! into `metadata.resourceVersion`.

use bytes::{Bytes, BytesMut};
use polity_store::Payload;
use serde_json::{Map, Value};

/// Serialises an object around the place of its resourceVersion.
pub fn payload(object: &Map<String, Value>) -> Payload {
    let mut before = Vec::with_capacity(1024);
    before.extend_from_slice(&head(
        object
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default(),
        object
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    ));
    before.extend_from_slice(b"\"metadata\":{");
    let empty = Map::new();
    let metadata = object
        .get("metadata")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
        member(&mut before, key, value);
        before.push(b',');
    }
    before.extend_from_slice(b"\"resourceVersion\":\"");
    let mut after = b"\"}".to_vec();
    for (key, value) in object {
        if !matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
            after.push(b',');
            member(&mut after, key, value);
        }
    }
    after.push(b'}');
    Payload { before, after }
}

/// `{"apiVersion":…,"kind":…,`: how every stored object begins.
fn head(api_version: &str, kind: &str) -> Vec<u8> {
    let mut head = Vec::with_capacity(64);
    head.extend_from_slice(b"{\"apiVersion\":");
    text(&mut head, api_version);
    head.extend_from_slice(b",\"kind\":");
    text(&mut head, kind);
    head.push(b',');
    head
}

fn member(out: &mut Vec<u8>, key: &str, value: &Value) {
    text(out, key);
    out.push(b':');
    serde_json::to_writer(&mut *out, value).expect("a JSON value serialises into memory");
}

fn text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(&mut *out, text).expect("a string serialises into memory");
}

/// Writes lists and single objects of one kind from stored bytes.
#[derive(Debug, Clone)]
pub struct Heads {
    stored: Bytes,
    served: Bytes,
}

impl Heads {
    /// `stored` is the apiVersion of the stored objects, `served` the one that the client requested.
    pub fn new(stored: &str, served: &str, kind: &str) -> Self {
        Self {
            stored: head(stored, kind).into(),
            served: head(served, kind).into(),
        }
    }

    /// Whether stored bytes begin as this kind's do.
    pub fn fits(&self, stored: &Bytes) -> bool {
        stored.starts_with(&self.stored)
    }

    /// The object in the served version.
    pub fn object(&self, stored: &Bytes) -> Bytes {
        if self.stored == self.served {
            return stored.clone();
        }
        match stored.strip_prefix(&self.stored[..]) {
            Some(rest) => joined(&[&self.served, rest]),
            None => stored.clone(),
        }
    }

    /// The object without apiVersion and kind.
    pub fn bare(&self, stored: &Bytes) -> Bytes {
        match stored.strip_prefix(&self.stored[..]) {
            Some(rest) => joined(&[b"{", rest]),
            None => stored.clone(),
        }
    }
}

fn joined(parts: &[&[u8]]) -> Bytes {
    let mut out = BytesMut::with_capacity(parts.iter().map(|part| part.len()).sum());
    for part in parts {
        out.extend_from_slice(part);
    }
    out.freeze()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(value: &Value, revision: u64) -> Bytes {
        let payload = payload(value.as_object().unwrap());
        joined(&[
            &payload.before,
            revision.to_string().as_bytes(),
            &payload.after,
        ])
    }

    #[test]
    fn the_revision_is_spliced_into_the_metadata() {
        let object = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "a\"b", "resourceVersion": "7", "labels": {"resourceVersion": "x"}},
        });
        let bytes = stored(&object, 42);
        let mut expected = object.clone();
        expected["metadata"]["resourceVersion"] = json!("42");
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), expected);
        assert!(
            bytes.starts_with(
                b"{\"apiVersion\":\"discovery.k8s.io/v1\",\"kind\":\"EndpointSlice\","
            )
        );
    }

    #[test]
    fn bare_items_and_c19_other_versions_need_no_parsing() {
        let object =
            json!({"apiVersion": "g/v1", "kind": "W", "metadata": {"name": "a"}, "spec": {"b": 1}});
        let bytes = stored(&object, 1);
        let heads = Heads::new("g/v1", "g/v2", "W");
        let served: Value = serde_json::from_slice(&heads.object(&bytes)).unwrap();
        assert_eq!(served["apiVersion"], "g/v2");
        assert_eq!(served["spec"]["b"], 1);
        let bare: Value = serde_json::from_slice(&heads.bare(&bytes)).unwrap();
        assert_eq!(
            bare,
            json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"b": 1}})
        );
    }

    #[test]
    fn an_object_without_metadata_still_gets_its_version() {
        let bytes = stored(&json!({"apiVersion": "v1", "kind": "X"}), 3);
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["metadata"]["resourceVersion"], "3");
    }
}
