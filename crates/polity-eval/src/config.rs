//! Parses `policies.yml`: the policies and groups, their settings and permissions.

use std::{collections::BTreeMap, fmt, time::Duration};

use polity_wasm::ResourceKind;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{CapabilitySet, Grants, Settings, SettingsError, UnknownCapability};

/// Whether a verdict is enforced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The verdict is enforced.
    #[default]
    Protect,
    /// The verdict is only logged and counted; every request is allowed.
    Monitor,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Protect => "protect",
            Self::Monitor => "monitor",
        })
    }
}

/// One entry of the file.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyConfig {
    /// A single policy.
    Single(SingleConfig),
    /// A group of policies with an expression over their verdicts.
    Group(GroupConfig),
}

/// A single policy.
#[derive(Debug, Clone, PartialEq)]
pub struct SingleConfig {
    /// Whether its verdict is enforced.
    pub mode: Mode,
    /// Whether it may change objects.
    pub allowed_to_mutate: bool,
    /// Replaces the message of a rejection.
    pub message: Option<String>,
    /// The module with its settings and permissions.
    pub guest: GuestConfig,
}

/// A group of policies with an expression over their verdicts.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupConfig {
    /// Whether the verdict of the group is enforced.
    pub mode: Mode,
    /// The expression over the members. It is parsed when the policy is prepared, so that an invalid one fails only
    /// its group.
    pub expression: String,
    /// The message of a rejection.
    pub message: String,
    /// The members by name.
    pub members: BTreeMap<String, GuestConfig>,
}

/// A module with its settings and permissions.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestConfig {
    /// The reference of the module.
    pub module: String,
    /// The settings that the guest gets.
    pub settings: Settings,
    /// How long one evaluation may take; `None` for the default of the server.
    pub timeout: Option<Duration>,
    /// The host calls that it may make; `None` if the file has no list.
    pub capabilities: Option<CapabilitySet>,
    /// The kinds that it may read from the cluster.
    pub resources: Vec<ResourceKind>,
}

impl GuestConfig {
    /// Its permissions. Without a list all host calls are allowed: most existing files have none.
    pub fn grants(&self) -> Grants {
        Grants {
            capabilities: self.capabilities.clone().unwrap_or_else(CapabilitySet::all),
            resources: self.resources.iter().cloned().collect(),
        }
    }
}

impl PolicyConfig {
    /// The modules of the policy, each with the name of its member for a group.
    pub fn guests(&self) -> impl Iterator<Item = (Option<&str>, &GuestConfig)> {
        let (single, group) = match self {
            Self::Single(single) => (Some((None, &single.guest)), None),
            Self::Group(group) => (None, Some(&group.members)),
        };
        let members = group.into_iter().flatten();
        single
            .into_iter()
            .chain(members.map(|(name, guest)| (Some(name.as_str()), guest)))
    }
}

/// Why the file cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// The file is not YAML, or not a map.
    #[error("not a map of policies in YAML: {0}")]
    Yaml(String),
    /// An entry is invalid.
    #[error("policy {id}: {problem}")]
    Entry {
        /// The name of the entry.
        id: String,
        /// What is wrong with it.
        problem: EntryError,
    },
}

/// Why an entry is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EntryError {
    /// The name cannot be a segment of a path.
    #[error("names must not be empty or contain a slash")]
    Name,
    /// Neither a policy nor a group.
    #[error("needs either `module`, or `policies` with `expression` and `message`")]
    Shape,
    /// A field is missing or of the wrong type.
    #[error("{0}")]
    Field(String),
    /// The settings are not an object.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A pattern matches no host capability.
    #[error(transparent)]
    Capability(#[from] UnknownCapability),
    /// The time limit is zero.
    #[error("timeoutEvalSeconds must be at least 1")]
    Timeout,
    /// A member of a group is invalid.
    #[error("member {name}: {problem}")]
    Member {
        /// The name of the entry.
        name: String,
        /// What is wrong with it.
        problem: Box<EntryError>,
    },
}

/// Parses `policies.yml`, in YAML or JSON.
pub fn parse_policies(text: &str) -> Result<BTreeMap<String, PolicyConfig>, ConfigError> {
    // The reason must fit into one log line, so the parser adds no snippet.
    let options = serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false };
    let entries: Option<BTreeMap<String, Value>> =
        serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| ConfigError::Yaml(error.to_string()))?;
    entries
        .unwrap_or_default()
        .into_iter()
        .map(|(id, entry)| match PolicyConfig::lower(&id, entry) {
            Ok(policy) => Ok((id, policy)),
            Err(problem) => Err(ConfigError::Entry { id, problem }),
        })
        .collect()
}

/// A policy in the file. Unknown keys are ignored, because controllers write some.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSingle {
    module: String,
    #[serde(default)]
    policy_mode: Mode,
    #[serde(default)]
    allowed_to_mutate: Option<bool>,
    #[serde(default)]
    settings: Value,
    #[serde(default)]
    context_aware_resources: Option<Vec<ResourceKind>>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    timeout_eval_seconds: Option<u64>,
    #[serde(default)]
    host_capabilities: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawGroup {
    #[serde(default)]
    policy_mode: Mode,
    expression: String,
    message: String,
    policies: BTreeMap<String, Value>,
}

/// A member in the file. Unknown keys are errors here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawMember {
    module: String,
    #[serde(default)]
    settings: Value,
    #[serde(default)]
    context_aware_resources: Option<Vec<ResourceKind>>,
    #[serde(default)]
    timeout_eval_seconds: Option<u64>,
    #[serde(default)]
    host_capabilities: Option<Vec<String>>,
}

impl PolicyConfig {
    fn lower(id: &str, entry: Value) -> Result<Self, EntryError> {
        check_name(id)?;
        let Value::Object(fields) = entry else {
            return Err(EntryError::Shape);
        };
        let has = |keys: &[&str]| keys.iter().all(|key| fields.contains_key(*key));
        if has(&["module"]) {
            Self::lower_single(fields)
        } else if has(&["policies", "expression", "message"]) {
            Self::lower_group(fields)
        } else {
            Err(EntryError::Shape)
        }
    }

    fn lower_single(fields: Map<String, Value>) -> Result<Self, EntryError> {
        let raw: RawSingle = read(Value::Object(fields))?;
        let guest = GuestConfig::lower(RawMember {
            module: raw.module,
            settings: raw.settings,
            context_aware_resources: raw.context_aware_resources,
            timeout_eval_seconds: raw.timeout_eval_seconds,
            host_capabilities: raw.host_capabilities,
        })?;
        Ok(Self::Single(SingleConfig {
            mode: raw.policy_mode,
            allowed_to_mutate: raw.allowed_to_mutate.unwrap_or(false),
            message: raw.message,
            guest,
        }))
    }

    fn lower_group(fields: Map<String, Value>) -> Result<Self, EntryError> {
        let raw: RawGroup = read(Value::Object(fields))?;
        let mut members = BTreeMap::new();
        for (name, member) in raw.policies {
            let lowered = check_name(&name)
                .and_then(|()| read(member))
                .and_then(GuestConfig::lower);
            match lowered {
                Ok(guest) => members.insert(name, guest),
                Err(problem) => {
                    return Err(EntryError::Member {
                        name,
                        problem: Box::new(problem),
                    });
                }
            };
        }
        Ok(Self::Group(GroupConfig {
            mode: raw.policy_mode,
            expression: raw.expression,
            message: raw.message,
            members,
        }))
    }
}

impl GuestConfig {
    fn lower(raw: RawMember) -> Result<Self, EntryError> {
        let timeout = match raw.timeout_eval_seconds {
            Some(0) => return Err(EntryError::Timeout),
            seconds => seconds.map(Duration::from_secs),
        };
        Ok(Self {
            module: raw.module,
            settings: Settings::from_value(&raw.settings)?,
            timeout,
            capabilities: raw
                .host_capabilities
                .map(CapabilitySet::parse)
                .transpose()?,
            resources: raw.context_aware_resources.unwrap_or_default(),
        })
    }
}

fn check_name(name: &str) -> Result<(), EntryError> {
    if name.is_empty() || name.contains('/') {
        return Err(EntryError::Name);
    }
    Ok(())
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, EntryError> {
    serde_json::from_value(value).map_err(|error| EntryError::Field(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(text: &str) -> SingleConfig {
        match parse_policies(text).unwrap().remove("p") {
            Some(PolicyConfig::Single(single)) => single,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_broken_file_is_reported_in_one_line_with_its_position() {
        let error = parse_policies("p:\n  module: x\nq: [\n")
            .unwrap_err()
            .to_string();
        assert!(!error.contains('\n'), "{error}");
        assert!(error.contains("line 3"), "{error}");
    }

    #[test]
    fn a_policy_needs_only_a_module() {
        let policy =
            single("p: {module: 'file:///p.wasm', namespacedName: {Namespace: a, Name: b}}");
        assert_eq!(policy.mode, Mode::Protect);
        assert!(!policy.allowed_to_mutate);
        assert_eq!(policy.message, None);
        assert_eq!(policy.guest.settings, Settings::default());
        assert_eq!(policy.guest.timeout, None);
        assert_eq!(policy.guest.capabilities, None);
        assert!(
            policy
                .guest
                .grants()
                .capabilities
                .allows("oci", "v1/verify"),
            "missing means all"
        );
    }

    #[test]
    fn every_field_of_a_policy_is_read() {
        let policy = single(
            "p:
  module: registry://ghcr.io/kubewarden/policies/capabilities-psp:v1.0.0
  policyMode: monitor
  allowedToMutate: true
  settings: {allowed_capabilities: ['*'], mode: 0644}
  contextAwareResources: [{apiVersion: v1, kind: Namespace}]
  message: not here
  timeoutEvalSeconds: 5
  hostCapabilities: ['oci/*']",
        );
        assert_eq!(policy.mode, Mode::Monitor);
        assert!(policy.allowed_to_mutate);
        assert_eq!(policy.message.as_deref(), Some("not here"));
        assert_eq!(
            policy.guest.settings.as_raw().get(),
            r#"{"allowed_capabilities":["*"],"mode":420}"#
        );
        assert_eq!(policy.guest.timeout, Some(Duration::from_secs(5)));
        let grants = policy.guest.grants();
        assert!(grants.may_read("v1", "Namespace"));
        assert!(!grants.capabilities.allows("net", "v1/dns_lookup_host"));
    }

    #[test]
    fn settings_null_and_no_capabilities() {
        let policy = single("p: {module: x, settings: null, hostCapabilities: []}");
        assert_eq!(policy.guest.settings.as_raw().get(), "{}");
        assert!(
            !policy
                .guest
                .grants()
                .capabilities
                .allows("oci", "v1/verify")
        );
    }

    #[test]
    fn groups() {
        let file = parse_policies(
            "g:
  expression: signed() || (reviewed() && !latest())
  message: image is not trusted
  policies:
    signed: {module: a, settings: {}, contextAwareResources: [], timeoutEvalSeconds: 5, hostCapabilities: ['*']}
    reviewed: {module: b}
    latest: {module: b}",
        )
        .unwrap();
        let policy = &file["g"];
        let names: Vec<_> = policy
            .guests()
            .map(|(name, guest)| (name.unwrap(), &*guest.module))
            .collect();
        assert_eq!(names, [("latest", "b"), ("reviewed", "b"), ("signed", "a")]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, message) in [
            (
                "a/b: {module: x}",
                "policy a/b: names must not be empty or contain a slash",
            ),
            (
                "p: {url: x}",
                "policy p: needs either `module`, or `policies` with `expression` and `message`",
            ),
            (
                "p: 3",
                "policy p: needs either `module`, or `policies` with `expression` and `message`",
            ),
            (
                "p: {module: x, settings: [1]}",
                "policy p: settings must be an object",
            ),
            (
                "p: {module: x, timeoutEvalSeconds: 0}",
                "policy p: timeoutEvalSeconds must be at least 1",
            ),
            (
                "p: {module: x, hostCapabilities: [oci]}",
                "policy p: unknown host capability \"oci\": nothing matches it",
            ),
            (
                "p: {expression: 'a()', message: m, policies: {a/b: {module: x}}}",
                "policy p: member a/b: names must not be empty or contain a slash",
            ),
        ] {
            assert_eq!(
                parse_policies(text).unwrap_err().to_string(),
                message,
                "{text}"
            );
        }
        let unknown =
            "p: {expression: 'a()', message: m, policies: {a: {module: x, policyMode: protect}}}";
        let error = parse_policies(unknown).unwrap_err().to_string();
        assert!(
            error.contains("member a: unknown field `policyMode`"),
            "{error}"
        );
        assert!(parse_policies("p: {module: x, policyMode: shout}").is_err());
        assert!(parse_policies("- a\n- b").is_err());
    }

    #[test]
    fn an_empty_file_has_no_policies() {
        for text in ["", "{}", "---\n"] {
            assert_eq!(parse_policies(text).unwrap(), BTreeMap::new(), "{text:?}");
        }
    }
}
