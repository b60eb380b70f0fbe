//! The form of a signature beside a file: a DSSE envelope with one signature, its certificate enclosed.
//!
//! Every envelope has exactly one spelling: what would be written again in other bytes is refused. Whoever can write
//! to the file can therefore not even change it without being seen.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use crate::certificate::Certificate;

/// What the payload is: an in-toto statement.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// These bytes are no envelope of ours.
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

/// [`Envelope`] as it is written.
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
    /// Reads an envelope.
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

/// What is signed: DSSE's pre-authentication encoding, which ties the payload to its type.
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
