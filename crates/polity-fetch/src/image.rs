//! Reads digests, manifests and configurations of images. No layer is downloaded.

use oci_client::Reference;
use serde_json::Value;

use crate::digest::Digest;
use crate::error::FetchError;
use crate::fetcher::Fetcher;
use crate::registry::{self, Operation, Registry};
use crate::uri::RegistryUri;

/// The media types of manifests and indexes.
const MANIFESTS: [&str; 4] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// The largest configuration of an image.
const MAX_CONFIG: u64 = 4 << 20;

/// A manifest or an index.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageManifest {
    /// The document as the registry sent it.
    pub manifest: Value,
    /// Its digest, `sha256:…`.
    pub digest: String,
}

/// An image for one platform.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageConfig {
    /// The manifest of the platform, never an index.
    pub manifest: Value,
    /// The digest of the manifest, `sha256:…`.
    pub digest: String,
    /// The configuration of the image.
    pub config: Value,
}

impl Fetcher {
    /// The current digest of the manifest or index of an image.
    pub async fn image_digest(&self, image: &str) -> Result<String, FetchError> {
        let uri = parse(image)?;
        self.ask(image, &uri, |registry| async move {
            registry.manifest_digest(&MANIFESTS).await
        })
        .await
    }

    /// The manifest of an image, or its index if it has several platforms.
    pub async fn image_manifest(&self, image: &str) -> Result<ImageManifest, FetchError> {
        let uri = parse(image)?;
        self.ask(image, &uri, |registry| async move {
            manifest(&registry, &registry.uri.reference(), image).await
        })
        .await
    }

    /// The manifest and the configuration of an image; of an index, those for Linux on this machine's architecture.
    pub async fn image_config(&self, image: &str) -> Result<ImageConfig, FetchError> {
        let uri = parse(image)?;
        self.ask(image, &uri, |registry| async move {
            let reference = registry.uri.reference();
            let mut found = manifest(&registry, &reference, image).await?;
            if found.manifest.get("manifests").is_some() {
                let digest = for_this_platform(&found.manifest).ok_or_else(|| {
                    let platform = format!("linux/{}", architecture());
                    not_an_image(image, format!("its index has no manifest for {platform}"))
                })?;
                let one = reference.clone_with_digest(digest);
                found = manifest(&registry, &one, image).await?;
            }
            let config = config(&registry, &found.manifest, image).await?;
            Ok(ImageConfig {
                manifest: found.manifest,
                digest: found.digest,
                config,
            })
        })
        .await
    }

    async fn ask<'a, T, F>(
        &'a self,
        image: &str,
        uri: &'a RegistryUri,
        ask: impl Fn(Registry<'a>) -> F,
    ) -> Result<T, FetchError>
    where
        F: Future<Output = Result<T, FetchError>>,
    {
        let access = self.access(uri, Operation::Pull);
        self.in_time(image, registry::with(access, ask))
            .await
            .map_err(|error| match error {
                FetchError::NotAModule { reason, .. } => not_an_image(image, reason),
                error => error,
            })
    }
}

/// An image reference: `nginx`, `ghcr.io/a/b:v1`, `a/b@sha256:…`.
fn parse(image: &str) -> Result<RegistryUri, FetchError> {
    let reference: Reference = image
        .parse()
        .map_err(|error| not_an_image(image, format!("{error}")))?;
    if let Some(digest) = reference.digest() {
        digest
            .parse::<Digest>()
            .map_err(|error| not_an_image(image, format!("{error}")))?;
    }
    Ok(RegistryUri {
        host: reference.registry().to_owned(),
        repository: reference.repository().to_owned(),
        tag: reference.tag().map(str::to_owned),
        digest: reference.digest().map(str::to_owned),
    })
}

async fn manifest(
    registry: &Registry<'_>,
    reference: &Reference,
    image: &str,
) -> Result<ImageManifest, FetchError> {
    let raw = registry.manifest(reference, &MANIFESTS).await?;
    let manifest = serde_json::from_slice(&raw.bytes)
        .map_err(|error| not_an_image(image, format!("its manifest cannot be read: {error}")))?;
    Ok(ImageManifest {
        manifest,
        digest: raw.digest.to_string(),
    })
}

async fn config(
    registry: &Registry<'_>,
    manifest: &Value,
    image: &str,
) -> Result<Value, FetchError> {
    let digest = manifest["config"]["digest"]
        .as_str()
        .ok_or_else(|| not_an_image(image, "its manifest names no configuration".to_owned()))?;
    if manifest["config"]["size"].as_u64() > Some(MAX_CONFIG) {
        return Err(not_an_image(
            image,
            "its configuration is too large".to_owned(),
        ));
    }
    let bytes = registry.blob(digest, MAX_CONFIG).await?;
    if digest.parse() != Ok(Digest::of(&bytes)) {
        return Err(FetchError::WrongDigest {
            uri: image.to_owned(),
            expected: digest.to_owned(),
            actual: Digest::of(&bytes).to_string(),
        });
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| not_an_image(image, format!("its configuration cannot be read: {error}")))
}

/// The digest of the manifest for Linux on this machine's architecture.
fn for_this_platform(index: &Value) -> Option<String> {
    let entries = index["manifests"].as_array()?;
    let fits = |entry: &&Value| {
        entry["platform"]["os"] == "linux" && entry["platform"]["architecture"] == architecture()
    };
    let entry = entries.iter().find(fits)?;
    entry["digest"].as_str().map(str::to_owned)
}

/// This machine's architecture, as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn not_an_image(image: &str, reason: String) -> FetchError {
    FetchError::NotAnImage {
        image: image.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn images_are_read_as_people_write_them() {
        for (image, expected) in [
            ("nginx", "registry://docker.io/library/nginx:latest"),
            ("a/b:v1", "registry://docker.io/a/b:v1"),
            ("ghcr.io/a/b:v1", "registry://ghcr.io/a/b:v1"),
            ("localhost:5000/b", "registry://localhost:5000/b:latest"),
        ] {
            assert_eq!(parse(image).unwrap().to_string(), expected, "{image}");
        }
        for image in ["", "UPPER", "a b", "https://x/y"] {
            assert!(
                matches!(parse(image), Err(FetchError::NotAnImage { .. })),
                "{image}"
            );
        }
    }

    #[test]
    fn an_index_is_searched_for_this_machine() {
        let entry = |os: &str, architecture: &str, digest: &str| json!({"digest": digest, "platform": {"os": os, "architecture": architecture}});
        let index = json!({"manifests": [
            entry("windows", architecture(), "w"),
            entry("linux", "s390x", "z"),
            {"digest": "none"},
            entry("linux", architecture(), "ours"),
        ]});
        assert_eq!(for_this_platform(&index).as_deref(), Some("ours"));
        assert_eq!(for_this_platform(&json!({"manifests": []})), None);
    }
}
