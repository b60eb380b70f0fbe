//! `policies.kubewarden.io/v1`, the version that is stored.

mod common;
mod condition;
mod group;
mod policy;
mod revision;
mod server;
mod status;

pub(super) use common::{default_policy_server, default_timeout_seconds, free_form};

pub use common::{
    ClusterScope, ContextAwareResource, DEFAULT_POLICY_SERVER, DEFAULT_TIMEOUT_SECONDS,
    Enforcement, FailurePolicy, MatchPolicy, Mode, Module,
};
pub use condition::{
    ConditionStatus, ConditionType, InitializedReason, LegacyReason, PolicyCondition, ReadyReason,
    ScheduledReason,
};
pub use group::{
    AdmissionPolicyGroup, AdmissionPolicyGroupSpec, ClusterAdmissionPolicyGroup,
    ClusterAdmissionPolicyGroupSpec, ClusterGroupMember,
};
pub use policy::{
    AdmissionPolicy, AdmissionPolicySpec, ClusterAdmissionPolicy, ClusterAdmissionPolicySpec,
};
pub use revision::{
    Initializer, ObjectReference, PolicyRevision, PolicyRevisionSpec, PolicyRevisionStatus,
    ResolvedModule,
};
pub use server::{
    ModuleCache, PolicyServer, PolicyServerConditionType, PolicyServerReason, PolicyServerSpec,
    PolicyServerStatus, SecurityContexts,
};
pub use status::{HistoryEntry, HistoryResult, ObservedMode, Phase, PolicyState, PolicyStatus};
