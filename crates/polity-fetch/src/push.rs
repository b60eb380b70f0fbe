//! Publishing a module as an OCI artifact: one Wasm layer under an image manifest.

use std::collections::BTreeMap;

use bytes::Bytes;
use reqwest::header::LOCATION;
use reqwest::{Method, Response};
use serde_json::json;
use url::Url;

use crate::digest::Digest;
use crate::error::FetchError;
use crate::registry::{MANIFESTS, Registry, WASM_LAYER};

const WASM_CONFIG: &str = "application/vnd.wasm.config.v1+json";
const CONFIG: &[u8] = b"{}";

/// A published module.
#[derive(Debug, Clone)]
pub struct Pushed {
    /// The digest of the manifest, which pins the module.
    pub manifest: Digest,
}

impl Registry<'_> {
    /// Publishes a module under the reference's tag.
    pub(crate) async fn push(
        &self,
        module: Vec<u8>,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Pushed, FetchError> {
        let module = Bytes::from(module);
        let manifest = manifest(&module, annotations);
        self.push_blob(module).await?;
        self.push_blob(Bytes::from_static(CONFIG)).await?;
        let digest = Digest::of(&manifest);
        let mut ask = self.ask(Method::PUT, self.manifest_url(&self.uri.reference()));
        ask.body = Some((manifest, MANIFESTS[0]));
        self.send(&ask).await?;
        Ok(Pushed { manifest: digest })
    }

    async fn push_blob(&self, content: Bytes) -> Result<(), FetchError> {
        let digest = Digest::of(&content);
        let there = self.ask(Method::HEAD, self.url(&format!("blobs/{digest}")));
        if self.requester.send(&there).await?.status().is_success() {
            return Ok(());
        }
        let begin = self.ask(Method::POST, self.url("blobs/uploads/"));
        let begun = self.send(&begin).await?;
        let mut url = location(&begun, &begin.url).ok_or_else(|| {
            self.not_a_module("its registry names no place to upload to".to_owned())
        })?;
        url.query_pairs_mut()
            .append_pair("digest", &digest.to_string());
        let mut upload = self.ask(Method::PUT, url);
        if upload.url.origin() != begin.url.origin() {
            upload.authorization = None;
        }
        upload.body = Some((content, "application/octet-stream"));
        self.send(&upload).await.map(drop)
    }
}

fn manifest(module: &[u8], annotations: &BTreeMap<String, String>) -> Bytes {
    let descriptor = |media_type: &str, content: &[u8]| {
        json!({
            "mediaType": media_type,
            "digest": Digest::of(content).to_string(),
            "size": content.len(),
        })
    };
    let mut manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFESTS[0],
        "config": descriptor(WASM_CONFIG, CONFIG),
        "layers": [descriptor(WASM_LAYER, module)],
    });
    if !annotations.is_empty() {
        manifest["annotations"] = json!(annotations);
    }
    manifest.to_string().into()
}

fn location(response: &Response, from: &Url) -> Option<Url> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    from.join(location).ok()
}
