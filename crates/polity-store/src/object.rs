//! The data model: keys, revisions, objects and changes.

use std::{fmt, str::FromStr, sync::Arc};

use bytes::Bytes;

/// A point in the history of the whole store. Every committed write gets the next one.
///
/// A new store starts at 1, so that callers can use 0 for "any".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of a store that was never written to.
    pub const FIRST: Self = Self(1);

    /// The revision after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(
            self.0
                .checked_add(1)
                .expect("64 bits of revisions do not run out"),
        )
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that is not a revision: anything but decimal digits, or more than 64 bits of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a revision: a decimal number of at most 64 bits is expected")]
pub struct ParseRevisionError;

impl FromStr for Revision {
    type Err = ParseRevisionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // `u64::from_str` would accept a leading plus sign.
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ParseRevisionError);
        }
        text.parse().map(Self).map_err(|_| ParseRevisionError)
    }
}

/// The name of an object. Keys are ordered by bucket, then namespace, then name, each by its bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The collection the object belongs to. Watches and history limits are per bucket.
    pub bucket: Arc<str>,
    /// The namespace. Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The name within the namespace.
    pub name: Arc<str>,
}

impl Key {
    /// The key of these three parts.
    pub fn new(
        bucket: impl Into<Arc<str>>,
        namespace: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            bucket: bucket.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.bucket, self.namespace, self.name)
    }
}

/// A value that is derived once from each stored version, for example its labels.
///
/// The writer thread derives it for a write, and the opening thread for stored versions. It must be fast, and it must
/// not panic: a panic stops the writer, and with it the store.
pub trait Index: Send + Sync + 'static {
    /// Derives the index of a version from its key and its bytes.
    fn index(key: &Key, bytes: &[u8]) -> Self;
}

impl Index for () {
    fn index(_: &Key, _: &[u8]) -> Self {}
}

/// One stored version of an object.
pub struct Object<I> {
    pub key: Key,
    /// Its content, with its own revision inside if the caller's [`Payload`] left a place for it.
    pub bytes: Bytes,
    /// The write that made this version.
    pub revision: Revision,
    /// The write that created the object of which this is a version.
    pub created: Revision,
    /// The value that the caller's [`Index`] derived from it.
    pub index: I,
}

impl<I> fmt::Debug for Object<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the bytes: they may be a secret.
        f.debug_struct("Object")
            .field("key", &self.key)
            .field("revision", &self.revision)
            .field("created", &self.created)
            .finish_non_exhaustive()
    }
}

/// The content of a version, cut where its revision belongs: the stored bytes are `before`, the
/// revision the store assigns in decimal, `after`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// The bytes before the revision.
    pub before: Vec<u8>,
    /// The bytes after the revision.
    pub after: Vec<u8>,
}

impl Payload {
    /// The number of bytes without the revision.
    pub fn len(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Whether there are no bytes around the revision.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The stored form: the revision between the two parts.
    pub(crate) fn splice(self, revision: Revision) -> Bytes {
        let mut bytes = self.before;
        let digits = revision.to_string();
        bytes.reserve_exact(digits.len() + self.after.len());
        bytes.extend_from_slice(digits.as_bytes());
        bytes.extend_from_slice(&self.after);
        bytes.into()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only the size: the bytes may be a secret.
        f.debug_struct("Payload")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// The condition that a key must fulfil for a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// The object must not exist.
    Absent,
    /// There is an object and this is its newest version.
    Exactly(Revision),
    /// Any state. A deletion still requires an object.
    Anything,
}

/// The kind of a write.
#[derive(Debug, Clone)]
pub enum Change {
    /// Create the object or replace its content.
    Put(Payload),
    /// Remove the object. The payload is its last state as watchers shall see it.
    Delete(Payload),
}

/// One write: a change to a key under a condition.
#[derive(Debug, Clone)]
pub struct Write {
    /// The object it is about.
    pub key: Key,
    pub expect: Expect,
    pub change: Change,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_read_as_plain_decimal_numbers() {
        let cases = [
            ("0", Some(0)),
            ("17", Some(17)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("", None),
            ("+1", None),
            ("-1", None),
            (" 1", None),
            ("1e3", None),
            ("٣", None),
        ];
        for (text, expected) in cases {
            assert_eq!(
                text.parse::<Revision>().ok(),
                expected.map(Revision),
                "{text:?}"
            );
        }
    }

    #[test]
    fn keys_are_ordered_by_bucket_then_namespace_then_name() {
        let mut keys = [
            ("b", "", "a"),
            ("a", "b", "a"),
            ("a", "a-", "z"),
            ("a", "a", "z"),
            ("a", "a", "é"),
        ]
        .map(|(bucket, namespace, name)| Key::new(bucket, namespace, name));
        keys.sort();
        let sorted = keys.map(|key| key.to_string());
        assert_eq!(sorted, ["a/a/z", "a/a/é", "a/a-/z", "a/b/a", "b//a"]);
    }

    #[test]
    fn the_revision_is_spliced_between_the_two_parts() {
        let payload = Payload {
            before: b"{\"v\":\"".to_vec(),
            after: b"\"}".to_vec(),
        };
        assert_eq!(payload.splice(Revision(42)), &b"{\"v\":\"42\"}"[..]);
    }
}
