//! What a host can do for a policy: the words that lists of granted capabilities are made of.

/// Every host capability, as namespace and operation. `tracing/log` is not among them: nobody is refused that.
pub const HOST_CAPABILITIES: [&str; 13] = [
    "oci/v1/verify",
    "oci/v1/manifest_digest",
    "oci/v1/oci_manifest",
    "oci/v1/oci_manifest_config",
    "oci/v2/verify",
    "net/v1/dns_lookup_host",
    "crypto/v1/is_certificate_trusted",
    "kubernetes/list_resources_by_namespace",
    "kubernetes/list_resources_all",
    "kubernetes/get_resource",
    "kubernetes/can_i",
    "cache/set",
    "cache/get",
];
