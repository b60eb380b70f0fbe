//! A function of the language: a name, the types of its arguments, and its implementation.

use crate::run::Run;
use crate::value::{IntType, Value};

/// The declared type of an argument. A value of another type is an error, as in Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Any,
    /// Any value, by reference.
    Value,
    Bool,
    Int,
    Uint32,
    Float,
    Text,
    List,
    Map,
    Time,
    Duration,
    Version,
    Certificate,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Value => "reflect.Value",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint32 => "uint32",
            Self::Float => "float64",
            Self::Text => "string",
            Self::List => "[]interface {}",
            Self::Map => "map[string]interface {}",
            Self::Time => "time.Time",
            Self::Duration => "time.Duration",
            Self::Version => "*semver.Version",
            Self::Certificate => CERTIFICATE,
        }
    }

    pub(crate) fn can_be_nil(self) -> bool {
        matches!(
            self,
            Self::Any | Self::Value | Self::List | Self::Map | Self::Version
        )
    }

    /// May this value be an argument of this type?
    pub(crate) fn takes(self, value: &Value) -> bool {
        match self {
            Self::Any | Self::Value => true,
            Self::Bool => matches!(value, Value::Bool(_)),
            Self::Int => matches!(value, Value::Int(_, IntType::Int)),
            Self::Uint32 => matches!(value, Value::Int(_, IntType::Uint32)),
            _ => value.type_name() == self.name(),
        }
    }
}

/// The result type of the certificate functions.
pub(crate) const CERTIFICATE: &str = "sprig.certificate";

/// A function, or a method whose receiver is the first of its arguments.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) parameters: &'static [Type],
    /// The type of any number of further arguments.
    pub(crate) rest: Option<Type>,
    pub(crate) call: Call,
}

/// How a function is called.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call {
    Plain(fn(&mut Run<'_>, &[Value]) -> Outcome),
    /// `and` and `or` stop at the first argument that decides: `true` for `or`.
    ShortCircuit {
        stops_at: bool,
    },
    /// `call` names its argument in errors.
    OfValue,
    /// Refused for all arguments, with the reason.
    Refused(fn(&str) -> String),
}

pub(crate) type Outcome = Result<Value, Failure>;

/// Why a function failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The template is invalid, or an object that it needs does not exist.
    Message(String),
    /// The template exceeded a limit.
    Limit(String),
    /// A lookup failed.
    Lookup(crate::host::LookupError),
}

impl Failure {
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Message(message) | Self::Limit(message) => message.clone(),
            Self::Lookup(error) => error.to_string(),
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::Message(message.to_owned())
    }
}

pub(crate) const fn function(
    parameters: &'static [Type],
    rest: Option<Type>,
    call: fn(&mut Run<'_>, &[Value]) -> Outcome,
) -> Function {
    Function {
        parameters,
        rest,
        call: Call::Plain(call),
    }
}
