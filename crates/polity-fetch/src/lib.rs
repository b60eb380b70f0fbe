//! Gets policy modules from registries, web servers and files, checks that they are what was asked for, and keeps
//! them in a local store, compiled form included.
//!
//! A tag is never trusted: it is resolved to a digest, and content is stored by its digest. Error messages of a
//! server reach the user; response bodies never do.

mod body;
mod challenge;
mod credentials;
mod digest;
mod error;
mod fetcher;
mod http;
mod image;
mod push;
mod reach;
mod registry;
mod regular_file;
mod requester;
mod sources;
mod store;
mod transport;
mod uri;

pub use credentials::Credentials;
pub use digest::{Digest, DigestError};
pub use error::{FetchError, PushError, StoreError};
pub use fetcher::{Fetched, Fetcher, Limits, Origin, Progress};
pub use image::{ImageConfig, ImageManifest};
pub use push::Pushed;
pub use reach::Reach;
pub use registry::Artifact;
pub use sources::{Authority, Proxies, Sources, SourcesError};
pub use store::{CompiledKey, LocalStore, Stored};
pub use uri::{ModuleUri, RegistryUri, UriError};
