//! A policy that is ready to evaluate requests: its modules are loaded and its settings validated.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use polity_core::causes::in_one_line;
use polity_core::{ExpressionError, GroupExpression};
use polity_wasm::{ExecutionMode, LoadError, Module, Operation, RunError};

use crate::{
    CapabilitySet, Environment, Grants, GroupConfig, GuestConfig, Mode, PolicyConfig, Settings,
    guest_result::SettingsResult,
};

/// Why a policy is not ready. Callers of the policy get this text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InitError {
    /// The guest rejects its settings.
    #[error("Policy settings are invalid: {0}")]
    Settings(String),
    /// The module could not be fetched.
    #[error("Error while downloading policy '{name}' from {uri}: {reason}")]
    Download {
        /// The id of the policy, or the name of the member.
        name: String,
        /// The reference of the module.
        uri: String,
        /// Why the download failed.
        reason: String,
    },
    /// The module cannot be loaded.
    #[error("{0}")]
    Load(String),
    /// The guest failed while it validated its settings.
    #[error("{0}")]
    Run(String),
    /// The expression of a group cannot be parsed, or names an unknown member.
    #[error("error evaluating policy group expression: {0}")]
    Expression(String),
    /// Members of a group are not ready.
    #[error("{}", join(.0))]
    Members(Vec<(String, InitError)>),
}

/// Joins the errors of members, each with its name in front.
fn join(members: &[(String, InitError)]) -> String {
    let texts: Vec<_> = members
        .iter()
        .map(|(name, error)| format!("{name}: {error}"))
        .collect();
    texts.join(", ")
}

impl From<LoadError> for InitError {
    fn from(error: LoadError) -> Self {
        // The message contains the cause, because the errors of guests are not shown elsewhere.
        Self::Load(in_one_line(&error))
    }
}

/// A policy or a group that is ready to evaluate requests.
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

/// A module with its settings and permissions.
#[derive(Debug, Clone)]
pub(crate) struct Guest {
    /// The id in logs: that of the policy, or `group/member` for a member.
    pub(crate) id: Arc<str>,
    /// The owner of the values that the guest keeps between requests; the id unless another one is set.
    pub(crate) owner: Arc<str>,
    pub(crate) module: Module,
    pub(crate) settings: Settings,
    pub(crate) grants: Arc<Grants>,
    pub(crate) timeout: Option<Duration>,
}

impl Policy {
    /// Prepares a policy: each guest validates its settings.
    ///
    /// `module` returns the loaded module for a member (`None` for the policy itself) and its configuration.
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

    /// The id of the policy.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether its verdict is enforced.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// A member of the group, as a separate policy that may not mutate.
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

    /// The same policy with other capabilities. The kinds that it may read from the cluster stay.
    #[must_use]
    pub fn with_capabilities(&self, capabilities: &CapabilitySet) -> Self {
        self.with_guests(|_, guest| {
            guest.grants = Arc::new(Grants {
                capabilities: capabilities.clone(),
                resources: guest.grants.resources.clone(),
            });
        })
    }

    /// The same policy with another owner of the values that its guests keep between requests. A UID is a better
    /// owner than an id, which another policy may get later.
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

    /// The modules of the policy and of its members.
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

/// Every member is prepared, so that all errors are reported at once.
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

    /// A WASI command that fails writes the reason to standard error.
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
