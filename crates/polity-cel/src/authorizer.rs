//! `authorizer` in expressions: checks the permissions of a user.

use std::fmt;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::Opaque;

use crate::expression::EvalError;

pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(crate) const PATH: &str = "kubernetes.authorization.PathCheck";
pub(crate) const GROUP: &str = "kubernetes.authorization.GroupCheck";
pub(crate) const RESOURCE: &str = "kubernetes.authorization.ResourceCheck";
pub(crate) const DECISION: &str = "kubernetes.authorization.Decision";

/// The host's implementation of `authorizer`. It is called during an evaluation, so it must respond from memory.
pub trait Authorizer: Send + Sync {
    /// Whether the user may do it.
    fn authorize(&self, query: &AccessQuery) -> AccessDecision;
}

/// One question to an [`Authorizer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessQuery {
    /// The ServiceAccount to check. `None` means the user of the request.
    pub service_account: Option<ServiceAccountRef>,
    pub verb: String,
    pub target: AccessTarget,
}

/// A service account named in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAccountRef {
    pub namespace: String,
    pub name: String,
}

/// The object of an authorization check. Empty members mean "none" or "all", as in RBAC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessTarget {
    Path(String),
    Resource {
        group: String,
        resource: String,
        subresource: String,
        namespace: String,
        name: String,
        field_selector: String,
        label_selector: String,
    },
}

/// The result of an [`AccessQuery`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessDecision {
    pub allowed: bool,
    pub reason: String,
    /// Why the query failed.
    pub error: Option<String>,
}

/// A question being put together by chained calls.
struct Check {
    authorizer: Arc<dyn Authorizer>,
    stage: &'static str,
    service_account: Option<ServiceAccountRef>,
    target: AccessTarget,
}

impl Check {
    fn with(&self, stage: &'static str, target: AccessTarget) -> Value {
        Value::Opaque(Arc::new(Self {
            authorizer: Arc::clone(&self.authorizer),
            stage,
            service_account: self.service_account.clone(),
            target,
        }))
    }
}

impl PartialEq for Check {
    fn eq(&self, other: &Self) -> bool {
        self.stage == other.stage
            && self.service_account == other.service_account
            && self.target == other.target
    }
}

impl Eq for Check {}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.stage)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl Opaque for Check {
    fn runtime_type_name(&self) -> &str {
        self.stage
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Decision(AccessDecision);

impl Opaque for Decision {
    fn runtime_type_name(&self) -> &str {
        DECISION
    }
}

/// The value of the variable `authorizer`.
pub(crate) fn root(authorizer: Arc<dyn Authorizer>) -> Value {
    let target = AccessTarget::Path(String::new());
    Value::Opaque(Arc::new(Check {
        authorizer,
        stage: AUTHORIZER,
        service_account: None,
        target,
    }))
}

/// The value of the variable `authorizer.requestResource`.
pub(crate) fn resource(authorizer: Arc<dyn Authorizer>, target: AccessTarget) -> Value {
    Value::Opaque(Arc::new(Check {
        authorizer,
        stage: RESOURCE,
        service_account: None,
        target,
    }))
}

/// Runs one of the authorizer's functions. The first argument is the receiver.
pub(crate) fn call(name: &str, arguments: &[Value]) -> Result<Value, EvalError> {
    let Some((Value::Opaque(receiver), rest)) = arguments.split_first() else {
        return Err(EvalError::NoSuchOverload);
    };
    if let Some(Decision(decision)) = receiver.downcast_ref::<Decision>() {
        return about(decision, name);
    }
    let check = receiver
        .downcast_ref::<Check>()
        .ok_or(EvalError::NoSuchOverload)?;
    let texts: Option<Vec<&str>> = rest
        .iter()
        .map(|value| {
            if let Value::String(text) = value {
                Some(text.as_str())
            } else {
                None
            }
        })
        .collect();
    let texts = texts.ok_or(EvalError::NoSuchOverload)?;
    match (check.stage, name, texts.as_slice()) {
        (AUTHORIZER, "path", [path]) => {
            Ok(check.with(PATH, AccessTarget::Path((*path).to_owned())))
        }
        (AUTHORIZER, "group", [group]) => Ok(check.with(GROUP, in_group(group))),
        (AUTHORIZER, "serviceAccount", [namespace, account]) => {
            Ok(Value::Opaque(Arc::new(Check {
                authorizer: Arc::clone(&check.authorizer),
                stage: AUTHORIZER,
                service_account: Some(ServiceAccountRef {
                    namespace: (*namespace).to_owned(),
                    name: (*account).to_owned(),
                }),
                target: check.target.clone(),
            })))
        }
        (PATH | RESOURCE, "check", [verb]) => {
            let query = AccessQuery {
                service_account: check.service_account.clone(),
                verb: (*verb).to_owned(),
                target: check.target.clone(),
            };
            Ok(Value::Opaque(Arc::new(Decision(
                check.authorizer.authorize(&query),
            ))))
        }
        (GROUP, "resource", [value]) | (RESOURCE, _, [value]) => {
            Ok(check.with(RESOURCE, refined(check.target.clone(), name, value)?))
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn about(decision: &AccessDecision, name: &str) -> Result<Value, EvalError> {
    Ok(match name {
        "allowed" => Value::Bool(decision.allowed),
        "reason" => decision.reason.clone().into(),
        "errored" => Value::Bool(decision.error.is_some()),
        "error" => decision.error.clone().unwrap_or_default().into(),
        _ => return Err(EvalError::NoSuchOverload),
    })
}

fn in_group(group: &str) -> AccessTarget {
    AccessTarget::Resource {
        group: group.to_owned(),
        resource: String::new(),
        subresource: String::new(),
        namespace: String::new(),
        name: String::new(),
        field_selector: String::new(),
        label_selector: String::new(),
    }
}

fn refined(mut target: AccessTarget, member: &str, value: &str) -> Result<AccessTarget, EvalError> {
    let AccessTarget::Resource {
        resource,
        subresource,
        namespace,
        name,
        field_selector,
        label_selector,
        ..
    } = &mut target
    else {
        return Err(EvalError::NoSuchOverload);
    };
    let place = match member {
        "resource" => resource,
        "subresource" => subresource,
        "namespace" => namespace,
        "name" => name,
        "fieldSelector" => field_selector,
        "labelSelector" => label_selector,
        _ => return Err(EvalError::NoSuchOverload),
    };
    value.clone_into(place);
    Ok(target)
}
