//! The account of a policy server, what it may do, and the Lease of its leader.
//!
//! A server that names no account gets one of its own, so that `resourceNames` in its Role keep every other server away
//! from its Lease. RBAC cannot select by label: a server can read all revisions, and the validating webhook limits it to
//! the status of its own. Servers that name the same account share its rights, Leases included.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{
    ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use polity_api::policies::GROUP;
use polity_api::policies::v1::PolicyServer;

use super::{Setup, metadata_of, name_of};
use crate::install::CONTEXT_WATCHER;
use crate::names;

const RBAC: &str = "rbac.authorization.k8s.io";
/// The account of a pod that names none.
const DEFAULT_ACCOUNT: &str = "default";

/// The account that the pods of a server run under: the one that its spec names, else the server's own.
pub(crate) fn account(server: &PolicyServer) -> String {
    named_account(server).map_or_else(|| names::policy_server(name_of(server)), str::to_owned)
}

fn named_account(server: &PolicyServer) -> Option<&str> {
    let named = server.spec.service_account_name.as_deref();
    named.filter(|name| !name.is_empty())
}

/// The server's own account, unless it names another one.
pub fn service_account(server: &PolicyServer, setup: &Setup) -> Option<ServiceAccount> {
    match named_account(server) {
        Some(_) => None,
        None => Some(ServiceAccount {
            metadata: metadata_of(server, setup, names::policy_server(name_of(server))),
            ..ServiceAccount::default()
        }),
    }
}

/// The other accounts under which replicas of this StatefulSet still run, because they were started before the account
/// changed. They keep their rights until they are replaced.
pub fn former_accounts(
    server: &PolicyServer,
    workload: Option<&StatefulSet>,
    pods: &[Pod],
) -> BTreeSet<String> {
    let current = account(server);
    let workload = workload.and_then(|workload| workload.metadata.uid.as_deref());
    let is_replica = |pod: &&Pod| {
        let mut owners = pod.metadata.owner_references.iter().flatten();
        workload.is_some_and(|uid| owners.any(|owner| owner.uid == uid))
    };
    let has_ended = |pod: &Pod| {
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    };
    pods.iter()
        .filter(is_replica)
        .filter(|pod| !has_ended(pod))
        .map(account_of)
        .filter(|account| *account != current)
        .map(str::to_owned)
        .collect()
}

/// The account that a pod runs under.
pub(crate) fn account_of(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    let named = spec.and_then(|spec| spec.service_account_name.as_deref());
    named
        .filter(|name| !name.is_empty())
        .unwrap_or(DEFAULT_ACCOUNT)
}

/// What replicas of the server may do in the controller's namespace.
pub fn role(server: &PolicyServer, setup: &Setup) -> Role {
    let name = name_of(server);
    Role {
        metadata: metadata_of(server, setup, names::policy_server(name)),
        rules: Some(vec![
            rule(GROUP, "policyrevisions", &["get", "list", "watch"], None),
            rule(
                GROUP,
                "policyrevisions/status",
                &["get", "update", "patch"],
                None,
            ),
            rule(
                "coordination.k8s.io",
                "leases",
                &["get", "update", "patch"],
                Some(names::policy_server(name)),
            ),
            rule(
                "apps",
                "statefulsets",
                &["get"],
                Some(names::stateful_set(name)),
            ),
        ]),
    }
}

/// Binds the Role to the account of the server and to the former accounts of running replicas. An account that the user
/// brought is bound too: without the Role no replica could report.
pub fn role_binding(
    server: &PolicyServer,
    setup: &Setup,
    former: &BTreeSet<String>,
) -> RoleBinding {
    let name = names::policy_server(name_of(server));
    let accounts = [account(server)].into_iter().chain(former.iter().cloned());
    RoleBinding {
        metadata: metadata_of(server, setup, name.clone()),
        role_ref: role_ref("Role", &name),
        subjects: Some(accounts.map(|name| subject(name, setup)).collect()),
    }
}

/// Lets the server's own account read what context-aware policies ask for. It has no subject while no replica runs
/// under that account: an account that the user brought has the rights that the user gave it.
pub fn context_binding(
    server: &PolicyServer,
    setup: &Setup,
    former: &BTreeSet<String>,
) -> ClusterRoleBinding {
    let name = name_of(server);
    let own = names::policy_server(name);
    let is_used = named_account(server).is_none() || former.contains(&own);
    let subjects = is_used.then(|| subject(own, setup));
    ClusterRoleBinding {
        metadata: ObjectMeta {
            namespace: None,
            ..metadata_of(server, setup, names::context_binding(name))
        },
        role_ref: role_ref("ClusterRole", CONTEXT_WATCHER),
        subjects: Some(subjects.into_iter().collect()),
    }
}

/// The Lease by which replicas elect their leader. The controller creates it, so no server needs the right to.
pub fn lease(server: &PolicyServer, setup: &Setup) -> Lease {
    Lease {
        metadata: metadata_of(server, setup, names::policy_server(name_of(server))),
        spec: None,
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: Some(RBAC.to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

fn subject(account: String, setup: &Setup) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: account,
        namespace: Some(setup.namespace.clone()),
        ..Subject::default()
    }
}

fn rule(group: &str, resource: &str, verbs: &[&str], name: Option<String>) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        resource_names: name.map(|name| vec![name]),
        ..PolicyRule::default()
    }
}
