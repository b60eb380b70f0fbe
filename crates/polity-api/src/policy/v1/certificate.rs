//! CertificatePolicy: certificates in secrets that must not run out.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{HistoryMessage, NamespaceSelector, RemediationAction, Severity};

/// Certificates in secrets that must not run out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "policy.open-cluster-management.io",
    version = "v1",
    kind = "CertificatePolicy",
    plural = "certificatepolicies",
    namespaced,
    status = "CertificatePolicyStatus",
    derive = "PartialEq",
    doc = "Certificates in secrets that must not run out."
)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificatePolicySpec {
    /// Only `inform` has an effect; certificates cannot be mended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation_action: Option<RemediationAction>,

    /// How bad a violation is, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,

    /// The namespaces whose secrets are looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<NamespaceSelector>,

    /// Labels that the secrets must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub label_selector: BTreeMap<String, String>,

    /// How long a certificate must still be valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_duration: Option<String>,

    /// How long a certificate may be valid at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum_duration: Option<String>,

    /// How long the certificate of an authority must still be valid.
    #[serde(rename = "minimumCADuration", skip_serializing_if = "Option::is_none")]
    pub minimum_ca_duration: Option<String>,

    /// How long the certificate of an authority may be valid at most.
    #[serde(rename = "maximumCADuration", skip_serializing_if = "Option::is_none")]
    pub maximum_ca_duration: Option<String>,

    /// A pattern that every name of the certificate must match.
    #[serde(rename = "allowedSANPattern", skip_serializing_if = "Option::is_none")]
    pub allowed_san_pattern: Option<String>,

    /// A pattern that no name of the certificate may match.
    #[serde(
        rename = "disallowedSANPattern",
        skip_serializing_if = "Option::is_none"
    )]
    pub disallowed_san_pattern: Option<String>,
}

/// What became of a CertificatePolicy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificatePolicyStatus {
    /// `Compliant` or `NonCompliant`; absent while it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// What was found, by namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub compliancy_details: BTreeMap<String, NamespaceCompliance>,

    /// What was reported, newest first, at most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryMessage>,
}

/// What was found in one namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceCompliance {
    /// How many certificates do not comply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub non_compliant_certificates: Option<i64>,

    /// Which ones.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub non_compliant_certificates_list: BTreeMap<String, CertificateSummary>,

    /// In a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A certificate that does not comply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificateSummary {
    /// The secret that holds it.
    pub secret_name: String,

    /// When it runs out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration: Option<String>,

    /// How long that is from now, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry: Option<i64>,

    /// Whether it is the certificate of an authority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<bool>,

    /// How long it is valid in all, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<i64>,

    /// Its names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sans: Vec<String>,
}
