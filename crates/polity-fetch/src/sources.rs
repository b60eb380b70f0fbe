//! `sources.yml`: which hosts may be reached without verified TLS, which extra authorities are trusted for which
//! host, and through which proxies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::reach::Reach;
use crate::regular_file;

/// The largest file of certificates.
const MAX_AUTHORITIES: u64 = 4 << 20;

/// The sources of modules, and how they are reached.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Sources {
    /// `host` or `host:port` that may be reached without verified TLS, and without TLS.
    #[serde(default)]
    pub insecure_sources: BTreeSet<String>,
    /// By `host` or `host:port`: certificates trusted besides the system's.
    #[serde(default)]
    pub source_authorities: BTreeMap<String, Vec<Authority>>,
    #[serde(default)]
    pub proxies: Option<Proxies>,
    /// How far downloads may reach; not part of the file.
    #[serde(skip)]
    pub reach: Reach,
}

/// A certificate authority, PEM or DER.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type")]
pub enum Authority {
    Path { path: PathBuf },
    Data { data: String },
}

/// Proxies for all requests; an absent field is taken from the environment.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Proxies {
    #[serde(default)]
    pub http_proxy: Option<String>,
    #[serde(default)]
    pub https_proxy: Option<String>,
    #[serde(default)]
    pub no_proxy: Option<String>,
}

impl Proxies {
    pub(crate) fn for_web(&self) -> Result<Vec<reqwest::Proxy>, reqwest::Error> {
        let exempt = self
            .no_proxy
            .as_deref()
            .and_then(reqwest::NoProxy::from_string);
        let proxies = [
            self.http_proxy.as_deref().map(reqwest::Proxy::http),
            self.https_proxy.as_deref().map(reqwest::Proxy::https),
        ];
        let proxies = proxies.into_iter().flatten();
        proxies
            .map(|proxy| Ok(proxy?.no_proxy(exempt.clone())))
            .collect()
    }
}

/// Why a sources file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourcesError {
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} is not a sources file: {reason}", path.display())]
    Parse { path: PathBuf, reason: String },
    #[error("the authority for {host} is no certificate in PEM or DER")]
    Certificate { host: String },
}

impl Sources {
    /// Reads a sources file.
    pub fn load(path: &Path) -> Result<Self, SourcesError> {
        let text = std::fs::read_to_string(path).map_err(|source| SourcesError::Read {
            path: path.to_owned(),
            source,
        })?;
        let options = serde_saphyr::options! { with_snippet: false };
        let sources: Self =
            serde_saphyr::from_str_with_options(&text, options).map_err(|error| {
                SourcesError::Parse {
                    path: path.to_owned(),
                    reason: error.to_string(),
                }
            })?;
        // An invalid certificate fails at the start, not at the first module from that host.
        for host in sources.source_authorities.keys() {
            sources.certificates(host)?;
        }
        Ok(sources)
    }

    /// Whether a host may be reached without verified TLS.
    pub fn is_insecure(&self, host: &str) -> bool {
        self.insecure_sources.contains(host)
    }

    /// The extra authorities of a host.
    pub(crate) fn certificates(&self, host: &str) -> Result<Vec<Certificate>, SourcesError> {
        let authorities = self.source_authorities.get(host);
        authorities
            .into_iter()
            .flatten()
            .map(|authority| {
                let bytes = match authority {
                    Authority::Data { data } => data.clone().into_bytes(),
                    Authority::Path { path } => {
                        let read = regular_file::read(path, MAX_AUTHORITIES);
                        let read = read.map_err(|source| SourcesError::Read {
                            path: path.clone(),
                            source,
                        })?;
                        read.unwrap_or_default()
                    }
                };
                Certificate::parse(bytes).ok_or_else(|| SourcesError::Certificate {
                    host: host.to_owned(),
                })
            })
            .collect()
    }
}

/// One file of certificates.
#[derive(Debug, Clone)]
pub(crate) enum Certificate {
    Pem(Vec<u8>),
    Der(Vec<u8>),
}

impl Certificate {
    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let is_pem = bytes
            .windows(b"-----BEGIN CERTIFICATE-----".len())
            .any(|window| window == b"-----BEGIN CERTIFICATE-----");
        if is_pem {
            let certificates = reqwest::Certificate::from_pem_bundle(&bytes).ok()?;
            return (!certificates.is_empty()).then_some(Self::Pem(bytes));
        }
        // DER is a sequence with a long length; anything else is not a certificate.
        (bytes.len() > 64 && bytes.starts_with(&[0x30, 0x82])).then_some(Self::Der(bytes))
    }

    pub(crate) fn for_web(&self) -> Result<Vec<reqwest::Certificate>, reqwest::Error> {
        match self {
            Self::Pem(bytes) => reqwest::Certificate::from_pem_bundle(bytes),
            Self::Der(bytes) => Ok(vec![reqwest::Certificate::from_der(bytes)?]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Sources, SourcesError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sources.yml");
        std::fs::write(&path, text).unwrap();
        Sources::load(&path)
    }

    #[test]
    fn todays_file_is_read() {
        let sources = load(
            "insecure_sources: [\"localhost:5000\"]\nproxies: {https_proxy: \"http://p:1\"}\n",
        )
        .unwrap();
        assert!(sources.is_insecure("localhost:5000"));
        assert!(!sources.is_insecure("localhost"));
        assert_eq!(
            sources.proxies.unwrap().https_proxy.as_deref(),
            Some("http://p:1")
        );
    }

    #[test]
    fn a_broken_file_is_told_in_one_line() {
        let SourcesError::Parse { reason, .. } = load("insecure_sources: [\n").unwrap_err() else {
            panic!("it can be read");
        };
        assert!(!reason.contains('\n'), "{reason}");
    }

    #[test]
    fn what_is_wrong_is_found_at_once() {
        for (text, expected) in [
            ("insecure_sources: 3\n", "is not a sources file"),
            (
                "source_authorities: {\"h:1\": [{type: Data, data: nonsense}]}\n",
                "the authority for h:1 is no certificate",
            ),
            (
                "source_authorities: {\"h:1\": [{type: Path, path: /no/such}]}\n",
                "cannot read /no/such",
            ),
            (
                "source_authorities: {\"h:1\": [{type: Other}]}\n",
                "is not a sources file",
            ),
        ] {
            let error = load(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
