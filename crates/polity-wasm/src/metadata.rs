//! The metadata of a policy module: the custom section `io.kubewarden.metadata`.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// The name of the custom section; the first one counts.
pub const SECTION: &str = "io.kubewarden.metadata";

/// Why a metadata section cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("custom section {SECTION}: {0}")]
pub struct MetadataError(#[from] serde_json::Error);

/// The metadata of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The waPC protocol; other guests have none.
    #[serde(default)]
    pub protocol_version: Option<ProtocolVersion>,
    /// The requests that the policy evaluates.
    pub rules: Vec<Rule>,
    /// Title, author, source and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Whether the policy mutates objects.
    pub mutating: bool,
    /// Whether the policy is useful for an audit of existing objects.
    #[serde(default = "yes")]
    pub background_audit: bool,
    /// The execution mode of the guest.
    #[serde(default)]
    pub execution_mode: ExecutionMode,
    /// The kind of request that the policy evaluates.
    #[serde(default)]
    pub policy_type: PolicyType,
    /// The kinds that the policy asks to read; the manifest of the policy grants them.
    #[serde(default)]
    pub context_aware_resources: Vec<ResourceKind>,
    /// The host capabilities that the policy asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_capabilities: Option<Vec<String>>,
    /// The minimum server version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_kubewarden_version: Option<semver::Version>,
}

/// The version of the waPC protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProtocolVersion {
    /// The current version.
    #[serde(rename = "v1")]
    V1,
    /// Unknown to the tool that wrote the metadata.
    Unknown,
}

/// What a policy wants to see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// API groups.
    pub api_groups: Vec<String>,
    /// Versions.
    pub api_versions: Vec<String>,
    /// Plural resources, with subresources after a slash.
    pub resources: Vec<String>,
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT`, `*`.
    pub operations: Vec<String>,
}

/// A kind of objects, as manifests and metadata name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceKind {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

/// The execution modes of guests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecutionMode {
    /// Functions called by the waPC protocol.
    #[default]
    #[serde(rename = "kubewarden-wapc")]
    Wapc,
    /// Rego, called as Open Policy Agent does.
    #[serde(rename = "opa")]
    Opa,
    /// Rego, called as Gatekeeper does.
    #[serde(rename = "gatekeeper")]
    Gatekeeper,
    /// A command with standard input and output.
    #[serde(rename = "wasi")]
    Wasi,
    /// CEL.
    #[serde(rename = "ferricel")]
    Ferricel,
}

/// The kind of request that a policy evaluates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyType {
    /// Admission requests.
    #[default]
    Kubernetes,
    /// Any JSON document.
    Raw,
}

impl Metadata {
    /// Reads the content of a metadata section.
    pub fn parse(section: &[u8]) -> Result<Self, MetadataError> {
        Ok(serde_json::from_slice(section)?)
    }
}

impl ExecutionMode {
    /// The word used in metadata and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wapc => "kubewarden-wapc",
            Self::Opa => "opa",
            Self::Gatekeeper => "gatekeeper",
            Self::Wasi => "wasi",
            Self::Ferricel => "ferricel",
        }
    }

    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Wapc,
        Self::Opa,
        Self::Gatekeeper,
        Self::Wasi,
        Self::Ferricel,
    ];
}

impl fmt::Display for ExecutionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for ExecutionMode {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == word)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|mode| mode.as_str()).collect();
                format!("unknown execution mode {word}: one of {}", known.join(", "))
            })
    }
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_metadata_has_defaults() {
        let metadata = Metadata::parse(br#"{"rules":[],"mutating":false}"#).unwrap();
        assert_eq!(metadata.protocol_version, None);
        assert!(metadata.background_audit);
        assert_eq!(metadata.execution_mode, ExecutionMode::Wapc);
        assert_eq!(metadata.policy_type, PolicyType::Kubernetes);
        assert!(metadata.context_aware_resources.is_empty());
        assert_eq!(metadata.host_capabilities, None);
        assert_eq!(metadata.minimum_kubewarden_version, None);
    }

    #[test]
    fn every_field_of_the_metadata_is_read() {
        let text = br#"{"protocolVersion":"v1","rules":[{"apiGroups":[""],"apiVersions":["v1"],
            "resources":["pods"],"operations":["CREATE","*"]}],"annotations":{"a":"b"},"mutating":true,
            "backgroundAudit":false,"executionMode":"wasi","policyType":"raw",
            "contextAwareResources":[{"apiVersion":"v1","kind":"Pod"}],"hostCapabilities":["oci/*"],
            "minimumKubewardenVersion":"1.30.0","somethingNew":1}"#;
        let metadata = Metadata::parse(text).unwrap();
        assert_eq!(metadata.protocol_version, Some(ProtocolVersion::V1));
        assert_eq!(metadata.execution_mode, ExecutionMode::Wasi);
        assert_eq!(metadata.policy_type, PolicyType::Raw);
        let again = Metadata::parse(&serde_json::to_vec(&metadata).unwrap()).unwrap();
        assert_eq!(again, metadata);
    }

    #[test]
    fn what_is_required_is_required() {
        for text in ["{}", r#"{"rules":[]}"#, r#"{"mutating":true}"#, "", "[]"] {
            assert!(Metadata::parse(text.as_bytes()).is_err(), "{text}");
        }
        let odd = r#"{"rules":[],"mutating":true,"executionMode":"lua"}"#;
        assert!(Metadata::parse(odd.as_bytes()).is_err());
    }
}
