//! Compliance states, and the action that a policy takes.

use std::fmt;

/// Whether a policy only reports violations or also corrects them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    Inform,
    Enforce,
}

impl Action {
    /// `inform` or `enforce` in any case; `InformOnly` never enforces.
    pub fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("enforce") {
            Some(Self::Enforce)
        } else if text.eq_ignore_ascii_case("inform") || text.eq_ignore_ascii_case("informonly") {
            Some(Self::Inform)
        } else {
            None
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inform => "inform",
            Self::Enforce => "enforce",
        }
    }
}

/// The compliance state of a policy or of an object. An unknown state is `None` of this type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compliance {
    Compliant,
    NonCompliant,
    Pending,
}

impl Compliance {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "Compliant" => Some(Self::Compliant),
            "NonCompliant" => Some(Self::NonCompliant),
            "Pending" => Some(Self::Pending),
            _ => None,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compliant => "Compliant",
            Self::NonCompliant => "NonCompliant",
            Self::Pending => "Pending",
        }
    }
}

impl fmt::Display for Compliance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
