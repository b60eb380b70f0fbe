//! The Go types behind the built-in kinds, as data: field numbers, JSON names, types, presence.
//!
//! Decoders read protobuf and check JSON by them, and the normaliser gives a JSON object the shape it would have after a
//! real server decoded and encoded it again.

use std::collections::HashMap;
use std::sync::LazyLock;

use polity_core::GroupVersionKind;

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    String,
    Int32,
    Int64,
    Bool,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Embedded JSON.
    Raw,
    /// A message with one repeated string, an array in JSON.
    StringList,
    Message(MessageId),
    List(Box<FieldType>),
    /// String keys.
    Map(Box<FieldType>),
}

/// When a field shows in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// A pointer: absent, or any value, zero included.
    Optional,
    /// Always, zero included.
    Always,
    /// Unless it is zero or empty.
    NonZero,
    /// Its fields are inlined in the parent.
    Inline,
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    /// In protobuf.
    pub number: u32,
    /// In JSON.
    pub name: &'static str,
    pub ty: FieldType,
    pub presence: Presence,
}

/// A Go type.
#[derive(Debug)]
pub struct Message {
    /// Package, version and type: `core.v1.PodSpec`.
    pub name: &'static str,
    pub fields: Vec<Field>,
}

/// A message of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageId(usize);

/// All messages.
#[derive(Debug, Default)]
pub struct WireTable {
    messages: Vec<Message>,
    by_name: HashMap<&'static str, MessageId>,
}

static TABLE: LazyLock<WireTable> = LazyLock::new(|| WireTable::parse(include_str!("wire.tsv")));

/// The table of this build.
pub fn table() -> &'static WireTable {
    &TABLE
}

impl WireTable {
    /// The message of that number.
    pub fn message(&self, id: MessageId) -> &Message {
        &self.messages[id.0]
    }

    /// The message of a kind, if the table has it. `DeleteOptions` is one message in every group.
    pub fn of_kind(&self, gvk: &GroupVersionKind) -> Option<MessageId> {
        if gvk.kind == "DeleteOptions" {
            return self.by_name.get("meta.v1.DeleteOptions").copied();
        }
        let package = match gvk.group.as_str() {
            "" => "core",
            group => group.split('.').next().unwrap_or_default(),
        };
        self.by_name
            .get(format!("{package}.{}.{}", gvk.version, gvk.kind).as_str())
            .copied()
    }

    /// The message of that name, as in `core.v1.PodSpec`.
    pub fn by_type(&self, name: &str) -> Option<&Message> {
        self.by_name.get(name).map(|id| self.message(*id))
    }

    fn parse(text: &'static str) -> Self {
        let mut table = Self::default();
        let mut current = MessageId(0);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&'static str> = line.split('\t').collect();
            let [message, number, name, ty, presence] = columns[..] else {
                unreachable!("wire.tsv has five columns: {line:?}")
            };
            if !message.is_empty() {
                current = table.intern(message);
            }
            let Ok(number) = number.parse() else {
                continue; // A message without fields.
            };
            let ty = table.parse_type(ty);
            let presence = match presence {
                "p" => Presence::Optional,
                "k" => Presence::Always,
                "i" => Presence::Inline,
                _ => Presence::NonZero,
            };
            table.messages[current.0].fields.push(Field {
                number,
                name,
                ty,
                presence,
            });
        }
        table
    }

    fn intern(&mut self, name: &'static str) -> MessageId {
        let messages = &mut self.messages;
        *self.by_name.entry(name).or_insert_with(|| {
            messages.push(Message {
                name,
                fields: Vec::new(),
            });
            MessageId(messages.len() - 1)
        })
    }

    fn parse_type(&mut self, text: &'static str) -> FieldType {
        if let Some(of) = text.strip_prefix("list:") {
            return FieldType::List(Box::new(self.parse_type(of)));
        }
        if let Some(of) = text.strip_prefix("map:") {
            return FieldType::Map(Box::new(self.parse_type(of)));
        }
        match text {
            "string" => FieldType::String,
            "int32" => FieldType::Int32,
            "int64" => FieldType::Int64,
            "bool" => FieldType::Bool,
            "bytes" => FieldType::Bytes,
            "Time" => FieldType::Time,
            "MicroTime" => FieldType::MicroTime,
            "Quantity" => FieldType::Quantity,
            "IntOrString" => FieldType::IntOrString,
            "Raw" => FieldType::Raw,
            "StringList" => FieldType::StringList,
            message => FieldType::Message(self.intern(message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_that_is_mentioned_is_described() {
        let table = table();
        let described: std::collections::HashSet<&str> = include_str!("wire.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split('\t').next().filter(|name| !name.is_empty()))
            .collect();
        for name in table.by_name.keys() {
            assert!(described.contains(name), "{name} has no lines");
        }
    }

    #[test]
    fn kinds_are_found_by_their_group() {
        for (group, version, kind) in [
            ("", "v1", "Pod"),
            ("rbac.authorization.k8s.io", "v1", "Role"),
            ("any", "v9", "DeleteOptions"),
        ] {
            assert!(
                table()
                    .of_kind(&GroupVersionKind::new(group, version, kind))
                    .is_some(),
                "{kind}"
            );
        }
        assert!(
            table()
                .of_kind(&GroupVersionKind::new("", "v1", "Widget"))
                .is_none()
        );
    }
}
