//! The findings about a cluster, case by case.

use std::time::Duration as StdDuration;

use polity_pki::{Authority, ServerNames};
use serde_json::{Value, json};

use super::*;
use crate::health::{Severity, table};
use crate::output::Paint;
use crate::policy::lifecycle::PolicyKind;

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn before(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// A policy that is active since long ago; `change` makes it another.
fn policy(name: &str, change: impl FnOnce(&mut Value)) -> Policy {
    let mut object = json!({
        "apiVersion": "policies.kubewarden.io/v1",
        "kind": "ClusterAdmissionPolicy",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 1,
                     "creationTimestamp": before(86_400).to_string()},
        "spec": {"module": "m", "mode": "protect", "policyServer": "default"},
        "status": {"policyStatus": "active", "phase": "Active", "observedGeneration": 1,
                   "servingGeneration": 1, "message": "Generation 1 is enforced."},
    });
    change(&mut object);
    let object = serde_json::from_value(object).unwrap();
    Policy::read(PolicyKind::ClusterAdmissionPolicy, &object).unwrap()
}

fn webhook(policy: &str) -> ObservedWebhook {
    ObservedWebhook {
        name: format!("clusterwide-{policy}"),
        policy_uid: format!("uid-{policy}"),
        server: Some("default".into()),
        generation: Some(1),
        fails_open: false,
        ca_bundle: String::new(),
    }
}

/// An installation without anything wrong: one server, one replica, one policy.
fn installation() -> ObservedCluster {
    let replica = ObservedReplica {
        pod: "policy-server-default-0".into(),
        created: Some(before(86_400)),
        probe: Probe::Answers,
    };
    ObservedCluster {
        is_installed: true,
        namespace: "kubewarden".into(),
        started: Some(before(86_400)),
        servers: vec![ObservedServer {
            name: "default".into(),
            created: Some(before(86_400)),
            desired: 1,
            ready: Some(1),
            replicas: vec![replica],
            ..ObservedServer::default()
        }],
        policies: vec![policy("a", |_| {})],
        webhooks: vec![webhook("a")],
        ..ObservedCluster::default()
    }
}

/// What is printed of an installation that something was done to, without the checks that found nothing.
fn found(change: impl FnOnce(&mut ObservedCluster)) -> String {
    let mut observed = installation();
    change(&mut observed);
    let findings: Vec<Finding> = findings(&observed, now())
        .into_iter()
        .filter(|finding| finding.severity != super::super::Severity::Ok)
        .collect();
    table(&findings, Paint::plain())
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    insta::assert_snapshot!(table(&findings(&installation(), now()), Paint::plain()), @r"
    ✓   policy server   PolicyServer default: 1 of 1 replicas are ready and answer
    ✓   policies        1 policy active (1 in protect mode, 0 in monitor mode)
    ✓   webhooks        those of the controller and 1 of policies are registered
    ");
}

#[test]
fn a_frozen_replica_is_a_problem_with_its_consequence() {
    insta::assert_snapshot!(found(|observed| {
        let reason = "no response within 3 s".to_owned();
        observed.servers[0].replicas[0].probe = Probe::Silent(reason);
        observed.webhooks[0].fails_open = true;
    }), @r"
    ✗   policy server   PolicyServer default: replica policy-server-default-0 does not answer: no response within 3 s
                        → kubectl -n kubewarden delete pod policy-server-default-0
    ✗   policy server   PolicyServer default: no replica answers: requests pass unchecked (failurePolicy: Ignore) by 1 policy in protect mode (ClusterAdmissionPolicy a)
                        → restart the replicas
    ");
    insta::assert_snapshot!(found(|observed| {
        let reason = "connection refused".to_owned();
        observed.servers[0].replicas[0].probe = Probe::Silent(reason);
    }), @r"
    ✗   policy server   PolicyServer default: replica policy-server-default-0 does not answer: connection refused
                        → kubectl -n kubewarden delete pod policy-server-default-0
    ✗   policy server   PolicyServer default: no replica answers: requests are refused (failurePolicy: Fail) that concern 1 policy in protect mode (ClusterAdmissionPolicy a)
                        → restart the replicas
    ");
}

#[test]
fn replicas_that_are_not_ready_are_a_problem_once_they_had_time_to_start() {
    insta::assert_snapshot!(found(|observed| observed.servers[0].ready = Some(0)), @r"
    ✗   policy server   PolicyServer default: 0 of 1 replicas are ready
                        → kubectl -n kubewarden describe pods -l kubewarden/policy-server=default
    ");
    insta::assert_snapshot!(found(|observed| {
        observed.servers[0].ready = Some(0);
        observed.started = Some(before(10));
    }), @r"
    –   policy server   PolicyServer default: 0 of 1 replicas are ready; starting
    ");
    insta::assert_snapshot!(found(|observed| observed.servers[0].ready = None), @r"
    ✗   policy server   PolicyServer default: it has no StatefulSet yet
                        → look at the log of the controller
    ");
}

#[test]
fn a_server_that_is_gone_or_going_while_policies_need_it_is_a_problem() {
    insta::assert_snapshot!(found(|observed| observed.servers[0].is_being_deleted = true), @r"
    ✗   policy server   PolicyServer default: is being deleted; not enforced: 1 policy in protect mode (ClusterAdmissionPolicy a)
                        → apply the PolicyServer again; `polity up` creates `default` when it starts
    ");
    insta::assert_snapshot!(found(|observed| {
        observed.servers.clear();
        let monitor = policy("b", |object| object["spec"]["mode"] = json!("monitor"));
        observed.policies.push(monitor);
        observed.webhooks.push(webhook("b"));
    }), @r"
    ✗   policy server   PolicyServer default: does not exist; not enforced: 1 policy in protect mode (ClusterAdmissionPolicy a)
                        → apply the PolicyServer again; `polity up` creates `default` when it starts
    ");
    insta::assert_snapshot!(found(|observed| {
        observed.servers.clear();
        observed.policies = vec![policy("a", |object| object["spec"]["mode"] = json!("monitor"))];
    }), @r"
    –   policy server   PolicyServer default: does not exist, and 1 policy names it
                        → apply the PolicyServer again; `polity up` creates `default` when it starts
    ");
    insta::assert_snapshot!(found(|observed| {
        observed.servers[0].desired = 0;
        observed.servers[0].ready = Some(0);
        observed.servers[0].replicas.clear();
    }), @r"
    ✗   policy server   PolicyServer default: has no replicas (spec.replicas: 0); not enforced: 1 policy in protect mode (ClusterAdmissionPolicy a)
                        → kubectl scale policyserver default --replicas 1
    ");
}

#[test]
fn policies_that_failed_or_are_stuck_are_problems() {
    insta::assert_snapshot!(found(|observed| {
        observed.policies = vec![policy("a", |object| {
            object["status"]["phase"] = json!("Failed");
            object["status"]["message"] = json!("SettingsInvalid: no such field");
        })];
    }), @r"
    ✗   policies   ClusterAdmissionPolicy a: failed: SettingsInvalid: no such field
                   → polity policy status a --kind cap
    ");
    insta::assert_snapshot!(found(|observed| {
        observed.policies = vec![policy("a", |object| object["status"]["phase"] = json!("Pending"))];
    }), @r"
    ✗   policies   ClusterAdmissionPolicy a: pending for 24h: Generation 1 is enforced.
                   → polity policy status a --kind cap
    ");
    insta::assert_snapshot!(found(|observed| {
        observed.policies = vec![policy("a", |object| {
            object["metadata"]["creationTimestamp"] = json!(before(20).to_string());
            object.as_object_mut().unwrap().remove("status");
        })];
    }), @r"
    –   policies   ClusterAdmissionPolicy a: not looked at by a controller for 20s: No controller has seen the policy yet.
    ");
}

#[test]
fn policies_that_are_not_active_are_not_counted_as_active() {
    let counted = |change: &dyn Fn(&mut ObservedCluster)| {
        let mut observed = installation();
        change(&mut observed);
        let findings = findings(&observed, now()).into_iter();
        let ok = findings
            .filter(|finding| finding.check == "policies" && finding.severity == Severity::Ok);
        ok.map(|finding| finding.message).collect::<Vec<_>>()
    };
    let elsewhere = || {
        policy("b", |object| {
            object["spec"]["policyServer"] = "missing".into();
        })
    };
    assert_eq!(
        counted(&|observed| observed.policies.push(elsewhere())),
        ["1 of 2 policies active (1 in protect mode, 0 in monitor mode)"]
    );
    assert_eq!(
        counted(&|observed| observed.policies = vec![elsewhere()]),
        [""; 0]
    );
    assert_eq!(
        counted(&|observed| observed.policies.clear()),
        ["there are no policies"]
    );
}

#[test]
fn an_active_policy_needs_a_webhook_that_calls_it() {
    insta::assert_snapshot!(found(|observed| observed.webhooks.clear()), @r"
    ✗   policies   ClusterAdmissionPolicy a: its status is active, but no webhook calls it: it is not enforced
                   → restart the controller: it writes webhooks again at its start
    ");
    insta::assert_snapshot!(found(|observed| observed.webhooks[0].generation = Some(7)), @r"
    ✗   policies   ClusterAdmissionPolicy a: its webhook clusterwide-a calls generation 7, its status says generation 1
                   → restart the controller: it writes webhooks again at its start
    ");
    insta::assert_snapshot!(found(|observed| observed.policies.clear()), @r"
    ✗   webhooks   webhook clusterwide-a: calls a policy that does not exist
                   → restart the controller: it writes webhooks again at its start
    ");
}

#[test]
fn a_policy_that_changed_during_the_reading_is_not_compared_with_its_webhook() {
    let changing = |observed: &mut ObservedCluster| {
        observed.changing.insert("uid-a".into());
    };
    let without_webhook = found(|observed| {
        changing(observed);
        observed.webhooks.clear();
    });
    let without_policy = found(|observed| {
        changing(observed);
        observed.policies.clear();
    });
    assert_eq!(
        [without_webhook, without_policy],
        [String::new(), String::new()]
    );
}

#[test]
fn missing_webhooks_and_a_silent_controller_are_problems() {
    insta::assert_snapshot!(found(|observed| {
        observed.controller.missing = vec![polity_api::policies::names::CONTROLLER_MUTATING_WEBHOOKS];
        let silent = Probe::Silent("connection refused".into());
        observed.controller.endpoints = vec![("127.0.0.1:4000".into(), silent)];
    }), @r"
    ✗   webhooks   kubewarden-controller-mutating-webhook-configuration: is missing, so policies are stored unchecked
                   → restart the controller: it writes webhooks again at its start
    ✗   webhooks   controller at 127.0.0.1:4000: does not answer: connection refused; changes of policies are refused meanwhile
                   → restart the controller: it writes webhooks again at its start
    ");
}

#[test]
fn certificates_that_are_over_or_not_trusted_are_problems() {
    let long_ago = before(100 * 86_400);
    let year = StdDuration::from_hours(365 * 24);
    let authority = Authority::create("ours", year, long_ago).unwrap();
    let other = Authority::create("other", year, long_ago).unwrap();
    let issue = |days: u64| {
        let names = ServerNames::new("x").dns("policy-server-default.kubewarden.svc");
        let validity = StdDuration::from_hours(days * 24);
        let issued = authority.issue_server(&names, validity, long_ago).unwrap();
        issued.certificate
    };
    let with = |certificate: Certificate, ca_bundle: String| {
        found(|observed| {
            observed.webhooks[0].ca_bundle = ca_bundle;
            observed.certificates = vec![ObservedCertificate {
                secret: "policy-server-default".into(),
                certificate: Ok(certificate),
            }];
        })
    };
    let bundle = authority.certificate().to_pem();
    assert_eq!(with(issue(200), bundle.clone()), "");
    insta::assert_snapshot!(with(issue(99), bundle.clone()), @r"
    ✗   certificates   Secret kubewarden/policy-server-default: is not valid (until 2025-12-31T12:00:00Z)
                       → the controller renews certificates; look at its log, and restart it
    ");
    insta::assert_snapshot!(with(issue(103), bundle), @r"
    –   certificates   Secret kubewarden/policy-server-default: ends at 2026-01-04T12:00:00Z
                       → the controller renews certificates; look at its log, and restart it
    ");
    insta::assert_snapshot!(with(issue(200), other.certificate().to_pem()), @r"
    ✗   webhooks   webhook clusterwide-a: its caBundle does not trust the certificate of the policy server
                   → restart the controller: it writes webhooks again at its start
    ");
}

#[test]
fn what_cannot_be_read_is_a_finding() {
    insta::assert_snapshot!(found(|observed| {
        observed.unread = vec![Unread {
            list: List::EndpointSlices,
            what: "EndpointSlices".into(),
            why: "the server refused the request: endpointslices is forbidden".into(),
        }];
    }), @r"
    ✗   rights   EndpointSlices: cannot be read: the server refused the request: endpointslices is forbidden
                 → the checks that need it were left out; ask for the right to read it
    ");
    insta::assert_snapshot!(found(|observed| observed.is_installed = false), @r"
    ✗   installation   Polity is not installed in the cluster
                       → polity install, or choose another cluster with --context
    ");
}

/// Empties a list of an installation without anything wrong, as if it could not be read.
fn unread(list: List) -> ObservedCluster {
    let mut observed = installation();
    let server = &mut observed.servers[0];
    match list {
        List::PolicyServers => observed.servers.clear(),
        List::Policies => observed.policies.clear(),
        List::Webhooks => observed.webhooks.clear(),
        List::StatefulSets => server.ready = None,
        List::Pods => server.replicas.clear(),
        List::EndpointSlices => {}
    }
    observed.unread = vec![Unread {
        list,
        what: format!("{list:?}"),
        why: "forbidden".into(),
    }];
    observed
}

#[test]
fn a_list_that_could_not_be_read_is_not_an_empty_list() {
    let one_policy = "1 policy active (1 in protect mode, 0 in monitor mode)";
    let registered = "those of the controller and 1 of policies are registered";
    let fine = "1 of 1 replicas are ready and answer";
    for (list, expected) in [
        (List::PolicyServers, &[one_policy, registered][..]),
        (List::Policies, &[fine, registered]),
        (List::Webhooks, &[fine, one_policy]),
        (
            List::StatefulSets,
            &["replicas that answer: 1", one_policy, registered],
        ),
        (
            List::Pods,
            &["1 of 1 replicas are ready", one_policy, registered],
        ),
        (List::EndpointSlices, &[fine, one_policy, registered]),
    ] {
        let findings = findings(&unread(list), now());
        let (rights, others): (Vec<_>, Vec<_>) = findings
            .into_iter()
            .partition(|finding| finding.check == "rights");
        assert_eq!(rights.len(), 1, "{list:?}");
        let is_ok = |finding: &Finding| finding.severity == super::super::Severity::Ok;
        assert!(others.iter().all(is_ok), "{list:?}: {others:?}");
        let messages: Vec<&str> = others.iter().map(|other| other.message.as_str()).collect();
        assert_eq!(messages, expected, "{list:?}");
    }
}

#[test]
fn what_follows_from_webhooks_that_could_not_be_read_is_left_open() {
    let mut observed = unread(List::Webhooks);
    observed.servers[0].replicas[0].probe = Probe::Silent("connection refused".into());
    // Without the webhooks, the namespace of the installation is not known for certain.
    observed.servers[0].ready = None;
    let findings = findings(&observed, now());
    let of_servers = findings
        .iter()
        .filter(|finding| finding.check == "policy server");
    let messages: Vec<&str> = of_servers.map(|finding| finding.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "replica policy-server-default-0 does not answer: connection refused",
            "no replica answers: requests pass unchecked or are refused, as their failurePolicy says, that concern \
             1 policy in protect mode (ClusterAdmissionPolicy a)",
        ]
    );
}
