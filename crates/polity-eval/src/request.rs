//! Parses admission reviews and raw requests once; objects are kept as text.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Why a body is not a valid request.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Not JSON.
    #[error("the body is not JSON: {0}")]
    Syntax(#[source] serde_json::Error),
    /// The body is JSON of another shape.
    #[error("the body is not a review: {0}")]
    Shape(#[source] serde_json::Error),
}

impl ReviewError {
    /// The HTTP status of the response: 400 or 422.
    pub fn http_status(&self) -> u16 {
        match self {
            Self::Syntax(_) => 400,
            Self::Shape(_) => 422,
        }
    }

    fn of(error: serde_json::Error) -> Self {
        if error.is_data() {
            Self::Shape(error)
        } else {
            Self::Syntax(error)
        }
    }
}

/// `{"request": {…}}`; `apiVersion` and `kind` are ignored.
#[derive(Debug, Deserialize)]
pub struct AdmissionReview<'a> {
    #[serde(borrow)]
    pub request: AdmissionRequest<'a>,
}

/// A Kubernetes admission request. It serialises to the payload of guests: fields that were null are left out,
/// because guests decode missing keys to defaults and fail on null.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest<'a> {
    /// The UID of the request, which the response repeats.
    #[serde(borrow)]
    pub uid: Cow<'a, str>,
    /// The object's kind.
    #[serde(borrow)]
    pub kind: GroupVersionKind<'a>,
    /// The resource that the request was sent to.
    #[serde(borrow)]
    pub resource: GroupVersionResource<'a>,
    /// `status`, `scale`, …
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub sub_resource: Option<Cow<'a, str>>,
    /// The kind before conversion.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub request_kind: Option<GroupVersionKind<'a>>,
    /// The resource before conversion.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub request_resource: Option<GroupVersionResource<'a>>,
    /// The subresource before conversion.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub request_sub_resource: Option<Cow<'a, str>>,
    /// The name of the object; absent if the API server generates it.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub name: Option<Cow<'a, str>>,
    /// The object's namespace.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Cow<'a, str>>,
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT`.
    #[serde(borrow)]
    pub operation: Cow<'a, str>,
    /// The user who sent the request.
    #[serde(borrow)]
    pub user_info: UserInfo<'a>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub object: Option<&'a RawValue>,
    /// The object before the change.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub old_object: Option<&'a RawValue>,
    /// Whether the request is a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// The options of the request.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub options: Option<&'a RawValue>,
}

/// A kind.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct GroupVersionKind<'a> {
    /// Empty for the core group.
    #[serde(borrow)]
    pub group: Cow<'a, str>,
    #[serde(borrow)]
    pub version: Cow<'a, str>,
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
}

/// A resource.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct GroupVersionResource<'a> {
    /// Empty for the core group.
    #[serde(borrow)]
    pub group: Cow<'a, str>,
    #[serde(borrow)]
    pub version: Cow<'a, str>,
    /// The plural.
    #[serde(borrow)]
    pub resource: Cow<'a, str>,
}

/// The user who sent the request.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct UserInfo<'a> {
    /// The name.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub username: Option<Cow<'a, str>>,
    /// The identifier.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub uid: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub groups: Option<&'a RawValue>,
    /// The extra attributes from the authenticator.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub extra: Option<&'a RawValue>,
}

impl<'a> AdmissionReview<'a> {
    /// Parses a request body.
    pub fn parse(body: &'a [u8]) -> Result<Self, ReviewError> {
        serde_json::from_slice(body).map_err(ReviewError::of)
    }
}

/// `{"request": <any JSON>}`.
#[derive(Debug, Deserialize)]
pub struct RawReview<'a> {
    #[serde(borrow)]
    pub request: &'a RawValue,
}

impl<'a> RawReview<'a> {
    /// Parses a request body.
    pub fn parse(body: &'a [u8]) -> Result<Self, ReviewError> {
        serde_json::from_slice(body).map_err(ReviewError::of)
    }

    /// `request.uid` if it is a string, else an empty string.
    pub fn uid(&self) -> Cow<'a, str> {
        #[derive(Deserialize)]
        struct WithUid<'a> {
            #[serde(borrow)]
            uid: Cow<'a, str>,
        }
        let text: &'a str = self.request.get();
        serde_json::from_str::<WithUid<'a>>(text).map_or(Cow::Borrowed(""), |found| found.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = r#"{"request":{"uid":"u","kind":{"group":"","version":"v1","kind":"Pod"},
        "resource":{"group":"","version":"v1","resource":"pods"},"operation":"CREATE","userInfo":{}}}"#;

    fn payload(body: &str) -> serde_json::Value {
        let review = AdmissionReview::parse(body.as_bytes()).unwrap();
        serde_json::to_value(&review.request).unwrap()
    }

    #[test]
    fn absent_fields_stay_absent() {
        let expected = serde_json::json!({"uid":"u","kind":{"group":"","version":"v1","kind":"Pod"},
            "resource":{"group":"","version":"v1","resource":"pods"},"operation":"CREATE","userInfo":{}});
        assert_eq!(payload(MINIMAL), expected);
    }

    #[test]
    fn null_becomes_absent() {
        let body = MINIMAL.replace(
            r#""userInfo":{}"#,
            r#""userInfo":{"username":null,"groups":null,"extra":null,"uid":null},"object":null,"oldObject":null,
            "dryRun":null,"name":null,"namespace":null,"subResource":null,"options":null,"requestKind":null,
            "requestResource":null,"requestSubResource":null"#,
        );
        assert_eq!(payload(&body), payload(MINIMAL));
    }

    #[test]
    fn objects_go_through_as_text() {
        let object = r#"{"z":1,"a":12345678901234567890123,"f":1.10,"n":null}"#;
        let body = MINIMAL.replace(
            "\"operation\"",
            &format!("\"object\": {object},\"operation\""),
        );
        let review = AdmissionReview::parse(body.as_bytes()).unwrap();
        let text = serde_json::to_string(&review.request).unwrap();
        assert!(text.contains(&format!("\"object\":{object}")), "{text}");
    }

    #[test]
    fn errors_are_distinguished() {
        for (body, status) in [
            ("", 400),
            ("{", 400),
            ("nonsense", 400),
            ("{}", 422),
            ("[]", 422),
            (r#"{"request":{}}"#, 422),
            (r#"{"request":3}"#, 422),
            (
                &MINIMAL.replace("\"userInfo\":{}", "\"dryRun\":\"yes\""),
                422,
            ),
            (&MINIMAL.replace(",\"userInfo\":{}", ""), 422),
            (&MINIMAL.replace("\"uid\":\"u\",", ""), 422),
            (&MINIMAL.replace("\"CREATE\"", "CREATE"), 400),
        ] {
            let error = AdmissionReview::parse(body.as_bytes()).unwrap_err();
            assert_eq!(error.http_status(), status, "{body}: {error}");
        }
        assert_eq!(
            AdmissionReview::parse(b"{\"request\":\"\xff\"}")
                .unwrap_err()
                .http_status(),
            400
        );
    }

    #[test]
    fn raw_requests_have_a_uid_or_not() {
        for (request, uid) in [
            (r#"{"uid":"x\u0021"}"#, "x!"),
            (r#"{"uid":3}"#, ""),
            ("{}", ""),
            ("[1]", ""),
            ("null", ""),
            ("\"text\"", ""),
        ] {
            let body = format!("{{\"request\": {request}}}");
            let review = RawReview::parse(body.as_bytes()).unwrap();
            assert_eq!(review.uid(), uid, "{request}");
            assert_eq!(review.request.get(), request);
        }
        assert_eq!(RawReview::parse(b"{}").unwrap_err().http_status(), 422);
    }
}
