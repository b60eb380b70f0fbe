//! Request bodies: size limits, media type, JSON with its duplicate keys noticed, YAML, protobuf.

mod budget;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use polity_core::Findings;
use serde_json::Value;

use super::json;
use polity_kinds::protobuf::{self, ProtobufError};
use polity_kinds::status::ApiError;

pub use budget::{BodyBudget, Reservation};

/// The largest body that a request may have, as on a real server.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// A decoded body and its duplicate keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub value: Value,
    /// Dotted paths, each once, in order of appearance.
    pub duplicates: Findings,
}

/// An object that was not read from a text, so that it has no duplicate keys.
impl From<Value> for Decoded {
    fn from(value: Value) -> Self {
        Self {
            value,
            duplicates: Findings::default(),
        }
    }
}

/// Reads a body up to its limit and the limit of all bodies together.
pub async fn read(
    body: axum::body::Body,
    budget: &BodyBudget,
) -> Result<(Bytes, Reservation), ApiError> {
    let mut body = Limited::new(body, MAX_BODY_BYTES);
    let mut reservation = Reservation::default();
    let mut chunks: Vec<Bytes> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failed_to_read(error.as_ref()))?;
        let Ok(chunk) = frame.into_data() else {
            continue;
        };
        if let Err(refusal) = budget.reserve(&mut reservation, chunk.len()) {
            drop((chunks, reservation, chunk));
            // A client that is still sending would not see the response, because the connection would be reset.
            while let Some(Ok(_)) = body.frame().await {}
            return Err(refusal);
        }
        chunks.push(chunk);
    }
    let bytes = match chunks.as_slice() {
        [only] => only.clone(),
        chunks => chunks.concat().into(),
    };
    Ok((bytes, reservation))
}

fn failed_to_read(error: &(dyn std::error::Error + 'static)) -> ApiError {
    if error.is::<LengthLimitError>() {
        return ApiError::too_large(format!(
            "Request entity too large: limit is {MAX_BODY_BYTES}"
        ));
    }
    ApiError::bad_request(format!("error reading the request body: {error}"))
}

/// The media type of a body, without parameters; `None` when the header is absent.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let media = text
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    (!media.is_empty()).then_some(media)
}

/// Decodes an object body by its media type.
pub fn decode(media: Option<&str>, body: &[u8]) -> Result<Decoded, ApiError> {
    match media {
        None | Some("application/json") => json(body),
        Some("application/yaml") => yaml(body),
        Some("application/vnd.kubernetes.protobuf") => match protobuf::decode(body) {
            Ok(value) => Ok(value.into()),
            Err(ProtobufError::UnknownKind { kind, .. }) if kind.is_empty() => Err(
                ApiError::bad_request("Object 'Kind' is missing in the protobuf envelope"),
            ),
            Err(error @ ProtobufError::UnknownKind { .. }) => {
                Err(ApiError::unsupported_media_type(error.to_string()))
            }
            Err(error) => Err(ApiError::bad_request(error.to_string())),
        },
        Some(_) => Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: {ACCEPTED}"
        ))),
    }
}

/// Decodes JSON, noting duplicate keys; the last one wins.
pub fn json(body: &[u8]) -> Result<Decoded, ApiError> {
    let (value, duplicates) = json::read(body).map_err(|error| {
        ApiError::bad_request(format!("couldn't decode the body as JSON: {error}"))
    })?;
    Ok(Decoded { value, duplicates })
}

/// How many events aliases may add to a YAML document, besides one for every four bytes of it.
const REPLAYED_EVENTS: usize = 1024;

/// Decodes one YAML document; Kubernetes reads YAML 1.1 numbers and booleans.
pub fn yaml(body: &[u8]) -> Result<Decoded, ApiError> {
    let text = std::str::from_utf8(body)
        .map_err(|error| ApiError::bad_request(format!("the body is not UTF-8: {error}")))?;
    // JSON is YAML, and the quicker parser also names duplicate keys.
    if text.trim_start().starts_with('{')
        && let Ok(decoded) = json(body)
    {
        return Ok(decoded);
    }
    // The text may be as large as a body. The expansion of aliases is limited to a share of it, so that a short body costs
    // little.
    let (written, replayed) = (text.len(), text.len() / 4 + REPLAYED_EVENTS);
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: replayed },
        budget: serde_saphyr::budget! {
            max_nodes: written + replayed,
            max_events: 2 * (written + replayed),
            max_total_scalar_bytes: 8 * (written + replayed),
        },
    };
    let value: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        ApiError::bad_request(format!("error converting YAML to JSON: {error}"))
    })?;
    Ok(value.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    #[test]
    fn aliases_cost_no_more_than_the_body_is_long() {
        let few = format!("a: &a [{}]\nb: [*a, *a, *a]", "x,".repeat(100));
        let decoded = yaml(few.as_bytes()).unwrap();
        assert_eq!(decoded.value["b"][2].as_array().unwrap().len(), 100);
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..8 {
            let below = format!("*a{}", level - 1);
            let list = [below.as_str(); 9].join(",");
            bomb.push_str(&format!("a{level}: &a{level} [{list}]\n"));
        }
        let text = yaml(bomb.as_bytes()).unwrap_err().message;
        assert!(text.contains("alias"), "{text}");
    }

    #[test]
    fn a_chain_of_merge_keys_is_cut_off_early() {
        let merged = |n_links: usize| {
            let mut text = "a0: &a0 {x: 1}\n".to_owned();
            for n in 1..=n_links {
                text.push_str(&format!("a{n}: &a{n}\n  <<: *a{}\n  k{n}: 1\n", n - 1));
            }
            yaml(text.as_bytes())
        };
        assert_eq!(merged(10).unwrap().value["a10"]["x"], 1);
        let text = merged(200).unwrap_err().message;
        assert!(text.contains("alias"), "{text}");
    }

    #[test]
    fn duplicate_keys_are_named_and_the_last_one_wins() {
        let decoded = json(br#"{"spec":{"x":1,"x":2,"l":[{"a":1,"a":2}]},"spec2":1}"#).unwrap();
        assert_eq!(
            decoded.value,
            value!({"spec": {"x": 2, "l": [{"a": 2}]}, "spec2": 1})
        );
        assert_eq!(decoded.duplicates, ["spec.x", "spec.l[0].a"]);
    }

    #[test]
    fn media_types() {
        assert_eq!(decode(None, b"{}").unwrap().value, value!({}));
        assert_eq!(
            decode(Some("application/yaml"), b"a: 0644\nb: yes")
                .unwrap()
                .value,
            value!({"a": 420, "b": true})
        );
        assert_eq!(
            decode(Some("text/plain"), b"{}").unwrap_err().code.as_u16(),
            415
        );
        assert_eq!(
            decode(Some("application/cbor"), b"")
                .unwrap_err()
                .code
                .as_u16(),
            415
        );
    }

    #[test]
    fn broken_bodies_are_bad_requests() {
        let deep = "[".repeat(100_000);
        for body in ["", "{", "{}x", "nul", deep.as_str()] {
            assert_eq!(
                json(body.as_bytes()).unwrap_err().code.as_u16(),
                400,
                "{body:.20}"
            );
        }
        assert_eq!(yaml(b"a: [").unwrap_err().code.as_u16(), 400);
        assert_eq!(yaml(&[0xff, 0xfe]).unwrap_err().code.as_u16(), 400);
    }
}
