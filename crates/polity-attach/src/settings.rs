//! The settings of AttachmentConfig, as `polity-api` declares them, and the presets for kinds whose controllers combine
//! policies in their own way.

use polity_api::attachment::AttachmentConfigSpec;
use serde_json::Value;

pub use polity_api::attachment::{
    Admission, Binding, Class, Contents, EdgeSettings, HierarchySettings, KindRef, KindSettings,
    Permission, Publish, Redaction, Strategy, TieBreak, VirtualKind, VirtualName,
};

/// The settings of one AttachmentConfig.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    pub kinds: Vec<KindSettings>,
    pub hierarchies: Vec<HierarchySettings>,
    pub virtual_kinds: Vec<VirtualKind>,
}

impl Settings {
    /// Reads the `spec` of an AttachmentConfig. An unknown field is an error, because a misspelt setting must not
    /// silently have no effect.
    pub fn of(object: &Value) -> Result<Self, String> {
        match object.get("spec") {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(spec) => polity_api::decode::<AttachmentConfigSpec>(spec)
                .map(Self::from)
                .map_err(|error| error.to_string()),
        }
    }
}

impl From<AttachmentConfigSpec> for Settings {
    fn from(spec: AttachmentConfigSpec) -> Self {
        Self {
            kinds: spec.kinds,
            hierarchies: spec.hierarchies,
            virtual_kinds: spec.virtual_kinds,
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
    fn every_setting_is_read_and_unknown_fields_are_refused() {
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
        assert_eq!(
            Settings::of(&json!({"spec": {"kinds": [{"kind": "X", "managed": "yes"}]}})),
            Err(r#"kinds[0].managed: invalid type: string "yes", expected a boolean"#.to_owned())
        );
        assert_eq!(Settings::of(&json!({})), Ok(Settings::default()));
    }
}
