//! Which Pods this machine runs.
//!
//! A Pod here becomes a process of the user that runs this program, with access to the user's files. A user who may
//! write Pods, StatefulSets or templates must not gain more access than a policy server has. So a Pod is run only if
//! - it is in the deployment namespace, and controlled by the live StatefulSet of a live PolicyServer
//!   ([`policy_server_of`]);
//! - its command is that of a policy server (`command`);
//! - its variables are on the list of names that a policy server reads (`environment`);
//! - its volumes and mounts stay inside the data directory (`volumes`);
//! - it loads compiled code only from directories that policy servers write (`code`).
//!
//! The last three are checked on the Pod itself and not on its owner: an editor of the deployment namespace may change
//! a template, or forge an owner reference. Paths in values are checked when they are known, by
//! [`crate::container::resolve`].

mod code;
mod command;
mod environment;
mod volumes;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The group of PolicyServers, without a version: a reference may name any that is served.
const POLICY_GROUP: &str = "policies.kubewarden.io/";
/// The only argument of a policy server's command line.
const SERVER_COMMAND: &str = "server";

/// The policy servers whose Pods may be run.
#[derive(Debug, Clone)]
pub struct Permit {
    /// The deployment namespace, which holds the Pods of policy servers.
    pub namespace: String,
    /// Returns the name of the StatefulSet that the controller creates for a PolicyServer.
    pub set_of_server: fn(&str) -> String,
}

/// The live objects that a Pod may be owned by.
pub trait Owners {
    /// A StatefulSet of the deployment namespace.
    fn stateful_set(&self, name: &str) -> Option<StatefulSet>;
    /// The uid of a PolicyServer.
    fn policy_server_uid(&self, name: &str) -> Option<String>;
}

/// Why a Pod or a StatefulSet is not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "it is in namespace {found:?}; only Pods of policy servers in namespace {wanted:?} are run"
    )]
    Namespace { found: String, wanted: String },
    #[error("no StatefulSet controls it; only Pods of policy servers are run")]
    NoController,
    #[error(
        "the StatefulSet {name:?} that its owner reference names does not exist, or is another one"
    )]
    SetGone { name: String, uid: String },
    #[error("its name is not one that StatefulSet {set:?} gives")]
    PodName { set: String },
    #[error("no PolicyServer controls StatefulSet {set:?}")]
    NotOfServer { set: String },
    #[error(
        "the PolicyServer {name:?} that controls StatefulSet {set:?} does not exist, or is another one"
    )]
    ServerGone {
        name: String,
        uid: String,
        set: String,
    },
    #[error("StatefulSet {set:?} is not the one of PolicyServer {server:?}, which is {expected:?}")]
    SetName {
        set: String,
        server: String,
        expected: String,
    },
    #[error("it has {what}, and only one plain container is run here")]
    Shape { what: &'static str },
    #[error("its command is not {expected}")]
    Command { expected: String },
    #[error("variables from whole objects (envFrom) are not accepted here")]
    EnvFrom,
    #[error("its environment sets {}, which processes of this machine may not have", names.join(", "))]
    Variables { names: Vec<String> },
    #[error("POLITY_POLICY_SERVER is not {server:?}, the PolicyServer that it belongs to")]
    OtherServer { server: String },
    #[error(
        "volume {name:?} is of a kind that reaches outside the data directory, or is not known here"
    )]
    VolumeKind { name: String },
    #[error(
        "{variable} does not name a directory in an emptyDir or a claim: compiled code is loaded only from directories that policy servers write"
    )]
    Directory { variable: String },
    #[error("{path:?} is no {what}")]
    Path { what: &'static str, path: String },
}

/// Whether a Pod is run.
pub fn may_run(pod: &Pod, owners: &dyn Owners, permit: &Permit) -> Result<(), Refusal> {
    in_namespace(&pod.metadata, permit)?;
    let reference = controller(&pod.metadata)
        .filter(|owner| owner.kind == "StatefulSet" && owner.api_version == "apps/v1")
        .ok_or(Refusal::NoController)?;
    let set = owners
        .stateful_set(&reference.name)
        .filter(|set| set.metadata.uid.as_deref() == Some(&reference.uid))
        .ok_or_else(|| Refusal::SetGone {
            name: reference.name.clone(),
            uid: reference.uid.clone(),
        })?;
    if !is_named_by(&pod.metadata, &reference.name) {
        return Err(Refusal::PodName {
            set: reference.name.clone(),
        });
    }
    let server = policy_server_of(&set, owners, permit)?;
    let container = only_container(pod)?;
    command::check(container)?;
    environment::check(container, &server)?;
    volumes::check(pod, container)?;
    code::check(pod, container)
}

/// The name of the PolicyServer that a StatefulSet belongs to; an error if its Pods are not run here.
pub fn policy_server_of(
    set: &StatefulSet,
    owners: &dyn Owners,
    permit: &Permit,
) -> Result<String, Refusal> {
    in_namespace(&set.metadata, permit)?;
    let set_name = set.metadata.name.clone().unwrap_or_default();
    let Some(reference) = controller(&set.metadata).filter(|owner| is_policy_server(owner)) else {
        return Err(Refusal::NotOfServer { set: set_name });
    };
    let server = reference.name.clone();
    if owners.policy_server_uid(&server).as_deref() != Some(&reference.uid) {
        return Err(Refusal::ServerGone {
            name: server,
            uid: reference.uid.clone(),
            set: set_name,
        });
    }
    let expected = (permit.set_of_server)(&server);
    match set_name == expected {
        true => Ok(server),
        false => Err(Refusal::SetName {
            set: set_name,
            server,
            expected,
        }),
    }
}

fn in_namespace(meta: &ObjectMeta, permit: &Permit) -> Result<(), Refusal> {
    let found = meta.namespace.clone().unwrap_or_default();
    match found == permit.namespace {
        true => Ok(()),
        false => Err(Refusal::Namespace {
            found,
            wanted: permit.namespace.clone(),
        }),
    }
}

/// The one owner that controls an object.
fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = meta.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

fn is_policy_server(owner: &OwnerReference) -> bool {
    owner.kind == "PolicyServer" && owner.api_version.starts_with(POLICY_GROUP)
}

fn is_named_by(pod: &ObjectMeta, set: &str) -> bool {
    let name = pod.name.as_deref().unwrap_or_default();
    let ordinal = name
        .strip_prefix(set)
        .and_then(|rest| rest.strip_prefix('-'));
    ordinal.is_some_and(|digits| {
        digits
            .parse::<i32>()
            .is_ok_and(|number| number.to_string() == digits)
    })
}

fn only_container(pod: &Pod) -> Result<&k8s_openapi::api::core::v1::Container, Refusal> {
    let refused = |what| Err(Refusal::Shape { what });
    let Some(spec) = &pod.spec else {
        return refused("no container");
    };
    if spec.init_containers.iter().flatten().next().is_some() {
        return refused("init containers");
    }
    if spec.ephemeral_containers.iter().flatten().next().is_some() {
        return refused("ephemeral containers");
    }
    match spec.containers.as_slice() {
        [container] => Ok(container),
        [] => refused("no container"),
        _ => refused("several containers"),
    }
}

#[cfg(test)]
mod tests;
