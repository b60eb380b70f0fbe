//! Continue tokens: where the next page of a list begins, and in which snapshot.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use polity_kinds::status::ApiError;

/// The last object of the page before, and the snapshot the listing began with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// `None`: the newest snapshot, after the first one was compacted.
    pub revision: Option<u64>,
    pub namespace: String,
    pub name: String,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Wire {
    v: String,
    rv: i64,
    start: String,
}

impl Token {
    pub fn encode(&self) -> String {
        let wire = Wire {
            v: "meta.k8s.io/v1".into(),
            rv: self.revision.map_or(-1, |revision| revision as i64),
            start: format!("{}/{}\0", self.namespace, self.name),
        };
        let json = serde_json::to_vec(&wire).expect("strings and a number serialise");
        URL_SAFE_NO_PAD.encode(json)
    }

    pub fn decode(text: &str) -> Result<Self, ApiError> {
        let broken = || {
            ApiError::bad_request(
                "invalid continue token: continue key is not valid: it cannot be decoded",
            )
        };
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| broken())?;
        let wire: Wire = serde_json::from_slice(&json).map_err(|_| broken())?;
        if wire.v != "meta.k8s.io/v1" {
            return Err(ApiError::bad_request(format!(
                "invalid continue token: continue key is not valid: server does not recognize this encoded version {}",
                wire.v
            )));
        }
        let revision = match wire.rv {
            -1 => None,
            rv if rv > 0 => Some(rv as u64),
            _ => return Err(broken()),
        };
        let start = wire.start.strip_suffix('\0').ok_or_else(broken)?;
        let (namespace, name) = start.split_once('/').ok_or_else(broken)?;
        if name.contains('/') {
            return Err(broken());
        }
        Ok(Self {
            revision,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_trip() {
        for revision in [Some(42), None] {
            let token = Token {
                revision,
                namespace: "a".into(),
                name: "b".into(),
            };
            assert_eq!(Token::decode(&token.encode()).unwrap(), token);
        }
        let cluster = Token {
            revision: Some(1),
            namespace: String::new(),
            name: "b".into(),
        };
        assert_eq!(Token::decode(&cluster.encode()).unwrap(), cluster);
    }

    #[test]
    fn a_body_that_cannot_be_decoded_is_a_bad_request() {
        let foreign =
            URL_SAFE_NO_PAD.encode(br#"{"v":"meta.k8s.io/v9","rv":1,"start":"a/b\u0000"}"#);
        let zero = URL_SAFE_NO_PAD.encode(br#"{"v":"meta.k8s.io/v1","rv":0,"start":"a/b\u0000"}"#);
        for text in ["!", "", "e30", &foreign, &zero] {
            assert_eq!(
                Token::decode(text).unwrap_err().code.as_u16(),
                400,
                "{text}"
            );
        }
    }
}
