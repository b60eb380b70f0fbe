//! Any bytes may come as a protobuf body; whatever they are, they become a JSON object of bounded size or a refusal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polity_kinds::protobuf;

/// No byte of a body may cost more than this in its JSON: an escaped control character and the longest field name.
const MOST_BYTES_EACH: usize = 256;

/// Kinds whose messages nest, repeat and map in every way the table knows.
const KINDS: [(&str, &str); 6] = [
    ("v1", "Pod"),
    ("v1", "ConfigMap"),
    ("apps/v1", "Deployment"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("v1", "List"),
];

fuzz_target!(|data: &[u8]| {
    check(data);
    // The same as the object in an envelope of a known kind: chance alone would seldom write one.
    let Some((choice, raw)) = data.split_first() else {
        return;
    };
    let (api_version, kind) = KINDS[usize::from(*choice) % KINDS.len()];
    check(&envelope(api_version, kind, raw));
});

fn check(body: &[u8]) {
    let Ok(object) = protobuf::decode(body) else {
        return;
    };
    assert!(object.is_object());
    assert!(object.to_string().len() <= 1024 + body.len() * MOST_BYTES_EACH);
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut types = Vec::new();
    put(&mut types, 1, api_version.as_bytes());
    put(&mut types, 2, kind.as_bytes());
    let mut body = b"k8s\0".to_vec();
    put(&mut body, 1, &types);
    put(&mut body, 2, raw);
    body
}

/// A field with a length.
fn put(to: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    to.push(number << 3 | 2);
    let mut left = bytes.len();
    while left >= 0x80 {
        to.push(left as u8 | 0x80);
        left >>= 7;
    }
    to.push(left as u8);
    to.extend_from_slice(bytes);
}
