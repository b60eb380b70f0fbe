//! A token is valid as long as the objects it is bound to exist.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{Claims, LEEWAY, ObjectClaim, TokenError};
use crate::{AUTHENTICATED, UserInfo, service_account};

const EXTRA: &str = "authentication.kubernetes.io/";

/// The kinds a token may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BoundKind {
    ServiceAccount,
    Pod,
    Secret,
    Node,
}

impl BoundKind {
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::ServiceAccount => "serviceaccounts",
            Self::Pod => "pods",
            Self::Secret => "secrets",
            Self::Node => "nodes",
        }
    }
}

/// Finds the objects in the claims of a token.
pub trait Objects {
    /// The stored object. The namespace of a Node is empty.
    fn get(&self, kind: BoundKind, namespace: &str, name: &str) -> Option<Arc<Value>>;
}

impl<F: Fn(BoundKind, &str, &str) -> Option<Arc<Value>>> Objects for F {
    fn get(&self, kind: BoundKind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self(kind, namespace, name)
    }
}

/// The user of a verified token, if everything it names is still there.
pub(super) fn user_of(
    claims: &Claims,
    objects: &dyn Objects,
    now: Timestamp,
) -> Result<UserInfo, TokenError> {
    let named = &claims.kubernetes;
    let namespace = &named.namespace;
    let account = &named.serviceaccount;
    match state(objects, BoundKind::ServiceAccount, namespace, account, now) {
        State::Alive => {}
        State::Gone => {
            return Err(TokenError::NoServiceAccount {
                name: account.name.clone(),
            });
        }
        State::Deleted => {
            let (namespace, name) = (namespace.clone(), account.name.clone());
            return Err(TokenError::ServiceAccountDeleted { namespace, name });
        }
        State::Other { uid } => return Err(other("service account", uid, "claim", account)),
    }
    if let Some(secret) = &named.secret {
        let state = state(objects, BoundKind::Secret, namespace, secret, now);
        state.must_be_alive("secret", "service account secret ref claim", secret)?;
    }
    if let Some(pod) = &named.pod {
        let state = state(objects, BoundKind::Pod, namespace, pod, now);
        state.must_be_alive("pod", "service account pod ref claim", pod)?;
    }
    // The node in a token bound to a Pod only shows where the Pod ran.
    if let (Some(node), None) = (&named.node, &named.pod) {
        let state = state(objects, BoundKind::Node, "", node, now);
        state.must_be_alive("node", "service account node ref claim", node)?;
    }
    let mut groups = service_account::groups(namespace);
    groups.push(AUTHENTICATED.to_owned());
    Ok(UserInfo {
        username: service_account::username(namespace, &account.name),
        uid: account.uid.clone(),
        groups,
        extra: extra(claims),
    })
}

fn extra(claims: &Claims) -> BTreeMap<String, Vec<String>> {
    let mut extra = BTreeMap::new();
    let mut add = |key: &str, value: &str| {
        if !value.is_empty() {
            extra.insert(format!("{EXTRA}{key}"), vec![value.to_owned()]);
        }
    };
    if let Some(pod) = &claims.kubernetes.pod {
        add("pod-name", &pod.name);
        add("pod-uid", &pod.uid);
    }
    if let Some(node) = &claims.kubernetes.node {
        add("node-name", &node.name);
        add("node-uid", &node.uid);
    }
    if !claims.jti.is_empty() {
        add("credential-id", &format!("JTI={}", claims.jti));
    }
    extra
}

enum State {
    Alive,
    Gone,
    /// Marked for deletion longer ago than clocks may differ.
    Deleted,
    /// There is one of that name, but it is not the one.
    Other {
        uid: String,
    },
}

impl State {
    fn must_be_alive(
        self,
        kind: &'static str,
        claim: &'static str,
        claimed: &ObjectClaim,
    ) -> Result<(), TokenError> {
        match self {
            Self::Alive => Ok(()),
            Self::Gone | Self::Deleted => Err(TokenError::Invalidated),
            Self::Other { uid } => Err(other(kind, uid, claim, claimed)),
        }
    }
}

fn other(
    kind: &'static str,
    actual: String,
    claim: &'static str,
    claimed: &ObjectClaim,
) -> TokenError {
    TokenError::OtherUid {
        kind,
        actual,
        claim,
        claimed: claimed.uid.clone(),
    }
}

fn state(
    objects: &dyn Objects,
    kind: BoundKind,
    namespace: &str,
    claimed: &ObjectClaim,
    now: Timestamp,
) -> State {
    let Some(object) = objects.get(kind, namespace, &claimed.name) else {
        return State::Gone;
    };
    let metadata = &object["metadata"];
    let uid = metadata["uid"].as_str().unwrap_or_default();
    if uid != claimed.uid {
        return State::Other {
            uid: uid.to_owned(),
        };
    }
    let deleted_at = metadata["deletionTimestamp"]
        .as_str()
        .and_then(|at| at.parse::<Timestamp>().ok());
    if deleted_at.is_some_and(|at| now.duration_since(at) > LEEWAY) {
        State::Deleted
    } else {
        State::Alive
    }
}
