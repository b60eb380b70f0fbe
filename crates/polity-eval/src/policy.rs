//! A policy that is ready to judge: modules loaded, settings accepted.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use polity_core::causes::in_one_line;
use polity_core::{ExpressionError, GroupExpression};
use polity_wasm::{ExecutionMode, LoadError, Module, Operation, RunError};

use crate::{
    CapabilitySet, Environment, Grants, GroupConfig, GuestConfig, Mode, PolicyConfig, Settings,
    guest_result::SettingsResult,
};

/// Why a policy is not ready. The text is what callers of the policy get to read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InitError {
    /// The guest does not like its settings.
    #[error("Policy settings are invalid: {0}")]
    Settings(String),
    /// The module could not be fetched.
    #[error("Error while downloading policy '{name}' from {uri}: {reason}")]
    Download {
        /// The policy or member.
        name: String,
        /// Where from.
        uri: String,
        /// Why not.
        reason: String,
    },
    /// The module is fetched, and no good.
    #[error("{0}")]
    Load(String),
    /// The guest could not be asked about its settings.
    #[error("{0}")]
    Run(String),
    /// The expression of a group cannot be read, or calls who is not there.
    #[error("error evaluating policy group expression: {0}")]
    Expression(String),
    /// Members of a group are not ready.
    #[error("{}", join(.0))]
    Members(Vec<(String, InitError)>),
}

/// Each with its name in front.
fn join(members: &[(String, InitError)]) -> String {
    let texts: Vec<_> = members
        .iter()
        .map(|(name, error)| format!("{name}: {error}"))
        .collect();
    texts.join(", ")
}

impl From<LoadError> for InitError {
    fn from(error: LoadError) -> Self {
        // The sentence for users has the cause in it; errors of guests are seen by nobody else.
        Self::Load(in_one_line(&error))
    }
}

/// A policy or a group, ready to judge requests.
#[derive(Debug)]
pub struct Policy {
    pub(crate) id: Arc<str>,
    pub(crate) mode: Mode,
    pub(crate) body: Body,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
    Single {
        guest: Guest,
        allowed_to_mutate: bool,
        message: Option<String>,
    },
    Group {
        expression: GroupExpression,
        message: String,
        members: BTreeMap<String, Guest>,
    },
}

/// A module with what it gets.
#[derive(Debug, Clone)]
pub(crate) struct Guest {
    /// The policy's id, for a member `group/member`: what logs say.
    pub(crate) id: Arc<str>,
    /// Whose what it keeps between requests is: the id, where nobody says otherwise.
    pub(crate) owner: Arc<str>,
    pub(crate) module: Module,
    pub(crate) settings: Settings,
    pub(crate) grants: Arc<Grants>,
    pub(crate) timeout: Option<Duration>,
}

impl Policy {
    /// Makes a policy ready: takes its modules, and asks each guest whether its settings are good.
    ///
    /// `module` gives the loaded module for a member (`None`: the policy itself) and its configuration.
    /// Blocks while guests run.
    pub fn prepare(
        id: &str,
        config: &PolicyConfig,
        environment: &Environment,
        mut module: impl FnMut(Option<&str>, &GuestConfig) -> Result<Module, InitError>,
    ) -> Result<Self, InitError> {
        let (mode, body) = match config {
            PolicyConfig::Single(single) => {
                let guest =
                    Guest::prepare(id, &single.guest, environment, module(None, &single.guest)?)?;
                let body = Body::Single {
                    guest,
                    allowed_to_mutate: single.allowed_to_mutate,
                    message: single.message.clone(),
                };
                (single.mode, body)
            }
            PolicyConfig::Group(group) => {
                (group.mode, prepare_group(id, group, environment, module)?)
            }
        };
        Ok(Self {
            id: id.into(),
            mode,
            body,
        })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What happens with its verdict.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// A member of the group, as a policy of its own that may not mutate.
    pub fn member(&self, name: &str) -> Option<Self> {
        match &self.body {
            Body::Single { .. } => None,
            Body::Group { members, .. } => {
                let guest = members.get(name)?.clone();
                Some(Self {
                    id: guest.id.clone(),
                    mode: Mode::Protect,
                    body: Body::Single {
                        guest,
                        allowed_to_mutate: false,
                        message: None,
                    },
                })
            }
        }
    }

    /// The same policy with other capabilities: what it may read from the cluster stays.
    #[must_use]
    pub fn with_capabilities(&self, capabilities: &CapabilitySet) -> Self {
        self.with_guests(|_, guest| {
            guest.grants = Arc::new(Grants {
                capabilities: capabilities.clone(),
                resources: guest.grants.resources.clone(),
            });
        })
    }

    /// The same policy, keeping things between requests for an owner of which there is only one ever. An id may come
    /// back for another policy.
    #[must_use]
    pub fn owned_by(&self, owner: &str) -> Self {
        self.with_guests(|member, guest| {
            guest.owner = match member {
                Some(member) => format!("{owner}/{member}").into(),
                None => owner.into(),
            };
        })
    }

    fn with_guests(&self, change: impl Fn(Option<&str>, &mut Guest)) -> Self {
        let mut body = self.body.clone();
        match &mut body {
            Body::Single { guest, .. } => change(None, guest),
            Body::Group { members, .. } => {
                for (name, guest) in members {
                    change(Some(name), guest);
                }
            }
        }
        Self {
            id: self.id.clone(),
            mode: self.mode,
            body,
        }
    }

    /// Its modules, those of members among them.
    pub fn modules(&self) -> impl Iterator<Item = &Module> {
        let (single, group) = match &self.body {
            Body::Single { guest, .. } => (Some(guest), None),
            Body::Group { members, .. } => (None, Some(members.values())),
        };
        single
            .into_iter()
            .chain(group.into_iter().flatten())
            .map(|guest| &guest.module)
    }
}

/// Every member is tried, so that all that is wrong is said at once.
fn prepare_group(
    id: &str,
    group: &GroupConfig,
    environment: &Environment,
    mut module: impl FnMut(Option<&str>, &GuestConfig) -> Result<Module, InitError>,
) -> Result<Body, InitError> {
    let mut members = BTreeMap::new();
    let mut failed = Vec::new();
    for (name, config) in &group.members {
        let member_id = format!("{id}/{name}");
        let prepared = module(Some(name), config)
            .and_then(|module| Guest::prepare(&member_id, config, environment, module));
        match prepared {
            Ok(guest) => {
                members.insert(name.clone(), guest);
            }
            Err(error) => failed.push((member_id, error)),
        }
    }
    if !failed.is_empty() {
        return Err(InitError::Members(failed));
    }
    let expression: GroupExpression = group
        .expression
        .parse()
        .map_err(|error: ExpressionError| InitError::Expression(error.to_string()))?;
    if let Some(unknown) = expression
        .members()
        .iter()
        .find(|name| !members.contains_key(*name))
    {
        return Err(InitError::Expression(format!(
            "there is no member {unknown}"
        )));
    }
    Ok(Body::Group {
        expression,
        message: group.message.clone(),
        members,
    })
}

impl Guest {
    fn prepare(
        id: &str,
        config: &GuestConfig,
        environment: &Environment,
        module: Module,
    ) -> Result<Self, InitError> {
        let id: Arc<str> = id.into();
        let guest = Self {
            owner: id.clone(),
            id,
            module,
            settings: config.settings.clone(),
            grants: Arc::new(config.grants()),
            timeout: config.timeout,
        };
        guest.check_settings(environment)?;
        Ok(guest)
    }

    fn check_settings(&self, environment: &Environment) -> Result<(), InitError> {
        let payload = self.settings.as_raw().get().as_bytes().to_vec();
        let answer = environment.run(
            self,
            Operation::ValidateSettings,
            payload,
            "",
            polity_wasm::Deadline::NEVER,
        );
        let bytes = match answer {
            Ok(bytes) => bytes,
            Err(error) => return Err(self.settings_not_checked(&error)),
        };
        let answer = SettingsResult::parse(&bytes).map_err(InitError::Run)?;
        if answer.valid {
            return Ok(());
        }
        Err(InitError::Settings(answer.message.map_or_else(
            || "no message".to_owned(),
            std::borrow::Cow::into_owned,
        )))
    }

    /// A command that ends badly says on standard error what it does not like.
    fn settings_not_checked(&self, error: &RunError) -> InitError {
        match error {
            RunError::Exit { stderr, .. } | RunError::Trap { stderr, .. }
                if self.module.execution_mode() == ExecutionMode::Wasi && !stderr.is_empty() =>
            {
                InitError::Settings(stderr.clone())
            }
            error => InitError::Run(format!("cannot validate the settings: {error}")),
        }
    }
}
