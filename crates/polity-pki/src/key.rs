//! Private keys: ECDSA P-256, PKCS#8 in PEM, and silent in `Debug`.

use std::fmt;
use std::sync::Arc;

use rcgen::{KeyPair, PublicKeyData, SigningKey};

/// Why a private key could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The system gave no key.
    #[error("generating a private key")]
    Generate(#[source] rcgen::Error),
    /// The PEM text holds no key we can use. The text itself is not repeated.
    #[error("reading a private key")]
    Read(#[source] rcgen::Error),
    /// A token key must be an ECDSA P-256 key.
    #[error("the private key is not an ECDSA P-256 key")]
    NotP256,
}

/// A private key. Cloning shares it; `Debug` shows nothing of it.
#[derive(Clone)]
pub struct PrivateKey {
    pair: Arc<KeyPair>,
}

impl PrivateKey {
    /// Makes a new ECDSA P-256 key.
    pub fn generate() -> Result<Self, KeyError> {
        let pair =
            KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(KeyError::Generate)?;
        Ok(Self {
            pair: Arc::new(pair),
        })
    }

    /// Reads a PKCS#8 key from PEM.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let pair = KeyPair::from_pem(pem).map_err(KeyError::Read)?;
        Ok(Self {
            pair: Arc::new(pair),
        })
    }

    /// The key as PKCS#8 PEM: a secret, for files of mode 0600 and Secret objects only.
    pub fn to_pem(&self) -> String {
        self.pair.serialize_pem()
    }

    /// The public half as PEM (SubjectPublicKeyInfo).
    pub fn public_pem(&self) -> String {
        self.pair.public_key_pem()
    }

    /// The public half as DER (SubjectPublicKeyInfo).
    pub fn public_der(&self) -> Vec<u8> {
        self.pair.subject_public_key_info()
    }

    pub(crate) fn is_p256(&self) -> bool {
        self.pair.is_compatible(&rcgen::PKCS_ECDSA_P256_SHA256)
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.pair.sign(message)
    }

    pub(crate) fn pair(&self) -> &KeyPair {
        &self.pair
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}
