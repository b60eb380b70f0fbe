//! The stored form of one version of an object, as `docs/design/store.md` describes it.

use crate::{Key, Revision};

/// A version as the engine stores it, under its revision.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) deleted: bool,
    /// When it was written, in milliseconds since 1970.
    pub(crate) at_millis: u64,
    pub(crate) created: Revision,
    /// The version it replaced, if any.
    pub(crate) previous: Option<Revision>,
    pub(crate) bucket: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) bytes: &'a [u8],
}

/// A record that cannot be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("it ends too early")]
    Short,
    #[error("it has the unknown flags {0:#04x}")]
    Flags(u8),
    #[error("its key is not UTF-8")]
    Text,
}

const DELETED: u8 = 1;
/// Flags, time, created, previous, three lengths.
const HEAD: usize = 1 + 3 * 8 + 3 * 2;

impl<'a> Record<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let parts = [self.bucket, self.namespace, self.name];
        let mut out =
            Vec::with_capacity(HEAD + parts.map(str::len).iter().sum::<usize>() + self.bytes.len());
        out.push(if self.deleted { DELETED } else { 0 });
        out.extend_from_slice(&self.at_millis.to_le_bytes());
        out.extend_from_slice(&self.created.0.to_le_bytes());
        out.extend_from_slice(&self.previous.map_or(0, |revision| revision.0).to_le_bytes());
        for part in parts {
            let length =
                u16::try_from(part.len()).expect("a key part is at most 65,535 bytes long");
            out.extend_from_slice(&length.to_le_bytes());
        }
        for part in parts {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(self.bytes);
        out
    }

    pub(crate) fn decode(input: &'a [u8]) -> Result<Self, RecordError> {
        let mut rest = input;
        let [flags] = take(&mut rest)?;
        if flags & !DELETED != 0 {
            return Err(RecordError::Flags(flags));
        }
        let at_millis = u64::from_le_bytes(take(&mut rest)?);
        let created = Revision(u64::from_le_bytes(take(&mut rest)?));
        let previous =
            Some(Revision(u64::from_le_bytes(take(&mut rest)?))).filter(|revision| revision.0 != 0);
        let mut lengths = [0; 3];
        for length in &mut lengths {
            *length = usize::from(u16::from_le_bytes(take(&mut rest)?));
        }
        let mut parts = [""; 3];
        for (part, length) in parts.iter_mut().zip(lengths) {
            let (text, others) = rest.split_at_checked(length).ok_or(RecordError::Short)?;
            *part = std::str::from_utf8(text).map_err(|_| RecordError::Text)?;
            rest = others;
        }
        let [bucket, namespace, name] = parts;
        let deleted = flags & DELETED != 0;
        Ok(Self {
            deleted,
            at_millis,
            created,
            previous,
            bucket,
            namespace,
            name,
            bytes: rest,
        })
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(self.bucket, self.namespace, self.name)
    }
}

fn take<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], RecordError> {
    let (head, rest) = input.split_first_chunk().ok_or(RecordError::Short)?;
    *input = rest;
    Ok(*head)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn encoded_records_can_be_decoded(
            deleted: bool, at_millis: u64, created: u64,
            previous in proptest::option::of(1..u64::MAX),
            key in [".{0,8}", ".{0,8}", ".{0,8}"], bytes: Vec<u8>,
        ) {
            let record = Record {
                deleted, at_millis, created: Revision(created), previous: previous.map(Revision),
                bucket: &key[0], namespace: &key[1], name: &key[2], bytes: &bytes,
            };
            let encoded = record.encode();
            prop_assert_eq!(Record::decode(&encoded), Ok(record));
        }

        #[test]
        fn foreign_bytes_are_refused_without_panic(bytes: Vec<u8>) {
            let _ = Record::decode(&bytes);
        }
    }

    #[test]
    fn a_record_cut_within_its_head_or_key_is_refused() {
        let whole = Record {
            deleted: true,
            at_millis: 1,
            created: Revision(2),
            previous: None,
            bucket: "b",
            namespace: "ns",
            name: "n",
            bytes: b"",
        }
        .encode();
        for length in 0..whole.len() {
            assert_eq!(
                Record::decode(&whole[..length]),
                Err(RecordError::Short),
                "{length} bytes"
            );
        }
    }
}
