//! Conditions of policies and their revisions, with the words they are made of.
//!
//! They are written by several hands: the controller, the leading policy server and every replica. A list may hold one
//! type many times, once for each generation and replica, which is why the schema calls it atomic and not a map.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::vocabulary::vocabulary;

/// An observation about one generation of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyCondition {
    /// Type of the condition: `Scheduled`, `Initialized`, `Ready`, or one of `PolicyActive`, `PolicyUniquelyReachable`
    /// and `PolicyServerConfigurationUpToDate`, which summarize the others for older tools.
    #[serde(rename = "type")]
    #[schemars(length(max = 316))]
    pub type_: String,

    /// Status of the condition: `True`, `False` or `Unknown`.
    pub status: ConditionStatus,

    /// Reason for the status as a CamelCase word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub reason: String,

    /// Reason for the status as a sentence, with details.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32768))]
    pub message: String,

    /// Generation of the policy that the condition was observed for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub generation: Option<i64>,

    /// Ordinal of the policy server replica that reports the condition. Set only for `Ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replica: Option<i32>,

    /// Time when `status` last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,

    /// Same value as `generation`, for tools that read standard conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// Status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// The status cannot be determined at present.
    Unknown,
}

vocabulary! {
    /// Condition types of policies and policy revisions.
    ConditionType {
        /// The leader of the policy server has accepted the generation.
        Scheduled,
        /// The modules of the generation are pulled, verified, compiled and stored in the cache.
        Initialized,
        /// One replica of the policy server has loaded the generation.
        Ready,
        /// A webhook calls some generation of the policy. Scripts wait for this condition.
        PolicyActive,
        /// Every replica serves the newest generation. Scripts wait for this condition.
        PolicyUniquelyReachable,
        /// The policy server serves the newest generation.
        PolicyServerConfigurationUpToDate,
    }
}

vocabulary! {
    /// Reasons of [`ConditionType::Scheduled`].
    ScheduledReason {
        /// True: the leader of the policy server has accepted the generation.
        PolicyScheduled,
        /// False: the revision is created and not yet accepted by the policy server.
        WaitingForPolicyServer,
        /// False: the policy names a policy server that does not exist or is being deleted.
        PolicyServerNotFound,
        /// False: the policy server has no running replica.
        PolicyServerNotRunning,
        /// False: the API server refused the revision.
        RevisionRejected,
    }
}

vocabulary! {
    /// Reasons of [`ConditionType::Initialized`].
    InitializedReason {
        /// True: all modules are stored in the cache.
        PolicyInitialized,
        /// False, retried: a module could not be pulled because of the network, the registry or missing permissions, or
        /// because it does not exist.
        PullError,
        /// False, retried: the cache could not be read or written.
        CacheError,
        /// False, retried with long delays: the module has no signature that satisfies the verification configuration.
        VerificationError,
        /// False, permanent: the metadata of a module cannot be parsed.
        MetadataInvalid,
        /// False, permanent: a module is not Wasm, lacks a required export, or does not compile.
        ModuleInvalid,
        /// False, permanent: a module requires a newer policy server.
        IncompatibleVersion,
        /// False, permanent: the policy rejects its settings.
        SettingsInvalid,
        /// False, permanent: the expression of the group does not compile.
        ExpressionInvalid,
        /// False, permanent: a module requests a host capability that does not exist.
        CapabilityInvalid,
    }
}

vocabulary! {
    /// Reasons of [`ConditionType::Ready`].
    ReadyReason {
        /// True: the replica has loaded the generation.
        PolicyReady,
        /// False: the signature of the cached module is not valid.
        SignatureInvalid,
        /// False: the cache could not be read.
        CacheError,
        /// False: a module is not Wasm, lacks a required export, or does not compile.
        ModuleInvalid,
        /// False: a module cannot be instantiated.
        LoadError,
        /// False: the replica could not pull the module by its digest.
        PullError,
        /// False: the module that the replica pulled has no signature that satisfies the verification configuration.
        VerificationError,
        /// Unknown: a new replica has not reported yet.
        ReplicaPending,
        /// Unknown: the replica is deleted, restarting or not ready.
        ReplicaUnreachable,
    }
}

vocabulary! {
    /// Reasons of `PolicyActive`, `PolicyUniquelyReachable` and `PolicyServerConfigurationUpToDate`.
    LegacyReason {
        /// Used for both statuses of `PolicyActive`; the message tells them apart.
        PolicyActive,
        /// `PolicyUniquelyReachable` is True.
        LatestReplicaSetIsUniquelyReachable,
        /// `PolicyUniquelyReachable` is False.
        LatestReplicaSetIsNotUniquelyReachable,
        /// `PolicyServerConfigurationUpToDate` is True.
        ConfigurationVersionMatch,
        /// `PolicyServerConfigurationUpToDate` is False: an older generation is served.
        ConfigurationVersionMismatch,
        /// `PolicyServerConfigurationUpToDate` is False: nothing is served yet.
        UnknownConfigurationVersion,
    }
}
