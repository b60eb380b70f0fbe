//! Modules as OCI artifacts: one Wasm layer under an image manifest.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use futures::StreamExt as _;
use oci_client::Reference;
use oci_client::client::{Client, ClientConfig, ClientProtocol, Config, ImageLayer};
use oci_client::errors::{OciDistributionError, OciError, OciErrorCode};
use oci_client::manifest::{OciDescriptor, OciImageManifest};
use oci_client::secrets::RegistryAuth;
use polity_core::causes::innermost;

use crate::credentials::Credentials;
use crate::digest::Digest;
use crate::error::FetchError;
use crate::fetcher::{Limits, Progress};
use crate::gate::Gate;
use crate::reach::Reach;
use crate::sources::{Proxies, Sources};
use crate::transport::{self, Way, unreachable};
use crate::uri::RegistryUri;

const WASM_LAYER: &str = "application/vnd.wasm.content.layer.v1+wasm";
const WASM_CONFIG: &str = "application/vnd.wasm.config.v1+json";
const MANIFESTS: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
/// As much of a registry's message as a status or a terminal has room for.
const MESSAGE_CHARACTERS: usize = 200;

/// What a registry has under a reference.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// The digest of the manifest: what a tag stands for.
    pub manifest: Digest,
    /// The digest of the module.
    pub module: Digest,
    layer: OciDescriptor,
}

/// What was published.
#[derive(Debug, Clone)]
pub struct Pushed {
    /// The digest of the manifest, to pin the module by.
    pub manifest: Digest,
}

/// One registry, asked in one way.
pub(crate) struct Registry<'a> {
    pub(crate) client: Client,
    pub(crate) auth: RegistryAuth,
    pub(crate) uri: &'a RegistryUri,
    limits: &'a Limits,
}

/// Does something with a registry, in the first way that reaches it.
pub(crate) async fn with<'a, T, F>(
    uri: &'a RegistryUri,
    sources: &Sources,
    credentials: &Credentials,
    limits: &'a Limits,
    ask: impl Fn(Registry<'a>) -> F,
) -> Result<T, FetchError>
where
    F: Future<Output = Result<T, FetchError>>,
{
    let auth = credentials.for_host(&uri.host);
    let certificates: Vec<_> = sources
        .certificates(&uri.host)?
        .iter()
        .map(crate::sources::Certificate::for_registry)
        .collect();
    let gate = gate(sources)
        .await
        .map_err(|error| FetchError::Unreachable {
            host: uri.host.clone(),
            reason: error.to_string(),
        })?;
    let outcome = transport::first(transport::ways(sources, &uri.host), |way| {
        let proxies = match &gate {
            // Whoever may be asked without TLS is trusted not to lead astray.
            Some(gate) if way != Way::Http => Proxies {
                http_proxy: Some(gate.url()),
                https_proxy: Some(gate.url()),
                no_proxy: None,
            },
            _ => sources.proxies.clone().unwrap_or_default(),
        };
        let client = Client::new(ClientConfig {
            protocol: if way == Way::Http {
                ClientProtocol::Http
            } else {
                ClientProtocol::Https
            },
            accept_invalid_certificates: way == Way::UnverifiedHttps,
            extra_root_certificates: certificates.clone(),
            connect_timeout: Some(limits.connect),
            read_timeout: Some(limits.idle),
            http_proxy: proxies.http_proxy,
            https_proxy: proxies.https_proxy,
            no_proxy: proxies.no_proxy,
            platform_resolver: None,
            ..ClientConfig::default()
        });
        ask(Registry {
            client,
            auth: auth.clone(),
            uri,
            limits,
        })
    })
    .await;
    match gate.and_then(|gate| gate.refused()) {
        Some(host) if outcome.is_err() => Err(FetchError::OutOfReach { host }),
        _ => outcome,
    }
}

/// What keeps a client within reach, where that has a limit. A proxy of the user's makes its own connections.
async fn gate(sources: &Sources) -> io::Result<Option<Gate>> {
    let has_proxy = sources.proxies.as_ref().is_some_and(Proxies::has_any);
    match sources.reach {
        Reach::BeyondThisMachine if !has_proxy => Gate::open(sources).await.map(Some),
        _ => Ok(None),
    }
}

impl Registry<'_> {
    /// What the reference stands for now.
    pub(crate) async fn resolve(&self) -> Result<Artifact, FetchError> {
        let (body, digest) = self
            .client
            .pull_manifest_raw(&self.uri.reference(), &self.auth, &MANIFESTS)
            .await
            .map_err(|error| self.failed(error))?;
        let manifest: OciImageManifest = serde_json::from_slice(&body)
            .map_err(|error| self.not_a_module(format!("its manifest cannot be read: {error}")))?;
        let Some(layer) = manifest
            .layers
            .into_iter()
            .find(|layer| layer.media_type == WASM_LAYER)
        else {
            return Err(self.not_a_module(format!("it has no layer of type {WASM_LAYER}")));
        };
        let parse = |digest: &str| {
            digest
                .parse()
                .map_err(|error| self.not_a_module(format!("its manifest cannot be read: {error}")))
        };
        Ok(Artifact {
            manifest: parse(&digest)?,
            module: parse(&layer.digest)?,
            layer,
        })
    }

    /// The module of an artifact, checked against its digest.
    pub(crate) async fn module(
        &self,
        artifact: &Artifact,
        progress: &dyn Progress,
    ) -> Result<Vec<u8>, FetchError> {
        let too_large = || FetchError::TooLarge {
            uri: self.uri.to_string(),
            limit: self.limits.module_bytes,
        };
        if u64::try_from(artifact.layer.size).is_ok_and(|size| size > self.limits.module_bytes) {
            return Err(too_large());
        }
        let mut layer = self
            .client
            .pull_blob_stream(&self.uri.reference(), &artifact.layer)
            .await
            .map_err(|error| self.failed(error))?;
        progress.starts(u64::try_from(artifact.layer.size).ok());
        let mut content = Vec::new();
        while let Some(chunk) = layer.stream.next().await {
            let chunk = chunk.map_err(|error| {
                self.not_a_module(format!(
                    "the download broke off: {}",
                    shortened(&innermost(&error))
                ))
            })?;
            if content.len() as u64 + chunk.len() as u64 > self.limits.module_bytes {
                return Err(too_large());
            }
            content.extend_from_slice(&chunk);
            progress.advances(content.len() as u64);
        }
        let actual = Digest::of(&content);
        if actual != artifact.module {
            return Err(FetchError::WrongDigest {
                uri: self.uri.to_string(),
                expected: artifact.module.to_string(),
                actual: actual.to_string(),
            });
        }
        Ok(content)
    }

    /// A blob that is known to be small; more than that is not taken.
    pub(crate) async fn small_blob(
        &self,
        reference: &Reference,
        digest: &str,
        limit: usize,
    ) -> Result<Vec<u8>, FetchError> {
        let mut blob = self
            .client
            .pull_blob_stream(reference, digest)
            .await
            .map_err(|error| self.failed(error))?;
        let mut content = Vec::new();
        while let Some(chunk) = blob.stream.next().await {
            let chunk = chunk.map_err(|error| {
                self.not_a_module(format!(
                    "the download broke off: {}",
                    shortened(&innermost(&error))
                ))
            })?;
            if content.len() + chunk.len() > limit {
                return Err(self.not_a_module(format!("a part is larger than {limit} bytes")));
            }
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    }

    /// Publishes a module under the reference's tag.
    pub(crate) async fn push(
        &self,
        module: Vec<u8>,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Pushed, FetchError> {
        let reference = self.uri.reference();
        let layers = [ImageLayer::new(
            Bytes::from(module),
            WASM_LAYER.to_owned(),
            None,
        )];
        let config = Config::new(Bytes::from_static(b"{}"), WASM_CONFIG.to_owned(), None);
        let annotations = (!annotations.is_empty()).then(|| annotations.clone());
        let mut manifest = OciImageManifest::build(&layers, &config, annotations);
        manifest.media_type = Some(MANIFESTS[0].to_owned());
        self.client
            .push(&reference, &layers, config, &self.auth, Some(manifest))
            .await
            .map_err(|error| self.failed(error))?;
        let digest = self
            .client
            .fetch_manifest_digest(&reference, &self.auth)
            .await
            .map_err(|error| self.failed(error))?;
        let manifest = digest
            .parse()
            .map_err(|error| self.not_a_module(format!("the registry's answer is odd: {error}")))?;
        Ok(Pushed { manifest })
    }

    fn not_a_module(&self, reason: String) -> FetchError {
        FetchError::NotAModule {
            uri: self.uri.to_string(),
            reason,
        }
    }

    fn refused(&self, errors: &[OciError]) -> FetchError {
        let host = self.uri.host.clone();
        let words: Vec<String> = errors.iter().map(in_its_words).collect();
        let message = shortened(&words.join(", "));
        answered(
            host,
            errors.first().map_or(400, |error| status(&error.code)),
            message,
        )
    }

    pub(crate) fn failed(&self, error: OciDistributionError) -> FetchError {
        let host = self.uri.host.clone();
        match error {
            OciDistributionError::RequestError(error) => match error.status() {
                Some(status) => answered(host, status.as_u16(), String::new()),
                None => unreachable(&host, &error),
            },
            OciDistributionError::AuthenticationFailure(_)
            | OciDistributionError::UnauthorizedError { .. } => FetchError::Unauthorized {
                host,
                message: String::new(),
            },
            OciDistributionError::RegistryError { envelope, .. } => self.refused(&envelope.errors),
            OciDistributionError::ImageManifestNotFoundError(_) => FetchError::Refused {
                host,
                status: 404,
                message: "there is no such manifest".to_owned(),
            },
            OciDistributionError::ServerError { code, .. } => answered(host, code, String::new()),
            OciDistributionError::DigestError(error) => self.not_a_module(error.to_string()),
            error => self.not_a_module(shortened(&error.to_string())),
        }
    }
}

/// A refusal, told apart by whether a password would help.
fn answered(host: String, status: u16, message: String) -> FetchError {
    match status {
        401 => FetchError::Unauthorized { host, message },
        status => FetchError::Refused {
            host,
            status,
            message,
        },
    }
}

/// The HTTP status that goes with an error code; the client keeps only the code.
fn status(code: &OciErrorCode) -> u16 {
    match code {
        OciErrorCode::BlobUnknown | OciErrorCode::ManifestUnknown | OciErrorCode::NameUnknown => {
            404
        }
        OciErrorCode::Unauthorized => 401,
        OciErrorCode::Denied => 403,
        OciErrorCode::Toomanyrequests => 429,
        _ => 400,
    }
}

/// An error as the registry wrote it: `MANIFEST_UNKNOWN: manifest unknown`.
fn in_its_words(error: &OciError) -> String {
    let code = serde_json::to_value(&error.code).unwrap_or_default();
    format!("{}: {}", code.as_str().unwrap_or_default(), error.message)
}

fn shortened(message: &str) -> String {
    message.chars().take(MESSAGE_CHARACTERS).collect()
}
