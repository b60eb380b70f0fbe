//! The kinds that users own: policy servers, and the four kinds of policies. Revisions belong to the controller.

use std::fmt;

use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};
use polity_api::policies::api_resource;
use polity_api::policies::v1::PolicyServer;

use crate::lifecycle::PolicyKind;

/// A kind that users own. Servers come first: policies run on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnedKind {
    /// PolicyServer.
    Server,
    /// One of the four kinds of policies.
    Policy(PolicyKind),
}

impl OwnedKind {
    /// All five.
    pub fn all() -> impl Iterator<Item = Self> {
        let policies = PolicyKind::ALL.into_iter().map(Self::Policy);
        [Self::Server].into_iter().chain(policies)
    }

    /// The kind as objects spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "PolicyServer",
            Self::Policy(kind) => kind.as_str(),
        }
    }

    /// The kind that is spelled so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::all().find(|kind| kind.as_str() == text)
    }

    /// Whether its objects live in namespaces.
    pub fn is_namespaced(self) -> bool {
        match self {
            Self::Server => false,
            Self::Policy(kind) => kind.is_namespaced(),
        }
    }

    /// Where its objects are served.
    pub fn api_resource(self) -> ApiResource {
        match self {
            Self::Server => ApiResource::erase::<PolicyServer>(&()),
            Self::Policy(kind) => api_resource(kind),
        }
    }

    /// Its objects, in all namespaces.
    pub(crate) fn everywhere(self, client: &Client) -> Api<DynamicObject> {
        Api::all_with(client.clone(), &self.api_resource())
    }
}

/// Which object of these kinds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnedKey {
    /// Its kind.
    pub kind: OwnedKind,
    /// Its namespace, for namespaced kinds.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl OwnedKey {
    /// The API of its kind and namespace.
    pub(crate) fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => {
                Api::namespaced_with(client.clone(), namespace, &self.kind.api_resource())
            }
            None => self.kind.everywhere(client),
        }
    }
}

impl fmt::Display for OwnedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_str();
        match &self.namespace {
            Some(namespace) => write!(f, "{kind} {namespace}/{}", self.name),
            None => write!(f, "{kind} {}", self.name),
        }
    }
}
