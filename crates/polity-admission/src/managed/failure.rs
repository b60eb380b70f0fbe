//! What goes wrong between a revision and a policy that serves, in the words of its conditions.

use polity_api::policies::v1::{InitializedReason, ReadyReason};
use polity_core::causes::in_one_line;
use polity_eval::{InitError, LoadError};
use polity_fetch::FetchError;

use super::replica::LoadFailure;
use super::status::Failure;

/// What went wrong, told apart by what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The module could not be had.
    Pull,
    /// What is under the URL now is not what was initialised.
    Changed,
    /// The disk.
    Cache,
    /// What is in the cache must not be used, and nothing better could be had.
    Signature,
    /// The module's description of itself cannot be read.
    Metadata,
    /// The module is no good.
    Module,
    /// It wants a newer server.
    Version,
    /// It asks for a capability that names nothing.
    Capability,
    /// It does not like its settings.
    Settings,
    /// The expression of the group cannot be evaluated.
    Expression,
}

impl Fault {
    fn initialized(self) -> InitializedReason {
        match self {
            Self::Pull | Self::Changed | Self::Signature => InitializedReason::PullError,
            Self::Cache => InitializedReason::CacheError,
            Self::Metadata => InitializedReason::MetadataInvalid,
            Self::Module => InitializedReason::ModuleInvalid,
            Self::Version => InitializedReason::IncompatibleVersion,
            Self::Capability => InitializedReason::CapabilityInvalid,
            Self::Settings => InitializedReason::SettingsInvalid,
            Self::Expression => InitializedReason::ExpressionInvalid,
        }
    }

    fn ready(self) -> ReadyReason {
        match self {
            Self::Pull => ReadyReason::PullError,
            Self::Cache => ReadyReason::CacheError,
            Self::Signature => ReadyReason::SignatureInvalid,
            Self::Metadata | Self::Module => ReadyReason::ModuleInvalid,
            Self::Changed
            | Self::Version
            | Self::Capability
            | Self::Settings
            | Self::Expression => ReadyReason::LoadError,
        }
    }
}

/// A fault with the words of whoever found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) fault: Fault,
    pub(crate) message: String,
}

impl Trouble {
    pub(crate) fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self {
            fault,
            message: message.into(),
        }
    }

    /// The same, about a member of a group.
    pub(crate) fn of_member(self, member: Option<&str>) -> Self {
        match member {
            Some(member) => Self {
                message: format!("{member}: {}", self.message),
                ..self
            },
            None => self,
        }
    }

    /// Several as one: the first decides what becomes of it, all are told.
    pub(crate) fn all(troubles: Vec<Self>) -> Option<Self> {
        let fault = troubles.first()?.fault;
        let messages: Vec<String> = troubles.into_iter().map(|one| one.message).collect();
        Some(Self::new(fault, messages.join(", ")))
    }

    /// For the leader's condition.
    pub(crate) fn initialized(self) -> Failure {
        Failure {
            reason: self.fault.initialized(),
            message: self.message,
        }
    }

    /// For a replica's condition.
    pub(crate) fn ready(self) -> LoadFailure {
        LoadFailure {
            reason: self.fault.ready(),
            message: self.message,
        }
    }

    /// Why a policy whose modules are there is not ready.
    pub(crate) fn of_policy(error: &InitError) -> Self {
        let fault = match error {
            InitError::Settings(_) | InitError::Run(_) => Fault::Settings,
            InitError::Expression(_) => Fault::Expression,
            InitError::Download { .. } => Fault::Pull,
            InitError::Load(_) => Fault::Module,
            InitError::Members(members) => {
                let troubles = members.iter().map(|(id, error)| {
                    // `group/member`: the group's name is known to whoever reads this.
                    let member = id.rsplit('/').next();
                    Self::of_policy(error).of_member(member)
                });
                let all = Self::all(troubles.collect());
                return all.unwrap_or_else(|| Self::new(Fault::Settings, error.to_string()));
            }
        };
        Self::new(fault, error.to_string())
    }
}

impl From<&FetchError> for Trouble {
    fn from(error: &FetchError) -> Self {
        let fault = match error {
            FetchError::TooLarge { .. } | FetchError::NotWasm { .. } => Fault::Module,
            FetchError::Store(_) => Fault::Cache,
            FetchError::WrongDigest { .. }
            | FetchError::Unreachable { .. }
            | FetchError::Refused { .. }
            | FetchError::Unauthorized { .. }
            | FetchError::Redirected { .. }
            | FetchError::OutOfReach { .. }
            | FetchError::NotAModule { .. }
            | FetchError::NotAnImage { .. }
            | FetchError::TimedOut { .. }
            | FetchError::File { .. }
            | FetchError::Sources(_) => Fault::Pull,
        };
        Self::new(fault, in_one_line(error))
    }
}

impl From<&LoadError> for Trouble {
    fn from(error: &LoadError) -> Self {
        let fault = match error {
            LoadError::Metadata(_)
            | LoadError::NoProtocolVersion
            | LoadError::UnknownProtocolVersion => Fault::Metadata,
            LoadError::TooNew { .. } => Fault::Version,
            LoadError::TooLarge { .. }
            | LoadError::Malformed(_)
            | LoadError::Component
            | LoadError::UnsupportedMode { .. }
            | LoadError::UnknownImport { .. }
            | LoadError::MissingExport { .. }
            | LoadError::Shape { .. }
            | LoadError::Compile(_)
            | LoadError::Incompatible(_) => Fault::Module,
        };
        Self::new(fault, in_one_line(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_its_reasons() {
        for (fault, initialized, ready) in [
            (Fault::Pull, "PullError", "PullError"),
            (Fault::Changed, "PullError", "LoadError"),
            (Fault::Cache, "CacheError", "CacheError"),
            (Fault::Signature, "PullError", "SignatureInvalid"),
            (Fault::Metadata, "MetadataInvalid", "ModuleInvalid"),
            (Fault::Module, "ModuleInvalid", "ModuleInvalid"),
            (Fault::Version, "IncompatibleVersion", "LoadError"),
            (Fault::Capability, "CapabilityInvalid", "LoadError"),
            (Fault::Settings, "SettingsInvalid", "LoadError"),
            (Fault::Expression, "ExpressionInvalid", "LoadError"),
        ] {
            let trouble = Trouble::new(fault, "");
            assert_eq!(trouble.clone().initialized().reason.as_str(), initialized);
            assert_eq!(trouble.ready().reason.as_str(), ready);
        }
    }

    #[test]
    fn messages_about_groups_start_with_the_member() {
        let error = InitError::Members(vec![
            ("g/a".to_owned(), InitError::Settings("too few".to_owned())),
            ("g/b".to_owned(), InitError::Run("it trapped".to_owned())),
        ]);
        assert_eq!(
            Trouble::of_policy(&error),
            Trouble::new(
                Fault::Settings,
                "a: Policy settings are invalid: too few, b: it trapped"
            )
        );
        let expression = InitError::Expression("there is no member c".to_owned());
        assert_eq!(Trouble::of_policy(&expression).fault, Fault::Expression);
    }

    #[test]
    fn downloads_that_are_no_module_are_final_and_others_are_not() {
        let uri = || "https://example.com/p.wasm".to_owned();
        for (error, expected) in [
            (FetchError::NotWasm { uri: uri() }, Fault::Module),
            (
                FetchError::TooLarge {
                    uri: uri(),
                    limit: 1,
                },
                Fault::Module,
            ),
            (
                FetchError::Refused {
                    host: "h".to_owned(),
                    status: 404,
                    message: String::new(),
                },
                Fault::Pull,
            ),
        ] {
            assert_eq!(Trouble::from(&error).fault, expected, "{error}");
        }
    }
}
