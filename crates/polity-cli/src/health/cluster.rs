//! What is wrong with the installation in one cluster, as a function of what was read there.

mod policies;
mod servers;
mod webhooks;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use polity_pki::Certificate;

use super::finding::Finding;
use crate::policy::lifecycle::Policy;

/// How long replicas may take to start before that is a problem.
const START_UP: Duration = Duration::from_mins(1);
/// How long a policy may be on its way before it counts as stuck.
const STUCK: Duration = Duration::from_mins(5);
/// How long before its end a certificate is mentioned. The controller renews them weeks earlier.
const CERTIFICATE_NOTICE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// An installation, as it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObservedCluster {
    /// Whether the cluster serves our kinds.
    pub(crate) is_installed: bool,
    /// The namespace of the installation.
    pub(crate) namespace: String,
    /// When the instance started, where that is known: what it runs needs a moment from then on.
    pub(crate) started: Option<Timestamp>,
    pub(crate) servers: Vec<ObservedServer>,
    pub(crate) policies: Vec<Policy>,
    /// The uids of policies that changed while the webhooks were read, so that the two cannot be compared.
    pub(crate) changing: BTreeSet<String>,
    pub(crate) webhooks: Vec<ObservedWebhook>,
    pub(crate) controller: ObservedController,
    pub(crate) certificates: Vec<ObservedCertificate>,
    pub(crate) unread: Vec<Unread>,
}

/// A policy server.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObservedServer {
    pub(crate) name: String,
    pub(crate) is_being_deleted: bool,
    pub(crate) created: Option<Timestamp>,
    /// Replicas it should have.
    pub(crate) desired: i32,
    /// Replicas that are ready, as its StatefulSet counts them; absent without a StatefulSet.
    pub(crate) ready: Option<i32>,
    pub(crate) replicas: Vec<ObservedReplica>,
    /// The messages of its conditions that are false, by type.
    pub(crate) failures: Vec<(String, String)>,
}

/// A Pod of a policy server.
#[derive(Debug, Clone)]
pub(crate) struct ObservedReplica {
    pub(crate) pod: String,
    pub(crate) created: Option<Timestamp>,
    pub(crate) probe: Probe,
}

/// Whether something that should answer did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Probe {
    Answers,
    /// It did not, for this reason.
    Silent(String),
    /// It could not be asked, for this reason.
    NotAsked(String),
}

/// The webhook of a policy.
#[derive(Debug, Clone)]
pub(crate) struct ObservedWebhook {
    pub(crate) name: String,
    pub(crate) policy_uid: String,
    /// The policy server that is called.
    pub(crate) server: Option<String>,
    /// The generation that is called.
    pub(crate) generation: Option<i64>,
    /// Requests pass when nothing answers (`failurePolicy: Ignore`).
    pub(crate) fails_open: bool,
    pub(crate) ca_bundle: String,
}

/// The webhooks of the controller for the kinds of Polity.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObservedController {
    /// Nothing shows that a controller is installed: a cluster of a fleet has our kinds without one.
    pub(crate) is_absent: bool,
    /// The names of configurations that are missing.
    pub(crate) missing: Vec<&'static str>,
    pub(crate) ca_bundle: String,
    pub(crate) endpoints: Vec<(String, Probe)>,
}

/// A certificate of the installation.
#[derive(Debug, Clone)]
pub(crate) struct ObservedCertificate {
    pub(crate) secret: String,
    pub(crate) certificate: Result<Certificate, String>,
}

/// The lists that the checks depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    PolicyServers,
    Policies,
    Webhooks,
    StatefulSets,
    Pods,
    EndpointSlices,
}

/// Something that could not be read.
#[derive(Debug, Clone)]
pub(crate) struct Unread {
    /// The list that is incomplete without it.
    pub(crate) list: List,
    pub(crate) what: String,
    pub(crate) why: String,
}

impl ObservedCluster {
    /// Whether everything has just been started, so that what is not ready yet is no problem yet.
    fn is_starting(&self, now: Timestamp) -> bool {
        is_recent(self.started, START_UP, now)
    }

    /// Whether a list is complete. Otherwise, what is not in it may exist.
    pub(crate) fn has_read(&self, list: List) -> bool {
        !self.unread.iter().any(|unread| unread.list == list)
    }

    /// Whether the namespace of the installation is known: the webhooks of the controller name it.
    fn knows_namespace(&self) -> bool {
        self.has_read(List::Webhooks)
    }

    fn protecting<'a>(&'a self, server: &'a str) -> impl Iterator<Item = &'a Policy> {
        self.policies
            .iter()
            .filter(move |policy| policy.policy_server == server && policy.mode == "protect")
    }
}

/// Everything that is wrong, and one line for each check that found nothing.
pub(crate) fn findings(observed: &ObservedCluster, now: Timestamp) -> Vec<Finding> {
    if !observed.is_installed {
        let problem = Finding::problem("installation", "Polity is not installed in the cluster");
        return vec![problem.fix("polity install, or choose another cluster with --context")];
    }
    let mut findings: Vec<Finding> = observed.unread.iter().map(unread).collect();
    findings.extend(servers::findings(observed, now));
    findings.extend(policies::findings(observed, now));
    findings.extend(webhooks::findings(observed, now));
    findings.extend(certificates(observed, now));
    findings
}

fn unread(unread: &Unread) -> Finding {
    Finding::problem("rights", format!("cannot be read: {}", unread.why))
        .about(&unread.what)
        .fix("the checks that need it were left out; ask for the right to read it")
}

fn certificates(observed: &ObservedCluster, now: Timestamp) -> Vec<Finding> {
    const CHECK: &str = "certificates";
    let fix = "the controller renews certificates; look at its log, and restart it";
    let mut findings = Vec::new();
    for ObservedCertificate {
        secret,
        certificate,
    } in &observed.certificates
    {
        let finding = match certificate {
            Err(error) => Finding::problem(CHECK, format!("is not a certificate: {error}")),
            Ok(certificate) if certificate.check_valid(now).is_err() => {
                let message = format!("is not valid (until {})", certificate.not_after());
                Finding::problem(CHECK, message)
            }
            Ok(certificate) if certificate.not_after() < now + CERTIFICATE_NOTICE => {
                Finding::note(CHECK, format!("ends at {}", certificate.not_after()))
            }
            Ok(_) => continue,
        };
        let object = format!("Secret {}/{secret}", observed.namespace);
        findings.push(finding.about(object).fix(fix));
    }
    if findings.is_empty() && !observed.certificates.is_empty() {
        let n_certificates = observed.certificates.len();
        findings.push(Finding::ok(CHECK, format!("{n_certificates} are valid")));
    }
    findings
}

fn is_recent(since: Option<Timestamp>, limit: Duration, now: Timestamp) -> bool {
    since.is_some_and(|since| {
        now.duration_since(since) < SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX)
    })
}

#[cfg(test)]
mod tests;
