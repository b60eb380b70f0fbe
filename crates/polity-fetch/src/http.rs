//! Downloads modules from web servers.

use tokio::sync::OnceCell;
use url::Url;

use crate::body::{self, BodyError};
use crate::error::FetchError;
use crate::fetcher::{Limits, Progress};
use crate::requester::{OutgoingRequest, Requester};
use crate::sources::Sources;
use crate::transport::Transport;

/// Downloads a module with one transport.
pub(crate) async fn download(
    url: &Url,
    host: &str,
    transport: Transport,
    sources: &Sources,
    limits: &Limits,
    progress: &dyn Progress,
) -> Result<Vec<u8>, FetchError> {
    let mut url = url.clone();
    url.set_scheme(transport.scheme())
        .expect("http and https change places");
    let requester = Requester {
        host,
        base: url.clone(),
        transport,
        sources,
        limits,
        own_client: OnceCell::new(),
    };
    let response = requester.send(&OutgoingRequest::get(url.clone())).await?;
    let status = response.status();
    if !status.is_success() {
        return Err(FetchError::Refused {
            host: host.to_owned(),
            status: status.as_u16(),
            message: String::new(),
        });
    }
    progress.starts(response.content_length());
    let advances = |bytes| progress.advances(bytes);
    let read = body::read(response, limits.module_bytes, advances).await;
    read.map_err(|error| match error {
        BodyError::TooLarge { limit } => FetchError::TooLarge {
            uri: url.to_string(),
            limit,
        },
        BodyError::BrokenOff { .. } => FetchError::BrokenOff {
            uri: url.to_string(),
            reason: error.to_string(),
        },
    })
}
