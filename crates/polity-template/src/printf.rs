//! Go's `Sprintf`: flags, width, precision, argument indexes and the errors it writes into the text.

use polity_core::go_text;

use crate::function::Failure;
use crate::print::{self, Form};
use crate::run::Run;
use crate::syntax::unquote::{quote, quote_ascii, quote_char};
use crate::value::{IntType, Value};

/// Widths and precisions beyond this are refused, as in Go.
const WIDEST: i64 = 1_000_000;

/// The flags, width and precision of one verb.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "these are the flags of a verb"
)]
struct Spec {
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// Formats values. The text stays within the limits of the run.
pub(crate) fn sprintf(run: &Run<'_>, format: &str, values: &[Value]) -> Result<String, Failure> {
    let mut state = State {
        values,
        next: 0,
        reordered: false,
        good_index: true,
        out: String::new(),
    };
    let mut rest = format;
    let mut any_reordered = false;
    while let Some(at) = rest.find('%') {
        state.out.push_str(&rest[..at]);
        rest = state.directive(&rest[at + 1..])?;
        any_reordered |= state.reordered;
        run.fits(state.out.len())?;
    }
    state.out.push_str(rest);
    if !any_reordered && state.next < values.len() {
        state.extra()?;
    }
    run.fits(state.out.len())?;
    Ok(state.out)
}

/// `%s` of one value.
pub(crate) fn as_text(value: &Value) -> Result<String, Failure> {
    formatted('s', &Spec::default(), value, 0)
}

struct State<'v> {
    values: &'v [Value],
    next: usize,
    /// This directive named an argument by its index.
    reordered: bool,
    good_index: bool,
    out: String,
}

impl State<'_> {
    /// Formats everything after a percent sign. Returns the rest.
    fn directive<'f>(&mut self, format: &'f str) -> Result<&'f str, Failure> {
        let mut spec = Spec::default();
        self.good_index = true;
        self.reordered = false;
        let mut rest = format;
        loop {
            match rest.as_bytes().first() {
                Some(b'-') => {
                    spec.minus = true;
                    spec.zero = false;
                }
                Some(b'+') => spec.plus = true,
                Some(b'#') => spec.sharp = true,
                Some(b' ') => spec.space = true,
                Some(b'0') => spec.zero = !spec.minus,
                _ => break,
            }
            rest = &rest[1..];
        }
        let mut after_index = false;
        rest = self.index(rest, &mut after_index);
        if let Some(after) = rest.strip_prefix('*') {
            rest = after;
            match self.star() {
                Some(width) => {
                    spec.minus |= width < 0;
                    spec.zero &= width >= 0;
                    spec.width = Some(width.unsigned_abs() as usize);
                }
                None => self.out.push_str("%!(BADWIDTH)"),
            }
            after_index = false;
        } else {
            let (number, after) = number(rest);
            if number.is_some() && after_index {
                self.good_index = false;
            }
            spec.width = number;
            rest = after;
        }
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            if after_index {
                self.good_index = false;
            }
            rest = self.index(rest, &mut after_index);
            if let Some(after) = rest.strip_prefix('*') {
                rest = after;
                match self.star() {
                    Some(precision) if precision >= 0 => {
                        spec.precision = Some(precision as usize);
                    }
                    Some(_) => {}
                    None => self.out.push_str("%!(BADPREC)"),
                }
                after_index = false;
            } else {
                let (number, after) = number(rest);
                spec.precision = Some(number.unwrap_or(0));
                rest = after;
            }
        }
        if !after_index {
            rest = self.index(rest, &mut after_index);
        }
        let Some(verb) = rest.chars().next() else {
            self.out.push_str("%!(NOVERB)");
            return Ok("");
        };
        rest = &rest[verb.len_utf8()..];
        match verb {
            '%' => self.out.push('%'),
            _ if !self.good_index => self.out.push_str(&format!("%!{verb}(BADINDEX)")),
            _ if self.next >= self.values.len() => {
                self.out.push_str(&format!("%!{verb}(MISSING)"));
            }
            _ => {
                let value = &self.values[self.next];
                self.next += 1;
                let text = formatted(verb, &spec, value, 0)?;
                self.out.push_str(&text);
            }
        }
        Ok(rest)
    }

    /// `[n]`: the index of the next argument.
    fn index<'f>(&mut self, format: &'f str, found: &mut bool) -> &'f str {
        let Some(inner) = format.strip_prefix('[') else {
            return format;
        };
        self.reordered = true;
        let Some(end) = inner.find(']') else {
            self.good_index = false;
            return inner;
        };
        let (digits, rest) = (&inner[..end], &inner[end + 1..]);
        let (index, after) = number(digits);
        match index {
            Some(index) if after.is_empty() && (1..=self.values.len()).contains(&index) => {
                self.next = index - 1;
                *found = true;
            }
            _ => self.good_index = false,
        }
        rest
    }

    /// A width or precision that is an argument.
    fn star(&mut self) -> Option<i64> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        match value {
            Value::Int(number, _) if number.abs() <= WIDEST => Some(*number),
            _ => None,
        }
    }

    fn extra(&mut self) -> Result<(), Failure> {
        self.out.push_str("%!(EXTRA ");
        for (i, value) in self.values[self.next..].iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            if matches!(value, Value::Nil) {
                self.out.push_str("<nil>");
                continue;
            }
            self.out.push_str(value.type_name());
            self.out.push('=');
            print::write(&mut self.out, value, Form::Plain, 0)?;
        }
        self.out.push(')');
        Ok(())
    }
}

fn formatted(verb: char, spec: &Spec, value: &Value, depth: usize) -> Result<String, Failure> {
    if depth > crate::value::DEEPEST {
        return Err(crate::run::too_deep());
    }
    // For `%v`, a plus requests field names and a sharp requests Go source. Neither affects numbers.
    if verb == 'v' && (spec.plus || spec.sharp) {
        if spec.sharp {
            return crate::syntax_of::go_syntax(value);
        }
        if matches!(value, Value::Struct(_)) {
            let mut out = String::new();
            print::write(&mut out, value, Form::Named, depth)?;
            return Ok(out);
        }
        let plain = Spec {
            plus: false,
            ..spec.clone()
        };
        return formatted(verb, &plain, value, depth);
    }
    match (verb, value) {
        ('T', value) => return Ok(padded(value.type_name(), spec)),
        (_, Value::Nil) if depth > 0 => return Ok("<nil>".to_owned()),
        ('v', Value::Nil) => return Ok(padded("<nil>", spec)),
        (_, Value::Nil) => return Ok(format!("%!{verb}(<nil>)")),
        _ => {}
    }
    let written = match value {
        Value::Bool(truth) if matches!(verb, 't' | 'v') => {
            Some(padded(if *truth { "true" } else { "false" }, spec))
        }
        Value::Int(_, IntType::Month | IntType::Weekday)
        | Value::Time(_)
        | Value::Duration(_)
        | Value::Version(_)
            if matches!(verb, 'v' | 's' | 'q' | 'x' | 'X') =>
        {
            text_verb(verb, spec, &print::plain(value)?)
        }
        Value::Int(number, kind) => integer(verb, spec, *number, *kind),
        Value::Duration(number) => integer(verb, spec, *number, IntType::Int64),
        Value::Float(number) => float(verb, spec, *number),
        Value::Text(text) => text_verb(verb, spec, text),
        Value::List(list) => {
            let items = list.items.iter();
            let items: Result<Vec<String>, Failure> = items
                .map(|item| formatted(verb, spec, item, depth + 1))
                .collect();
            Some(format!("[{}]", items?.join(" ")))
        }
        Value::Map(map) => {
            let mut parts = Vec::with_capacity(map.len());
            for (key, item) in map.entries() {
                let key = formatted(verb, spec, &Value::Text(key), depth + 1)?;
                parts.push(format!(
                    "{key}:{}",
                    formatted(verb, spec, &item, depth + 1)?
                ));
            }
            Some(format!("map[{}]", parts.join(" ")))
        }
        Value::Struct(_) if verb == 'v' => Some(print::plain(value)?),
        Value::Nil | Value::Bool(_) | Value::Time(_) | Value::Version(_) | Value::Struct(_) => None,
    };
    match written {
        Some(text) => Ok(text),
        // A verb that does not fit shows the value by the one that always does.
        None => {
            let shown = formatted('v', spec, value, depth + 1)?;
            Ok(format!("%!{verb}({}={shown})", value.type_name()))
        }
    }
}

fn number(text: &str) -> (Option<usize>, &str) {
    let n_digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(n_digits);
    match digits.parse::<i64>() {
        Ok(number) if number <= WIDEST => (Some(number as usize), rest),
        // A number that is too large is invalid, and the next character is used as the verb.
        Ok(_) | Err(_) => (None, rest),
    }
}

fn padded(text: &str, spec: &Spec) -> String {
    pad(text, spec, spec.zero)
}

fn pad(text: &str, spec: &Spec, zeros: bool) -> String {
    let length = text.chars().count();
    let missing = spec.width.unwrap_or(0).saturating_sub(length);
    if missing == 0 {
        return text.to_owned();
    }
    if spec.minus {
        return format!("{text}{}", " ".repeat(missing));
    }
    let filler = if zeros { "0" } else { " " };
    format!("{}{text}", filler.repeat(missing))
}

fn text_verb(verb: char, spec: &Spec, text: &str) -> Option<String> {
    let cut: String;
    let text = match spec.precision {
        Some(precision) if verb != 'x' && verb != 'X' => {
            cut = text.chars().take(precision).collect();
            cut.as_str()
        }
        _ => text,
    };
    match verb {
        'v' | 's' => Some(padded(text, spec)),
        'q' if spec.sharp && !text.contains('`') && text.chars().all(raw_char) => {
            Some(padded(&format!("`{text}`"), spec))
        }
        'q' if spec.plus => Some(padded(&quote_ascii(text), spec)),
        'q' => Some(padded(&quote(text), spec)),
        'x' | 'X' => {
            let bytes = text.as_bytes();
            let length = spec.precision.unwrap_or(bytes.len()).min(bytes.len());
            let mut out = String::new();
            for (i, byte) in bytes[..length].iter().enumerate() {
                if spec.space && i > 0 {
                    out.push(' ');
                }
                if spec.sharp && (spec.space || i == 0) {
                    out.push('0');
                    out.push(verb);
                }
                out.push_str(&if verb == 'x' {
                    format!("{byte:02x}")
                } else {
                    format!("{byte:02X}")
                });
            }
            Some(padded(&out, spec))
        }
        _ => None,
    }
}

/// Whether a character may occur between back quotes.
fn raw_char(c: char) -> bool {
    c == '\t' || (!c.is_control() && c != '\u{feff}')
}

fn integer(verb: char, spec: &Spec, number: i64, kind: IntType) -> Option<String> {
    let negative = number < 0 && kind != IntType::Uint64;
    let magnitude = if negative {
        number.unsigned_abs()
    } else {
        number as u64
    };
    let digits = match verb {
        'v' | 'd' => magnitude.to_string(),
        'b' => format!("{magnitude:b}"),
        'o' | 'O' => format!("{magnitude:o}"),
        'x' => format!("{magnitude:x}"),
        'X' => format!("{magnitude:X}"),
        'c' => {
            let c = char::from_u32(number as u32).unwrap_or('\u{fffd}');
            return Some(padded(&c.to_string(), spec));
        }
        'q' => {
            let c = char::from_u32(number as u32).unwrap_or('\u{fffd}');
            return Some(padded(&quote_char(c), spec));
        }
        'U' => {
            let width = spec.precision.unwrap_or(4).max(4);
            let mut text = format!("U+{magnitude:0width$X}");
            if spec.sharp
                && let Some(c) = char::from_u32(magnitude as u32)
                && crate::syntax::unquote::is_printable(c)
            {
                text.push_str(&format!(" '{c}'"));
            }
            return Some(pad(&text, spec, false));
        }
        _ => return None,
    };
    let prefix = match (verb, spec.sharp) {
        ('O', _) => "0o",
        ('b', true) => "0b",
        ('o', true) => "0",
        ('x', true) => "0x",
        ('X', true) => "0X",
        _ => "",
    };
    let sign = match (negative, spec.plus, spec.space) {
        (true, _, _) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        _ => "",
    };
    // A precision is a least number of digits; zeros to the width go between sign and digits.
    let least = match (spec.precision, spec.width) {
        (Some(0), _) if number == 0 => return Some(pad("", spec, false)),
        (Some(precision), _) => precision,
        (None, Some(width)) if spec.zero && !spec.minus => {
            width.saturating_sub(sign.len() + prefix.len())
        }
        _ => 0,
    };
    let zeros = "0".repeat(least.saturating_sub(digits.len()));
    let text = format!("{sign}{prefix}{zeros}{digits}");
    Some(pad(&text, spec, false))
}

fn float(verb: char, spec: &Spec, number: f64) -> Option<String> {
    let body = match (verb, spec.precision) {
        ('v', None) => go_text::float(number),
        ('g' | 'G', None) => go_text::float(number),
        ('v' | 'g' | 'G', Some(precision)) => significant(number, precision, spec.sharp),
        ('e' | 'E', precision) => exponent(number, precision.unwrap_or(6)),
        ('f' | 'F', precision) => {
            let precision = precision.unwrap_or(6);
            if number.is_finite() {
                format!("{number:.precision$}")
            } else {
                go_text::float(number)
            }
        }
        _ => return None,
    };
    let body = if verb == 'G' || verb == 'E' {
        body.to_uppercase()
    } else {
        body
    };
    let body = body.strip_prefix('+').map(str::to_owned).unwrap_or(body);
    let (sign, digits) = match body.strip_prefix('-') {
        Some(digits) => ("-", digits.to_owned()),
        None if spec.plus => ("+", body),
        None if spec.space => (" ", body),
        None if number == f64::INFINITY => ("+", body),
        None => ("", body),
    };
    if spec.zero && !spec.minus && number.is_finite() {
        let width = spec.width.unwrap_or(0);
        let zeros = "0".repeat(width.saturating_sub(sign.len() + digits.len()));
        return Some(format!("{sign}{zeros}{digits}"));
    }
    Some(pad(&format!("{sign}{digits}"), spec, false))
}

fn exponent(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return go_text::float(number);
    }
    let text = format!("{number:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// `%.3g`: this many significant digits, without trailing zeros.
fn significant(number: f64, precision: usize, keep_zeros: bool) -> String {
    if !number.is_finite() {
        return go_text::float(number);
    }
    let precision = precision.max(1);
    let scientific = format!("{number:.*e}", precision - 1);
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let trim = |text: &str| {
        if keep_zeros || !text.contains('.') {
            return text.to_owned();
        }
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let digits = trim(mantissa).chars().filter(char::is_ascii_digit).count() as i32;
    let mut threshold = precision as i32;
    if threshold > digits && digits > power {
        threshold = digits;
    }
    if power < -4 || power >= threshold.max(power + 1).min(threshold) {
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), power.abs());
    }
    let decimals = (precision as i32 - 1 - power).max(0) as usize;
    trim(&format!("{number:.decimals$}"))
}
