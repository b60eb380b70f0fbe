//! AttachmentConfig (4.6) as the engine reads it, and the presets for kinds whose controllers differ (4.5).
//!
//! Unknown fields are refused: a setting that is misspelled must not be a setting that silently does nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What one AttachmentConfig says.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    pub kinds: Vec<KindSettings>,
    pub hierarchies: Vec<HierarchySettings>,
    pub virtual_kinds: Vec<VirtualKind>,
}

/// What is set for one policy kind; what is absent comes from a preset, the CRD or the defaults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KindSettings {
    #[serde(default)]
    pub group: String,
    pub kind: String,
    pub class: Option<Class>,
    pub managed: Option<bool>,
    pub strategy: Option<Strategy>,
    pub strategy_fields: Option<Vec<String>>,
    pub tie_break: Option<TieBreak>,
    pub merge_group: Option<String>,
    pub hierarchy: Option<String>,
    pub effective_kind: Option<KindRef>,
    pub publish: Option<Publish>,
    pub admission: Option<Admission>,
    pub redaction: Option<Redaction>,
    pub contents: Option<Contents>,
    pub bindings: Option<Vec<Binding>>,
}

/// Whether policies of a kind act on their target alone or on what is below it too (A7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Class {
    Direct,
    Inherited,
}

/// How bodies meet (5.2, 5.4, 5.5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// Field by field, `overrides` and `defaults` as stanzas.
    #[default]
    Fields,
    PatchDefaults,
    PatchOverrides,
    AtomicDefaults,
    AtomicOverrides,
    /// One policy for each target; a second one is refused.
    None,
}

/// Who wins between policies of one level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TieBreak {
    /// The older one.
    #[default]
    Oldest,
    /// The older one counts as the upper one, so that with defaults the newer wins.
    Established,
}

/// A kind that is named in a setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KindRef {
    #[serde(default)]
    pub group: String,
    pub kind: String,
}

/// What is written for a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Publish {
    pub marks: bool,
    pub effective_policy: bool,
    pub status: bool,
}

impl Default for Publish {
    fn default() -> Self {
        Self {
            marks: true,
            effective_policy: true,
            status: true,
        }
    }
}

/// What admission does about policies of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Admission {
    Off,
    #[default]
    Warn,
    Deny,
}

/// How much of a policy's name somebody sees who may not read it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Redaction {
    #[default]
    Full,
    KindOnly,
    None,
}

/// How much of a policy's body is shown beside the objects it acts on (7.6).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Contents {
    #[default]
    Full,
    /// Everything but these fields and what is below them.
    Paths(Vec<String>),
    /// Only which policies they are.
    Names,
}

/// A policy field that stands for a field of the object (5.2).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Binding {
    /// The field of the policy, such as `timeout`.
    pub field: String,
    pub object: KindRef,
    /// The field of the object, such as `spec.rules[].timeouts.request`.
    pub path: String,
}

/// A hierarchy as data (3.5).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HierarchySettings {
    pub name: String,
    /// From above to below.
    pub levels: Vec<KindRef>,
    #[serde(default)]
    pub edges: Vec<EdgeSettings>,
}

/// How a child names its parent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EdgeSettings {
    pub child: KindRef,
    /// Where the child names its parent: a name, a reference or a list of them. Empty: every child is below every
    /// such parent.
    #[serde(default)]
    pub path: String,
    pub parent: KindRef,
    /// What a reference into another namespace needs.
    #[serde(default)]
    pub permission: Permission,
}

/// What a reference into another namespace needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Permission {
    #[default]
    None,
    ReferenceGrant,
}

/// Targets that exist although no such API does (A13).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VirtualKind {
    #[serde(default)]
    pub group: String,
    pub kind: String,
    #[serde(default)]
    pub names: Vec<VirtualName>,
}

/// One virtual object.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VirtualName {
    pub namespace: Option<String>,
    pub name: String,
}

impl Settings {
    /// Reads the `spec` of an AttachmentConfig.
    pub fn of(object: &Value) -> Result<Self, String> {
        match object.get("spec") {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(spec) => Self::deserialize(spec).map_err(|error| error.to_string()),
        }
    }
}

/// The presets: kinds whose controllers merge in a way of their own.
pub(crate) fn presets() -> Vec<KindSettings> {
    let preset = |group: &str, kind: &str, class: Class, strategy: Strategy| KindSettings {
        group: group.to_owned(),
        kind: kind.to_owned(),
        class: Some(class),
        strategy: Some(strategy),
        ..KindSettings::default()
    };
    let chosen = |kind: &str| KindSettings {
        strategy_fields: Some(vec![
            "spec.defaults.strategy".to_owned(),
            "spec.overrides.strategy".to_owned(),
        ]),
        tie_break: Some(TieBreak::Established),
        ..preset(
            "kuadrant.io",
            kind,
            Class::Inherited,
            Strategy::AtomicDefaults,
        )
    };
    let (direct, inherited) = (Class::Direct, Class::Inherited);
    let mut presets = Vec::new();
    // One policy for each target; of two the older one holds.
    for (group, kind) in [
        ("gateway.networking.k8s.io", "BackendTLSPolicy"),
        ("gateway.networking.x-k8s.io", "XBackendTrafficPolicy"),
        ("kuadrant.io", "DNSPolicy"),
        ("kuadrant.io", "TLSPolicy"),
    ] {
        presets.push(preset(group, kind, direct, Strategy::None));
    }
    // Without a label; the policy that is nearest to a route holds as a whole.
    for kind in [
        "BackendTrafficPolicy",
        "ClientTrafficPolicy",
        "EnvoyExtensionPolicy",
        "SecurityPolicy",
    ] {
        let group = "gateway.envoyproxy.io";
        presets.push(preset(group, kind, inherited, Strategy::AtomicDefaults));
    }
    // Labelled as direct, but routes take from their Gateway's what they do not set themselves.
    let group = "gateway.kgateway.dev";
    presets.push(preset(group, "TrafficPolicy", inherited, Strategy::Fields));
    presets.extend(["AuthPolicy", "RateLimitPolicy", "TokenRateLimitPolicy"].map(chosen));
    presets
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_example_of_the_contract_is_read_and_unknown_fields_are_refused() {
        let config = json!({"spec": {
            "kinds": [{
                "group": "gateway.envoyproxy.io", "kind": "BackendTrafficPolicy", "class": "Inherited",
                "managed": false, "strategy": "Fields", "strategyFields": ["spec.mergeType"], "tieBreak": "Oldest",
                "mergeGroup": "", "hierarchy": "gateway",
                "effectiveKind": {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"},
                "publish": {"marks": true, "effectivePolicy": true, "status": true},
                "admission": "Warn", "redaction": "kind-only", "contents": {"paths": ["secret"]},
            }],
            "hierarchies": [{
                "name": "workloads",
                "levels": [{"kind": "Namespace"}, {"group": "apps", "kind": "Deployment"}, {"kind": "Pod"}],
                "edges": [{"child": {"kind": "Pod"}, "path": "metadata.ownerReferences",
                           "parent": {"group": "apps", "kind": "ReplicaSet"}}],
            }],
            "virtualKinds": [{"group": "example.com", "kind": "ExternalService",
                              "names": [{"namespace": "shop", "name": "payments"}]}],
        }});
        let settings = Settings::of(&config).unwrap();
        assert_eq!(settings.kinds[0].redaction, Some(Redaction::KindOnly));
        assert_eq!(settings.virtual_kinds[0].names[0].name, "payments");
        let misspelled = json!({"spec": {"kinds": [{"kind": "X", "strategie": "Fields"}]}});
        assert!(Settings::of(&misspelled).unwrap_err().contains("strategie"));
    }
}
