//! Go's quoted texts: reading them, and writing a text as one.

/// The text between quotes: `"…"` with escapes, or `` `…` `` without.
pub(crate) fn unquote(quoted: &str) -> Option<String> {
    let (quote, inner) = (quoted.chars().next()?, quoted.get(1..quoted.len() - 1)?);
    match quote {
        '`' => Some(inner.replace('\r', "")),
        '"' => {
            let mut bytes = Vec::with_capacity(inner.len());
            let mut rest = inner;
            while !rest.is_empty() {
                let (unit, tail) = unquote_char(rest, '"')?;
                match unit {
                    Unit::Char(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                    Unit::Byte(byte) => bytes.push(byte),
                }
                rest = tail;
            }
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
        _ => None,
    }
}

/// One escape or character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Char(char),
    Byte(u8),
}

/// The first character of a quoted text, and the rest.
pub(crate) fn unquote_char(text: &str, quote: char) -> Option<(Unit, &str)> {
    let mut chars = text.chars();
    let c = chars.next()?;
    if c == quote || c == '\n' {
        return None;
    }
    if c != '\\' {
        return Some((Unit::Char(c), chars.as_str()));
    }
    let escape = chars.next()?;
    let rest = chars.as_str();
    let simple = match escape {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '\\' => '\\',
        '\'' | '"' if escape == quote => escape,
        'x' => return digits(rest, 2, 16).map(|(code, rest)| (Unit::Byte(code as u8), rest)),
        'u' => return unicode(rest, 4),
        'U' => return unicode(rest, 8),
        '0'..='7' => {
            let (code, rest) = digits(&text[1..], 3, 8)?;
            return Some((Unit::Byte(u8::try_from(code).ok()?), rest));
        }
        _ => return None,
    };
    Some((Unit::Char(simple), rest))
}

fn digits(text: &str, n_digits: usize, radix: u32) -> Option<(u32, &str)> {
    let number = text.get(..n_digits)?;
    if !number.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    Some((u32::from_str_radix(number, radix).ok()?, &text[n_digits..]))
}

fn unicode(text: &str, n_digits: usize) -> Option<(Unit, &str)> {
    let (code, rest) = digits(text, n_digits, 16)?;
    Some((Unit::Char(char::from_u32(code)?), rest))
}

/// The text as a quoted one.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        escape_into(&mut out, c, '"', false);
    }
    out.push('"');
    out
}

/// As [`quote`], with everything beyond ASCII escaped.
pub(crate) fn quote_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        escape_into(&mut out, c, '"', true);
    }
    out.push('"');
    out
}

/// The character in single quotes.
pub(crate) fn quote_char(c: char) -> String {
    let mut out = String::from("'");
    escape_into(&mut out, c, '\'', false);
    out.push('\'');
    out
}

fn escape_into(out: &mut String, c: char, quote: char, ascii: bool) {
    match c {
        c if c == quote || c == '\\' => {
            out.push('\\');
            out.push(c);
        }
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        c if is_printable(c) && (c.is_ascii() || !ascii) => out.push(c),
        c => {
            let code = u32::from(c);
            out.push_str(&match code {
                0..=0x1f | 0x7f => format!("\\x{code:02x}"),
                0..=0xffff => format!("\\u{code:04x}"),
                _ => format!("\\U{code:08x}"),
            });
        }
    }
}

/// Letters, marks, numbers, punctuation, symbols and the space, as far as the standard library knows them.
pub(crate) fn is_printable(c: char) -> bool {
    match c {
        ' '..='~' => true,
        c if c.is_ascii() => false,
        '\u{80}'..='\u{a0}' | '\u{ad}' => false,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => false,
        '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' => false,
        '\u{f0000}'.. => false,
        c => !c.is_control() && !c.is_whitespace(),
    }
}
