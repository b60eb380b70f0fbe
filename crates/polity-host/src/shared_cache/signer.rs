//! The signer of the cache and the trusted certificates, from the mounted Secret of the server.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use polity_pki::{BlobSigner, BlobTrust, Certificate, ParseError};

/// Why the files of the Secret cannot be used. The last valid signer stays in use.
#[derive(Debug, thiserror::Error)]
pub enum SignerError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// `tls.crt` and `tls.key` cannot sign.
    #[error("cannot sign with {CERTIFICATE} and {KEY}")]
    Signer(#[from] polity_pki::SignerError),
    /// One of the other files is not a certificate.
    #[error("{file} is not a certificate")]
    Certificate {
        file: &'static str,
        /// The cause.
        #[source]
        source: ParseError,
    },
}

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITY: &str = "ca.crt";
const OLD_AUTHORITY: &str = "old-ca.crt";
const PREVIOUS: &str = "previous.crt";

/// The content of the Secret, as PEM. It has no `Debug`, because it contains the key.
#[derive(Clone, Default)]
pub struct SignerTexts {
    /// `tls.crt`: signs, and is trusted.
    pub certificate: String,
    /// `tls.key`.
    pub key: String,
    /// `ca.crt`.
    pub authority: String,
    /// `old-ca.crt`, during a rotation of the authority.
    pub old_authority: Option<String>,
    /// `previous.crt`: still trusted for a while after a renewal.
    pub previous: Option<String>,
}

/// The signer of the cache, and the trusted certificates.
#[derive(Debug, Clone)]
pub struct SignerFiles {
    signer: BlobSigner,
    authorities: Vec<Certificate>,
    previous: Vec<Certificate>,
}

impl SignerFiles {
    /// Reads the directory that the Secret is mounted at.
    pub fn read(directory: &Path) -> Result<Self, SignerError> {
        // A mounted Secret is replaced by changing the link `..data`. The link is followed once, so that all files
        // belong together.
        let generation = directory.join("..data");
        let directory = fs::canonicalize(generation).unwrap_or_else(|_| directory.to_owned());
        let text = |file: &str| {
            let path = directory.join(file);
            fs::read_to_string(&path).map_err(|source| SignerError::Read { path, source })
        };
        let text_if_there = |file: &str| match text(file) {
            Ok(text) => Ok(Some(text)),
            Err(SignerError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        };
        Self::parse(&SignerTexts {
            certificate: text(CERTIFICATE)?,
            key: text(KEY)?,
            authority: text(AUTHORITY)?,
            old_authority: text_if_there(OLD_AUTHORITY)?,
            previous: text_if_there(PREVIOUS)?,
        })
    }

    /// Parses the content of the Secret.
    pub fn parse(texts: &SignerTexts) -> Result<Self, SignerError> {
        let mut authorities = certificates(AUTHORITY, &texts.authority)?;
        authorities.extend(if_any(OLD_AUTHORITY, texts.old_authority.as_deref())?);
        Ok(Self {
            signer: BlobSigner::from_pem(&texts.certificate, &texts.key)?,
            authorities,
            previous: if_any(PREVIOUS, texts.previous.as_deref())?,
        })
    }

    /// The fingerprint of the signing certificate. If it changes, files have to be signed again.
    pub fn fingerprint(&self) -> String {
        self.signer.certificate().fingerprint()
    }

    pub(super) fn signer(&self) -> &BlobSigner {
        &self.signer
    }

    /// The trusted certificates for this name.
    pub(super) fn trust(&self, uri: String) -> BlobTrust {
        let own = std::iter::once(self.signer.certificate());
        BlobTrust {
            authorities: self.authorities.clone(),
            accepted: own.chain(&self.previous).cloned().collect(),
            uri,
        }
    }
}

fn certificates(file: &'static str, pem: &str) -> Result<Vec<Certificate>, SignerError> {
    Certificate::bundle_from_pem(pem).map_err(|source| SignerError::Certificate { file, source })
}

/// Optional certificates; an empty text is the same as none.
fn if_any(file: &'static str, pem: Option<&str>) -> Result<Vec<Certificate>, SignerError> {
    match pem {
        Some(pem) if !pem.trim().is_empty() => certificates(file, pem),
        _ => Ok(Vec::new()),
    }
}
