//! A client of one registry: authentication, manifests and blobs.
//!
//! Registries are not trusted. Every body is read up to a limit, and content counts by its digest.

use oci_client::Reference;
use oci_client::manifest::{OciDescriptor, OciImageManifest};
use oci_client::secrets::RegistryAuth;
use reqwest::{Method, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::OnceCell;
use url::Url;

use crate::body::{self, BodyError};
use crate::challenge::Challenge;
use crate::credentials::Credentials;
use crate::digest::Digest;
use crate::error::FetchError;
use crate::fetcher::{Limits, Progress};
use crate::requester::{Authorization, OutgoingRequest, Requester, listed};
use crate::sources::Sources;
use crate::transport::{self, Transport};
use crate::uri::RegistryUri;

pub(crate) const WASM_LAYER: &str = "application/vnd.wasm.content.layer.v1+wasm";
pub(crate) const MANIFESTS: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
/// The largest manifest or index: registries themselves accept no larger ones.
pub(crate) const MAX_MANIFEST: u64 = 4 << 20;
/// The largest response of a token server.
const MAX_TOKEN: u64 = 1 << 20;
/// How much of an error response is read.
const MAX_ERROR: usize = 64 << 10;
/// The longest message of a registry in errors.
const MESSAGE_CHARACTERS: usize = 200;
const DIGEST_HEADER: &str = "docker-content-digest";

/// The artifact of a reference.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// The digest of the manifest that the tag leads to.
    pub manifest: Digest,
    /// The digest of the module.
    pub module: Digest,
    layer: OciDescriptor,
}

/// An operation on a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Pull,
    Push,
}

/// One registry with one transport.
pub(crate) struct Registry<'a> {
    pub(crate) requester: Requester<'a>,
    pub(crate) uri: &'a RegistryUri,
    authorization: Option<Authorization>,
    limits: &'a Limits,
}

/// A registry with the means to reach it.
#[derive(Clone, Copy)]
pub(crate) struct Access<'a> {
    pub(crate) uri: &'a RegistryUri,
    pub(crate) sources: &'a Sources,
    pub(crate) credentials: &'a Credentials,
    pub(crate) limits: &'a Limits,
    pub(crate) operation: Operation,
}

/// Runs an operation with the first transport that reaches the registry.
pub(crate) async fn with<'a, T, F>(
    access: Access<'a>,
    ask: impl Fn(Registry<'a>) -> F,
) -> Result<T, FetchError>
where
    F: Future<Output = Result<T, FetchError>>,
{
    let transports = transport::allowed(access.sources, &access.uri.host);
    let ask = &ask;
    transport::first(transports, |transport| async move {
        let registry = Registry::log_in(access, transport).await?;
        ask(registry).await
    })
    .await
}

/// A manifest as the registry sent it.
pub(crate) struct RawManifest {
    pub(crate) bytes: Vec<u8>,
    pub(crate) digest: Digest,
}

impl<'a> Registry<'a> {
    /// Requests `/v2/` and authenticates as the registry asks.
    async fn log_in(access: Access<'a>, transport: Transport) -> Result<Self, FetchError> {
        let uri = access.uri;
        let reference = uri.reference();
        let base = format!(
            "{}://{}/v2/",
            transport.scheme(),
            reference.resolve_registry()
        );
        let base = Url::parse(&base).map_err(|error| FetchError::NotAModule {
            uri: uri.to_string(),
            reason: format!("its host cannot be used in a URL: {error}"),
        })?;
        let mut registry = Self {
            requester: Requester {
                host: &uri.host,
                base: base.clone(),
                transport,
                sources: access.sources,
                limits: access.limits,
                own_client: OnceCell::new(),
            },
            uri,
            authorization: None,
            limits: access.limits,
        };
        let response = registry.requester.send(&OutgoingRequest::get(base)).await?;
        // The target of a redirect does not choose where the registry's password is sent.
        let is_own = response.url().origin() == registry.requester.base.origin();
        let challenge = Challenge::of(response.headers()).filter(|_| is_own);
        let auth = access.credentials.for_host(&uri.host);
        registry.authorization = match (challenge, auth) {
            (None, _) | (Some(Challenge::Basic), RegistryAuth::Anonymous) => None,
            (_, RegistryAuth::Bearer(token)) => Some(Authorization::Bearer { token }),
            (Some(Challenge::Basic), RegistryAuth::Basic(user, password)) => {
                Some(Authorization::Basic { user, password })
            }
            (Some(Challenge::Bearer { realm, service }), auth) => {
                let token = registry.token(&realm, service, auth, access.operation);
                Some(token.await?)
            }
        };
        Ok(registry)
    }

    /// A token for the repository, from the server that the registry names.
    async fn token(
        &self,
        realm: &str,
        service: Option<String>,
        auth: RegistryAuth,
        operation: Operation,
    ) -> Result<Authorization, FetchError> {
        let elsewhere = |reason: &str| FetchError::Redirected {
            host: self.uri.host.clone(),
            reason: reason.to_owned(),
        };
        let mut url = Url::parse(realm)
            .ok()
            .filter(|url| url.host_str().is_some() && url.username().is_empty())
            .ok_or_else(|| elsewhere("to a token server that is no URL"))?;
        let actions = match operation {
            Operation::Pull => "pull",
            Operation::Push => "pull,push",
        };
        url.query_pairs_mut()
            .append_pair(
                "scope",
                &format!("repository:{}:{actions}", self.uri.repository),
            )
            .extend_pairs(service.map(|service| ("service", service)));
        let mut ask = OutgoingRequest::get(url);
        if let RegistryAuth::Basic(user, password) = auth {
            ask.authorization = Some(Authorization::Basic { user, password });
        }
        let response = self.requester.send(&ask).await?;
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN {
            return Err(FetchError::Unauthorized {
                host: self.uri.host.clone(),
                message: String::new(),
            });
        }
        let host = listed(&ask.url);
        if !status.is_success() {
            return Err(answered(host, status.as_u16(), String::new()));
        }
        let odd = |reason: String| FetchError::BrokenOff {
            uri: self.uri.to_string(),
            reason: format!("the answer of the token server {host}: {reason}"),
        };
        let body = body::read(response, MAX_TOKEN, |_| {})
            .await
            .map_err(|error| odd(error.to_string()))?;
        let token: Token = serde_json::from_slice(&body)
            .map_err(|error| odd(format!("it cannot be read: {}", without_content(&error))))?;
        let token = token
            .into_text()
            .ok_or_else(|| odd("it has no token".to_owned()))?;
        Ok(Authorization::Bearer { token })
    }

    /// A URL of the repository.
    pub(crate) fn url(&self, path: &str) -> Url {
        let mut url = self.requester.base.clone();
        url.set_path(&format!("/v2/{}/{path}", self.uri.repository));
        url
    }

    /// A request with our authorization.
    pub(crate) fn ask(&self, method: Method, url: Url) -> OutgoingRequest {
        OutgoingRequest {
            authorization: self.authorization.clone(),
            ..OutgoingRequest::new(method, url)
        }
    }

    /// Sends a request; a status other than success is an error.
    pub(crate) async fn send(&self, ask: &OutgoingRequest) -> Result<Response, FetchError> {
        let response = self.requester.send(ask).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refused(response).await)
    }

    /// A manifest or an index, checked against the digest if the reference has one.
    pub(crate) async fn manifest(
        &self,
        reference: &Reference,
        accepted: &[&str],
    ) -> Result<RawManifest, FetchError> {
        let mut ask = self.ask(Method::GET, self.manifest_url(reference));
        ask.accept = Some(accepted.join(", "));
        let response = self.send(&ask).await?;
        let header = header_digest(&response);
        let bytes = body::read(response, MAX_MANIFEST, |_| {})
            .await
            .map_err(|error| self.unread("its manifest", &error))?;
        let digest = Digest::of(&bytes);
        let pinned = reference.digest().map(str::to_owned);
        // Without a pinned digest the registry may use another algorithm.
        let header = header.filter(|header| header.starts_with("sha256:"));
        for expected in [pinned, header].into_iter().flatten() {
            if expected != digest.to_string() {
                return Err(FetchError::WrongDigest {
                    uri: self.uri.to_string(),
                    expected,
                    actual: digest.to_string(),
                });
            }
        }
        Ok(RawManifest { bytes, digest })
    }

    /// The digest of a manifest or an index, by HEAD if the registry supports that.
    pub(crate) async fn manifest_digest(&self, accepted: &[&str]) -> Result<String, FetchError> {
        let reference = self.uri.reference();
        let mut ask = self.ask(Method::HEAD, self.manifest_url(&reference));
        ask.accept = Some(accepted.join(", "));
        let response = self.requester.send(&ask).await?;
        let is_digest = |text: &String| text.parse::<Digest>().is_ok();
        match header_digest(&response).filter(is_digest) {
            Some(digest) if response.status().is_success() => Ok(digest),
            // A refused HEAD has no body with the reason.
            _ => {
                let manifest = self.manifest(&reference, accepted).await?;
                Ok(manifest.digest.to_string())
            }
        }
    }

    /// The current artifact of the reference.
    pub(crate) async fn resolve(&self) -> Result<Artifact, FetchError> {
        let RawManifest { bytes, digest } =
            self.manifest(&self.uri.reference(), &MANIFESTS).await?;
        let manifest: OciImageManifest = serde_json::from_slice(&bytes)
            .map_err(|error| self.not_a_module(format!("its manifest cannot be read: {error}")))?;
        let Some(layer) = manifest
            .layers
            .into_iter()
            .find(|layer| layer.media_type == WASM_LAYER)
        else {
            return Err(self.not_a_module(format!("it has no layer of type {WASM_LAYER}")));
        };
        let module = layer
            .digest
            .parse()
            .map_err(|error| self.not_a_module(format!("its manifest cannot be read: {error}")))?;
        Ok(Artifact {
            manifest: digest,
            module,
            layer,
        })
    }

    /// The module of an artifact, checked against its digest.
    pub(crate) async fn module(
        &self,
        artifact: &Artifact,
        progress: &dyn Progress,
    ) -> Result<Vec<u8>, FetchError> {
        let limit = self.limits.module_bytes;
        let size = u64::try_from(artifact.layer.size).ok();
        if size.is_some_and(|size| size > limit) {
            return Err(FetchError::TooLarge {
                uri: self.uri.to_string(),
                limit,
            });
        }
        let response = self.blob_response(&artifact.layer.digest).await?;
        progress.starts(size);
        let advances = |bytes| progress.advances(bytes);
        let content = match body::read(response, limit, advances).await {
            Ok(content) => content,
            Err(BodyError::TooLarge { limit }) => {
                let uri = self.uri.to_string();
                return Err(FetchError::TooLarge { uri, limit });
            }
            Err(error @ BodyError::BrokenOff { .. }) => {
                return Err(self.unread("the module", &error));
            }
        };
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

    /// A blob of at most `limit` bytes.
    pub(crate) async fn blob(&self, digest: &str, limit: u64) -> Result<Vec<u8>, FetchError> {
        let response = self.blob_response(digest).await?;
        let read = body::read(response, limit, |_| {}).await;
        read.map_err(|error| self.unread("a part of it", &error))
    }

    async fn blob_response(&self, digest: &str) -> Result<Response, FetchError> {
        let digest: Digest = digest
            .parse()
            .map_err(|error| self.not_a_module(format!("its manifest cannot be read: {error}")))?;
        let url = self.url(&format!("blobs/{digest}"));
        self.send(&self.ask(Method::GET, url)).await
    }

    pub(crate) fn manifest_url(&self, reference: &Reference) -> Url {
        let name = reference.digest().or(reference.tag()).unwrap_or("latest");
        self.url(&format!("manifests/{name}"))
    }

    pub(crate) fn not_a_module(&self, reason: String) -> FetchError {
        FetchError::NotAModule {
            uri: self.uri.to_string(),
            reason,
        }
    }

    fn unread(&self, part: &str, error: &BodyError) -> FetchError {
        let reason = shortened(&format!("{part}: {error}"));
        match error {
            BodyError::TooLarge { .. } => self.not_a_module(reason),
            BodyError::BrokenOff { .. } => FetchError::BrokenOff {
                uri: self.uri.to_string(),
                reason,
            },
        }
    }

    /// A refusal with the message of the registry.
    async fn refused(&self, response: Response) -> FetchError {
        let status = response.status().as_u16();
        let body = body::read_beginning(response, MAX_ERROR).await;
        let errors =
            serde_json::from_slice::<Errors>(&body).map_or_else(|_| Vec::new(), |it| it.errors);
        let words: Vec<String> = errors.iter().map(RegistryError::in_its_words).collect();
        answered(self.uri.host.clone(), status, shortened(&words.join(", ")))
    }
}

/// The response of a token server. Some servers send the same token under both names.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Token {
    fn into_text(self) -> Option<String> {
        let mut named = [self.token, self.access_token].into_iter().flatten();
        named.find(|token| !token.is_empty())
    }
}

/// The error response of a registry.
#[derive(Deserialize)]
struct Errors {
    errors: Vec<RegistryError>,
}

#[derive(Deserialize)]
struct RegistryError {
    code: String,
    #[serde(default)]
    message: String,
}

impl RegistryError {
    /// `MANIFEST_UNKNOWN: manifest unknown`.
    fn in_its_words(&self) -> String {
        format!("{}: {}", self.code, self.message)
    }
}

/// A refusal; one that credentials may solve has its own variant.
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

fn header_digest(response: &Response) -> Option<String> {
    let digest = response.headers().get(DIGEST_HEADER)?.to_str().ok()?;
    Some(digest.to_owned())
}

/// The position of a JSON error without any content, because a token is secret.
fn without_content(error: &serde_json::Error) -> String {
    format!("line {}, column {}", error.line(), error.column())
}

/// A foreign text on one line, shortened to the limit.
pub(crate) fn shortened(message: &str) -> String {
    let printable = message
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c });
    printable.take(MESSAGE_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_under_either_name() {
        for (answer, expected) in [
            (r#"{"token":"a"}"#, Some("a")),
            (r#"{"access_token":"a","expires_in":300}"#, Some("a")),
            (r#"{"token":"a","access_token":"a"}"#, Some("a")),
            (r#"{"token":"","access_token":"a"}"#, Some("a")),
            (r#"{"expires_in":300}"#, None),
        ] {
            let token: Token = serde_json::from_str(answer).unwrap();
            assert_eq!(token.into_text().as_deref(), expected, "{answer}");
        }
    }
}
