//! Bodies of real clients, hand-made ones, and hostile ones.

use proptest::prelude::*;

use super::*;

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [
        varint(field << 3 | 2),
        varint(content.len() as u64),
        content.to_vec(),
    ]
    .concat()
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [
        MAGIC.to_vec(),
        bytes(1, &type_meta),
        bytes(2, raw),
        bytes(3, b""),
        bytes(4, b""),
    ]
    .concat()
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        other => other,
    }
}

/// Bytes of the real encoder.
#[test]
fn bodies_of_client_go_decode_to_their_json() {
    let mut n_bodies = 0;
    for line in include_str!("fixtures.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let columns: Vec<&str> = line.split('\t').collect();
        let body = STANDARD.decode(columns[1]).unwrap();
        let expected: Value = serde_json::from_str(columns[2]).unwrap();
        let decoded = decode(&body).unwrap_or_else(|error| panic!("{}: {error}", columns[0]));
        assert_eq!(decoded, without_nulls(expected), "{}", columns[0]);
        n_bodies += 1;
        for end in 0..body.len() {
            let _ = decode(&body[..end]);
        }
    }
    assert_eq!(n_bodies, 18);
}

#[test]
fn flags_decide_which_zeros_stay() {
    let spec = [number(1, 0), number(99, 7), bytes(98, b"later")].concat();
    let body = envelope("apps/v1", "Deployment", &bytes(2, &spec));
    assert_eq!(
        decode(&body).unwrap(),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 0}})
    );
    let meta = [
        bytes(1, b"n"),
        bytes(2, b""),
        number(7, 0),
        bytes(8, b""),
        bytes(9, &number(1, 60)),
    ]
    .concat();
    let body = envelope("v1", "ConfigMap", &[bytes(1, &meta), number(4, 0)].concat());
    assert_eq!(
        decode(&body).unwrap(),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "immutable": false,
               "metadata": {"name": "n", "deletionTimestamp": "1970-01-01T00:01:00Z"}})
    );
}

#[test]
fn negative_numbers_are_ten_byte_varints() {
    let body = envelope(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        &number(2, (-5i64) as u64),
    );
    assert_eq!(decode(&body).unwrap()["value"], json!(-5));
}

#[test]
fn invalid_messages_are_refused_with_a_reason() {
    let unknown = ProtobufError::UnknownKind {
        api_version: "x/v1".into(),
        kind: "Widget".into(),
    };
    let cases = [
        (b"{}".to_vec(), ProtobufError::NotProtobuf),
        (b"k8s".to_vec(), ProtobufError::NotProtobuf),
        (envelope("x/v1", "Widget", b""), unknown),
        (
            envelope("v1", "Secret", &[0x0a, 0x7f]),
            ProtobufError::Truncated,
        ),
        (envelope("v1", "Secret", &[0x0a]), ProtobufError::Truncated),
        (envelope("v1", "Secret", &[0x00]), ProtobufError::Malformed),
        (envelope("v1", "Secret", &[0x0b]), ProtobufError::Malformed),
        (
            envelope("v1", "Secret", &[0xff; 12]),
            ProtobufError::Malformed,
        ),
        (
            envelope("v1", "Secret", &number(1, 3)),
            ProtobufError::WireType { field: "metadata" },
        ),
        (
            envelope("v1", "Secret", &bytes(3, &[0xff])),
            ProtobufError::Text { field: "type" },
        ),
        (
            envelope("apps/v1", "ControllerRevision", &bytes(2, &bytes(1, b"{"))),
            ProtobufError::Json { field: "data" },
        ),
        (
            envelope(
                "v1",
                "Secret",
                &bytes(1, &bytes(8, &number(1, u64::MAX / 2))),
            ),
            ProtobufError::Time {
                field: "creationTimestamp",
            },
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(decode(&body), Err(expected));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(raw in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..4) {
        let (api_version, kind) =
            [("v1", "Pod"), ("apps/v1", "Deployment"), ("v1", "Event"), ("apps/v1", "ControllerRevision")][at];
        let _ = decode(&envelope(api_version, kind, &raw));
        let _ = decode(&[MAGIC.as_slice(), &raw].concat());
    }

    /// A changed byte or two in a real body.
    #[test]
    fn damaged_bodies_are_read_without_panic(line in 0usize..18, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let text = include_str!("fixtures.tsv").lines().filter(|line| !line.starts_with('#')).nth(line).unwrap();
        let mut body = STANDARD.decode(text.split('\t').nth(1).unwrap()).unwrap();
        let at = at.index(body.len());
        body[at] = byte;
        let _ = decode(&body);
    }
}
