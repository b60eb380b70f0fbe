//! Policy servers: a name that everything can be called by, references that lead somewhere, amounts that make sense.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use polity_api::policies::v1::PolicyServer;
use polity_core::capability::HOST_CAPABILITIES;
use polity_core::quantity::Quantity;
use polity_core::{FieldError, FieldPath};
use serde_json::json;

use crate::install::{CLEANUP_ACCOUNT, CONTROLLER};
use crate::names::policy_server;

/// The longest name an object of this kind may have.
const NAME_MAX: usize = 63;
/// The longest name that leaves room for the name of its Service.
const SERVICE_NAME_MAX: usize = 49;
/// The type of a Secret that holds credentials for registries.
const DOCKER_CONFIG: &str = "kubernetes.io/dockerconfigjson";

/// Accounts whose rights no policy server may have.
const RESERVED_ACCOUNTS: [&str; 2] = [CONTROLLER, CLEANUP_ACCOUNT];

/// What the names in a policy server lead to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// The type of the Secret `imagePullSecret`, if there is one.
    pub image_pull_secret_type: Option<String>,
    /// Whether the ConfigMap `sigstoreTrustConfig` is there with its key.
    pub has_sigstore_trust_config: bool,
    /// Whether the object exists already: then its name cannot be changed any more.
    pub is_update: bool,
}

/// What is wrong with a policy server.
pub fn server(server: &PolicyServer, references: &References) -> Vec<FieldError> {
    let spec = FieldPath::of("spec");
    let mut wrong = Vec::new();
    if !references.is_update {
        wrong.extend(name(server.metadata.name.as_deref().unwrap_or_default()));
    }
    if let Some(secret) = &server.spec.image_pull_secret {
        let field = spec.child("imagePullSecret");
        match references.image_pull_secret_type.as_deref() {
            None => wrong.push(FieldError::not_found(&field, &json!(secret))),
            Some(DOCKER_CONFIG) => {}
            Some(other) => {
                let detail = format!("the Secret must be of type {DOCKER_CONFIG}, not {other}");
                wrong.push(FieldError::invalid(&field, &json!(secret), &detail));
            }
        }
    }
    if let Some(map) = server
        .spec
        .sigstore_trust_config
        .as_ref()
        .filter(|_| !references.has_sigstore_trust_config)
    {
        let field = spec.child("sigstoreTrustConfig");
        let detail = "there is no ConfigMap of this name with the key sigstore-trust-config";
        wrong.push(FieldError::invalid(&field, &json!(map), detail));
    }
    // One that is being deleted only loses its finalizer.
    let is_deleted = server.metadata.deletion_timestamp.is_some();
    let account = server.spec.service_account_name.as_deref();
    if let Some(account) = account.filter(|name| !is_deleted && RESERVED_ACCOUNTS.contains(name)) {
        let detail =
            "is the account of the installation itself; a policy server must not have its rights";
        let field = spec.child("serviceAccountName");
        wrong.push(FieldError::invalid(&field, &json!(account), detail));
    }
    if server.spec.min_available.is_some() && server.spec.max_unavailable.is_some() {
        let detail = "minAvailable and maxUnavailable cannot both be set";
        wrong.push(FieldError::forbidden(&spec.child("maxUnavailable"), detail));
    }
    if server.spec.webhook_port == server.spec.readiness_probe_port {
        let port = json!(server.spec.readiness_probe_port);
        let detail = "must differ from webhookPort";
        wrong.push(FieldError::invalid(
            &spec.child("readinessProbePort"),
            &port,
            detail,
        ));
    }
    wrong.extend(resources(server, &spec));
    let patterns = server
        .spec
        .namespaced_policies_capabilities
        .iter()
        .flatten();
    for (at, pattern) in patterns
        .enumerate()
        .filter(|(_, pattern)| !is_capability_pattern(pattern))
    {
        let field = spec.child("namespacedPoliciesCapabilities").index(at);
        let detail = "names no host capability";
        wrong.push(FieldError::invalid(&field, &json!(pattern), detail));
    }
    wrong
}

/// Its Service carries the name of the server after a prefix, and a Service is a DNS label.
fn name(name: &str) -> Vec<FieldError> {
    let field = FieldPath::of("metadata").child("name");
    if name.len() > NAME_MAX {
        return vec![FieldError::too_long(&field, NAME_MAX)];
    }
    if name.len() > SERVICE_NAME_MAX || name.contains('.') {
        let detail = format!(
            "must be at most {SERVICE_NAME_MAX} characters without dots: {:?} must be the name of a Service",
            policy_server(name)
        );
        return vec![FieldError::invalid(&field, &json!(name), &detail)];
    }
    Vec::new()
}

fn resources(server: &PolicyServer, spec: &FieldPath) -> Vec<FieldError> {
    let empty = BTreeMap::new();
    let limits = server.spec.limits.as_ref().unwrap_or(&empty);
    let requests = server.spec.requests.as_ref().unwrap_or(&empty);
    let mut wrong = Vec::new();
    for (list, amounts) in [("limits", limits), ("requests", requests)] {
        for (resource, amount) in amounts {
            let field = spec.child(list).key(resource);
            match read(amount) {
                Err(detail) => wrong.push(FieldError::invalid(&field, &json!(amount.0), &detail)),
                Ok(quantity) if quantity.is_negative() => {
                    wrong.push(FieldError::invalid(
                        &field,
                        &json!(amount.0),
                        "must not be negative",
                    ));
                }
                Ok(_) => {}
            }
        }
    }
    for (resource, request) in requests {
        let Some(limit) = limits.get(resource) else {
            continue;
        };
        let (Ok(asked), Ok(most)) = (read(request), read(limit)) else {
            continue;
        };
        if asked > most {
            let field = spec.child("requests").key(resource);
            let detail = format!("must not be more than the limit ({})", limit.0);
            wrong.push(FieldError::invalid(&field, &json!(request.0), &detail));
        }
    }
    wrong
}

fn read(amount: &ApiQuantity) -> Result<Quantity, String> {
    amount
        .0
        .parse()
        .map_err(|error: polity_core::quantity::QuantityError| error.to_string())
}

/// Whether a pattern names something: everything, one capability, or all below a part of its path.
fn is_capability_pattern(pattern: &str) -> bool {
    match pattern.strip_suffix("/*") {
        Some(part) => HOST_CAPABILITIES.iter().any(|one| {
            let below = one.strip_prefix(part);
            below.is_some_and(|below| below.starts_with('/'))
        }),
        None => pattern == "*" || HOST_CAPABILITIES.contains(&pattern),
    }
}
