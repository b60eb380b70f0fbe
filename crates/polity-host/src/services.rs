//! Serves the host calls of guests, within the deadline of their request.

use std::time::Duration;

use polity_core::causes::in_one_line;
use polity_eval::{CapabilityRequest, Deadline, Services};
use polity_fetch::Fetcher;
use polity_runtime::Clock;
use serde::Serialize;
use serde_json::json;
use tokio::runtime::Handle;

use crate::certificates;
use crate::kubernetes::Cluster;

/// The longest wait, also if the request has no deadline.
const PATIENCE: Duration = Duration::from_secs(30);

/// The means of [`HostServices`].
pub struct ServicesOptions {
    /// The cluster that guests may read, if there is one.
    pub cluster: Option<Cluster>,
    /// The fetcher for registries, with their credentials.
    pub fetcher: Fetcher,
    /// The runtime that executes the requests.
    pub runtime: Handle,
    /// The source of time.
    pub clock: Clock,
}

/// All services but signature checks. Responses are not cached here: wrap it in [`polity_eval::CachedServices`].
///
/// Calls block their thread, which must not be a worker of the runtime.
pub struct HostServices(ServicesOptions);

impl HostServices {
    /// Builds the services.
    pub fn new(options: ServicesOptions) -> Self {
        Self(options)
    }

    async fn answer(&self, request: &CapabilityRequest) -> Result<Vec<u8>, String> {
        let ServicesOptions {
            cluster,
            fetcher,
            clock,
            ..
        } = &self.0;
        let cluster = || {
            cluster.as_ref().ok_or_else(|| {
                format!(
                    "{} needs a cluster, and there is none",
                    request.capability()
                )
            })
        };
        match request {
            CapabilityRequest::OciManifestDigest { image } => {
                let digest = fetcher
                    .image_digest(image)
                    .await
                    .map_err(|error| in_one_line(&error))?;
                write(&json!({ "digest": digest }))
            }
            CapabilityRequest::OciManifest { image } => {
                let manifest = fetcher
                    .image_manifest(image)
                    .await
                    .map_err(|error| in_one_line(&error))?;
                write(&manifest.manifest)
            }
            CapabilityRequest::OciManifestAndConfig { image } => {
                let image = fetcher
                    .image_config(image)
                    .await
                    .map_err(|error| in_one_line(&error))?;
                write(&json!({
                    "manifest": image.manifest,
                    "digest": image.digest,
                    "config": image.config,
                }))
            }
            CapabilityRequest::Verify { .. } => Err(
                "signatures cannot be checked yet: no image is trusted until they can".to_owned(),
            ),
            CapabilityRequest::DnsLookupHost { host } => look_up(host).await,
            CapabilityRequest::IsCertificateTrusted(query) => {
                write(&certificates::is_trusted(query, clock.now())?)
            }
            CapabilityRequest::ListResources(query) => cluster()?
                .list(query)
                .await
                .map_err(|error| in_one_line(&error)),
            CapabilityRequest::GetResource(query) => {
                let object = cluster()?
                    .get(query)
                    .await
                    .map_err(|error| in_one_line(&error))?;
                write(&object)
            }
            CapabilityRequest::CanI(query) => {
                let review = &query.subject_access_review;
                let status = cluster()?
                    .can_i(review)
                    .await
                    .map_err(|error| in_one_line(&error))?;
                write(&status)
            }
        }
    }
}

impl Services for HostServices {
    fn call(&self, request: &CapabilityRequest, deadline: Deadline) -> Result<Vec<u8>, String> {
        let patience = deadline
            .remaining()
            .map_or(PATIENCE, |left| left.min(PATIENCE));
        self.0.runtime.block_on(async {
            tokio::time::timeout(patience, self.answer(request))
                .await
                .unwrap_or_else(|_| {
                    Err(format!("{} got no response in time", request.capability()))
                })
        })
    }
}

/// The addresses of a host without duplicates, in the order of the resolver.
async fn look_up(host: &str) -> Result<Vec<u8>, String> {
    let found = tokio::net::lookup_host((host, 0))
        .await
        .map_err(|error| format!("cannot look up {host:?}: {error}"))?;
    let mut ips: Vec<String> = Vec::new();
    for address in found {
        let ip = address.ip().to_string();
        if !ips.contains(&ip) {
            ips.push(ip);
        }
    }
    write(&json!({ "ips": ips }))
}

fn write(answer: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(answer).map_err(|error| error.to_string())
}
