//! Authentication and authorization of Kubernetes API requests: client certificates and tokens, impersonation, RBAC,
//! service account tokens, and the review kinds.
//!
//! Everything here is a function of values: the caller passes the request's credentials, the stored objects, the time
//! and the random bytes, and gets a decision or the error to send.

pub mod authn;
pub mod authorize;
pub mod bootstrap;
pub mod impersonate;
pub mod rbac;
pub mod reviews;
pub mod secret;
pub mod service_account;
pub mod token;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use authn::{Authenticated, Authenticator, Credentials, StaticToken};
pub use authorize::{AuthorizationMode, Authorizer, Decision};
pub use rbac::Roles;
pub use secret::Secret;

/// The user of a request without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of everyone else.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group that may do everything, regardless of roles.
pub const MASTERS: &str = "system:masters";

/// The user of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    pub username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// The user of a request without credentials.
    pub fn anonymous() -> Self {
        Self {
            username: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Whether the user is in this group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// A request to the authorizer.
#[derive(Debug, Clone, Copy)]
pub enum Attributes<'a> {
    Resource {
        verb: &'a str,
        group: &'a str,
        version: &'a str,
        resource: &'a str,
        subresource: &'a str,
        /// Empty when the request names no object.
        name: &'a str,
        /// Empty at the cluster scope.
        namespace: &'a str,
    },
    NonResource {
        verb: &'a str,
        path: &'a str,
    },
}

/// A time as the API writes it: UTC, in seconds.
fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
