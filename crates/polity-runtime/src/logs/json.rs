//! Log lines as JSON objects with the usual keys: `timestamp`, `level`, `fields`, `target`, `span` and `spans`.
//!
//! The fields of a span are kept as JSON text, so that a field recorded later is appended and a line is built by
//! copying. Each request writes one line, and parsing that text again would cost more than everything else here.

use std::cell::Cell;
use std::fmt::{self, Write};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// The maximum size of the buffer that a thread keeps for fields.
const LARGEST_SCRATCH: usize = 16 << 10;

thread_local! {
    /// Where the fields of a span are put together.
    static SCRATCH: Cell<String> = const { Cell::new(String::new()) };
}

/// The fields of a span as the members of an object, without its braces.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonFields;

impl<'writer> FormatFields<'writer> for JsonFields {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        // Put together elsewhere, it needs room once and not again and again.
        let mut text = SCRATCH.take();
        text.clear();
        let mut members = Members::new(&mut text);
        fields.record(&mut members);
        let outcome = members.outcome.and_then(|()| writer.write_str(&text));
        // Do not keep a large buffer because of one large field.
        if text.capacity() <= LARGEST_SCRATCH {
            SCRATCH.set(text);
        }
        outcome
    }

    fn add_fields(
        &self,
        current: &'writer mut FormattedFields<Self>,
        fields: &Record<'_>,
    ) -> fmt::Result {
        // No value is an object, and quotes in values are escaped: only a member's name looks like this.
        let is_there = |name: &str| {
            current.fields.contains(name) && current.fields.contains(&format!("\"{name}\":"))
        };
        let mut names = Names(Vec::new());
        fields.record(&mut names);
        names.0.retain(|name| is_there(name));
        if !names.0.is_empty() {
            current.fields = without(&current.fields, &names.0)?;
        }
        let is_first = current.fields.is_empty();
        let mut members = Members {
            is_first,
            ..Members::new(&mut current.fields)
        };
        fields.record(&mut members);
        members.outcome
    }
}

/// The same members without those that are about to be replaced.
fn without(members: &str, names: &[&str]) -> Result<String, fmt::Error> {
    let object = serde_json::from_str::<Map<String, Value>>(&format!("{{{members}}}"));
    let mut object = object.map_err(|_| fmt::Error)?;
    object.retain(|name, _| !names.contains(&name.as_str()));
    let text = Value::Object(object).to_string();
    Ok(text[1..text.len() - 1].to_owned())
}

/// The names of the fields of a record.
struct Names(Vec<&'static str>);

impl Visit for Names {
    fn record_debug(&mut self, field: &Field, _: &dyn fmt::Debug) {
        self.0.push(name(field));
    }
}

/// A line for each event.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonLines;

impl<S> FormatEvent<S, JsonFields> for JsonLines
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        writer.write_str("{\"timestamp\":\"")?;
        SystemTime.format_time(&mut writer)?;
        write!(
            writer,
            "\",\"level\":\"{}\",\"fields\":{{",
            metadata.level()
        )?;
        let mut members = Members::new(&mut writer);
        event.record(&mut members);
        members.outcome?;
        writer.write_str("},\"target\":")?;
        quote(&mut writer, metadata.target())?;
        if let Some(scope) = context.event_scope() {
            let mut spans = scope.from_root().peekable();
            let mut separator = ",\"spans\":[";
            while let Some(span) = spans.next() {
                writer.write_str(separator)?;
                write_span(&mut writer, &span)?;
                separator = ",";
                if spans.peek().is_none() {
                    writer.write_str("],\"span\":")?;
                    write_span(&mut writer, &span)?;
                }
            }
        }
        writer.write_str("}\n")
    }
}

fn write_span<S>(writer: &mut Writer<'_>, span: &SpanRef<'_, S>) -> fmt::Result
where
    S: for<'lookup> LookupSpan<'lookup>,
{
    writer.write_char('{')?;
    if let Some(fields) = span.extensions().get::<FormattedFields<JsonFields>>()
        && !fields.fields.is_empty()
    {
        writer.write_str(&fields.fields)?;
        writer.write_char(',')?;
    }
    writer.write_str("\"name\":")?;
    quote(writer, span.name())?;
    writer.write_char('}')
}

/// Writes fields as the members of an object.
struct Members<'a, W> {
    writer: &'a mut W,
    is_first: bool,
    outcome: fmt::Result,
}

impl<'a, W: Write> Members<'a, W> {
    fn new(writer: &'a mut W) -> Self {
        Self {
            writer,
            is_first: true,
            outcome: Ok(()),
        }
    }

    fn member(&mut self, field: &Field, value: impl FnOnce(&mut W) -> fmt::Result) {
        if self.outcome.is_ok() {
            self.outcome = self.try_member(field, value);
        }
    }

    fn try_member(
        &mut self,
        field: &Field,
        value: impl FnOnce(&mut W) -> fmt::Result,
    ) -> fmt::Result {
        if !self.is_first {
            self.writer.write_char(',')?;
        }
        self.is_first = false;
        quote(self.writer, name(field))?;
        self.writer.write_char(':')?;
        value(self.writer)
    }
}

impl<W: Write> Visit for Members<'_, W> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.member(field, |writer| match value.is_finite() {
            true => write!(writer, "{value:?}"),
            false => writer.write_str("null"),
        });
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.member(field, |writer| write!(writer, "{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.member(field, |writer| write!(writer, "{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.member(field, |writer| write!(writer, "{value}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.member(field, |writer| quote(writer, value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.member(field, |writer| {
            writer.write_char('"')?;
            write!(Escaped(writer), "{value:?}")?;
            writer.write_char('"')
        });
    }
}

/// `r#type` is the name `type`.
fn name(field: &Field) -> &'static str {
    let name = field.name();
    name.strip_prefix("r#").unwrap_or(name)
}

fn quote(writer: &mut impl Write, text: &str) -> fmt::Result {
    writer.write_char('"')?;
    Escaped(writer).write_str(text)?;
    writer.write_char('"')
}

/// Passes text on as the inside of a JSON string.
struct Escaped<'a, W>(&'a mut W);

impl<W: Write> Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        // Escaped characters are ASCII, so no byte of a longer character is mistaken for one.
        while let Some(at) = rest
            .bytes()
            .position(|byte| byte < b' ' || byte == b'"' || byte == b'\\')
        {
            self.0.write_str(&rest[..at])?;
            match rest.as_bytes()[at] {
                b'"' => self.0.write_str("\\\"")?,
                b'\\' => self.0.write_str("\\\\")?,
                b'\n' => self.0.write_str("\\n")?,
                control => write!(self.0, "\\u{control:04x}")?,
            }
            rest = &rest[at + 1..];
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests;
