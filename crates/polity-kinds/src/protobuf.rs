//! Decodes protobuf request bodies of built-in kinds into JSON objects, driven by the table of Go types.
//!
//! Responses are never protobuf. Input is untrusted: every length is checked against the remaining bytes, nesting is
//! bounded, and the depth-first walk allocates no more than a small multiple of the body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use polity_core::{GroupVersion, GroupVersionKind};
use serde_json::{Map, Value, json};

use super::wire::{self, Field, FieldType, Message, MessageId, Presence};

/// The first bytes of every body.
const MAGIC: &[u8; 4] = b"k8s\0";
/// Deeper than any built-in type nests.
const MAX_DEPTH: usize = 48;

/// A body that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// Leads to a response with status 415.
    #[error("no protobuf message is known for {api_version}, Kind={kind}")]
    UnknownKind { api_version: String, kind: String },
    #[error("the body does not start with the prefix of the protobuf encoding")]
    NotProtobuf,
    #[error("the protobuf message ends in the middle of a field")]
    Truncated,
    #[error("the protobuf message has an invalid tag or varint")]
    Malformed,
    #[error("the protobuf field {field} has an unexpected wire type")]
    WireType { field: &'static str },
    #[error("the protobuf field {field} is no valid UTF-8")]
    Text { field: &'static str },
    #[error("the protobuf field {field} does not hold valid JSON")]
    Json { field: &'static str },
    #[error("the protobuf field {field} does not hold a valid time")]
    Time { field: &'static str },
    #[error("the protobuf message is nested too deeply")]
    Depth,
    #[error("the content encoding {0:?} inside the protobuf envelope is not supported")]
    Encoding(String),
}

/// Decodes a body: the envelope, then the object in it, with `apiVersion` and `kind`.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = Envelope::read(body.strip_prefix(MAGIC).ok_or(ProtobufError::NotProtobuf)?)?;
    let unknown_kind = || ProtobufError::UnknownKind {
        api_version: envelope.api_version.clone(),
        kind: envelope.kind.clone(),
    };
    if !envelope.encoding.is_empty() {
        return Err(ProtobufError::Encoding(envelope.encoding));
    }
    let gv: GroupVersion = envelope.api_version.parse().map_err(|_| unknown_kind())?;
    let gvk = GroupVersionKind::new(gv.group, gv.version, envelope.kind.as_str());
    let message = wire::table().of_kind(&gvk).ok_or_else(unknown_kind)?;
    let mut object = Map::new();
    read_message(message, envelope.raw, &mut object, 0)?;
    object.insert("apiVersion".into(), json!(envelope.api_version));
    object.insert("kind".into(), json!(envelope.kind));
    Ok(Value::Object(object))
}

/// The message `Unknown` around every object.
#[derive(Default)]
struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
    encoding: String,
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, ProtobufError> {
        let mut envelope = Self::default();
        let mut reader = Reader(bytes);
        while let Some((number, wire)) = reader.next()? {
            match (number, wire) {
                (1, Wire::Bytes(type_meta)) => envelope.read_type(type_meta)?,
                (2, Wire::Bytes(raw)) => envelope.raw = raw,
                (3, Wire::Bytes(encoding)) => {
                    envelope.encoding = text(encoding, "contentEncoding")?.into();
                }
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &[u8]) -> Result<(), ProtobufError> {
        let mut reader = Reader(bytes);
        while let Some((number, wire)) = reader.next()? {
            match (number, wire) {
                (1, Wire::Bytes(value)) => self.api_version = text(value, "apiVersion")?.into(),
                (2, Wire::Bytes(value)) => self.kind = text(value, "kind")?.into(),
                _ => {}
            }
        }
        Ok(())
    }
}

fn read_message(
    id: MessageId,
    bytes: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::Depth);
    }
    let message = wire::table().message(id);
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.next()? {
        let Some(field) = message.fields.iter().find(|field| field.number == number) else {
            continue;
        };
        read_field(field, wire, object, depth)?;
    }
    drop_zeros(message, object);
    Ok(())
}

fn read_field(
    field: &Field,
    wire: Wire<'_>,
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    match &field.ty {
        FieldType::Message(inner) if field.presence == Presence::Inline => {
            read_message(*inner, wire.bytes(field.name)?, object, depth + 1)
        }
        FieldType::List(of) => {
            let list = object
                .entry(field.name)
                .or_insert_with(|| Value::Array(Vec::new()));
            let Value::Array(items) = list else {
                return Err(ProtobufError::Malformed);
            };
            match (&**of, &wire) {
                // Numbers may be packed into one run of bytes.
                (FieldType::Int32 | FieldType::Int64, Wire::Bytes(packed)) => {
                    let mut reader = Reader(packed);
                    while !reader.0.is_empty() {
                        items.push(json!(reader.varint()? as i64));
                    }
                }
                _ => items.push(read_value(of, wire, field.name, depth)?),
            }
            Ok(())
        }
        FieldType::Map(of) => {
            let (key, value) = read_entry(of, wire.bytes(field.name)?, field.name, depth)?;
            let map = object
                .entry(field.name)
                .or_insert_with(|| Value::Object(Map::new()));
            map.as_object_mut()
                .ok_or(ProtobufError::Malformed)?
                .insert(key, value);
            Ok(())
        }
        ty => {
            // An empty time is an absent one.
            let value = read_value(ty, wire, field.name, depth)?;
            if !value.is_null() {
                object.insert(field.name.to_owned(), value);
            }
            Ok(())
        }
    }
}

fn read_entry(
    of: &FieldType,
    bytes: &[u8],
    field: &'static str,
    depth: usize,
) -> Result<(String, Value), ProtobufError> {
    let mut key = String::new();
    let mut value = None;
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 => key = text(wire.bytes(field)?, field)?.into(),
            2 => value = Some(read_value(of, wire, field, depth)?),
            _ => {}
        }
    }
    let value = match (value, of) {
        (Some(value), _) => value,
        (None, FieldType::String | FieldType::Bytes) => json!(""),
        (None, of) => read_value(of, Wire::Bytes(&[]), field, depth)?,
    };
    Ok((key, value))
}

fn read_value(
    ty: &FieldType,
    wire: Wire<'_>,
    field: &'static str,
    depth: usize,
) -> Result<Value, ProtobufError> {
    match ty {
        FieldType::String => Ok(json!(text(wire.bytes(field)?, field)?)),
        FieldType::Int32 | FieldType::Int64 => Ok(json!(wire.varint(field)? as i64)),
        FieldType::Bool => Ok(json!(wire.varint(field)? != 0)),
        FieldType::Bytes => Ok(json!(STANDARD.encode(wire.bytes(field)?))),
        FieldType::Time => read_time(wire.bytes(field)?, field, "%Y-%m-%dT%H:%M:%SZ"),
        FieldType::MicroTime => read_time(wire.bytes(field)?, field, "%Y-%m-%dT%H:%M:%S.%6fZ"),
        FieldType::Quantity => {
            let amount = first_bytes(wire.bytes(field)?)?;
            Ok(json!(text(amount, field)?))
        }
        FieldType::IntOrString => read_int_or_string(wire.bytes(field)?, field),
        FieldType::Raw => match first_bytes(wire.bytes(field)?)? {
            [] => Ok(Value::Null),
            raw => serde_json::from_slice(raw).map_err(|_| ProtobufError::Json { field }),
        },
        FieldType::StringList => {
            let mut items = Vec::new();
            let mut reader = Reader(wire.bytes(field)?);
            while let Some((number, item)) = reader.next()? {
                if number == 1 {
                    items.push(json!(text(item.bytes(field)?, field)?));
                }
            }
            Ok(Value::Array(items))
        }
        FieldType::Message(inner) => {
            let mut object = Map::new();
            read_message(*inner, wire.bytes(field)?, &mut object, depth + 1)?;
            Ok(Value::Object(object))
        }
        // The table has no lists of lists or of maps.
        FieldType::List(_) | FieldType::Map(_) => Err(ProtobufError::WireType { field }),
    }
}

fn read_time(bytes: &[u8], field: &'static str, format: &str) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 => seconds = wire.varint(field)? as i64,
            2 => nanos = wire.varint(field)? as i32,
            _ => {}
        }
    }
    let time = Timestamp::new(seconds, nanos).map_err(|_| ProtobufError::Time { field })?;
    Ok(json!(time.strftime(format).to_string()))
}

fn read_int_or_string(bytes: &[u8], field: &'static str) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number_value, mut text_value) = (false, 0, "");
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 => is_text = wire.varint(field)? == 1,
            2 => number_value = wire.varint(field)? as i64,
            3 => text_value = text(wire.bytes(field)?, field)?,
            _ => {}
        }
    }
    Ok(if is_text {
        json!(text_value)
    } else {
        json!(number_value)
    })
}

/// The last field 1 of a message that has no other.
fn first_bytes(bytes: &[u8]) -> Result<&[u8], ProtobufError> {
    let mut found: &[u8] = &[];
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.next()? {
        if let (1, Wire::Bytes(value)) = (number, wire) {
            found = value;
        }
    }
    Ok(found)
}

/// Go writes every field that is not a pointer, including zeros. In JSON most of those zeros are absent.
fn drop_zeros(message: &Message, object: &mut Map<String, Value>) {
    for field in message
        .fields
        .iter()
        .filter(|field| field.presence == Presence::NonZero)
    {
        let is_zero = object.get(field.name).is_some_and(|value| match value {
            Value::Null | Value::Bool(false) => true,
            Value::String(text) => text.is_empty(),
            Value::Number(number) => number.as_i64() == Some(0),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        });
        if is_zero {
            object.remove(field.name);
        }
    }
}

fn text<'a>(bytes: &'a [u8], field: &'static str) -> Result<&'a str, ProtobufError> {
    std::str::from_utf8(bytes).map_err(|_| ProtobufError::Text { field })
}

/// One value in its wire form.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// Eight or four bytes; no built-in type has any.
    Fixed,
}

impl<'a> Wire<'a> {
    fn bytes(self, field: &'static str) -> Result<&'a [u8], ProtobufError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) | Self::Fixed => Err(ProtobufError::WireType { field }),
        }
    }

    fn varint(self, field: &'static str) -> Result<u64, ProtobufError> {
        match self {
            Self::Varint(value) => Ok(value),
            Self::Bytes(_) | Self::Fixed => Err(ProtobufError::WireType { field }),
        }
    }
}

/// The remaining bytes of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next field, or nothing at the end.
    fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, ProtobufError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| ProtobufError::Malformed)?;
        if number == 0 {
            return Err(ProtobufError::Malformed);
        }
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => self.take(8).map(|_| Wire::Fixed)?,
            2 => {
                let length =
                    usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Wire::Fixed)?,
            _ => return Err(ProtobufError::Malformed),
        };
        Ok(Some((number, wire)))
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = *self.take(1)?.first().ok_or(ProtobufError::Truncated)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Malformed)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (head, tail) = self
            .0
            .split_at_checked(length)
            .ok_or(ProtobufError::Truncated)?;
        self.0 = tail;
        Ok(head)
    }
}

#[cfg(test)]
mod tests;
