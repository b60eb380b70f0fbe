//! The status of a policy server.

use std::error::Error;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use polity_api::policies::v1::{
    PolicyServer, PolicyServerConditionType, PolicyServerReason, PolicyServerStatus,
};
use polity_core::causes::in_one_line;

use super::{Outcome, ServerError};
use crate::certificates::CA_SECRET;
use crate::names;
use crate::objects::{self, Cache, Setup};

/// The counts that a status shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// The pods of the StatefulSet.
    pub(super) n_replicas: i32,
    /// Those of them that take requests.
    pub(super) n_ready: i32,
    /// The policies that the server serves; `None` when they could not be read.
    pub(super) n_policies: Option<i32>,
}

/// The status after every object was tried. The conditions of objects that were not tried stay as they are.
pub(super) fn of(
    server: &PolicyServer,
    outcomes: &[Outcome],
    counts: Counts,
    now: Timestamp,
) -> PolicyServerStatus {
    let mut status = server.status.clone().unwrap_or_default();
    for (type_, result) in outcomes {
        let condition = condition(server, *type_, result, now);
        if *type_ == PolicyServerConditionType::StatefulSetReconciled {
            // The name that scripts know.
            let alias = PolicyServerConditionType::DeploymentReconciled
                .as_str()
                .to_owned();
            put(
                &mut status.conditions,
                Condition {
                    type_: alias,
                    ..condition.clone()
                },
            );
        }
        put(&mut status.conditions, condition);
    }
    status.replicas = Some(counts.n_replicas);
    status.ready_replicas = Some(counts.n_ready);
    status.ready = Some(format!("{}/{}", counts.n_ready, server.spec.replicas));
    status.policies = counts.n_policies.or(status.policies);
    status
}

/// The message of a condition that is true.
pub(super) fn success(
    type_: PolicyServerConditionType,
    server: &PolicyServer,
    setup: &Setup,
) -> String {
    use PolicyServerConditionType as Type;
    let name = server.metadata.name.as_deref().unwrap_or_default();
    let own = names::policy_server(name);
    match type_ {
        Type::CARootSecretReconciled => {
            format!("Secret {CA_SECRET} holds a valid certificate authority.")
        }
        Type::CertSecretReconciled => {
            let signer = names::cache_signer(name);
            format!("Secrets {own} and {signer} hold valid certificates.")
        }
        Type::ConfigMapReconciled => format!("ConfigMap {own} is up to date."),
        Type::ServiceReconciled => {
            format!("Services {own} and {} are up to date.", names::peers(name))
        }
        Type::PodDisruptionBudgetReconciled => match objects::disruption_budget(server, setup) {
            Some(_) => format!("PodDisruptionBudget {own} is up to date."),
            None => "No PodDisruptionBudget is requested.".to_owned(),
        },
        Type::CacheReconciled => match Cache::of(server, setup) {
            Cache::Ephemeral => "Each replica has a cache of its own.".to_owned(),
            Cache::Existing { claim, .. } => {
                format!("The replicas share PersistentVolumeClaim {claim}.")
            }
            Cache::Own { .. } => format!(
                "The replicas share PersistentVolumeClaim {}.",
                names::cache_claim(name)
            ),
        },
        Type::StatefulSetReconciled | Type::DeploymentReconciled => {
            format!("StatefulSet {} is up to date.", names::stateful_set(name))
        }
        Type::PolicyWebhooksCleanedUp => "No webhook of a policy calls this server.".to_owned(),
    }
}

/// The status of a server that is being deleted while so many webhooks still call it.
pub(super) fn of_deletion(
    server: &PolicyServer,
    n_callers: usize,
    now: Timestamp,
) -> PolicyServerStatus {
    let mut status = server.status.clone().unwrap_or_default();
    let result = Err(ServerError::StillCalled { n_callers });
    let type_ = PolicyServerConditionType::PolicyWebhooksCleanedUp;
    put(
        &mut status.conditions,
        condition(server, type_, &result, now),
    );
    status
}

fn condition(
    server: &PolicyServer,
    type_: PolicyServerConditionType,
    result: &Result<String, ServerError>,
    now: Timestamp,
) -> Condition {
    let (status, reason, message) = match result {
        Ok(message) => (
            "True",
            PolicyServerReason::ReconciliationSucceeded,
            message.clone(),
        ),
        Err(error) => (
            "False",
            PolicyServerReason::ReconciliationFailed,
            chain(error),
        ),
    };
    Condition {
        type_: type_.as_str().to_owned(),
        status: status.to_owned(),
        reason: reason.as_str().to_owned(),
        message,
        observed_generation: server.metadata.generation,
        last_transition_time: Time(now),
    }
}

/// Adds or replaces a condition. Its transition time changes only with its status.
fn put(conditions: &mut Vec<Condition>, mut condition: Condition) {
    match conditions
        .iter_mut()
        .find(|one| one.type_ == condition.type_)
    {
        Some(before) => {
            if before.status == condition.status {
                condition
                    .last_transition_time
                    .clone_from(&before.last_transition_time);
            }
            *before = condition;
        }
        None => conditions.push(condition),
    }
}

/// An error with its causes, cut to the length of a condition's message.
fn chain(error: &dyn Error) -> String {
    in_one_line(error).chars().take(1024).collect()
}
