//! Who is asking, and may they.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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

/// What is asked of the authorizer.
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
    NonResource { verb: &'a str, path: &'a str },
}
