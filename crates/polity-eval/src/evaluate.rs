//! The evaluation pipeline: run the guest or the group, build the response, apply mode, mutation and message.

use std::{sync::Arc, time::Duration};

use polity_wasm::{Deadline, ExecutionMode, Operation, RunError};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    AdmissionRequest, AdmissionResponse, Cause, Mode, Policy, RawReview, Services, Settings,
    Status, group,
    guest_result::ValidationResult,
    host::{GuestCache, PolicyHost},
    patch,
    policy::{Body, Guest},
};

/// The message for a guest that exceeded its time limit.
const OUT_OF_TIME: &str =
    "Policy execution interrupted because it exceeded the allowed execution time";

/// The settings and services that all evaluations share.
#[derive(Clone)]
pub struct Environment {
    /// The services for host calls.
    pub services: Arc<dyn Services>,
    /// The values that guests keep between requests.
    pub cache: Arc<GuestCache>,
    /// How long an evaluation may take if the policy sets no limit; `None` for the deadline of the caller.
    pub default_timeout: Option<Duration>,
    /// Whether the time limits of policies apply. False only if all time limits are disabled.
    pub timeouts: bool,
    /// Requests for this namespace are allowed without evaluation.
    pub always_accept_namespace: Option<String>,
    /// Called on the thread of an evaluation that takes long, so that its other tasks can move to another thread.
    pub on_long_run: fn(),
}

impl Environment {
    /// An environment with the default time limit of two seconds.
    pub fn new(services: Arc<dyn Services>) -> Self {
        Self {
            services,
            cache: Arc::new(GuestCache::default()),
            default_timeout: Some(Duration::from_secs(2)),
            timeouts: true,
            always_accept_namespace: None,
            on_long_run: || {},
        }
    }

    /// Runs one operation of a guest, within its own time limit and the deadline of the caller.
    pub(crate) fn run(
        &self,
        guest: &Guest,
        operation: Operation,
        payload: Vec<u8>,
        uid: &str,
        deadline: Deadline,
    ) -> Result<Vec<u8>, RunError> {
        let own = match guest.timeout.or(self.default_timeout) {
            Some(limit) if self.timeouts => Deadline::after(limit),
            _ => Deadline::NEVER,
        };
        let host = PolicyHost::new(guest, uid, self);
        guest
            .module
            .run(operation, payload, deadline.earlier(own), Box::new(host))
    }
}

/// The endpoint of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// `validate`: the verdict, after the policy's mode, mutation rule and message.
    Validate,
    /// `audit`: the unmodified verdict of the guest.
    Audit,
}

/// The outcome of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    /// The response to send.
    pub response: AdmissionResponse,
    /// Whether the guest accepted the request, before mode and mutation rule.
    pub accepted: bool,
    /// Whether the guest changed the object.
    pub mutated: bool,
    /// The status code in the guest's verdict.
    pub error_code: Option<u16>,
}

/// The request that a guest evaluates.
pub(crate) struct Question<'a> {
    pub(crate) uid: &'a str,
    pub(crate) payload: Payload<'a>,
    /// The object that a mutation changes.
    pub(crate) original: Option<&'a RawValue>,
    pub(crate) deadline: Deadline,
}

#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    Admission(&'a AdmissionRequest<'a>),
    Raw(&'a RawValue),
}

impl Payload<'_> {
    fn with(self, settings: &Settings) -> Vec<u8> {
        #[derive(Serialize)]
        struct WithSettings<'a, T> {
            request: T,
            settings: &'a RawValue,
        }
        let settings = settings.as_raw();
        let mut bytes = Vec::with_capacity(self.size_hint() + settings.get().len());
        let written = match self {
            Self::Admission(request) => {
                serde_json::to_writer(&mut bytes, &WithSettings { request, settings })
            }
            Self::Raw(request) => {
                serde_json::to_writer(&mut bytes, &WithSettings { request, settings })
            }
        };
        written.expect("what was read can be written");
        bytes
    }

    /// An estimate of the size, to allocate once: the large parts of a request are text already.
    fn size_hint(self) -> usize {
        let length = |text: Option<&RawValue>| text.map_or(0, |text| text.get().len());
        1024 + match self {
            Self::Raw(request) => request.get().len(),
            Self::Admission(request) => length(request.object) + length(request.old_object),
        }
    }
}

impl Policy {
    /// Evaluates an admission request.
    pub fn evaluate(
        &self,
        environment: &Environment,
        request: &AdmissionRequest<'_>,
        origin: Origin,
        deadline: Deadline,
    ) -> Evaluation {
        let always_accepted = environment.always_accept_namespace.as_deref();
        if always_accepted.is_some() && always_accepted == request.namespace.as_deref() {
            return Evaluation::of(AdmissionResponse::allow(&request.uid));
        }
        let question = Question {
            uid: &request.uid,
            payload: Payload::Admission(request),
            original: request.object,
            deadline,
        };
        self.judge(environment, &question, origin)
    }

    /// Evaluates a raw request.
    pub fn evaluate_raw(
        &self,
        environment: &Environment,
        review: &RawReview<'_>,
        deadline: Deadline,
    ) -> Evaluation {
        let question = Question {
            uid: &review.uid(),
            payload: Payload::Raw(review.request),
            original: Some(review.request),
            deadline,
        };
        self.judge(environment, &question, Origin::Validate)
    }

    fn judge(
        &self,
        environment: &Environment,
        question: &Question<'_>,
        origin: Origin,
    ) -> Evaluation {
        let verdict = match &self.body {
            Body::Single { guest, .. } => ask(environment, guest, question),
            Body::Group {
                expression,
                message,
                members,
            } => group::judge(environment, expression, message, members, question),
        };
        let evaluation = Evaluation::of(verdict);
        match origin {
            Origin::Audit => evaluation,
            Origin::Validate => Evaluation {
                response: self.constrain(evaluation.response),
                ..evaluation
            },
        }
    }

    /// Applies the mode, then the mutation, then the message (docs/spec/admission.md#9).
    fn constrain(&self, response: AdmissionResponse) -> AdmissionResponse {
        let (may_mutate, message) = match &self.body {
            Body::Single {
                allowed_to_mutate,
                message,
                ..
            } => (*allowed_to_mutate, message.as_deref()),
            Body::Group { .. } => (false, None),
        };
        if self.mode == Mode::Monitor {
            return self.only_watch(response, may_mutate);
        }
        let response = if response.patch.is_some() && !may_mutate {
            let text = format!(
                "Request rejected by policy {}. The policy attempted to mutate the request, but it is currently \
                 configured to not allow mutations.",
                self.id
            );
            AdmissionResponse {
                audit_annotations: response.audit_annotations,
                warnings: response.warnings,
                ..AdmissionResponse::reject(&response.uid, text, None)
            }
        } else {
            response
        };
        match message {
            Some(message) if !response.allowed => with_message(response, message),
            _ => response,
        }
    }

    fn only_watch(&self, response: AdmissionResponse, may_mutate: bool) -> AdmissionResponse {
        tracing::info!(
            policy_id = %self.id,
            allowed_to_mutate = may_mutate,
            response = %logged(&response),
            "policy evaluation (monitor mode)"
        );
        AdmissionResponse {
            allowed: true,
            patch_type: None,
            patch: None,
            status: None,
            ..response
        }
    }
}

/// A response as it is logged: the JSON that a caller would get.
fn logged(response: &AdmissionResponse) -> String {
    serde_json::to_string(response).unwrap_or_default()
}

impl Evaluation {
    fn of(response: AdmissionResponse) -> Self {
        Self {
            accepted: response.allowed,
            mutated: response.patch.is_some(),
            error_code: response.status.as_ref().and_then(|status| status.code),
            response,
        }
    }
}

/// Replaces the message of the guest by that of the policy; the former becomes a cause.
fn with_message(mut response: AdmissionResponse, message: &str) -> AdmissionResponse {
    let status = response.status.get_or_insert_default();
    if let Some(original) = status.message.replace(message.to_owned()) {
        status.details.get_or_insert_default().causes.push(Cause {
            message: Some(original),
            ..Cause::default()
        });
    }
    response
}

/// Runs one guest and turns its result or its failure into a response.
pub(crate) fn ask(
    environment: &Environment,
    guest: &Guest,
    question: &Question<'_>,
) -> AdmissionResponse {
    let payload = question.payload.with(&guest.settings);
    match environment.run(
        guest,
        Operation::Validate,
        payload,
        question.uid,
        question.deadline,
    ) {
        Ok(bytes) => match ValidationResult::parse(&bytes) {
            Ok(answer) => respond(guest, question, answer),
            Err(problem) => internal_error(question.uid, &problem),
        },
        Err(error) => explain(guest, question.uid, &error),
    }
}

fn respond(
    guest: &Guest,
    question: &Question<'_>,
    answer: ValidationResult<'_>,
) -> AdmissionResponse {
    let mut response = AdmissionResponse {
        uid: question.uid.to_owned(),
        allowed: answer.accepted,
        status: (answer.message.is_some() || answer.code.is_some()).then_some(Status {
            message: answer.message,
            code: answer.code,
            details: None,
        }),
        audit_annotations: answer.audit_annotations,
        warnings: answer.warnings,
        ..AdmissionResponse::default()
    };
    // A mutated object together with a rejection is a rejection.
    let Some(mutated) = answer.mutated_object.filter(|_| answer.accepted) else {
        return response;
    };
    let Some(original) = question.original else {
        let text = format!(
            "Request rejected by policy {}. The policy attempted to mutate the request, but its object is null: \
             mutation is impossible.",
            guest.id
        );
        return AdmissionResponse::reject(question.uid, text, None);
    };
    match patch::between(original.get(), mutated.get()) {
        Ok(patch) => {
            response.patch_type = patch.is_some().then_some("JSONPatch");
            response.patch = patch;
            response
        }
        Err(error) => internal_error(question.uid, &error.to_string()),
    }
}

/// The message for the caller if a guest returned no result.
fn explain(guest: &Guest, uid: &str, error: &RunError) -> AdmissionResponse {
    match error {
        RunError::Deadline { .. } => AdmissionResponse::error(uid, OUT_OF_TIME),
        RunError::Exit { stderr, .. } | RunError::Trap { stderr, .. }
            if guest.module.execution_mode() == ExecutionMode::Wasi && !stderr.is_empty() =>
        {
            AdmissionResponse::error(uid, stderr)
        }
        error => internal_error(uid, &error.to_string()),
    }
}

pub(crate) fn internal_error(uid: &str, detail: &str) -> AdmissionResponse {
    AdmissionResponse::error(uid, format!("internal server error: {detail}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AdmissionReview;

    #[test]
    fn a_logged_response_is_json() {
        let response = AdmissionResponse::reject("u", "no".to_owned(), None);
        let logged: serde_json::Value = serde_json::from_str(&logged(&response)).unwrap();
        assert_eq!(logged["allowed"], false);
        assert_eq!(logged["status"]["message"], "no");
    }

    #[test]
    fn payloads_have_the_fields_that_guests_read() {
        let body = br#"{"request":{"uid":"u","kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"",
            "version":"v1","resource":"pods"},"operation":"DELETE","userInfo":{},"object":null,
            "oldObject":{ "b":1, "a": 1.10 }}}"#;
        let review = AdmissionReview::parse(body).unwrap();
        let settings = Settings::parse(r#"{"n":12345678901234567890123}"#).unwrap();
        let payload = Payload::Admission(&review.request).with(&settings);
        assert_eq!(
            String::from_utf8(payload).unwrap(),
            r#"{"request":{"uid":"u","kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},"operation":"DELETE","userInfo":{},"oldObject":{ "b":1, "a": 1.10 }},"settings":{"n":12345678901234567890123}}"#
        );
        let raw = RawReview::parse(br#"{"request":[1, null]}"#).unwrap();
        let payload = Payload::Raw(raw.request).with(&Settings::default());
        assert_eq!(
            String::from_utf8(payload).unwrap(),
            r#"{"request":[1, null],"settings":{}}"#
        );
    }
}
