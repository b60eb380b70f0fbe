//! Private keys: ECDSA P-256 where the choice is ours, PKCS#8 in PEM, and silent in `Debug`.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer as _, EcPrivateKeyRfc5915Der, Pkcs8V1Der};
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair,
};
use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_ED25519,
    PKCS_RSA_SHA256, PublicKeyData, RsaKeySize, SigningKey,
};

use crate::{der, pem};

/// Why a private key could not be created or read.
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
    /// The key cannot be encoded in the requested format.
    #[error("the private key cannot be written in the form of its kind")]
    Write,
}

/// The kinds of private keys that can be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Rsa2048,
    /// RSA with 4096 bits; it takes a second to make.
    Rsa4096,
    /// ECDSA on the curve P-256.
    EcdsaP256,
    Ed25519,
}

/// A private key. Cloning shares it; `Debug` shows nothing of it.
#[derive(Clone)]
pub struct PrivateKey {
    pair: Arc<KeyPair>,
}

impl PrivateKey {
    /// Makes a new ECDSA P-256 key.
    pub fn generate() -> Result<Self, KeyError> {
        Self::generate_kind(KeyKind::EcdsaP256)
    }

    /// Makes a new key of the kind wanted.
    pub fn generate_kind(kind: KeyKind) -> Result<Self, KeyError> {
        let rsa = |size| KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, size);
        let pair = match kind {
            KeyKind::Rsa2048 => rsa(RsaKeySize::_2048),
            KeyKind::Rsa4096 => rsa(RsaKeySize::_4096),
            KeyKind::EcdsaP256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            KeyKind::Ed25519 => KeyPair::generate_for(&PKCS_ED25519),
        };
        Ok(Self {
            pair: Arc::new(pair.map_err(KeyError::Generate)?),
        })
    }

    /// Reads a key from PEM: PKCS#8, or the older forms of RSA and elliptic-curve keys.
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

    /// The key as PEM in the form that is older than PKCS#8, where its kind has one: `RSA PRIVATE KEY`,
    /// `EC PRIVATE KEY`. A secret as well.
    pub fn to_traditional_pem(&self) -> Result<String, KeyError> {
        let key = self.pair.serialized_der();
        let is = |algorithm| self.pair.is_compatible(algorithm);
        let curve = if is(&PKCS_ECDSA_P256_SHA256) {
            &ECDSA_P256_SHA256_ASN1_SIGNING
        } else if is(&PKCS_ECDSA_P384_SHA384) {
            &ECDSA_P384_SHA384_ASN1_SIGNING
        } else if is(&PKCS_ECDSA_P521_SHA512) {
            &ECDSA_P521_SHA512_ASN1_SIGNING
        } else if is(&PKCS_ED25519) {
            let pair =
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(key).map_err(|_| KeyError::Write)?;
            let pkcs8 = pair.to_pkcs8v1().map_err(|_| KeyError::Write)?;
            return Ok(pem::encode("PRIVATE KEY", pkcs8.as_ref()));
        } else {
            return rsa_pem(key);
        };
        let pair = EcdsaKeyPair::from_private_key_der(curve, key).map_err(|_| KeyError::Write)?;
        let der: EcPrivateKeyRfc5915Der<'_> =
            pair.private_key().as_der().map_err(|_| KeyError::Write)?;
        Ok(pem::encode("EC PRIVATE KEY", der.as_ref()))
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
        self.pair.is_compatible(&PKCS_ECDSA_P256_SHA256)
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.pair.sign(message)
    }

    pub(crate) fn pair(&self) -> &KeyPair {
        &self.pair
    }
}

/// An RSA key that may be PKCS#8 or the bare key already.
fn rsa_pem(key: &[u8]) -> Result<String, KeyError> {
    let pair = rsa::KeyPair::from_pkcs8(key)
        .or_else(|_| rsa::KeyPair::from_der(key))
        .map_err(|_| KeyError::Write)?;
    let pkcs8: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| KeyError::Write)?;
    let bare = der::key_in_pkcs8(pkcs8.as_ref()).map_err(|_| KeyError::Write)?;
    Ok(pem::encode("RSA PRIVATE KEY", bare))
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}
