//! Evaluates a request with a policy: one pipeline over loaded modules.
//!
//! - [`parse_policies`] reads `policies.yml`; [`Policy::prepare`] turns an entry and its loaded modules
//!   into a [`Policy`], after each guest has validated its settings.
//! - [`AdmissionReview::parse`] and [`RawReview::parse`] parse requests, and keep objects as text.
//! - [`Policy::evaluate`] and [`Policy::evaluate_raw`] run the guest, or the members of a group, and
//!   apply the policy's mode, mutation rule and message. The [`Evaluation`] holds the response to send
//!   and the values for metrics.
//! - [`Services`] answers the host calls of guests: the cluster, registries, names, certificates.
//!   Permissions, caches, recording and replay are here; `polity-host` implements the services.
//!
//! There is no HTTP here, and nothing async: an evaluation blocks its thread.

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
