//! The key that signs service-account tokens, and the key id that names it in a token's header.

use aws_lc_rs::digest;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::key::{KeyError, PrivateKey};

/// An ES256 key pair for service-account tokens.
#[derive(Debug, Clone)]
pub struct TokenKey {
    key: PrivateKey,
}

impl TokenKey {
    /// Makes a new key pair.
    pub fn generate() -> Result<Self, KeyError> {
        PrivateKey::generate().map(|key| Self { key })
    }

    /// Reads a key pair from its private PKCS#8 PEM.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let key = PrivateKey::from_pem(pem)?;
        if key.is_p256() {
            Ok(Self { key })
        } else {
            Err(KeyError::NotP256)
        }
    }

    /// The private half as PKCS#8 PEM: a secret.
    pub fn private_pem(&self) -> String {
        self.key.to_pem()
    }

    /// The public half as PEM.
    pub fn public_pem(&self) -> String {
        self.key.public_pem()
    }

    /// The `kid` of tokens signed with this key.
    pub fn key_id(&self) -> String {
        key_id(&self.key.public_der())
    }
}

/// The key id Kubernetes gives a public key: base64url (no padding) of the SHA-256 of its DER.
pub fn key_id(public_der: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, public_der))
}
