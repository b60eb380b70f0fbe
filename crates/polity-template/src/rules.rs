//! The permissions of a template, which depend on where it is resolved.

use crate::encryption::Keys;
use crate::syntax::lex::Delimiters;

/// Where a template is resolved: which delimiters and which functions it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Side {
    /// The language and sprig, without clusters.
    #[default]
    Plain,
    /// In a hub: `{{hub … hub}}`.
    Hub,
    /// In a managed cluster: `{{ … }}`.
    Managed,
}

impl Side {
    pub fn delimiters(self) -> Delimiters {
        match self {
            Self::Hub => Delimiters {
                left: "{{hub",
                right: "hub}}",
            },
            Self::Plain | Self::Managed => Delimiters {
                left: "{{",
                right: "}}",
            },
        }
    }

    /// The extra width of `indent` on this side: each definition is resolved separately, with so much less
    /// indentation.
    pub(crate) fn extra_indent(self) -> i64 {
        match self {
            Self::Hub => 8,
            Self::Plain | Self::Managed => 0,
        }
    }
}

/// The limits of lookups in a hub without a service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupScope {
    /// The only namespace that may be read: that of the root policy.
    pub namespace: String,
    /// The only ManagedCluster that may be read, and the only cluster-scoped object.
    pub cluster_name: String,
}

/// The rules of one side.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    pub side: Side,
    /// `None` when the rights of a service account decide instead.
    pub scope: Option<LookupScope>,
    /// The keys that encrypt secret values in a hub.
    pub encryption: Option<Keys>,
    /// The keys that decrypt them in a managed cluster.
    pub decryption: Option<Keys>,
    /// Further functions that are refused.
    pub denied_functions: Vec<String>,
    /// Refuses `lookup` of a Secret, because the result is not encrypted.
    pub deny_secret_lookup: bool,
}

impl Rules {
    /// The rules of this side, and nothing further.
    pub fn of(side: Side) -> Self {
        Self {
            side,
            ..Self::default()
        }
    }
}
