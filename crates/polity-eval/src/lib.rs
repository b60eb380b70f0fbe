//! From a request and a policy to the answer: one evaluation pipeline over loaded modules.
//!
//! - [`parse_policies`] reads `policies.yml`; [`Policy::prepare`] turns an entry and its loaded modules
//!   into a [`Policy`], asking each guest whether its settings are good.
//! - [`AdmissionReview::parse`] and [`RawReview::parse`] read what came in, keeping objects as the text
//!   they are.
//! - [`Policy::evaluate`] and [`Policy::evaluate_raw`] run the guest, or the members of a group, and
//!   apply what the policy says about mode, mutation and message. The [`Evaluation`] holds the response
//!   to send and what to count.
//! - [`Services`] is what guests can ask for through the host: the cluster, registries, names,
//!   certificates. Permission, caches, recording and replay are here; fetching is somebody else's.
//!
//! There is no HTTP in here, and nothing async: evaluations block the thread they are on.

mod capability;
mod config;
mod evaluate;
mod group;
mod guest_result;
mod host;
mod patch;
mod policy;
mod request;
mod response;
mod settings;

pub use capability::{CapabilitySet, Grants, UnknownCapability};
pub use config::{
    ConfigError, EntryError, GroupConfig, GuestConfig, Mode, PolicyConfig, SingleConfig,
    parse_policies,
};
pub use evaluate::{Environment, Evaluation, Origin};
pub use host::{
    CachedServices, CapabilityRequest, Certificate, CertificateEncoding, CertificateQuery,
    Exchange, GetResource, GuestCache, ListResources, NoServices, RecordedResponse, Recorder,
    Replay, ReplayError, ResourceAttributes, Services, SubjectAccess, SubjectAccessReview,
    VerifyKind, prune_object, recording_to_yaml,
};
pub use patch::PatchError;
pub use policy::{InitError, Policy};
pub use polity_wasm::{
    CompiledCode, Deadline, Engine, EngineError, EngineOptions, ExecutionMode, Inspection,
    KUBEWARDEN_VERSION, Limits, LoadError, Metadata, Module, PolicyType, ResourceKind, Rule,
    RunError, inspect,
};
pub use request::{
    AdmissionRequest, AdmissionReview, GroupVersionKind, GroupVersionResource, RawReview,
    ReviewError, UserInfo,
};
pub use response::{AdmissionResponse, Cause, Details, Status};
pub use settings::{Settings, SettingsError};
