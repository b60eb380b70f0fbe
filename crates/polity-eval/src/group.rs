//! Policy groups: members are evaluated when the expression needs them.

use std::{collections::BTreeMap, convert::Infallible};

use polity_core::GroupExpression;

use crate::{
    AdmissionResponse, Cause, Details, Environment, Status,
    evaluate::{Question, ask},
    policy::Guest,
};

/// The message for a member that returns a mutation: members may only accept or reject.
const NO_MUTATION: &str = "mutation is not allowed inside of policy group";

/// The verdict of a member.
enum MemberVerdict {
    Accepted,
    Rejected(Option<String>),
}

/// Evaluates a request with the members that the expression needs, each at most once.
pub(crate) fn judge(
    environment: &Environment,
    expression: &GroupExpression,
    message: &str,
    members: &BTreeMap<String, Guest>,
    question: &Question<'_>,
) -> AdmissionResponse {
    let mut said: BTreeMap<String, MemberVerdict> = BTreeMap::new();
    let outcome = expression.evaluate(&mut |name: &str| {
        let said = said
            .entry(name.to_owned())
            .or_insert_with(|| consult(environment, name, members, question));
        Ok::<_, Infallible>(matches!(said, MemberVerdict::Accepted))
    });
    let Ok(allowed) = outcome;
    if allowed {
        return AdmissionResponse::allow(question.uid);
    }
    let causes = said
        .into_iter()
        .filter_map(|(name, said)| match said {
            MemberVerdict::Accepted => None,
            MemberVerdict::Rejected(message) => Some(Cause {
                field: Some(format!("spec.policies.{name}")),
                message,
                reason: None,
            }),
        })
        .collect();
    AdmissionResponse {
        status: Some(Status {
            message: Some(message.to_owned()),
            code: None,
            details: Some(Details { causes }),
        }),
        ..AdmissionResponse::reject(question.uid, message, None)
    }
}

fn consult(
    environment: &Environment,
    name: &str,
    members: &BTreeMap<String, Guest>,
    question: &Question<'_>,
) -> MemberVerdict {
    let Some(guest) = members.get(name) else {
        // Groups with invalid expressions are never prepared.
        return MemberVerdict::Rejected(Some(format!("there is no member {name}")));
    };
    let response = ask(environment, guest, question);
    if response.patch.is_some() {
        return MemberVerdict::Rejected(Some(NO_MUTATION.to_owned()));
    }
    if response.allowed {
        return MemberVerdict::Accepted;
    }
    MemberVerdict::Rejected(response.message().map(str::to_owned))
}
