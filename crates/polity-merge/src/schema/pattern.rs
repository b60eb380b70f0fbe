//! Patterns in RE2 syntax as Go parses it, compiled by a Rust engine.
//!
//! The two syntaxes differ in a few cases: Go's `\d`, `\w`, `\s` and `\b` match only ASCII, a `{` that starts no
//! repetition is literal, `[` inside a class is literal, `\<` is `<`, and `\Q…\E` quotes.

use std::iter::Peekable;
use std::str::Chars;

use regex::{Regex, RegexBuilder};

/// A compiled pattern may take this much memory; a schema is written by a user.
const SIZE_LIMIT: usize = 4 << 20;

/// Compiles `pattern`; the error is the engine's text on one line.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translate(pattern))
        .size_limit(SIZE_LIMIT)
        .dfa_size_limit(SIZE_LIMIT)
        .nest_limit(100)
        .build()
        .map_err(|error| {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or("invalid pattern").trim();
            format!(
                "error parsing regexp: {}",
                last.trim_start_matches("error: ")
            )
        })
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => escape(&mut chars, in_class, &mut out),
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                class_start(&mut chars, &mut out);
            }
            '[' if chars.peek() == Some(&':') => named_class(&mut chars, &mut out),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '{' if !in_class && !starts_repetition(&chars) => out.push_str("\\{"),
            c => out.push(c),
        }
    }
    out
}

/// A `]` right after `[` or `[^` is literal in both syntaxes; it must not end our class.
fn class_start(chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    if chars.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    if chars.next_if_eq(&']').is_some() {
        out.push_str("\\]");
    }
}

fn named_class(chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('[');
    for c in chars.by_ref() {
        out.push(c);
        if c == ']' {
            break;
        }
    }
}

fn escape(chars: &mut Peekable<Chars<'_>>, in_class: bool, out: &mut String) {
    let Some(c) = chars.next() else {
        out.push('\\');
        return;
    };
    match c {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'b' if !in_class => out.push_str("(?-u:\\b)"),
        'B' if !in_class => out.push_str("(?-u:\\B)"),
        '<' | '>' => out.push(c),
        'Q' if !in_class => quote(chars, out),
        c => {
            out.push('\\');
            out.push(c);
        }
    }
}

fn quote(chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    let mut literal = String::new();
    while let Some(c) = chars.next() {
        if c == '\\' && chars.next_if_eq(&'E').is_some() {
            break;
        }
        literal.push(c);
    }
    out.push_str(&regex::escape(&literal));
}

/// Whether the text after a `{` makes it a repetition: `n}`, `n,}` or `n,m}`.
fn starts_repetition(rest: &Peekable<Chars<'_>>) -> bool {
    let mut rest = rest.clone();
    let mut digits = 0;
    while rest.next_if(char::is_ascii_digit).is_some() {
        digits += 1;
    }
    if digits == 0 {
        return false;
    }
    if rest.next_if_eq(&',').is_some() {
        while rest.next_if(char::is_ascii_digit).is_some() {}
    }
    rest.next() == Some('}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        let cases = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^[\w.]+$", "a_b.c", true),
            (r"^\w$", "é", false),
            (r"b", "abc", true),
            (r"^a{2}$", "aa", true),
            (r"^{x}$", "{x}", true),
            (r"^[]a]$", "]", true),
            (r"^[a[b]$", "[", true),
            (r"^[&&]$", "&", true),
            (r"\bcat\b", "a cat", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\<a\>$", "<a>", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^a\/b$", "a/b", true),
            (
                r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
                "x-1",
                true,
            ),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                compile(pattern).unwrap().is_match(text),
                expected,
                "{pattern} on {text}"
            );
        }
    }

    #[test]
    fn broken_and_huge_patterns_are_refused() {
        for pattern in ["(", "a**b(", "[z-a]", "(a{1000}){1000}", "\\"] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
    }
}
