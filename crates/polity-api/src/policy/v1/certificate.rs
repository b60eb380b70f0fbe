//! CertificatePolicy: certificates in secrets that must not run out.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{HistoryMessage, NamespaceSelector, RemediationAction, Severity};

/// CertificatePolicy reports certificates in Secrets that expire soon or violate the rules.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "policy.open-cluster-management.io",
    version = "v1",
    kind = "CertificatePolicy",
    plural = "certificatepolicies",
    namespaced,
    status = "CertificatePolicyStatus",
    derive = "PartialEq",
    doc = "CertificatePolicy reports certificates in Secrets that expire soon or violate the rules."
)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificatePolicySpec {
    /// Only `inform` has an effect; certificates cannot be corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation_action: Option<RemediationAction>,

    /// Severity of a violation. Informational.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,

    /// Namespaces whose Secrets are evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<NamespaceSelector>,

    /// Labels that the Secrets must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub label_selector: BTreeMap<String, String>,

    /// Minimum remaining validity of a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_duration: Option<String>,

    /// Maximum validity of a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum_duration: Option<String>,

    /// Minimum remaining validity of a CA certificate.
    #[serde(rename = "minimumCADuration", skip_serializing_if = "Option::is_none")]
    pub minimum_ca_duration: Option<String>,

    /// Maximum validity of a CA certificate.
    #[serde(rename = "maximumCADuration", skip_serializing_if = "Option::is_none")]
    pub maximum_ca_duration: Option<String>,

    /// Regular expression that every subject alternative name must match.
    #[serde(rename = "allowedSANPattern", skip_serializing_if = "Option::is_none")]
    pub allowed_san_pattern: Option<String>,

    /// Regular expression that no subject alternative name may match.
    #[serde(
        rename = "disallowedSANPattern",
        skip_serializing_if = "Option::is_none"
    )]
    pub disallowed_san_pattern: Option<String>,
}

/// Observed state of a CertificatePolicy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificatePolicyStatus {
    /// Compliance state: `Compliant` or `NonCompliant`. Not set while the state is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// Results by namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub compliancy_details: BTreeMap<String, NamespaceCompliance>,

    /// Most recent compliance messages, newest first, at most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryMessage>,
}

/// Result in one namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceCompliance {
    /// Number of noncompliant certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub non_compliant_certificates: Option<i64>,

    /// Noncompliant certificates by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub non_compliant_certificates_list: BTreeMap<String, CertificateSummary>,

    /// Summary of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A noncompliant certificate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificateSummary {
    /// Name of the Secret that contains the certificate.
    pub secret_name: String,

    /// Expiration time of the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration: Option<String>,

    /// Remaining validity in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry: Option<i64>,

    /// Whether it is a CA certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<bool>,

    /// Total validity in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<i64>,

    /// Subject alternative names of the certificate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sans: Vec<String>,
}
