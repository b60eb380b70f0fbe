//! `policy.open-cluster-management.io/v1beta1`.

mod automation;
mod operator;
mod set;

pub use automation::{
    AutomationDefinition, AutomationMode, ClusterEvent, EventHook, PolicyAutomation,
    PolicyAutomationSpec, PolicyAutomationStatus,
};
pub use operator::{
    ComplianceConfig, ComplianceOutcome, KeepOrDelete, OperatorComplianceType,
    OperatorGroupRemoval, OperatorPolicy, OperatorPolicySpec, OperatorPolicyStatus,
    RemovalBehavior, UpgradeApproval,
};
pub use set::{
    ExcludedClusters, PolicySet, PolicySetExclusion, PolicySetPlacement, PolicySetSpec,
    PolicySetStatus,
};
