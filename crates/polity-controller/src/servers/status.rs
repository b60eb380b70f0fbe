//! What a policy server says about itself.

use std::error::Error;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use polity_api::policies::v1::{
    PolicyServer, PolicyServerConditionType, PolicyServerReason, PolicyServerStatus,
};
use polity_core::causes::in_one_line;

use super::ServerError;

/// The status after every object was tried; what was not tried keeps what it said.
pub(super) fn of(
    server: &PolicyServer,
    made: &[(PolicyServerConditionType, Result<(), ServerError>)],
    n_replicas: Option<i32>,
    now: Timestamp,
) -> PolicyServerStatus {
    let mut status = server.status.clone().unwrap_or_default();
    for (type_, result) in made {
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
    status.replicas = n_replicas.or(Some(0));
    status
}

fn condition(
    server: &PolicyServer,
    type_: PolicyServerConditionType,
    result: &Result<(), ServerError>,
    now: Timestamp,
) -> Condition {
    let (status, reason, message) = match result {
        Ok(()) => (
            "True",
            PolicyServerReason::ReconciliationSucceeded,
            String::new(),
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

/// Puts a condition in its place; the time of its last change moves only with its status.
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

/// An error with everything it stands on, as much of it as a condition has room for.
fn chain(error: &dyn Error) -> String {
    in_one_line(error).chars().take(1024).collect()
}
