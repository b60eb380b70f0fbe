//! Words: cases, initials, wrapping, abbreviating.

use super::strings::{bytes_of, is_space, lower, made, upper};
use crate::arg::{int, text};
use crate::function::{Function, Outcome, Type, function};
use crate::run::Run;

const T: Type = Type::Text;
const I: Type = Type::Int;

pub(crate) const TABLE: &[(&str, Function)] = &[
    (
        "title",
        function(&[T], None, |_, v| made(title(text(&v[0])))),
    ),
    (
        "untitle",
        function(&[T], None, |_, v| made(each_first(text(&v[0]), lower))),
    ),
    (
        "swapcase",
        function(&[T], None, |_, v| made(swap_case(text(&v[0])))),
    ),
    (
        "snakecase",
        function(&[T], None, |_, v| made(lower_case(text(&v[0]), '_'))),
    ),
    (
        "kebabcase",
        function(&[T], None, |_, v| made(lower_case(text(&v[0]), '-'))),
    ),
    (
        "camelcase",
        function(&[T], None, |_, v| made(pascal_case(text(&v[0])))),
    ),
    (
        "nospace",
        function(&[T], None, |_, v| made(no_space(text(&v[0])))),
    ),
    (
        "initials",
        function(&[T], None, |_, v| made(initials(text(&v[0])))),
    ),
    (
        "abbrev",
        function(&[I, T], None, |_, v| {
            made(abbreviated(text(&v[1]), 0, int(&v[0])))
        }),
    ),
    (
        "abbrevboth",
        function(&[I, I, T], None, |_, v| {
            made(abbreviated(text(&v[2]), int(&v[0]), int(&v[1])))
        }),
    ),
    (
        "wrap",
        function(&[I, T], None, |run, v| {
            wrap(run, text(&v[1]), int(&v[0]), "", false)
        }),
    ),
    (
        "wrapWith",
        function(&[I, T, T], None, |run, v| {
            wrap(run, text(&v[2]), int(&v[0]), text(&v[1]), true)
        }),
    ),
    (
        "shuffle",
        function(&[T], None, |run, v| {
            let mut chars: Vec<char> = text(&v[0]).chars().collect();
            for i in (1..chars.len()).rev() {
                let j = run.random_below(i as u64 + 1) as usize;
                chars.swap(i, j);
            }
            made(chars.into_iter().collect::<String>())
        }),
    ),
];

/// A letter after something that is none.
fn title(text: &str) -> String {
    let mut previous = ' ';
    text.chars()
        .map(|c| {
            let starts = is_separator(previous);
            previous = c;
            if starts { upper(c) } else { c }
        })
        .collect()
}

fn is_separator(c: char) -> bool {
    if c.is_ascii() {
        return !(c.is_ascii_alphanumeric() || c == '_');
    }
    !c.is_alphanumeric() && is_space(c)
}

fn each_first(text: &str, change: fn(char) -> char) -> String {
    let mut starts = true;
    text.chars()
        .map(|c| {
            if is_space(c) {
                starts = true;
                c
            } else if std::mem::take(&mut starts) {
                change(c)
            } else {
                c
            }
        })
        .collect()
}

fn swap_case(text: &str) -> String {
    let mut after_space = true;
    text.chars()
        .map(|c| {
            if c.is_uppercase() {
                after_space = false;
                lower(c)
            } else if c.is_lowercase() {
                after_space = false;
                upper(c)
            } else {
                after_space = is_space(c);
                c
            }
        })
        .collect()
}

/// Works on bytes, as the original does: beyond ASCII each byte becomes a separate character.
fn no_space(text: &str) -> String {
    let is_space_byte = |byte: u8| is_space(char::from(byte));
    if !text.bytes().any(is_space_byte) {
        return text.to_owned();
    }
    text.bytes()
        .filter(|byte| !is_space_byte(*byte))
        .map(char::from)
        .collect()
}

fn initials(text: &str) -> String {
    let mut out = String::new();
    let mut after_gap = true;
    for byte in text.bytes() {
        let c = char::from(byte);
        if is_space(c) {
            after_gap = true;
        } else if std::mem::take(&mut after_gap) {
            out.push(c);
        }
    }
    out
}

fn abbreviated(text: &str, offset: i64, width: i64) -> String {
    if width < 4 || (offset > 0 && width < 7) {
        return text.to_owned();
    }
    abbreviate(text.as_bytes(), offset, width).map_or(String::new(), |bytes| {
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn abbreviate(text: &[u8], offset: i64, width: i64) -> Option<Vec<u8>> {
    let length = text.len() as i64;
    if width < 4 {
        return None;
    }
    if length <= width {
        return Some(text.to_vec());
    }
    let mut offset = offset.min(length);
    if length - offset < width - 3 {
        offset = length - (width - 3);
    }
    const MARK: &[u8] = b"...";
    if offset <= 4 {
        return Some([&text[..(width - 3) as usize], MARK].concat());
    }
    if width < 7 {
        return None;
    }
    if offset + width - 3 < length {
        let shortened = abbreviate(&text[offset as usize..], 0, width - 3)?;
        return Some([MARK, &shortened].concat());
    }
    Some([MARK, &text[(length - (width - 3)) as usize..]].concat())
}

fn wrap(run: &Run<'_>, whole: &str, width: i64, separator: &str, cuts_words: bool) -> Outcome {
    if whole.is_empty() {
        return made("");
    }
    let separator = if separator.is_empty() {
        "\n"
    } else {
        separator
    };
    let width = usize::try_from(width.max(1)).unwrap_or(1);
    let mut out = String::new();
    let mut at = 0;
    let bytes = whole.as_bytes();
    while bytes.len() - at > width {
        run.fits(out.len())?;
        if bytes[at] == b' ' {
            at += 1;
            continue;
        }
        let window = &bytes[at..=at + width];
        if let Some(space) = window.iter().rposition(|b| *b == b' ') {
            out.push_str(&bytes_of(whole, at, at + space));
            out.push_str(separator);
            at += space + 1;
        } else if cuts_words {
            out.push_str(&bytes_of(whole, at, at + width));
            out.push_str(separator);
            at += width;
        } else {
            match bytes[at + width..].iter().position(|b| *b == b' ') {
                Some(space) => {
                    let end = at + width + space;
                    out.push_str(&bytes_of(whole, at, end));
                    out.push_str(separator);
                    at = end + 1;
                }
                None => {
                    out.push_str(&bytes_of(whole, at, bytes.len()));
                    at = bytes.len();
                }
            }
        }
    }
    out.push_str(&bytes_of(whole, at, bytes.len()));
    made(out)
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || is_space(c)
}

fn pascal_case(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    let mut current = None;
    let mut first_was_upper = false;
    for c in chars.by_ref() {
        if is_connector(c) {
            out.push(c);
            current = Some(c);
            continue;
        }
        first_was_upper = c.is_uppercase();
        current = Some(upper(c));
        break;
    }
    let Some(mut current) = current else {
        return out;
    };
    if chars.as_str().is_empty() {
        // A leading connector was written already; the original writes the last one twice.
        out.push(current);
        return out;
    }
    for c in chars {
        let previous = current;
        current = c;
        if is_connector(c) && is_connector(previous) {
            out.push(previous);
            continue;
        }
        if is_connector(previous) {
            first_was_upper = c.is_uppercase();
            current = upper(c);
        } else {
            if first_was_upper {
                if c.is_uppercase() {
                    current = lower(c);
                } else {
                    first_was_upper = false;
                }
            }
            out.push(previous);
        }
    }
    out.push(current);
    out
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Nothing,
    Number,
    Upper,
    Alphabet,
    Connector,
    Punctuation,
    Other,
}

fn is_punctuation(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_punctuation()
            && !matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~');
    }
    matches!(c, '\u{a1}' | '\u{a7}' | '\u{ab}' | '\u{b6}' | '\u{b7}' | '\u{bb}' | '\u{bf}' | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}')
}

/// Lower or title case letters, or those without case.
fn is_alphabet(c: char) -> bool {
    c.is_alphabetic() && !c.is_uppercase()
}

/// The next run of characters that belong together.
fn next_word(text: &str) -> (Word, &str, &str) {
    let Some(first) = text.chars().next() else {
        return (Word::Nothing, "", "");
    };
    let run_of = |belongs: fn(char) -> bool| {
        let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
        text.split_at(end)
    };
    let pair = |kind: Word, (word, rest)| (kind, word, rest);
    if is_connector(first) {
        return pair(Word::Connector, run_of(is_connector));
    }
    if is_punctuation(first) {
        return pair(Word::Punctuation, run_of(is_punctuation));
    }
    if first.is_uppercase() {
        return upper_word(text, first);
    }
    if is_alphabet(first) {
        return pair(Word::Alphabet, run_of(is_alphabet));
    }
    if first.is_numeric() {
        return pair(Word::Number, run_of(char::is_numeric));
    }
    let other: fn(char) -> bool =
        |c| !(is_connector(c) || is_punctuation(c) || c.is_alphabetic() || c.is_numeric());
    pair(Word::Other, run_of(other))
}

/// `HTTPStatus` is `HTTP` and `Status`.
fn upper_word(text: &str, first: char) -> (Word, &str, &str) {
    let n_upper: usize = text
        .chars()
        .take_while(|c| c.is_uppercase())
        .map(char::len_utf8)
        .sum();
    let rest = &text[n_upper..];
    let next_is_small = rest.chars().next().is_some_and(is_alphabet);
    if n_upper == first.len_utf8() {
        let end = rest.find(|c| !is_alphabet(c)).unwrap_or(rest.len());
        let (word, rest) = text.split_at(n_upper + end);
        return (Word::Upper, word, rest);
    }
    if !next_is_small {
        let (word, rest) = text.split_at(n_upper);
        return (Word::Upper, word, rest);
    }
    let last = text[..n_upper]
        .chars()
        .next_back()
        .map_or(0, char::len_utf8);
    let (word, rest) = text.split_at(n_upper - last);
    (Word::Upper, word, rest)
}

fn push_lower(out: &mut String, kind: Word, word: &str, connector: char) {
    match kind {
        Word::Upper => out.extend(word.chars().map(lower)),
        Word::Connector => out.extend(word.chars().map(|_| connector)),
        _ => out.push_str(word),
    }
}

/// snake_case and kebab-case.
fn lower_case(text: &str, connector: char) -> String {
    let mut out = String::new();
    let (mut kind, mut word, mut rest) = next_word(text);
    while !rest.is_empty() {
        if kind != Word::Connector {
            push_lower(&mut out, kind, word, connector);
        }
        let (previous, last) = (kind, word);
        (kind, word, rest) = next_word(rest);
        match previous {
            Word::Number => {
                while matches!(kind, Word::Alphabet | Word::Number) {
                    push_lower(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(kind, Word::Nothing | Word::Punctuation | Word::Connector) {
                    out.push(connector);
                }
            }
            Word::Connector => push_lower(&mut out, previous, last, connector),
            Word::Punctuation => {}
            _ if kind != Word::Number => {
                if !matches!(kind, Word::Connector | Word::Punctuation) {
                    out.push(connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let number = word;
                (kind, word, rest) = next_word(rest);
                if kind != Word::Alphabet {
                    push_lower(&mut out, Word::Number, number, connector);
                    if !matches!(kind, Word::Connector | Word::Punctuation) {
                        out.push(connector);
                    }
                    continue;
                }
                out.push(connector);
                push_lower(&mut out, Word::Number, number, connector);
                while matches!(kind, Word::Alphabet | Word::Number) {
                    push_lower(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(kind, Word::Nothing | Word::Connector | Word::Punctuation) {
                    out.push(connector);
                }
            }
        }
    }
    push_lower(&mut out, kind, word, connector);
    out
}
