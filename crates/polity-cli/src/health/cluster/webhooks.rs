//! Webhooks: are ours there, does their trust fit the certificates, does the controller answer?

use jiff::Timestamp;
use polity_api::policies::names;
use polity_pki::Certificate;

use super::{List, ObservedCluster, Probe};
use crate::health::Finding;

const CHECK: &str = "webhooks";
const RESTART: &str = "restart the controller: it writes webhooks again at its start";

pub(super) fn findings(observed: &ObservedCluster, now: Timestamp) -> Vec<Finding> {
    if observed.controller.is_absent {
        let message = "no controller is installed in this cluster";
        return vec![Finding::not_applicable(CHECK, message)];
    }
    let mut findings = own(observed, now);
    findings.extend(of_policies(observed, now));
    if findings.is_empty() && observed.has_read(List::Webhooks) {
        let message = format!(
            "those of the controller and {} of policies are registered",
            observed.webhooks.len()
        );
        findings.push(Finding::ok(CHECK, message));
    }
    findings
}

/// The webhooks of the controller, which refuse every change of a policy while they do not answer.
fn own(observed: &ObservedCluster, now: Timestamp) -> Vec<Finding> {
    let controller = &observed.controller;
    let is_starting = observed.is_starting(now);
    let weigh = |message: String| {
        if is_starting {
            Finding::note(CHECK, format!("{message}; starting"))
        } else {
            Finding::problem(CHECK, message).fix(RESTART)
        }
    };
    let mut findings: Vec<Finding> = controller
        .missing
        .iter()
        .map(|name| weigh("is missing, so policies are stored unchecked".to_owned()).about(*name))
        .collect();
    let secret = certificate(observed, names::WEBHOOK_SECRET);
    let has_read = observed.has_read(List::Webhooks);
    if has_read && controller.missing.is_empty() && !is_trusted(&controller.ca_bundle, secret, now)
    {
        let message = "its caBundle does not trust the certificate of the controller";
        findings.push(weigh(message.to_owned()).about(names::CONTROLLER_VALIDATING_WEBHOOKS));
    }
    for (endpoint, probe) in &controller.endpoints {
        if let Probe::Silent(reason) = probe {
            let message =
                format!("does not answer: {reason}; changes of policies are refused meanwhile");
            findings.push(weigh(message).about(format!("controller at {endpoint}")));
        }
    }
    findings
}

/// The webhooks of policies: their trust, and those whose policy is gone.
fn of_policies(observed: &ObservedCluster, now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    for webhook in &observed.webhooks {
        let object = format!("webhook {}", webhook.name);
        let mut policies = observed.policies.iter();
        let is_known = policies.any(|policy| policy.uid == webhook.policy_uid)
            || observed.changing.contains(&webhook.policy_uid);
        // A list that could not be read says nothing about what exists.
        if !is_known && observed.has_read(List::Policies) {
            let message = "calls a policy that does not exist";
            findings.push(Finding::problem(CHECK, message).about(&object).fix(RESTART));
            continue;
        }
        let secret = webhook.server.as_deref().map(names::policy_server);
        let secret = secret.and_then(|secret| certificate(observed, &secret));
        if !is_trusted(&webhook.ca_bundle, secret, now) {
            let message = "its caBundle does not trust the certificate of the policy server";
            findings.push(Finding::problem(CHECK, message).about(&object).fix(RESTART));
        }
    }
    findings
}

fn certificate<'a>(observed: &'a ObservedCluster, secret: &str) -> Option<&'a Certificate> {
    let mut certificates = observed.certificates.iter();
    let found = certificates.find(|certificate| certificate.secret == secret)?;
    found.certificate.as_ref().ok()
}

/// Whether one of the certificates in a bundle signed this one. One that could not be read is not judged.
fn is_trusted(bundle: &str, certificate: Option<&Certificate>, now: Timestamp) -> bool {
    let Some(certificate) = certificate else {
        return true;
    };
    // An expired certificate is a finding of its own.
    let now = now.min(certificate.not_after());
    Certificate::bundle_from_pem(bundle).is_ok_and(|bundle| {
        bundle
            .iter()
            .any(|authority| certificate.check_signed_by(authority, now).is_ok())
    })
}
