//! The host calls that reach the services, parsed from the payloads of guests.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{failure, read};

/// A host call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CapabilityRequest {
    /// `oci/v1/manifest_digest`.
    OciManifestDigest {
        /// The image reference.
        image: String,
    },
    /// `oci/v1/oci_manifest`.
    OciManifest {
        /// The image reference.
        image: String,
    },
    /// `oci/v1/oci_manifest_config`.
    OciManifestAndConfig {
        /// The image reference.
        image: String,
    },
    /// `oci/v1/verify` and `oci/v2/verify`.
    Verify {
        /// How the signature is verified.
        kind: VerifyKind,
        /// The image, and the keys or identities that must have signed it.
        arguments: Map<String, Value>,
    },
    /// `net/v1/dns_lookup_host`.
    DnsLookupHost {
        /// The name of the object or host.
        host: String,
    },
    /// `crypto/v1/is_certificate_trusted`.
    IsCertificateTrusted(CertificateQuery),
    /// `kubernetes/list_resources_by_namespace` and `list_resources_all`.
    ListResources(ListResources),
    /// `kubernetes/get_resource`.
    GetResource(GetResource),
    /// `kubernetes/can_i`.
    CanI(SubjectAccess),
}

/// How a signature is to be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyKind {
    /// By public keys.
    PubKey,
    /// By issuer and subject.
    Keyless,
    /// By issuer and the beginning of the subject's URL.
    KeylessPrefix,
    /// By a GitHub repository's workflows.
    GithubActions,
    Certificate,
}

/// The arguments of `is_certificate_trusted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateQuery {
    /// The certificate.
    pub cert: Certificate,
    /// The chain, intermediates first and root last; without it the public roots are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_chain: Option<Vec<Certificate>>,
    /// The time at which it must be valid; empty is the same as absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_after: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// The encoding of its bytes.
    pub encoding: CertificateEncoding,
    /// The encoded certificate.
    pub data: Vec<u8>,
}

/// The encoding of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CertificateEncoding {
    Pem,
    Der,
}

/// The arguments of a list call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListResources {
    /// The API group and version.
    pub api_version: String,
    pub kind: String,
    /// The namespace; `None` for all namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<String>,
    /// The fields to return of each object; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_masks: Option<BTreeSet<String>>,
}

/// The arguments of `get_resource`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetResource {
    /// The API group and version.
    pub api_version: String,
    pub kind: String,
    /// The name of the object or host.
    pub name: String,
    /// The namespace, for namespaced kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether the cache must not be used.
    #[serde(default)]
    pub disable_cache: bool,
    /// The fields to return; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_masks: Option<BTreeSet<String>>,
}

/// The arguments of `can_i`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectAccess {
    /// The user and the action, as in a SubjectAccessReview.
    pub subject_access_review: SubjectAccessReview,
    /// Whether the cache must not be used.
    #[serde(default)]
    pub disable_cache: bool,
}

/// The user and the action to check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectAccessReview {
    /// The name of the user.
    pub user: String,
    /// The groups of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<String>>,
    /// The action.
    pub resource_attributes: ResourceAttributes,
}

/// The action to check: a verb on a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceAttributes {
    /// `get`, `create`, …
    pub verb: String,
    /// The plural.
    pub resource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `status`, `log`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// The object's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The object's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl CapabilityRequest {
    /// Parses a call. An unknown one is an error with the text that the protocol requires.
    pub fn parse(namespace: &str, operation: &str, payload: &[u8]) -> Result<Self, String> {
        let request = match (namespace, operation) {
            ("oci", "v1/verify") => verify_v1(payload),
            ("oci", "v2/verify") => verify_v2(payload),
            ("oci", "v1/manifest_digest") => {
                read(payload).map(|image| Self::OciManifestDigest { image })
            }
            ("oci", "v1/oci_manifest") => read(payload).map(|image| Self::OciManifest { image }),
            ("oci", "v1/oci_manifest_config") => {
                read(payload).map(|image| Self::OciManifestAndConfig { image })
            }
            ("net", "v1/dns_lookup_host") => read(payload).map(|host| Self::DnsLookupHost { host }),
            ("crypto", "v1/is_certificate_trusted") => {
                read(payload).map(Self::IsCertificateTrusted)
            }
            ("kubernetes", "list_resources_by_namespace") => list_by_namespace(payload),
            ("kubernetes", "list_resources_all") => read(payload).map(|query: ListResources| {
                Self::ListResources(ListResources {
                    namespace: None,
                    ..query
                })
            }),
            ("kubernetes", "get_resource") => read(payload).map(Self::GetResource),
            ("kubernetes", "can_i") => read(payload).map(Self::CanI),
            ("oci" | "net" | "crypto" | "kubernetes" | "cache" | "tracing", _) => {
                return Err(format!("unknown operation: {operation}"));
            }
            _ => return Err(format!("unknown namespace: {namespace}")),
        };
        request.map_err(failure)
    }

    /// The capability that the call needs, such as `oci/v2/verify`.
    pub fn capability(&self) -> &'static str {
        match self {
            Self::OciManifestDigest { .. } => "oci/v1/manifest_digest",
            Self::OciManifest { .. } => "oci/v1/oci_manifest",
            Self::OciManifestAndConfig { .. } => "oci/v1/oci_manifest_config",
            Self::Verify { .. } => "oci/v2/verify",
            Self::DnsLookupHost { .. } => "net/v1/dns_lookup_host",
            Self::IsCertificateTrusted(_) => "crypto/v1/is_certificate_trusted",
            Self::ListResources(list) if list.namespace.is_some() => {
                "kubernetes/list_resources_by_namespace"
            }
            Self::ListResources(_) => "kubernetes/list_resources_all",
            Self::GetResource(_) => "kubernetes/get_resource",
            Self::CanI(_) => "kubernetes/can_i",
        }
    }

    /// The kind that the call reads from the cluster, if any.
    pub fn resource_kind(&self) -> Option<(&str, &str)> {
        match self {
            Self::ListResources(list) => Some((&list.api_version, &list.kind)),
            Self::GetResource(get) => Some((&get.api_version, &get.kind)),
            _ => None,
        }
    }

    /// The name of the call in recordings.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::OciManifestDigest { .. } => "OciManifestDigest",
            Self::OciManifest { .. } => "OciManifest",
            Self::OciManifestAndConfig { .. } => "OciManifestAndConfig",
            Self::Verify { kind, .. } => kind.tag(),
            Self::DnsLookupHost { .. } => "DNSLookupHost",
            Self::IsCertificateTrusted(_) => "IsCertificateTrusted",
            Self::ListResources(list) if list.namespace.is_some() => {
                "KubernetesListResourceNamespace"
            }
            Self::ListResources(_) => "KubernetesListResourceAll",
            Self::GetResource(_) => "KubernetesGetResource",
            Self::CanI(_) => "KubernetesCanI",
        }
    }

    /// The arguments that are set.
    pub fn arguments(&self) -> Value {
        let value = match self {
            Self::OciManifestDigest { image }
            | Self::OciManifest { image }
            | Self::OciManifestAndConfig { image } => {
                return serde_json::json!({ "image": image });
            }
            Self::Verify { arguments, .. } => return Value::Object(arguments.clone()),
            Self::DnsLookupHost { host } => return serde_json::json!({ "host": host }),
            Self::IsCertificateTrusted(query) => serde_json::to_value(query),
            Self::ListResources(query) => serde_json::to_value(query),
            Self::GetResource(query) => serde_json::to_value(query),
            Self::CanI(query) => serde_json::to_value(query),
        };
        value.expect("strings and numbers serialise")
    }
}

impl VerifyKind {
    const ALL: [Self; 5] = [
        Self::PubKey,
        Self::Keyless,
        Self::KeylessPrefix,
        Self::GithubActions,
        Self::Certificate,
    ];

    fn tag(self) -> &'static str {
        match self {
            Self::PubKey => "SigstorePubKeyVerify",
            Self::Keyless => "SigstoreKeylessVerify",
            Self::KeylessPrefix => "SigstoreKeylessPrefixVerify",
            Self::GithubActions => "SigstoreGithubActionsVerify",
            Self::Certificate => "SigstoreCertificateVerify",
        }
    }
}

/// The kind is the only key.
fn verify_v1(payload: &[u8]) -> Result<CapabilityRequest, String> {
    let tagged: Map<String, Value> = read(payload)?;
    match tagged.into_iter().next() {
        Some((tag, Value::Object(arguments))) => {
            verify(&tag, &[VerifyKind::PubKey, VerifyKind::Keyless], arguments)
        }
        _ => Err("cannot read the payload: expected one kind of verification".to_owned()),
    }
}

/// The kind is the field `type`.
fn verify_v2(payload: &[u8]) -> Result<CapabilityRequest, String> {
    let mut arguments: Map<String, Value> = read(payload)?;
    match arguments.remove("type") {
        Some(Value::String(tag)) => verify(&tag, &VerifyKind::ALL, arguments),
        _ => Err("cannot read the payload: missing field `type`".to_owned()),
    }
}

fn verify(
    tag: &str,
    known: &[VerifyKind],
    mut arguments: Map<String, Value>,
) -> Result<CapabilityRequest, String> {
    let kind = known
        .iter()
        .copied()
        .find(|kind| kind.tag() == tag)
        .ok_or_else(|| format!("unknown kind of verification: {tag}"))?;
    if !arguments.get("image").is_some_and(Value::is_string) {
        return Err("cannot read the payload: missing field `image`".to_owned());
    }
    arguments.retain(|_, value| !value.is_null());
    Ok(CapabilityRequest::Verify { kind, arguments })
}

fn list_by_namespace(payload: &[u8]) -> Result<CapabilityRequest, String> {
    let query: ListResources = read(payload)?;
    if query.namespace.is_none() {
        return Err("cannot read the payload: missing field `namespace`".to_owned());
    }
    Ok(CapabilityRequest::ListResources(query))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_call_is_read() {
        for (call, payload, tag) in [
            (
                "oci v1/verify",
                r#"{"SigstorePubKeyVerify":{"image":"i","pub_keys":["k"],"annotations":null}}"#,
                "SigstorePubKeyVerify",
            ),
            (
                "oci v2/verify",
                r#"{"type":"SigstoreGithubActionsVerify","image":"i","owner":"o","repo":null}"#,
                "SigstoreGithubActionsVerify",
            ),
            ("oci v1/manifest_digest", "\"i\"", "OciManifestDigest"),
            ("oci v1/oci_manifest", "\"i\"", "OciManifest"),
            (
                "oci v1/oci_manifest_config",
                "\"i\"",
                "OciManifestAndConfig",
            ),
            ("net v1/dns_lookup_host", "\"h\"", "DNSLookupHost"),
            (
                "crypto v1/is_certificate_trusted",
                r#"{"cert":{"encoding":"Pem","data":[1]},"cert_chain":null,"not_after":null}"#,
                "IsCertificateTrusted",
            ),
            (
                "kubernetes list_resources_by_namespace",
                r#"{"api_version":"v1","kind":"Pod","namespace":"n","label_selector":null,"field_masks":["a.b"]}"#,
                "KubernetesListResourceNamespace",
            ),
            (
                "kubernetes list_resources_all",
                r#"{"api_version":"v1","kind":"Pod"}"#,
                "KubernetesListResourceAll",
            ),
            (
                "kubernetes get_resource",
                r#"{"api_version":"v1","kind":"Pod","name":"n","namespace":null,"disable_cache":true}"#,
                "KubernetesGetResource",
            ),
            (
                "kubernetes can_i",
                r#"{"subject_access_review":{"user":"u","resource_attributes":{"verb":"get","resource":"pods"}},"disable_cache":false}"#,
                "KubernetesCanI",
            ),
        ] {
            let (namespace, operation) = call.split_once(' ').unwrap();
            let request =
                CapabilityRequest::parse(namespace, operation, payload.as_bytes()).expect(call);
            assert_eq!(request.tag(), tag);
            assert!(
                !request.arguments().to_string().contains("null"),
                "{request:?}"
            );
        }
    }

    #[test]
    fn invalid_arguments_are_named() {
        for (call, payload, message) in [
            ("magic wand", "", "unknown namespace: magic"),
            (
                "kubernetes/ingresses list",
                "",
                "unknown namespace: kubernetes/ingresses",
            ),
            ("oci v3/verify", "", "unknown operation: v3/verify"),
            (
                "oci v2/verify",
                "{}",
                "Callback evaluation failure: cannot read the payload: missing field `type`",
            ),
            (
                "oci v1/verify",
                r#"{"SigstoreCertificateVerify":{"image":"i"}}"#,
                "Callback evaluation failure: unknown kind of verification: SigstoreCertificateVerify",
            ),
            (
                "kubernetes list_resources_by_namespace",
                r#"{"api_version":"v1","kind":"Pod"}"#,
                "Callback evaluation failure: cannot read the payload: missing field `namespace`",
            ),
        ] {
            let (namespace, operation) = call.split_once(' ').unwrap();
            let error =
                CapabilityRequest::parse(namespace, operation, payload.as_bytes()).unwrap_err();
            assert_eq!(error, message, "{call}");
        }
    }
}
