//! Policy servers: are they there, ready, and do their replicas answer?

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{List, ObservedCluster, ObservedServer, Probe, START_UP, is_recent};
use crate::health::Finding;
use crate::policy::lifecycle::Policy;

const CHECK: &str = "policy server";
/// The policy server of a policy cannot be changed, so the server must exist again.
const APPLY_AGAIN: &str =
    "apply the PolicyServer again; `polity up` creates `default` when it starts";
/// How many policies are named.
const NAMED: usize = 3;

pub(super) fn findings(observed: &ObservedCluster, now: Timestamp) -> Vec<Finding> {
    let mut findings: Vec<Finding> = observed
        .servers
        .iter()
        .flat_map(|server| of_server(observed, server, now))
        .collect();
    // A list that could not be read says nothing about what exists.
    if !observed.has_read(List::PolicyServers) {
        return findings;
    }
    findings.extend(absent(observed));
    if findings.is_empty() {
        findings.push(
            Finding::note(CHECK, "there is none, so no policy is enforced")
                .fix("kubectl apply a PolicyServer; `polity install` creates one named default"),
        );
    }
    findings
}

fn of_server(observed: &ObservedCluster, server: &ObservedServer, now: Timestamp) -> Vec<Finding> {
    let object = format!("PolicyServer {}", server.name);
    let mut findings = Vec::new();
    for (type_, message) in &server.failures {
        let message = format!("{type_} failed: {message}");
        findings.push(Finding::problem(CHECK, message).fix("look at the log of the controller"));
    }
    findings.extend(presence(observed, server));
    if !server.is_being_deleted && server.desired > 0 {
        findings.extend(readiness(observed, server, now));
        findings.extend(silent(observed, server, now));
        findings.extend(not_asked(server));
    }
    if findings.is_empty() {
        findings.extend(fine(observed, server));
    }
    let about = |finding: Finding| finding.about(&object);
    findings.into_iter().map(about).collect()
}

/// What the checks that could be made show.
fn fine(observed: &ObservedCluster, server: &ObservedServer) -> Option<Finding> {
    let desired = server.desired;
    let is_ready = server.ready.is_some();
    let message = match (is_ready, observed.has_read(List::Pods)) {
        (true, true) => format!("{desired} of {desired} replicas are ready and answer"),
        (true, false) => format!("{desired} of {desired} replicas are ready"),
        (false, true) if !server.replicas.is_empty() => {
            format!("replicas that answer: {}", server.replicas.len())
        }
        (false, _) => return None,
    };
    Some(Finding::ok(CHECK, message))
}

/// A server that is deleted or scaled to zero while policies need it.
fn presence(observed: &ObservedCluster, server: &ObservedServer) -> Option<Finding> {
    let state = if server.is_being_deleted {
        "is being deleted"
    } else if server.desired == 0 {
        "has no replicas (spec.replicas: 0)"
    } else {
        return None;
    };
    let policies: Vec<&Policy> = observed.protecting(&server.name).collect();
    if policies.is_empty() {
        return Some(Finding::note(CHECK, state));
    }
    let message = format!("{state}; not enforced: {}", in_protect_mode(&policies));
    let fix = if server.is_being_deleted {
        APPLY_AGAIN.to_owned()
    } else {
        format!("kubectl scale policyserver {} --replicas 1", server.name)
    };
    Some(Finding::problem(CHECK, message).fix(fix))
}

fn readiness(
    observed: &ObservedCluster,
    server: &ObservedServer,
    now: Timestamp,
) -> Option<Finding> {
    let desired = server.desired;
    let message = match server.ready {
        Some(ready) if ready >= desired => return None,
        Some(ready) => format!("{ready} of {desired} replicas are ready"),
        None if !observed.has_read(List::StatefulSets) || !observed.knows_namespace() => {
            return None;
        }
        None => "it has no StatefulSet yet".to_owned(),
    };
    if is_starting(observed, server, now) {
        return Some(Finding::note(CHECK, format!("{message}; starting")));
    }
    let namespace = &observed.namespace;
    let fix = match server.ready {
        Some(_) => format!(
            "kubectl -n {namespace} describe pods -l kubewarden/policy-server={}",
            server.name
        ),
        None => "look at the log of the controller".to_owned(),
    };
    Some(Finding::problem(CHECK, message).fix(fix))
}

/// Replicas that do not answer, and what follows from that when none does.
fn silent(observed: &ObservedCluster, server: &ObservedServer, now: Timestamp) -> Vec<Finding> {
    // A replica that was ready has started.
    let is_ready = server.ready.is_some_and(|ready| ready >= server.desired);
    let is_starting = !is_ready && is_starting(observed, server, now);
    let mut findings = Vec::new();
    let mut n_silent = 0;
    for replica in &server.replicas {
        let Probe::Silent(reason) = &replica.probe else {
            continue;
        };
        n_silent += 1;
        let message = format!("replica {} does not answer: {reason}", replica.pod);
        findings.push(if is_starting {
            Finding::note(CHECK, format!("{message}; starting"))
        } else {
            let fix = format!(
                "kubectl -n {} delete pod {}",
                observed.namespace, replica.pod
            );
            Finding::problem(CHECK, message).fix(fix)
        });
    }
    if n_silent > 0 && n_silent == server.replicas.len() && !is_starting {
        findings.extend(consequence(observed, server));
    }
    findings
}

/// What a server that does not answer at all means for requests.
fn consequence(observed: &ObservedCluster, server: &ObservedServer) -> Option<Finding> {
    let open: Vec<&str> = observed
        .webhooks
        .iter()
        .filter(|webhook| webhook.fails_open)
        .map(|webhook| webhook.policy_uid.as_str())
        .collect();
    let policies: Vec<&Policy> = observed.protecting(&server.name).collect();
    if policies.is_empty() {
        return None;
    }
    if !observed.has_read(List::Webhooks) {
        let message = format!(
            "no replica answers: requests pass unchecked or are refused, as their failurePolicy says, that concern {}",
            in_protect_mode(&policies)
        );
        return Some(Finding::problem(CHECK, message).fix("restart the replicas"));
    }
    let (unchecked, refused): (Vec<_>, Vec<_>) = policies
        .into_iter()
        .partition(|policy| open.contains(&policy.uid.as_str()));
    let mut parts = Vec::new();
    if !unchecked.is_empty() {
        parts.push(format!(
            "requests pass unchecked (failurePolicy: Ignore) by {}",
            in_protect_mode(&unchecked)
        ));
    }
    if !refused.is_empty() {
        parts.push(format!(
            "requests are refused (failurePolicy: Fail) that concern {}",
            in_protect_mode(&refused)
        ));
    }
    let message = format!("no replica answers: {}", parts.join("; "));
    Some(Finding::problem(CHECK, message).fix("restart the replicas"))
}

fn not_asked(server: &ObservedServer) -> Option<Finding> {
    let reasons = server
        .replicas
        .iter()
        .filter_map(|replica| match &replica.probe {
            Probe::NotAsked(reason) => {
                Some(format!("replica {} was not asked: {reason}", replica.pod))
            }
            Probe::Answers | Probe::Silent(_) => None,
        });
    let reasons: Vec<String> = reasons.collect();
    (!reasons.is_empty()).then(|| Finding::note(CHECK, reasons.join("; ")))
}

/// Servers that policies name and that do not exist.
fn absent(observed: &ObservedCluster) -> Vec<Finding> {
    let exists = |name: &str| observed.servers.iter().any(|server| server.name == name);
    let mut by_server: BTreeMap<&str, Vec<&Policy>> = BTreeMap::new();
    for policy in &observed.policies {
        if !exists(&policy.policy_server) {
            by_server
                .entry(&policy.policy_server)
                .or_default()
                .push(policy);
        }
    }
    let findings = by_server.into_iter().map(|(server, policies)| {
        let protecting: Vec<&Policy> = policies
            .iter()
            .copied()
            .filter(|policy| policy.mode == "protect")
            .collect();
        let finding = if protecting.is_empty() {
            let verb = if policies.len() == 1 { "names" } else { "name" };
            let message = format!("does not exist, and {} {verb} it", count(policies.len()));
            Finding::note(CHECK, message)
        } else {
            let message = format!(
                "does not exist; not enforced: {}",
                in_protect_mode(&protecting)
            );
            Finding::problem(CHECK, message)
        };
        finding
            .about(format!("PolicyServer {server}"))
            .fix(APPLY_AGAIN)
    });
    findings.collect()
}

fn is_starting(observed: &ObservedCluster, server: &ObservedServer, now: Timestamp) -> bool {
    observed.is_starting(now)
        || is_recent(server.created, START_UP, now)
        || server
            .replicas
            .iter()
            .any(|replica| is_recent(replica.created, START_UP, now))
}

/// `2 policies in protect mode (ClusterAdmissionPolicy a, AdmissionPolicy shop/b)`.
fn in_protect_mode(policies: &[&Policy]) -> String {
    let mut names: Vec<String> = policies
        .iter()
        .take(NAMED)
        .map(ToString::to_string)
        .collect();
    if policies.len() > NAMED {
        names.push(format!("{} more", policies.len() - NAMED));
    }
    format!(
        "{} in protect mode ({})",
        count(policies.len()),
        names.join(", ")
    )
}

pub(super) fn count(n_policies: usize) -> String {
    match n_policies {
        1 => "1 policy".to_owned(),
        n => format!("{n} policies"),
    }
}
