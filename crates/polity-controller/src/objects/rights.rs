//! What the account of a policy server may do in the controller's namespace, and the Lease of its leader (section 4.4).
//!
//! RBAC cannot select by label, so a server may read and report about every revision; the webhook of section 3 narrows
//! that down. By name it can be told which Lease is its own, and no server can take another's.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use polity_api::policies::GROUP;
use polity_api::policies::v1::PolicyServer;

use super::{Setup, metadata_of, name_of};
use crate::names;

/// What the server's account may do.
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

/// Gives it to the server's account, the user's own included: without it no replica could report.
pub fn role_binding(server: &PolicyServer, setup: &Setup) -> RoleBinding {
    let name = names::policy_server(name_of(server));
    RoleBinding {
        metadata: metadata_of(server, setup, name.clone()),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "Role".to_owned(),
            name,
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account(server, setup).to_owned(),
            namespace: Some(setup.namespace.clone()),
            ..Subject::default()
        }]),
    }
}

/// The Lease by which replicas choose their leader. The controller makes it, so that no server needs the right to.
pub fn lease(server: &PolicyServer, setup: &Setup) -> Lease {
    Lease {
        metadata: metadata_of(server, setup, names::policy_server(name_of(server))),
        spec: None,
    }
}

/// The account that the pods run under.
pub(super) fn account<'a>(server: &'a PolicyServer, setup: &'a Setup) -> &'a str {
    let own = server.spec.service_account_name.as_deref();
    own.unwrap_or(&setup.service_account)
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
