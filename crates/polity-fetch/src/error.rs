//! The errors of fetching, publishing and storing modules.

use std::path::PathBuf;
use std::time::Duration;

use crate::digest::Digest;
use crate::sources::SourcesError;

/// Why a module could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("cannot reach {host}: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("{host} answered {status}{}", words(message))]
    Refused {
        host: String,
        status: u16,
        /// The message of the registry, shortened; never a response body.
        message: String,
    },
    #[error("{host} asks for other credentials{}", words(message))]
    Unauthorized { host: String, message: String },
    #[error("{host} sent the download elsewhere: {reason}")]
    Redirected { host: String, reason: String },
    /// The request must not reach this machine, its link or a metadata service.
    #[error(
        "{host} is on this machine, its link or a metadata service: it is reached only if it is listed as an insecure source"
    )]
    OutOfReach { host: String },
    #[error("{uri} is not a policy module: {reason}")]
    NotAModule { uri: String, reason: String },
    #[error("{uri} is not a policy module: it does not begin like a Wasm module")]
    NotWasm { uri: String },
    #[error("{uri} did not arrive: {reason}")]
    BrokenOff { uri: String, reason: String },
    #[error("{image:?} is not an image: {reason}")]
    NotAnImage { image: String, reason: String },
    #[error("{uri} has digest {actual}, not {expected}")]
    WrongDigest {
        uri: String,
        expected: String,
        actual: String,
    },
    #[error("{uri} is larger than the limit of {limit} bytes")]
    TooLarge { uri: String, limit: u64 },
    #[error("{uri} did not arrive within {limit:?}")]
    TimedOut { uri: String, limit: Duration },
    #[error("cannot read {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Sources(#[from] SourcesError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a module could not be published.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    #[error("a module is pushed to a registry, not to {uri}")]
    NotARegistry { uri: String },
    #[error("a module is pushed to a tag: {uri} names a digest")]
    NotATag { uri: String },
    #[error(transparent)]
    Failed(#[from] FetchError),
}

/// Why the local store could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot {doing} {}", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{digest} is not in the store")]
    Missing { digest: Digest },
}

fn words(message: &str) -> String {
    if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    }
}
