//! Which form a scalar takes, and its text in that form.

use serde_json::Number;

use super::Layout;
use super::resolve::is_text_when_plain;
use crate::go_text;

/// The form of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// The form that reads back as this text.
pub(super) fn style_of_text(text: &str, simple_key: bool, layout: Layout) -> Style {
    let shape = Shape::of(text, layout);
    if text.contains('\n') {
        return if shape.block_allowed && !simple_key {
            Style::Literal
        } else {
            Style::Double
        };
    }
    if !is_text_when_plain(text) || (simple_key && text.contains(is_break)) {
        return Style::Double;
    }
    let empty_key = text.is_empty() && simple_key;
    match (shape.plain_allowed && !empty_key, shape.single_allowed) {
        (true, _) => Style::Plain,
        (false, true) => Style::Single,
        (false, false) => Style::Double,
    }
}

/// What the characters of a text allow.
struct Shape {
    plain_allowed: bool,
    single_allowed: bool,
    block_allowed: bool,
}

impl Shape {
    fn of(text: &str, layout: Layout) -> Self {
        if text.is_empty() {
            return Self {
                plain_allowed: true,
                single_allowed: true,
                block_allowed: false,
            };
        }
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut line_breaks, mut special) = (false, false);
        let (mut break_space, mut space_break) = (false, false);
        let mut previous: Option<char> = None;
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            let next = rest.clone().next();
            indicators |= is_indicator(previous, c, next);
            // yaml.v3 keeps tabs in a literal text, where they do no harm.
            special |= !is_printable(c) && (c != '\t' || layout == Layout::Compact);
            line_breaks |= is_break(c);
            break_space |= c == ' ' && previous.is_some_and(is_break);
            space_break |= is_break(c) && previous == Some(' ');
            previous = Some(c);
        }
        let edge = |c: char| c == ' ' || is_break(c);
        let loose_edge = text.starts_with(edge) || text.ends_with(edge);
        let unsafe_text = space_break || special;
        let tabs = text.contains('\t');
        Self {
            plain_allowed: !(indicators
                || loose_edge
                || line_breaks
                || break_space
                || unsafe_text
                || tabs),
            single_allowed: !(break_space || unsafe_text || tabs),
            block_allowed: !(text.ends_with(' ') || unsafe_text),
        }
    }
}

fn is_indicator(previous: Option<char>, c: char, next: Option<char>) -> bool {
    let before_blank = next.is_none_or(|next| next == ' ' || next == '\t');
    match (previous, c) {
        (
            None,
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
            | '@' | '`',
        ) => true,
        (None, '?' | ':' | '-') => before_blank,
        (Some(_), ':') => before_blank,
        (Some(previous), '#') => matches!(previous, ' ' | '\t' | '\0') || is_break(previous),
        _ => false,
    }
}

/// What ends a line for YAML 1.1.
pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// What may stand unescaped. Characters beyond the basic plane may not, nor may tabs.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && c != '\u{feff}'
}

/// A character between double quotes. Behind a mark of byte order every one is escaped.
pub(super) fn escaped(c: char, marked: bool) -> String {
    if is_printable(c) && !is_break(c) && c != '"' && c != '\\' && !marked {
        return c.to_string();
    }
    let short = match c {
        '\0' => '0',
        '\x07' => 'a',
        '\x08' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\x0b' => 'v',
        '\x0c' => 'f',
        '\r' => 'r',
        '\x1b' => 'e',
        '"' | '\\' => c,
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            let code = u32::from(c);
            return match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{short}")
}

/// A number: whole ones without a fraction, as they come back from JSON; others as Go prints them.
pub(super) fn number(number: &Number) -> String {
    if number.is_i64() || number.is_u64() {
        return number.to_string();
    }
    let float = number.as_f64().unwrap_or(0.0);
    let whole = float.fract() == 0.0;
    if whole && float.abs() < 9_223_372_036_854_775_808.0 {
        (float as i64).to_string()
    } else if whole && float > 0.0 && float < 18_446_744_073_709_551_616.0 {
        (float as u64).to_string()
    } else {
        go_text::float(float)
    }
}
