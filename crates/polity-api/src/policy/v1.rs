//! `policy.open-cluster-management.io/v1`.

mod binding;
mod certificate;
mod common;
mod configuration;
mod policy;
mod status;

pub use binding::{
    BindingOverrides, OverrideAction, PlacementBinding, PlacementBindingFields, PlacementSubject,
    SubFilter, Subject,
};
pub use certificate::{
    CertificatePolicy, CertificatePolicySpec, CertificatePolicyStatus, CertificateSummary,
    NamespaceCompliance,
};
pub(crate) use common::any_object;
pub use common::{HistoryMessage, NamespaceSelector, RemediationAction, Severity};
pub use configuration::{
    ConfigurationPolicy, ConfigurationPolicySpec, ConfigurationPolicyStatus, CustomMessage,
    EvaluationInterval, NamespaceTarget, ObjectCondition, ObjectMetadata, ObjectProperties,
    ObjectReference, ObjectTemplate, PrunableObject, RelatedObject, TemplateCompliance,
};
pub use policy::{
    ComplianceState, HubTemplateOptions, Policy, PolicyDependency, PolicySpec, PolicyTemplate,
};
pub use status::{
    ClusterCompliance, ClusterExclusion, ComplianceHistory, DetailsPerTemplate, PlacementDecision,
    PolicyPlacement, PolicyStatus, RemainingBinding, TemplateMeta,
};
