//! What goes wrong between a revision and a policy that serves, in the words of its conditions.

use std::fmt;

use polity_api::policies::v1::{InitializedReason, ReadyReason};
use polity_core::causes::in_one_line;
use polity_eval::{InitError, LoadError};
use polity_fetch::{FetchError, ModuleUri};

use crate::managed::replica::plan::LoadFailure;
use crate::managed::status::Failure;

/// What went wrong, as far as the reason of a condition and the retries depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The reference names nothing that a module could come from: only another specification helps.
    Reference,
    /// The module could not be pulled.
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
            Self::Reference | Self::Module => InitializedReason::ModuleInvalid,
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
            Self::Reference | Self::Metadata | Self::Module => ReadyReason::ModuleInvalid,
            Self::Changed
            | Self::Version
            | Self::Capability
            | Self::Settings
            | Self::Expression => ReadyReason::LoadError,
        }
    }
}

/// A fault and its description.
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

    /// A reference that cannot be used, and why.
    pub(crate) fn of_reference(reason: impl fmt::Display) -> Self {
        let message = format!("The module reference is invalid: {reason}");
        Self::new(Fault::Reference, message)
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

    /// Several as one: the first decides about the reason, and the message has all of them.
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
                    // `group/member`: the condition is of the group.
                    let member = id.rsplit('/').next();
                    Self::of_policy(error).of_member(member)
                });
                let all = Self::all(troubles.collect());
                return all.unwrap_or_else(|| Self::new(Fault::Settings, error.to_string()));
            }
        };
        Self::new(fault, error.to_string())
    }

    /// Why the module of a reference could not be fetched.
    pub(crate) fn of_fetch(error: &FetchError, uri: &ModuleUri) -> Self {
        let fault = match error {
            // Another push, or a network without a login page, may change what a tag or a URL leads to.
            FetchError::NotWasm { .. } | FetchError::NotAModule { .. } if is_mutable(uri) => {
                Fault::Pull
            }
            FetchError::TooLarge { .. }
            | FetchError::NotWasm { .. }
            | FetchError::NotAModule { .. } => Fault::Module,
            FetchError::Store(_) => Fault::Cache,
            FetchError::WrongDigest { .. }
            | FetchError::Unreachable { .. }
            | FetchError::Refused { .. }
            | FetchError::Unauthorized { .. }
            | FetchError::Redirected { .. }
            | FetchError::OutOfReach { .. }
            | FetchError::BrokenOff { .. }
            | FetchError::NotAnImage { .. }
            | FetchError::TimedOut { .. }
            | FetchError::File { .. }
            | FetchError::Sources(_) => Fault::Pull,
        };
        Self::new(fault, in_one_line(error))
    }
}

/// Whether others can change what a reference leads to, without a change of the policy. Files are of this machine.
fn is_mutable(uri: &ModuleUri) -> bool {
    match uri {
        ModuleUri::Registry(uri) => uri.digest.is_none(),
        ModuleUri::Web(_) => true,
        ModuleUri::File(_) => false,
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
            (Fault::Reference, "ModuleInvalid", "ModuleInvalid"),
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
    fn only_what_nobody_can_change_is_final() {
        let digest = &*format!("registry://h.example/p@sha256:{}", "0".repeat(64));
        let both = &*format!("registry://h.example/p:v1@sha256:{}", "0".repeat(64));
        let uri = || "u".to_owned();
        let not_wasm = || FetchError::NotWasm { uri: uri() };
        let not_a_module = || FetchError::NotAModule {
            uri: uri(),
            reason: "it has no layer".to_owned(),
        };
        for (error, reference, expected) in [
            (not_wasm(), digest, Fault::Module),
            (not_wasm(), both, Fault::Module),
            (not_wasm(), "file:///p.wasm", Fault::Module),
            (not_wasm(), "registry://h.example/p:v1", Fault::Pull),
            (not_wasm(), "https://h.example/p.wasm", Fault::Pull),
            (not_a_module(), digest, Fault::Module),
            (not_a_module(), both, Fault::Module),
            (not_a_module(), "registry://h.example/p:v1", Fault::Pull),
            (not_a_module(), "registry://h.example/p", Fault::Pull),
            (
                FetchError::TooLarge {
                    uri: uri(),
                    limit: 1,
                },
                "registry://h.example/p:v1",
                Fault::Module,
            ),
            (
                FetchError::BrokenOff {
                    uri: uri(),
                    reason: "reset".to_owned(),
                },
                digest,
                Fault::Pull,
            ),
            (
                FetchError::Refused {
                    host: "h".to_owned(),
                    status: 404,
                    message: String::new(),
                },
                digest,
                Fault::Pull,
            ),
        ] {
            let trouble = Trouble::of_fetch(&error, &reference.parse().unwrap());
            assert_eq!(trouble.fault, expected, "{reference}: {error}");
        }
    }
}
