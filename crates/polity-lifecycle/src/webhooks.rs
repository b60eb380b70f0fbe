//! The webhooks for our own kinds: their registration, and their answers.
//!
//! [`configurations`] are values and [`answer`] is a pure function of one review; [`router`] looks up what the answer
//! depends on.

mod deletion;
mod keep;
mod run;
mod serve;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use polity_api::policies::v1::{PolicyRevision, PolicyServer};
use polity_api::policies::{GROUP, names};
use polity_core::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::lifecycle::{PolicyKind, WebhookKind};
use crate::names::UniqueNames;
use crate::validation::{self, References, StatusWriter};

pub use deletion::ServedPolicies;
pub use keep::{Registration, RestoreError};
pub use run::{BoundWebhooks, ServeError, Webhooks, are_registered};
pub use serve::{Reviewer, router};

/// The name under which the configurations are written.
const MANAGER: &str = "polity/webhooks";
/// The Service by which API servers reach the controller, unless a flag names another one.
pub const SERVICE: &str = "kubewarden-controller-webhook-service";

/// What a webhook is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Fill in defaults.
    Mutate,
    /// Report what is wrong.
    Validate,
}

impl From<WebhookKind> for Verb {
    fn from(kind: WebhookKind) -> Self {
        match kind {
            WebhookKind::Mutating => Self::Mutate,
            WebhookKind::Validating => Self::Validate,
        }
    }
}

impl Verb {
    fn as_str(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }

    fn letter(self) -> char {
        match self {
            Self::Mutate => 'm',
            Self::Validate => 'v',
        }
    }
}

/// The kinds that have webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnKind {
    /// One of the four kinds of policies.
    Policy(PolicyKind),
    /// PolicyServer.
    Server,
    /// PolicyRevision.
    Revision,
}

impl OwnKind {
    /// All kinds, in the order that the webhook configurations of existing installations have.
    fn all() -> impl Iterator<Item = Self> {
        let policies = [
            PolicyKind::AdmissionPolicy,
            PolicyKind::ClusterAdmissionPolicy,
            PolicyKind::AdmissionPolicyGroup,
            PolicyKind::ClusterAdmissionPolicyGroup,
        ];
        let policies = policies.into_iter().map(Self::Policy);
        policies.chain([Self::Server, Self::Revision])
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Policy(kind) => kind.as_str(),
            Self::Server => "PolicyServer",
            Self::Revision => "PolicyRevision",
        }
    }

    fn resources(self) -> Vec<&'static str> {
        match self {
            Self::Policy(kind) => vec![kind.plural()],
            Self::Server => vec!["policyservers"],
            Self::Revision => vec!["policyrevisions", "policyrevisions/status"],
        }
    }

    /// The operations that are checked. Who creates revisions is up to RBAC.
    fn operations(self) -> &'static [&'static str] {
        match self {
            Self::Policy(_) | Self::Server => &["CREATE", "UPDATE"],
            Self::Revision => &["UPDATE"],
        }
    }
}

/// The path at which a kind is reviewed.
fn path(verb: Verb, kind: OwnKind) -> String {
    format!(
        "/{}-policies-kubewarden-io-v1-{}",
        verb.as_str(),
        kind.as_str().to_lowercase()
    )
}

/// What a path asks for.
fn route(asked: &str) -> Option<(Verb, OwnKind)> {
    [Verb::Mutate, Verb::Validate]
        .into_iter()
        .flat_map(|verb| OwnKind::all().map(move |kind| (verb, kind)))
        .find(|(verb, kind)| path(*verb, *kind) == asked)
}

/// The name of the configuration of all our webhooks that are asked to do this.
pub fn configuration_name(verb: Verb) -> String {
    match verb {
        Verb::Mutate => names::CONTROLLER_MUTATING_WEBHOOKS.to_owned(),
        Verb::Validate => names::CONTROLLER_VALIDATING_WEBHOOKS.to_owned(),
    }
}

/// The two configurations, with the Service that is called and the certificates that it is trusted by. Every default is
/// spelled out: what the API server would fill in must not look like an edit.
pub fn configurations(
    namespace: &str,
    service: &str,
    ca_bundle: &str,
) -> (MutatingWebhookConfiguration, ValidatingWebhookConfiguration) {
    let hook = |verb: Verb, kind: OwnKind| {
        let mut hook = json!({
            "name": format!("{}{}.kb.io", verb.letter(), kind.as_str().to_lowercase()),
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "caBundle": ByteString(ca_bundle.as_bytes().to_vec()),
                "service": { "namespace": namespace, "name": service, "port": 443, "path": path(verb, kind) },
            },
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "sideEffects": "None",
            "timeoutSeconds": 10,
            "rules": [{
                "apiGroups": [GROUP], "apiVersions": ["v1"], "operations": kind.operations(),
                "resources": kind.resources(), "scope": "*",
            }],
        });
        if verb == Verb::Mutate {
            hook["reinvocationPolicy"] = json!("Never");
        }
        hook
    };
    let configuration = |verb: Verb| {
        let kinds =
            OwnKind::all().filter(|kind| verb == Verb::Validate || *kind != OwnKind::Revision);
        let mut hooks: Vec<_> = kinds.map(|kind| hook(verb, kind)).collect();
        if verb == Verb::Validate {
            hooks.push(deletion_hook(hook(verb, OwnKind::Server)));
        }
        let labels = BTreeMap::from([(names::PART_OF, names::PART_OF_VALUE)]);
        json!({
            "metadata": { "name": configuration_name(verb), "labels": labels },
            "webhooks": hooks,
        })
    };
    let shaped = "what is written here has the shape of its type";
    (
        serde_json::from_value(configuration(Verb::Mutate)).expect(shaped),
        serde_json::from_value(configuration(Verb::Validate)).expect(shaped),
    )
}

/// The webhook that warns about the deletion of a PolicyServer. It never prevents one, so a policy server can be deleted
/// while no controller answers.
fn deletion_hook(mut hook: Value) -> Value {
    hook["name"] = json!("vpolicyserverdeletion.kb.io");
    hook["rules"][0]["operations"] = json!(["DELETE"]);
    hook["failurePolicy"] = json!("Ignore");
    hook["timeoutSeconds"] = json!(5);
    hook
}

/// What an answer depends on besides the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// How ids are spelled.
    pub unique_names: UniqueNames,
    /// The objects that a PolicyServer names.
    pub references: References,
    /// The writer of the status of a revision.
    pub writer: StatusWriter,
    /// The policies of a PolicyServer that is deleted; `None` when they could not be counted.
    pub served: Option<ServedPolicies>,
}

/// The answer to an AdmissionReview, as one.
pub fn answer(verb: Verb, kind: OwnKind, review: &Value, facts: &Facts) -> Value {
    let request = &review["request"];
    let mut response = json!({ "uid": request["uid"], "allowed": true });
    match verb {
        Verb::Mutate => {
            let object = &request["object"];
            let finalizers = &validation::defaulted(object.clone())["metadata"]["finalizers"];
            if *finalizers != object["metadata"]["finalizers"] {
                let patch =
                    json!([{ "op": "add", "path": "/metadata/finalizers", "value": finalizers }]);
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(ByteString(patch.to_string().into_bytes()));
            }
        }
        Verb::Validate if kind == OwnKind::Server && request["operation"] == "DELETE" => {
            let name = request["name"].as_str().unwrap_or_default();
            let warning = match &facts.served {
                Some(served) => served.warning(name),
                None => Some(deletion::uncounted(name)),
            };
            if let Some(warning) = warning {
                response["warnings"] = json!([warning]);
            }
        }
        Verb::Validate => {
            let wrong = wrong(kind, request, facts);
            if !wrong.is_empty() {
                response["allowed"] = json!(false);
                response["status"] = refusal(kind, request, &wrong);
            }
        }
    }
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}

fn wrong(kind: OwnKind, request: &Value, facts: &Facts) -> Vec<FieldError> {
    let (new, old) = (&request["object"], &request["oldObject"]);
    // An object that is being deleted must lose its finalizers, whatever is wrong with it.
    if !new["metadata"]["deletionTimestamp"].is_null() {
        return Vec::new();
    }
    let unreadable = |error: serde_json::Error| {
        vec![FieldError::internal(&FieldPath::root(), &error.to_string())]
    };
    match kind {
        OwnKind::Policy(kind) => {
            let old = Some(old).filter(|old| !old.is_null());
            validation::policy(kind, new, old, facts.unique_names)
        }
        OwnKind::Server => match serde_json::from_value::<PolicyServer>(new.clone()) {
            Ok(server) => validation::server(&server, &facts.references),
            Err(error) => unreadable(error),
        },
        OwnKind::Revision => {
            let read = |value: &Value| serde_json::from_value::<PolicyRevision>(value.clone());
            match (read(new), read(old)) {
                (Ok(new), Ok(old)) if request["subResource"] == "status" => {
                    validation::revision_status(&new, &old, &facts.writer)
                }
                (Ok(new), Ok(old)) => validation::revision(&new, &old),
                (Err(error), _) | (_, Err(error)) => unreadable(error),
            }
        }
    }
}

/// A Status with a cause for each thing that is wrong, as the API server itself would answer.
fn refusal(kind: OwnKind, request: &Value, wrong: &[FieldError]) -> Value {
    let name = request["name"].as_str().unwrap_or_default();
    let said: Vec<_> = wrong.iter().map(ToString::to_string).collect();
    let said = match said.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let causes: Vec<_> = wrong
        .iter()
        .map(|one| json!({ "reason": one.kind.reason(), "message": one.message, "field": one.field }))
        .collect();
    json!({
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": format!("{}.{GROUP} {name:?} is invalid: {said}", kind.as_str()),
        "details": { "name": name, "group": GROUP, "kind": kind.as_str(), "causes": causes },
    })
}

#[cfg(test)]
mod tests;
