//! Where a module comes from: `registry://`, `https://`, `http://`, `file://`, or a bare registry reference.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use oci_client::Reference;
use url::Url;

use crate::digest::Digest;

/// Where a module comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModuleUri {
    Registry(RegistryUri),
    /// `https://` or `http://`.
    Web(Url),
    File(PathBuf),
}

/// A reference in a registry: host, repository, and a tag, a digest or both.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistryUri {
    /// `host` or `host:port`, as it was written.
    pub host: String,
    pub repository: String,
    pub tag: Option<String>,
    /// `sha256:…` of the manifest.
    pub digest: Option<String>,
}

/// A text that names no place a module could come from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    #[error("{uri:?} is not a registry reference: {reason}")]
    Reference { uri: String, reason: String },
    #[error("{uri:?} is not a URL: {reason}")]
    Url { uri: String, reason: String },
    #[error("scheme {scheme:?} is not supported: use registry, https, http or file")]
    Scheme { scheme: String },
    #[error("a file is named by its absolute path: file:///path/policy.wasm, not {uri:?}")]
    RelativeFile { uri: String },
}

impl FromStr for ModuleUri {
    type Err = UriError;

    fn from_str(uri: &str) -> Result<Self, UriError> {
        let Some((scheme, rest)) = uri.split_once("://") else {
            return Ok(Self::Registry(parse_reference(uri, uri)?));
        };
        match scheme {
            "registry" => Ok(Self::Registry(parse_reference(uri, rest)?)),
            "file" if rest.starts_with('/') => Ok(Self::File(PathBuf::from(rest))),
            "file" => Err(UriError::RelativeFile {
                uri: without_credentials(uri),
            }),
            "http" | "https" => Url::parse(uri).map(Self::Web).map_err(|error| {
                let reason = error.to_string();
                UriError::Url {
                    uri: without_credentials(uri),
                    reason,
                }
            }),
            scheme => Err(UriError::Scheme {
                scheme: scheme.to_owned(),
            }),
        }
    }
}

/// The text without what precedes an `@` in front of the first slash: errors are shown to others than the author.
fn without_credentials(uri: &str) -> String {
    let (scheme, rest) = match uri.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), uri),
    };
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, ""),
    };
    match authority.rsplit_once('@') {
        Some((_, host)) if !path.is_empty() || !scheme.is_empty() => {
            format!("{scheme}…@{host}{path}")
        }
        _ => uri.to_owned(),
    }
}

fn parse_reference(uri: &str, text: &str) -> Result<RegistryUri, UriError> {
    let wrong = |reason: String| UriError::Reference {
        uri: without_credentials(uri),
        reason,
    };
    let authority = text.split('/').next().unwrap_or_default();
    if authority.contains('@') && text.contains('/') {
        let reason = "it contains credentials, which belong into a Secret for image pulls";
        return Err(wrong(reason.to_owned()));
    }
    let (host, rest) = text
        .split_once('/')
        .ok_or_else(|| wrong("it has no repository after the host".to_owned()))?;
    // The parser takes a first part without a dot or a port for a repository of its default registry; a policy
    // never means that one.
    if !(host.contains(['.', ':']) || host == "localhost") {
        return Err(wrong(format!("{host:?} is not a registry's host name")));
    }
    let reference: Reference = text.parse().map_err(|error| wrong(format!("{error}")))?;
    let tag = reference.tag().map(str::to_owned);
    let digest = reference.digest().map(str::to_owned);
    if let Some(digest) = &digest {
        digest
            .parse::<Digest>()
            .map_err(|error| wrong(error.to_string()))?;
    }
    Ok(RegistryUri {
        host: host.to_owned(),
        repository: rest
            .split('@')
            .next()
            .unwrap_or(rest)
            .split(':')
            .next()
            .unwrap_or(rest)
            .to_owned(),
        // The parser fills in `latest` where nothing was written; with a digest there is no tag to follow.
        tag: if digest.is_some() && !has_tag(rest) {
            None
        } else {
            tag
        },
        digest,
    })
}

fn has_tag(path: &str) -> bool {
    path.split('@')
        .next()
        .is_some_and(|path| path.contains(':'))
}

impl RegistryUri {
    /// Whether what it names can change: a tag that is not pinned by a digest.
    pub fn can_move(&self) -> bool {
        self.digest.is_none()
    }

    /// The tag to follow: `latest` where none was written and no digest pins it.
    pub fn tag_or_latest(&self) -> &str {
        self.tag.as_deref().unwrap_or("latest")
    }

    pub(crate) fn reference(&self) -> Reference {
        let (host, repository) = (self.host.clone(), self.repository.clone());
        match (&self.tag, &self.digest) {
            (_, Some(digest)) => Reference::with_digest(host, repository, digest.clone()),
            _ => Reference::with_tag(host, repository, self.tag_or_latest().to_owned()),
        }
    }
}

impl fmt::Display for RegistryUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "registry://{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ModuleUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(uri) => uri.fmt(f),
            Self::Web(url) => {
                // A password in a URL is the user's own; it has no place in a log.
                let mut shown = url.clone();
                shown.set_password(None).ok();
                shown.fmt(f)
            }
            Self::File(path) => write!(f, "file://{}", path.display()),
        }
    }
}

impl ModuleUri {
    /// `host` or `host:port` of the server it is fetched from; none for files.
    pub fn host(&self) -> Option<String> {
        match self {
            Self::Registry(uri) => Some(uri.host.clone()),
            Self::Web(url) => {
                let host = url.host_str()?;
                Some(match url.port() {
                    Some(port) => format!("{host}:{port}"),
                    None => host.to_owned(),
                })
            }
            Self::File(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(
        host: &str,
        repository: &str,
        tag: Option<&str>,
        digest: Option<&str>,
    ) -> ModuleUri {
        ModuleUri::Registry(RegistryUri {
            host: host.to_owned(),
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }

    #[test]
    fn places_are_told_apart() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (text, expected) in [
            (
                "ghcr.io/kubewarden/policies/psp:v1",
                registry("ghcr.io", "kubewarden/policies/psp", Some("v1"), None),
            ),
            (
                "registry://localhost:5000/p",
                registry("localhost:5000", "p", Some("latest"), None),
            ),
            (
                &format!("registry://h.example/p@{digest}"),
                registry("h.example", "p", None, Some(&digest)),
            ),
            (
                &format!("registry://h.example/p:v2@{digest}"),
                registry("h.example", "p", Some("v2"), Some(&digest)),
            ),
            (
                "https://example.com/p.wasm",
                ModuleUri::Web("https://example.com/p.wasm".parse().unwrap()),
            ),
            ("file:///a/p.wasm", ModuleUri::File("/a/p.wasm".into())),
        ] {
            assert_eq!(text.parse::<ModuleUri>().as_ref(), Ok(&expected), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, expected) in [
            ("policy", "it has no repository"),
            ("policies/psp", "is not a registry's host name"),
            (
                "registry://h.example/UPPER:v1",
                "is not a registry reference",
            ),
            (
                &format!("registry://h.example/p@sha512:{}", "a".repeat(128)),
                "is not a registry reference",
            ),
            ("ftp://x/y", "scheme \"ftp\" is not supported"),
            ("file://relative.wasm", "absolute path"),
            ("https://", "is not a URL"),
            ("", "it has no repository"),
        ] {
            let error = text.parse::<ModuleUri>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        let uri: ModuleUri = "https://me:secret@example.com/p.wasm".parse().unwrap();
        assert_eq!(uri.to_string(), "https://me@example.com/p.wasm");
        for text in [
            "registry://me:secret@example.com/p:v1",
            "me:secret@example.com/p:v1",
            "https://me:secret@exa mple/p.wasm",
        ] {
            let error = text.parse::<ModuleUri>().unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
            assert!(error.contains("…@exa"), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            if let Ok(uri) = text.parse::<ModuleUri>() {
                let again: ModuleUri = uri.to_string().parse().unwrap();
                proptest::prop_assert_eq!(again.to_string(), uri.to_string());
            }
        }
    }
}
