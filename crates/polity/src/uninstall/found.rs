//! What is left of an installation in a cluster, and which part of it an uninstall removes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};
use polity_lifecycle::{OwnedKey, OwnedKind};

/// How much is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everything but the objects of our kinds and their definitions.
    Installation,
    /// The definitions too, and with them all objects of our kinds.
    WithDefinitions,
}

/// An object of some kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) kind: ApiResource,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl Object {
    /// The objects among which it is.
    pub(super) fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.kind),
            None => Api::all_with(client.clone(), &self.kind),
        }
    }

    /// The kind and the name, for messages.
    pub(super) fn shown(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind.kind, self.name),
            None => format!("{} {}", self.kind.kind, self.name),
        }
    }
}

/// A policy or a policy server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) key: OwnedKey,
    pub(super) resource_version: String,
    /// Whether it is a policy that refuses requests.
    pub(super) is_protecting: bool,
    /// Whether the controller has set a status.
    pub(super) has_status: bool,
    /// The finalizers that are not ours, if some are ours.
    pub(super) released: Option<Vec<String>>,
}

impl Owned {
    /// Whether it carries something of a controller that is about to go.
    pub(super) fn is_held(&self) -> bool {
        self.has_status || self.released.is_some()
    }
}

/// The namespace of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    Absent,
    /// An installation created it, and its controller is in it.
    Ours,
    /// It existed before the installation, others have changed it, or no controller is in it.
    Shared,
}

/// A definition of one of our kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Defined {
    pub(super) name: String,
    /// Whether another field manager than an installation has set its fields.
    pub(super) is_shared: bool,
}

/// What is left of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) namespace: String,
    pub(super) home: Home,
    pub(super) policy_webhooks: Vec<Object>,
    pub(super) own_webhooks: Vec<Object>,
    /// The objects of the manifests, and those that the controller made for policy servers.
    pub(super) objects: Vec<Object>,
    pub(super) owned: Vec<Owned>,
    pub(super) definitions: Vec<Defined>,
}

impl Found {
    /// Whether there is nothing to remove.
    pub(super) fn is_gone(&self, scope: Scope) -> bool {
        let has_definitions = self.removed_definitions(scope).next().is_some();
        self.home != Home::Ours
            && self.policy_webhooks.is_empty()
            && self.own_webhooks.is_empty()
            && self.objects.is_empty()
            && !self.owned.iter().any(Owned::is_held)
            && !has_definitions
    }

    /// The definitions that are removed.
    pub(super) fn removed_definitions(&self, scope: Scope) -> impl Iterator<Item = &Defined> {
        let all = self.definitions.iter();
        all.filter(move |one| scope == Scope::WithDefinitions && !one.is_shared)
    }

    /// What is removed and what is kept, for people.
    pub(super) fn summary(&self, scope: Scope) -> String {
        let mut text = String::new();
        let namespace = &self.namespace;
        let is_gone = self.is_gone(scope);
        let removed = self.removed(scope);
        let kept = self.kept(scope);
        if is_gone {
            writeln!(
                text,
                "nothing of Polity is left to remove in namespace {namespace}"
            )
            .ok();
        }
        let parts = [("removed:", removed, is_gone), ("kept:", kept, false)];
        for (title, lines, is_left_out) in parts {
            if lines.is_empty() || is_left_out {
                continue;
            }
            writeln!(text, "{title}").ok();
            for line in lines {
                writeln!(text, "  {line}").ok();
            }
        }
        let n_protecting = self.owned.iter().filter(|one| one.is_protecting).count();
        if n_protecting > 0 && !is_gone {
            let policies = counted(n_protecting, "policy", "policies");
            let verb = if n_protecting == 1 { "is" } else { "are" };
            writeln!(text, "{policies} in protect mode {verb} no longer enforced").ok();
        }
        text
    }

    fn removed(&self, scope: Scope) -> Vec<String> {
        let mut lines = Vec::new();
        let webhooks = self.policy_webhooks.len();
        if webhooks > 0 {
            lines.push(counted(
                webhooks,
                "webhook configuration of policies",
                "webhook configurations of policies",
            ));
        }
        let webhooks = self.own_webhooks.len();
        if webhooks > 0 {
            lines.push(counted(
                webhooks,
                "webhook configuration of the controller",
                "webhook configurations of the controller",
            ));
        }
        lines.extend(by_kind(&self.objects));
        if self.home == Home::Ours {
            lines.push(format!(
                "Namespace {}, with everything in it",
                self.namespace
            ));
        }
        if scope == Scope::WithDefinitions {
            lines.extend(self.owned_lines());
            let n_removed = self.removed_definitions(scope).count();
            if n_removed > 0 {
                let definitions = counted(n_removed, DEFINITION, DEFINITIONS);
                lines.push(format!("{definitions}, with all objects of these kinds"));
            }
        }
        lines
    }

    fn kept(&self, scope: Scope) -> Vec<String> {
        let mut lines = Vec::new();
        if self.home == Home::Shared {
            lines.push(format!(
                "Namespace {}, which is used by others",
                self.namespace
            ));
        }
        match scope {
            Scope::Installation => {
                lines.extend(self.owned_lines());
                if !self.definitions.is_empty() {
                    let definitions = counted(self.definitions.len(), DEFINITION, DEFINITIONS);
                    lines.push(format!(
                        "{definitions} (--crds deletes them, with all policies)"
                    ));
                }
            }
            Scope::WithDefinitions => {
                let shared = self.definitions.iter().filter(|one| one.is_shared);
                lines.extend(shared.map(|one| {
                    format!(
                        "CustomResourceDefinition {}, which is used by others",
                        one.name
                    )
                }));
            }
        }
        lines
    }

    fn owned_lines(&self) -> impl Iterator<Item = String> {
        let is_server = |one: &&Owned| one.key.kind == OwnedKind::Server;
        let n_servers = self.owned.iter().filter(is_server).count();
        let n_policies = self.owned.len() - n_servers;
        let policies = (n_policies > 0).then(|| counted(n_policies, "policy", "policies"));
        let servers = (n_servers > 0).then(|| counted(n_servers, "PolicyServer", "PolicyServers"));
        policies.into_iter().chain(servers)
    }
}

const DEFINITION: &str = "CustomResourceDefinition";
const DEFINITIONS: &str = "CustomResourceDefinitions";

/// A number with its noun.
pub(super) fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// How many objects of a kind are named.
const MOST_NAMED: usize = 4;

/// A line for each kind, with the names of some of its objects.
fn by_kind(objects: &[Object]) -> Vec<String> {
    let mut names: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for object in objects {
        let name = match &object.namespace {
            Some(namespace) => format!("{namespace}/{}", object.name),
            None => object.name.clone(),
        };
        names.entry(&object.kind.kind).or_default().push(name);
    }
    let lines = names.into_iter();
    lines
        .map(|(kind, names)| {
            let named = names[..names.len().min(MOST_NAMED)].join(", ");
            match names.len().saturating_sub(MOST_NAMED) {
                0 => format!("{kind} {named}"),
                more => format!("{kind} {named} and {more} more"),
            }
        })
        .collect()
}
