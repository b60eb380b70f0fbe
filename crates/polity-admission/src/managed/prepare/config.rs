//! From the specification in a revision to what a policy is made of: modules, settings, and what it may do.
//!
//! What a policy may do follows from its kind: what a namespaced one asks for in its own specification grants nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use polity_api::policies::v1::{
    AdmissionPolicyGroupSpec, AdmissionPolicySpec, ClusterAdmissionPolicyGroupSpec,
    ClusterAdmissionPolicySpec, ContextAwareResource, Mode as SpecMode, Module as SpecModule,
};
use polity_eval::{
    CapabilitySet, GroupConfig, GuestConfig, Mode, PolicyConfig, ResourceKind, Settings,
    SettingsError, SingleConfig,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::managed::revision::{PolicyKind, Revision};

/// Why a revision is no policy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpecError {
    /// It has no specification, or one that says something else.
    #[error("the specification in the revision cannot be read: {0}")]
    Unreadable(String),
    /// Settings that are no object.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// What a revision's policy is made of. `namespaced` is what policies of namespaces may call.
pub(crate) fn config_of(
    revision: &Revision,
    namespaced: &CapabilitySet,
) -> Result<PolicyConfig, SpecError> {
    let spec = revision
        .spec()
        .ok_or_else(|| SpecError::Unreadable("it is not there".to_owned()))?;
    let of_namespace = Grant {
        capabilities: namespaced,
        resources: None,
    };
    let all = CapabilitySet::all();
    let PolicyKind {
        is_namespaced,
        is_group,
    } = revision.kind;
    match (is_namespaced, is_group) {
        (true, false) => single(&read(spec)?, of_namespace),
        (false, false) => {
            let spec: ClusterAdmissionPolicySpec = read(spec)?;
            let grant = Grant {
                capabilities: &all,
                resources: spec.context_aware_resources.as_deref(),
            };
            single(&spec.policy, grant)
        }
        (true, true) => {
            let spec: AdmissionPolicyGroupSpec = read(spec)?;
            let members = spec
                .policies
                .iter()
                .map(|(name, module)| Ok((name.clone(), guest(module, of_namespace)?)));
            let members = members.collect::<Result<_, SpecError>>()?;
            Ok(group(
                spec.enforcement.mode,
                spec.expression,
                spec.message,
                members,
            ))
        }
        (false, true) => {
            let spec: ClusterAdmissionPolicyGroupSpec = read(spec)?;
            let members = spec.policies.iter().map(|(name, member)| {
                let grant = Grant {
                    capabilities: &all,
                    resources: member.context_aware_resources.as_deref(),
                };
                Ok((name.clone(), guest(&member.module, grant)?))
            });
            let members = members.collect::<Result<_, SpecError>>()?;
            Ok(group(
                spec.enforcement.mode,
                spec.expression,
                spec.message,
                members,
            ))
        }
    }
}

/// What one guest may do.
#[derive(Clone, Copy)]
struct Grant<'a> {
    capabilities: &'a CapabilitySet,
    resources: Option<&'a [ContextAwareResource]>,
}

fn read<T: DeserializeOwned>(spec: &Map<String, Value>) -> Result<T, SpecError> {
    serde_json::from_value(Value::Object(spec.clone()))
        .map_err(|error| SpecError::Unreadable(error.to_string()))
}

fn single(spec: &AdmissionPolicySpec, grant: Grant<'_>) -> Result<PolicyConfig, SpecError> {
    Ok(PolicyConfig::Single(SingleConfig {
        mode: mode(spec.enforcement.mode),
        allowed_to_mutate: spec.mutating,
        message: spec.message.clone(),
        guest: guest(&spec.module, grant)?,
    }))
}

fn group(
    spec_mode: SpecMode,
    expression: String,
    message: String,
    members: BTreeMap<String, GuestConfig>,
) -> PolicyConfig {
    PolicyConfig::Group(GroupConfig {
        mode: mode(spec_mode),
        expression,
        message,
        members,
    })
}

fn guest(module: &SpecModule, grant: Grant<'_>) -> Result<GuestConfig, SpecError> {
    let settings = module.settings.clone().unwrap_or_default();
    let timeout = module.timeout_eval_seconds.unwrap_or_default();
    Ok(GuestConfig {
        module: module.module.clone(),
        settings: Settings::from_value(&Value::Object(settings))?,
        timeout: u64::try_from(timeout)
            .ok()
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs),
        capabilities: Some(grant.capabilities.clone()),
        resources: grant
            .resources
            .unwrap_or_default()
            .iter()
            .map(|resource| ResourceKind {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
            })
            .collect(),
    })
}

fn mode(mode: SpecMode) -> Mode {
    match mode {
        SpecMode::Protect => Mode::Protect,
        SpecMode::Monitor => Mode::Monitor,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::managed::revision::samples::Sample;

    fn namespaced() -> CapabilitySet {
        CapabilitySet::parse(["oci/*"]).unwrap()
    }

    fn guests(sample: Sample) -> Vec<(Option<String>, GuestConfig)> {
        let config = config_of(&sample.read(), &namespaced()).unwrap();
        let guests = config.guests();
        guests
            .map(|(member, guest)| (member.map(str::to_owned), guest.clone()))
            .collect()
    }

    #[test]
    fn scope_decides_about_capabilities_and_reads() {
        let pods = json!([{"apiVersion": "v1", "kind": "Pod"}]);
        let member =
            json!({"m": {"module": "registry.example/m:1", "contextAwareResources": pods}});
        let groups = |sample: Sample| {
            sample
                .spec("expression", json!("m()"))
                .spec("message", json!("no"))
                .spec("policies", member.clone())
        };
        for (kind, namespace, expected) in [
            ("ClusterAdmissionPolicy", None, ("[\"*\"]", 1)),
            ("AdmissionPolicy", Some("a"), ("[\"oci/*\"]", 0)),
            ("ClusterAdmissionPolicyGroup", None, ("[\"*\"]", 1)),
            ("AdmissionPolicyGroup", Some("a"), ("[\"oci/*\"]", 0)),
        ] {
            let sample = Sample::new(1)
                .of_kind(kind, namespace)
                .spec("contextAwareResources", pods.clone());
            let [(_, guest)] = &guests(groups(sample))[..] else {
                panic!("{kind}: one guest");
            };
            let capabilities = format!("{:?}", guest.capabilities.as_ref().unwrap());
            assert_eq!(
                (capabilities.as_str(), guest.resources.len()),
                expected,
                "{kind}"
            );
        }
    }

    #[test]
    fn the_specification_becomes_the_policy() {
        let sample = Sample::new(1)
            .spec("mode", json!("monitor"))
            .spec("mutating", json!(true))
            .spec("message", json!("not here"))
            .spec("settings", json!({"a": 1}))
            .spec("timeoutEvalSeconds", json!(7));
        let config = config_of(&sample.read(), &namespaced()).unwrap();
        let PolicyConfig::Single(single) = config else {
            panic!("a policy of its own");
        };
        assert_eq!(single.mode, Mode::Monitor);
        assert!(single.allowed_to_mutate);
        assert_eq!(single.message.as_deref(), Some("not here"));
        assert_eq!(single.guest.settings.as_raw().get(), r#"{"a":1}"#);
        assert_eq!(single.guest.timeout, Some(Duration::from_secs(7)));
    }

    #[test]
    fn what_is_no_policy_is_told() {
        let sample = Sample::new(1).spec("module", json!(3));
        let error = config_of(&sample.read(), &namespaced()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the specification in the revision cannot be read: "),
            "{error}"
        );
    }
}
