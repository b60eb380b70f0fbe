//! The format of a signature beside a file: a DSSE envelope with one signature and its certificate.
//!
//! Every envelope has exactly one encoding: bytes that would be encoded differently are rejected. An attacker with
//! write access to the file therefore cannot change it without detection.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use crate::certificate::Certificate;

/// The payload type: an in-toto statement.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// The bytes are not an envelope of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// An envelope, taken apart. Nothing in it has been checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) payload: Vec<u8>,
    /// ECDSA as an ASN.1 sequence, over [`signed_message`] of the payload.
    pub(super) signature: Vec<u8>,
    pub(super) certificate: Certificate,
}

/// The encoded form of an [`Envelope`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenEnvelope {
    payload_type: String,
    payload: String,
    signatures: [WrittenSignature; 1],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSignature {
    /// The certificate's fingerprint.
    keyid: String,
    sig: String,
    /// PEM.
    cert: String,
}

impl Envelope {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let written: WrittenEnvelope = serde_json::from_slice(bytes).map_err(|_| Malformed)?;
        let [signature] = &written.signatures;
        let envelope = Self {
            payload: decode(&written.payload)?,
            signature: decode(&signature.sig)?,
            certificate: Certificate::from_pem(&signature.cert).map_err(|_| Malformed)?,
        };
        if envelope.to_bytes() == bytes {
            Ok(envelope)
        } else {
            Err(Malformed)
        }
    }

    /// The one spelling of this envelope.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let written = WrittenEnvelope {
            payload_type: PAYLOAD_TYPE.to_owned(),
            payload: BASE64_STANDARD.encode(&self.payload),
            signatures: [WrittenSignature {
                keyid: self.certificate.fingerprint(),
                sig: BASE64_STANDARD.encode(&self.signature),
                cert: self.certificate.to_pem(),
            }],
        };
        serde_json::to_vec(&written).expect("strings are plain JSON")
    }
}

/// The signed bytes: the pre-authentication encoding of DSSE, which binds the payload to its type.
pub(super) fn signed_message(payload: &[u8]) -> Vec<u8> {
    let (type_length, length) = (PAYLOAD_TYPE.len(), payload.len());
    let mut message = format!("DSSEv1 {type_length} {PAYLOAD_TYPE} {length} ").into_bytes();
    message.extend_from_slice(payload);
    message
}

fn decode(text: &str) -> Result<Vec<u8>, Malformed> {
    BASE64_STANDARD.decode(text).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signed_message_is_that_of_the_protocol() {
        assert_eq!(
            signed_message(b"{\"a\":1}"),
            b"DSSEv1 28 application/vnd.in-toto+json 7 {\"a\":1}"
        );
        assert_eq!(signed_message(b"").last(), Some(&b' '));
    }
}
