//! Signatures for files in locations that others can write to. They prove that we created a file and that it is
//! unchanged.
//!
//! The signature beside a file is a DSSE envelope around an in-toto statement: the file's name, size and SHA-256, and
//! a [`BlobPredicate`] that describes the file. It is verified in two steps, so that no more bytes are read than a
//! trusted signer stated: [`BlobTrust::open`] verifies the statement, and [`SignedBlob::check`] verifies that the
//! bytes match it. Callers must use the bytes that were checked. Neither step reads a file.

mod envelope;

use aws_lc_rs::digest;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use self::envelope::Envelope;
use crate::certificate::{Certificate, CheckError, ParseError, hex};
use crate::key::{KeyError, PrivateKey};

const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE: &str = "https://polity.dev/module-cache/v1";

/// Which form of a module a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlobKind {
    /// The Wasm module as pulled.
    Original,
    /// Native code made from it.
    Optimized,
}

/// The signer's description of a signed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BlobPredicate {
    /// The reference of the module.
    pub uri: String,
    /// `sha256:…` of the module, also where the file is native code made from it.
    pub original_digest: String,
    /// `sha256:…` of the manifest by which it was pulled. `None` if there was no manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_digest: Option<String>,
    /// The SHA-256 of the verification config that accepted the module; empty without one.
    pub verification: String,
    /// The form.
    pub kind: BlobKind,
    /// The version of the server that made the file.
    pub server_version: String,
    /// Identifies the engine build and configuration that native code depends on.
    pub compat_hash: String,
    /// The target machine.
    pub target: String,
}

/// Why a file or its signature is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlobRefusal {
    /// The signature is not an envelope in its one spelling.
    #[error("the signature is malformed")]
    Envelope,
    /// Its certificate is none of those that are accepted: another server's, or one that was withdrawn.
    #[error("the signer's certificate is not one of those accepted")]
    NotAccepted,
    /// The certificate is not of this time.
    #[error("the signer's certificate is not valid: {0}")]
    NotValid(CheckError),
    /// No authority that we know, and that is of this time, signed the certificate.
    #[error("the signer's certificate was not signed by a known authority")]
    UnknownAuthority,
    /// The certificate is for something else than signing code.
    #[error("the signer's certificate is not for signing code")]
    Purpose,
    /// The certificate was issued for another name.
    #[error("the signer's certificate was issued for another name")]
    Name,
    /// The signature is not over this payload, or not by this certificate's key.
    #[error("the signature does not verify")]
    Signature,
    /// The signed statement does not describe a cached module.
    #[error("the signed statement is not about a cached module")]
    Statement,
    /// The statement is about a file of another name.
    #[error("the signature belongs to another file")]
    FileName,
    /// The statement is about other bytes.
    #[error("the content is not what was signed")]
    Content,
}

/// Why a certificate and a key cannot sign files.
#[derive(Debug, thiserror::Error)]
pub enum SignerError {
    /// The certificate cannot be read.
    #[error("reading the signer's certificate")]
    Certificate(#[source] ParseError),
    /// The key cannot be read, or is not for ECDSA P-256.
    #[error("reading the signer's key")]
    Key(#[source] KeyError),
    /// The key belongs to another certificate.
    #[error("the private key does not belong to the signer's certificate")]
    KeyMismatch,
}

/// The signer gave no signature.
#[derive(Debug, thiserror::Error)]
#[error("signing {name}: {reason}")]
pub struct SignError {
    /// The name of the file.
    pub name: String,
    /// The error of the signer.
    pub reason: String,
}

/// Signs files with a certificate's key.
#[derive(Debug, Clone)]
pub struct BlobSigner {
    certificate: Certificate,
    key: PrivateKey,
}

impl BlobSigner {
    /// Reads certificate and key, and checks that they belong together.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, SignerError> {
        let certificate = Certificate::from_pem(certificate).map_err(SignerError::Certificate)?;
        let key = PrivateKey::from_pem(key).map_err(SignerError::Key)?;
        if !key.is_p256() {
            return Err(SignerError::Key(KeyError::NotP256));
        }
        if certificate.public_der() != key.public_der() {
            return Err(SignerError::KeyMismatch);
        }
        Ok(Self { certificate, key })
    }

    /// The certificate that is embedded in every signature.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The signature to lie beside a file with this name and content.
    pub fn sign(
        &self,
        name: &str,
        content: &[u8],
        predicate: &BlobPredicate,
    ) -> Result<Vec<u8>, SignError> {
        let failed = |reason: String| SignError {
            name: name.to_owned(),
            reason,
        };
        let statement = Statement {
            statement_type: STATEMENT_TYPE.to_owned(),
            subject: [Subject {
                name: name.to_owned(),
                digest: SubjectDigest {
                    sha256: sha256(content),
                },
                annotations: SubjectAnnotations {
                    size: content.len() as u64,
                },
            }],
            predicate_type: PREDICATE_TYPE.to_owned(),
            predicate: predicate.clone(),
        };
        let payload = serde_json::to_vec(&statement).map_err(|error| failed(error.to_string()))?;
        let signature = self
            .key
            .sign(&envelope::signed_message(&payload))
            .map_err(|error| failed(error.to_string()))?;
        let envelope = Envelope {
            payload,
            signature,
            certificate: self.certificate.clone(),
        };
        Ok(envelope.to_bytes())
    }
}

/// The trusted signers. This information never comes from the location of the files.
#[derive(Debug, Clone)]
pub struct BlobTrust {
    /// The authorities that may have issued the signer's certificate.
    pub authorities: Vec<Certificate>,
    /// The accepted certificates. All others are revoked.
    pub accepted: Vec<Certificate>,
    /// The URI that the certificate must contain.
    pub uri: String,
}

impl BlobTrust {
    /// Opens the signature of a file, if a trusted signer made it with a certificate that is valid now.
    pub fn open(&self, envelope: &[u8], now: Timestamp) -> Result<SignedBlob, BlobRefusal> {
        let envelope = Envelope::parse(envelope).map_err(|_| BlobRefusal::Envelope)?;
        self.check_signer(&envelope.certificate, now)?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, envelope.certificate.public_der())
            .verify(
                &envelope::signed_message(&envelope.payload),
                &envelope.signature,
            )
            .map_err(|_| BlobRefusal::Signature)?;
        let statement: Statement =
            serde_json::from_slice(&envelope.payload).map_err(|_| BlobRefusal::Statement)?;
        if statement.statement_type != STATEMENT_TYPE || statement.predicate_type != PREDICATE_TYPE
        {
            return Err(BlobRefusal::Statement);
        }
        let [subject] = statement.subject;
        Ok(SignedBlob {
            name: subject.name,
            sha256: subject.digest.sha256,
            size: subject.annotations.size,
            predicate: statement.predicate,
            signer: envelope.certificate,
        })
    }

    fn check_signer(&self, signer: &Certificate, now: Timestamp) -> Result<(), BlobRefusal> {
        if !self.accepted.contains(signer) {
            return Err(BlobRefusal::NotAccepted);
        }
        signer.check_valid(now).map_err(BlobRefusal::NotValid)?;
        let mut authorities = self.authorities.iter();
        if !authorities.any(|authority| signer.check_signed_by(authority, now).is_ok()) {
            return Err(BlobRefusal::UnknownAuthority);
        }
        if !signer.signs_code() {
            return Err(BlobRefusal::Purpose);
        }
        if signer.uris() != [self.uri.as_str()] {
            return Err(BlobRefusal::Name);
        }
        Ok(())
    }
}

/// The statement of a trusted signer about a file. The file itself is not verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedBlob {
    name: String,
    sha256: String,
    size: u64,
    predicate: BlobPredicate,
    signer: Certificate,
}

impl SignedBlob {
    /// Whether this is the file that was signed.
    pub fn check(&self, name: &str, content: &[u8]) -> Result<(), BlobRefusal> {
        if self.name != name {
            return Err(BlobRefusal::FileName);
        }
        if self.size != content.len() as u64 || self.sha256 != sha256(content) {
            return Err(BlobRefusal::Content);
        }
        Ok(())
    }

    /// The signer's description of the file.
    pub fn predicate(&self) -> &BlobPredicate {
        &self.predicate
    }

    /// The SHA-256 of the file, in hexadecimal digits.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The number of bytes of the file. A file of another size need not be read.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The certificate it was signed with.
    pub fn signer(&self) -> &Certificate {
        &self.signer
    }
}

/// An in-toto statement about one file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Statement {
    #[serde(rename = "_type")]
    statement_type: String,
    subject: [Subject; 1],
    predicate_type: String,
    predicate: BlobPredicate,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    name: String,
    digest: SubjectDigest,
    annotations: SubjectAnnotations,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectAnnotations {
    size: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectDigest {
    sha256: String,
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}
