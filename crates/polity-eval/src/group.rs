//! Policy groups: members judged as the expression calls for them.

use std::{collections::BTreeMap, convert::Infallible};

use polity_core::GroupExpression;

use crate::{
    AdmissionResponse, Cause, Details, Environment, Status,
    evaluate::{Question, ask},
    policy::Guest,
};

/// A member may say yes or no, nothing else.
const NO_MUTATION: &str = "mutation is not allowed inside of policy group";

/// What a member said.
enum Said {
    Yes,
    No(Option<String>),
}

/// Judges a request by the members that the expression calls, each at most once.
pub(crate) fn judge(
    environment: &Environment,
    expression: &GroupExpression,
    message: &str,
    members: &BTreeMap<String, Guest>,
    question: &Question<'_>,
) -> AdmissionResponse {
    let mut said: BTreeMap<String, Said> = BTreeMap::new();
    let outcome = expression.evaluate(&mut |name: &str| {
        let said = said
            .entry(name.to_owned())
            .or_insert_with(|| consult(environment, name, members, question));
        Ok::<_, Infallible>(matches!(said, Said::Yes))
    });
    let Ok(allowed) = outcome;
    if allowed {
        return AdmissionResponse::allow(question.uid);
    }
    let causes = said
        .into_iter()
        .filter_map(|(name, said)| match said {
            Said::Yes => None,
            Said::No(message) => Some(Cause {
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
) -> Said {
    let Some(guest) = members.get(name) else {
        // Groups with such expressions are never made ready.
        return Said::No(Some(format!("there is no member {name}")));
    };
    let response = ask(environment, guest, question);
    if response.patch.is_some() {
        return Said::No(Some(NO_MUTATION.to_owned()));
    }
    if response.allowed {
        return Said::Yes;
    }
    Said::No(response.message().map(str::to_owned))
}
