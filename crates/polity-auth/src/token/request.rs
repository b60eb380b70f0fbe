//! `POST …/serviceaccounts/{name}/token`: a TokenRequest in, a token out.

use jiff::{SignedDuration, Timestamp};
use polity_core::field::{FieldError, FieldPath};
use polity_core::gvk::GroupVersion;
use serde_json::{Map, Value, json};

use super::{BoundKind, Claims, KubernetesClaims, ObjectClaim, Objects, TokenIssuer};
use crate::{rfc3339, service_account};
use polity_kinds::status::{ApiError, ResourceName};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const DEFAULT_SECONDS: i64 = 60 * 60;
const MIN_SECONDS: i64 = 10 * 60;
const MAX_SECONDS: i64 = 1 << 32;
/// The lifetime that the kubelet requests for Pods. It marks tokens whose holder may not renew them.
const KUBELET_SECONDS: i64 = 60 * 60 + 7;
/// The actual lifetime of such a token.
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;

/// A request for a token of one service account.
#[derive(Clone, Copy)]
pub struct TokenRequest<'a> {
    /// Namespace and name of the service account, from the URL.
    pub namespace: &'a str,
    pub name: &'a str,
    /// The TokenRequest object.
    pub body: &'a Value,
    /// The token's id: a fresh UUID.
    pub token_id: &'a str,
    pub now: Timestamp,
}

/// Creates the token and returns the completed TokenRequest.
pub fn issue_token(
    issuer: &TokenIssuer,
    objects: &dyn Objects,
    request: &TokenRequest<'_>,
) -> Result<Value, ApiError> {
    let TokenRequest {
        namespace,
        name,
        body,
        now,
        ..
    } = *request;
    must_match(body, "name", name, name)?;
    must_match(body, "namespace", namespace, name)?;
    let account = objects
        .get(BoundKind::ServiceAccount, namespace, name)
        .ok_or_else(|| not_found(BoundKind::ServiceAccount, name))?;
    let uid = uid_of(&account);
    let wanted_uid = text(&body["metadata"], "uid");
    if !wanted_uid.is_empty() && wanted_uid != uid {
        let why = format!(
            "the UID in the token request ({wanted_uid}) does not match the UID of the service account ({uid})"
        );
        return Err(ApiError::conflict(
            ResourceName {
                group: GROUP,
                plural: KIND,
            },
            name,
            &why,
        ));
    }

    let spec = Spec::read(&body["spec"], issuer.audiences())?;
    let mut claimed = KubernetesClaims {
        namespace: namespace.to_owned(),
        serviceaccount: ObjectClaim {
            name: name.to_owned(),
            uid: uid.to_owned(),
        },
        ..KubernetesClaims::default()
    };
    if let Some(reference) = &spec.bound_object {
        bind(&mut claimed, reference, objects, request)?;
    }

    let mut lives = spec.expiration_seconds;
    let is_for_us = spec
        .audiences
        .iter()
        .all(|audience| issuer.audiences().contains(audience));
    if claimed.pod.is_some() && lives == KUBELET_SECONDS && is_for_us {
        claimed.warnafter = Some(now.as_second() + lives);
        lives = EXTENDED_SECONDS;
    }
    let claims = Claims {
        iss: issuer.issuer().to_owned(),
        sub: service_account::username(namespace, name),
        aud: spec.audiences.clone(),
        exp: now.as_second() + lives,
        iat: now.as_second(),
        nbf: now.as_second(),
        jti: request.token_id.to_owned(),
        kubernetes: claimed,
    };
    let token = issuer
        .sign(&claims)
        .map_err(|error| ApiError::internal(format!("failed to generate token: {error}")))?;
    let expires = now
        .checked_add(SignedDuration::from_secs(spec.expiration_seconds))
        .map_err(|error| ApiError::internal(format!("failed to generate token: {error}")))?;

    let mut metadata = body["metadata"].as_object().cloned().unwrap_or_default();
    metadata.insert("name".into(), json!(name));
    metadata.insert("namespace".into(), json!(namespace));
    metadata.insert("uid".into(), json!(uid));
    metadata.insert("creationTimestamp".into(), json!(rfc3339(now)));
    Ok(json!({
        "kind": KIND,
        "apiVersion": format!("{GROUP}/v1"),
        "metadata": metadata,
        "spec": {
            "audiences": spec.audiences,
            "expirationSeconds": spec.expiration_seconds,
            "boundObjectRef": spec.bound_object,
        },
        "status": {"token": token.expose(), "expirationTimestamp": rfc3339(expires)},
    }))
}

struct Spec {
    audiences: Vec<String>,
    expiration_seconds: i64,
    bound_object: Option<Map<String, Value>>,
}

impl Spec {
    fn read(spec: &Value, default_audiences: &[String]) -> Result<Self, ApiError> {
        let mut audiences = match &spec["audiences"] {
            Value::Null => Vec::new(),
            list => serde_json::from_value(list.clone())
                .map_err(|_| ApiError::bad_request("spec.audiences must be a list of strings"))?,
        };
        if audiences.is_empty() {
            audiences = default_audiences.to_vec();
        }
        let expiration_seconds = match &spec["expirationSeconds"] {
            Value::Null => DEFAULT_SECONDS,
            number => number.as_i64().ok_or_else(|| {
                ApiError::bad_request("spec.expirationSeconds must be an integer")
            })?,
        };
        let bound_object = match &spec["boundObjectRef"] {
            Value::Null => None,
            Value::Object(reference) => Some(reference.clone()),
            _ => {
                return Err(ApiError::bad_request(
                    "spec.boundObjectRef must be an object",
                ));
            }
        };
        let detail = match expiration_seconds {
            ..MIN_SECONDS => Some("may not specify a duration less than 10 minutes"),
            MIN_SECONDS..=MAX_SECONDS => None,
            _ => Some("may not specify a duration larger than 2^32 seconds"),
        };
        if let Some(detail) = detail {
            let field = FieldPath::of("spec").child("expirationSeconds");
            let error = FieldError::invalid(&field, &json!(expiration_seconds), detail);
            return Err(ApiError::invalid(KIND, GROUP, "", &[error]));
        }
        Ok(Self {
            audiences,
            expiration_seconds,
            bound_object,
        })
    }
}

/// Adds the object a token shall be bound to, if it exists and is the one that was meant.
fn bind(
    claimed: &mut KubernetesClaims,
    reference: &Map<String, Value>,
    objects: &dyn Objects,
    request: &TokenRequest<'_>,
) -> Result<(), ApiError> {
    let word = |field: &str| {
        reference
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (kind, name) = (word("kind"), word("name"));
    let GroupVersion { group, version } = word("apiVersion")
        .parse()
        .unwrap_or_else(|_| GroupVersion::new("", ""));
    let bound = match (group.as_str(), kind) {
        ("", "Pod") => BoundKind::Pod,
        ("", "Secret") => BoundKind::Secret,
        ("", "Node") => BoundKind::Node,
        _ => {
            return Err(ApiError::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    };
    let namespace = if bound == BoundKind::Node {
        ""
    } else {
        request.namespace
    };
    let object = objects
        .get(bound, namespace, name)
        .ok_or_else(|| not_found(bound, name))?;
    let claim = ObjectClaim {
        name: name.to_owned(),
        uid: uid_of(&object).to_owned(),
    };
    if bound == BoundKind::Pod {
        if text(&object["spec"], "serviceAccountName") != request.name {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                request.name
            )));
        }
        let node = text(&object["spec"], "nodeName");
        if !node.is_empty() {
            let uid = objects
                .get(BoundKind::Node, "", node)
                .map(|node| uid_of(&node).to_owned());
            claimed.node = Some(ObjectClaim {
                name: node.to_owned(),
                uid: uid.unwrap_or_default(),
            });
        }
    }
    let wanted_uid = word("uid");
    if !wanted_uid.is_empty() && wanted_uid != claim.uid {
        let why = format!(
            "the UID in the bound object reference ({wanted_uid}) does not match the UID in record. The object \
             might have been deleted and then recreated"
        );
        return Err(ApiError::conflict(
            ResourceName {
                group: "",
                plural: kind,
            },
            name,
            &why,
        ));
    }
    match bound {
        BoundKind::Pod => claimed.pod = Some(claim),
        BoundKind::Secret => claimed.secret = Some(claim),
        BoundKind::Node | BoundKind::ServiceAccount => claimed.node = Some(claim),
    }
    Ok(())
}

/// A name or namespace in the body must be that of the URL.
fn must_match(body: &Value, field: &str, expected: &str, name: &str) -> Result<(), ApiError> {
    let given = text(&body["metadata"], field);
    if given.is_empty() || given == expected {
        return Ok(());
    }
    let path = FieldPath::of("metadata").child(field);
    let detail = format!("must match the service account {field} if specified");
    Err(ApiError::invalid(
        KIND,
        GROUP,
        name,
        &[FieldError::invalid(&path, &json!(given), &detail)],
    ))
}

fn not_found(kind: BoundKind, name: &str) -> ApiError {
    ApiError::not_found(
        ResourceName {
            group: "",
            plural: kind.plural(),
        },
        name,
    )
}

fn uid_of(object: &Value) -> &str {
    text(&object["metadata"], "uid")
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}
