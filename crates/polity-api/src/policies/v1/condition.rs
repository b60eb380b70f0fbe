//! Conditions of policies and their revisions, with the words they are made of.
//!
//! They are written by several hands: the controller, the leading policy server and every replica. A list may hold one
//! type many times, once for each generation and replica, which is why the schema calls it atomic and not a map.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::vocabulary::vocabulary;

/// One statement about a policy, by one writer about one generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyCondition {
    /// What the statement is about: `Scheduled`, `Initialized`, `Ready`, or one of the older `PolicyActive`,
    /// `PolicyUniquelyReachable` and `PolicyServerConfigurationUpToDate`.
    #[serde(rename = "type")]
    #[schemars(length(max = 316))]
    pub type_: String,

    /// `True`, `False` or `Unknown`.
    pub status: ConditionStatus,

    /// Why, in one word for programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub reason: String,

    /// Why, in a sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32768))]
    pub message: String,

    /// The generation of the policy that this speaks about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub generation: Option<i64>,

    /// The replica of the policy server that says so; only with `Ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replica: Option<i32>,

    /// When `status` last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,

    /// The same as `generation`, for tools that know ordinary conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// The answer of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// Nobody can tell at present.
    Unknown,
}

vocabulary! {
    /// What a condition of a policy or revision is about.
    ConditionType {
        /// The leading policy server took the generation.
        Scheduled,
        /// Its modules are pulled, compiled, checked and in the cache.
        Initialized,
        /// One replica can serve it.
        Ready,
        /// A webhook calls some generation of the policy. Scripts wait for this one.
        PolicyActive,
        /// The newest generation is served by every replica. Scripts wait for this one.
        PolicyUniquelyReachable,
        /// The policy server runs the newest generation.
        PolicyServerConfigurationUpToDate,
    }
}

vocabulary! {
    /// Reasons of [`ConditionType::Scheduled`].
    ScheduledReason {
        /// True: the leader took it.
        PolicyScheduled,
        /// False: created, not yet taken.
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
        /// True: everything is in the cache.
        PolicyInitialized,
        /// False, retried: network, registry, not found or not allowed.
        PullError,
        /// False, retried: the disk.
        CacheError,
        /// False, retried rarely: no signature fits.
        VerificationError,
        /// False, final: the metadata of the module cannot be read.
        MetadataInvalid,
        /// False, final: no Wasm, something missing in it, or it does not compile.
        ModuleInvalid,
        /// False, final: the module asks for a newer policy server.
        IncompatibleVersion,
        /// False, final: the policy refuses its settings.
        SettingsInvalid,
        /// False, final: the expression of the group does not compile.
        ExpressionInvalid,
        /// False, final: the module asks for a host capability that names nothing.
        CapabilityInvalid,
    }
}

vocabulary! {
    /// Reasons of [`ConditionType::Ready`].
    ReadyReason {
        /// True: loaded.
        PolicyReady,
        /// False: the signature of the cached module does not fit.
        SignatureInvalid,
        /// False: the disk.
        CacheError,
        /// False: no Wasm, something missing in it, or it does not compile.
        ModuleInvalid,
        /// False: it cannot be instantiated.
        LoadError,
        /// False: the replica's own pull by digest failed.
        PullError,
        /// False: no signature fits what the replica pulled itself.
        VerificationError,
        /// Unknown: a new replica has not spoken yet.
        ReplicaPending,
        /// Unknown: the replica is gone, restarting or not ready.
        ReplicaUnreachable,
    }
}

vocabulary! {
    /// Reasons of the three older condition types.
    LegacyReason {
        /// Both answers of `PolicyActive`; the message tells them apart.
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
