//! Admission responses, with exactly the fields that callers expect.

use std::collections::BTreeMap;

use serde::Serialize;

/// The verdict on a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionResponse {
    /// The UID of the request.
    pub uid: String,
    /// Whether the request is allowed.
    pub allowed: bool,
    /// `JSONPatch` if there is a patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<&'static str>,
    /// A JSON Patch, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// Message, code and causes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Annotations for the audit log of the API server; `null` if there are none.
    pub audit_annotations: Option<BTreeMap<String, String>>,
    /// Warnings for the user; `null` if there are none.
    pub warnings: Option<Vec<String>>,
}

/// The reason of a rejection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The HTTP status code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// The causes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

/// The causes of a rejection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Details {
    /// The list of causes.
    pub causes: Vec<Cause>,
}

/// One cause; unset fields are `null` here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// A machine-readable reason.
    pub reason: Option<String>,
    pub message: Option<String>,
    /// The path of the field.
    pub field: Option<String>,
}

impl AdmissionResponse {
    /// A response that allows the request.
    pub fn allow(uid: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            allowed: true,
            ..Self::default()
        }
    }

    /// A response that rejects the request with a message and an optional code.
    pub fn reject(uid: &str, message: impl Into<String>, code: Option<u16>) -> Self {
        Self {
            uid: uid.to_owned(),
            status: Some(Status {
                message: Some(message.into()),
                code,
                details: None,
            }),
            ..Self::default()
        }
    }

    /// A response that rejects the request with code 500, because it could not be evaluated.
    pub fn error(uid: &str, message: impl Into<String>) -> Self {
        Self::reject(uid, message, Some(500))
    }

    /// The message of a rejection.
    pub fn message(&self) -> Option<&str> {
        self.status.as_ref()?.message.as_deref()
    }

    /// The body of the response to an admission review.
    pub fn to_review(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Review<'a> {
            api_version: &'static str,
            kind: &'static str,
            response: &'a AdmissionResponse,
        }
        to_json(&Review {
            api_version: "admission.k8s.io/v1",
            kind: "AdmissionReview",
            response: self,
        })
    }

    /// The body of the response to a raw request.
    pub fn to_raw_review(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Review<'a> {
            response: &'a AdmissionResponse,
        }
        to_json(&Review { response: self })
    }
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and numbers serialise")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn bodies_have_the_fields_of_an_admission_review() {
        assert_eq!(
            text(AdmissionResponse::allow("u").to_review()),
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true,"auditAnnotations":null,"warnings":null}}"#
        );
        let rejection = AdmissionResponse {
            status: Some(Status {
                message: Some("no".to_owned()),
                code: Some(400),
                details: Some(Details {
                    causes: vec![Cause {
                        message: Some("why".to_owned()),
                        field: Some("spec.policies.signed".to_owned()),
                        reason: None,
                    }],
                }),
            }),
            ..AdmissionResponse::default()
        };
        assert_eq!(
            text(rejection.to_raw_review()),
            r#"{"response":{"uid":"","allowed":false,"status":{"message":"no","code":400,"details":{"causes":[{"reason":null,"message":"why","field":"spec.policies.signed"}]}},"auditAnnotations":null,"warnings":null}}"#
        );
    }
}
