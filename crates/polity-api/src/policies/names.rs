//! Names, labels and annotations that scripts, dashboards and other controllers rely on.

/// Finalizer on policies, groups and policy servers.
pub const FINALIZER: &str = "kubewarden.io/finalizer";
/// The finalizer of early releases, removed wherever it is seen.
pub const OLD_FINALIZER: &str = "kubewarden";

/// Label on everything that belongs to an installation, with [`PART_OF_VALUE`].
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// The value of [`PART_OF`].
pub const PART_OF_VALUE: &str = "kubewarden";

/// The ValidatingWebhookConfiguration of the controller, for our own kinds.
pub const CONTROLLER_VALIDATING_WEBHOOKS: &str =
    "kubewarden-controller-validating-webhook-configuration";
/// The MutatingWebhookConfiguration of the controller, for our own kinds.
pub const CONTROLLER_MUTATING_WEBHOOKS: &str =
    "kubewarden-controller-mutating-webhook-configuration";
/// The Secret with the certificate authority of an installation.
pub const CA_SECRET: &str = "kubewarden-ca";
/// The Secret with the serving certificate of the controller's webhooks.
pub const WEBHOOK_SECRET: &str = "kubewarden-webhook-server-cert";

/// The name of the Service, the Secret, the ConfigMap and the Lease of a policy server. Its StatefulSet has this name too,
/// unless it is too long for one: the controller then shortens it.
pub fn policy_server(server: &str) -> String {
    format!("policy-server-{server}")
}

/// Annotation on a webhook configuration: the name of its policy.
pub const WEBHOOK_POLICY_NAME: &str = "kubewardenPolicyName";
/// Annotation on a webhook configuration: the namespace of its policy, empty for cluster kinds.
pub const WEBHOOK_POLICY_NAMESPACE: &str = "kubewardenPolicyNamespace";
/// Annotation on a webhook configuration: when it last changed generation, RFC 3339.
pub const WEBHOOK_SWITCHED_AT: &str = "kubewarden.io/switched-at";

/// Label on a PolicyRevision: the policy server it is meant for.
pub const REVISION_POLICY_SERVER: &str = "kubewarden.io/policy-server";
/// Label on ConfigMap, workload and pods of a policy server. The prefix differs from the revision's label.
pub const WORKLOAD_POLICY_SERVER: &str = "kubewarden/policy-server";

/// Label on a PolicyRevision, annotation on a webhook: the UID of the policy.
pub const POLICY_UID: &str = "kubewarden.io/policy-uid";
/// Label on a PolicyRevision: the generation of the policy it holds.
pub const POLICY_GENERATION: &str = "kubewarden.io/policy-generation";
/// Annotation on a PolicyRevision: the unique name of the policy, chosen once.
pub const POLICY_ID: &str = "kubewarden.io/policy-id";
/// Annotation on the PolicyRevision that the webhook points at: `"true"`.
pub const SERVING: &str = "kubewarden.io/serving";
/// Annotation on a PolicyRevision made by a rollback: the generation it returns to.
pub const ROLLBACK_OF: &str = "kubewarden.io/rollback-of";
/// Annotation on a PolicyRevision that was made while taking over an existing installation.
pub const TAKEOVER: &str = "kubewarden.io/takeover";

/// Annotation a user sets on a policy to return to an earlier generation.
pub const ROLLBACK_TO_GENERATION: &str = "kubewarden.io/rollback-to-generation";
/// Annotation the controller leaves on a policy it rolled back: `<new generation>=<n>`.
pub const ROLLED_BACK: &str = "kubewarden.io/rolled-back";

/// Annotation of a policy: how bad a violation is.
pub const POLICY_SEVERITY: &str = "io.kubewarden.policy.severity";
/// Annotation of a policy: what it is about.
pub const POLICY_CATEGORY: &str = "io.kubewarden.policy.category";
/// Annotation of a policy: what it does, in a sentence.
pub const POLICY_DESCRIPTION: &str = "io.kubewarden.policy.description";
/// Annotation of a policy: its name for people.
pub const POLICY_DISPLAY_NAME: &str = "io.artifacthub.displayName";
