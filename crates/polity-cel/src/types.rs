//! The types expressions are checked with.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The static type of a value. `Dyn` means any type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    /// A record with these fields and no others.
    Object(Arc<BTreeMap<String, Type>>),
    Optional(Arc<Type>),
    /// The type of a type, as in `type(x) == string`.
    Kind,
    /// A type of a library, such as `net.IP`.
    Opaque(&'static str),
}

impl Type {
    pub(crate) fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub(crate) fn optional(inner: Self) -> Self {
        Self::Optional(Arc::new(inner))
    }

    pub(crate) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        Self::Object(Arc::new(
            fields
                .into_iter()
                .map(|(name, kind)| (name.to_owned(), kind))
                .collect(),
        ))
    }

    fn is_numeric(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    fn takes_null(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Object(_)
                | Self::Timestamp
                | Self::Duration
                | Self::Optional(_)
                | Self::Opaque(_)
        )
    }

    /// Whether a value could be of both types.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::Null, kind) | (kind, Self::Null) => kind.takes_null(),
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => {
                a.overlaps(b)
            }
            (Self::Map(a), Self::Map(b)) => a.0.overlaps(&b.0) && a.1.overlaps(&b.1),
            // The record types of one schema are compared by shape: a rule may compare two fields.
            (Self::Object(a), Self::Object(b)) => a.keys().eq(b.keys()),
            (a, b) => a == b,
        }
    }

    /// Whether `<`, `<=`, `>` and `>=` could accept the pair.
    pub(crate) fn orders_with(&self, other: &Self) -> bool {
        let ordered = |kind: &Self| {
            kind.is_numeric()
                || matches!(
                    kind,
                    Self::Dyn
                        | Self::Bool
                        | Self::String
                        | Self::Bytes
                        | Self::Timestamp
                        | Self::Duration
                )
        };
        ordered(self)
            && ordered(other)
            && (self.overlaps(other) || (self.is_numeric() && other.is_numeric()))
    }

    /// The one type that covers both, where there is one.
    pub(crate) fn join(&self, other: &Self) -> Self {
        if self == other {
            self.clone()
        } else {
            Self::Dyn
        }
    }

    /// The type of the elements that comprehensions iterate over.
    pub(crate) fn element(&self) -> Option<Self> {
        match self {
            Self::Dyn => Some(Self::Dyn),
            Self::List(element) => Some((**element).clone()),
            Self::Map(entry) => Some(entry.0.clone()),
            _ => None,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::List(element) => return write!(f, "list({element})"),
            Self::Map(entry) => return write!(f, "map({}, {})", entry.0, entry.1),
            Self::Optional(inner) => return write!(f, "optional_type({inner})"),
            Self::Dyn => "dyn",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "timestamp",
            Self::Duration => "duration",
            Self::Object(_) => "object",
            Self::Kind => "type",
            Self::Opaque(name) => name,
        };
        f.write_str(name)
    }
}
