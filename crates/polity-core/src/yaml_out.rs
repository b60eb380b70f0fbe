//! Values as YAML, byte for byte as the Kubernetes tools of Go write it: [`to_yaml`].
//!
//! Diffs and `toYaml` are compared by users with what they know, and the template engine decides by
//! quotes what becomes a number; so the rules here are those of `sigs.k8s.io/yaml` (keys in natural
//! order, block style, long texts in lines of 80) and, with [`Layout::Indented`], of `yaml.v3` with two spaces.
//! Parsing what was written gives the same value back.

mod resolve;
mod scalar;

use std::cmp::Ordering;

use serde_json::{Map, Value};

use scalar::{Style, style_of_text};

/// Where the dashes of a list stand that is the value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Below the key, as `sigs.k8s.io/yaml` and kubectl write it.
    #[default]
    Compact,
    /// Two spaces to the right of the key, as `yaml.v3` writes it.
    Indented,
}

/// The value as a YAML document, ending with a line break.
pub fn to_yaml(value: &Value) -> String {
    to_yaml_in(value, Layout::Compact)
}

/// As [`to_yaml`], with the layout chosen.
pub fn to_yaml_in(value: &Value, layout: Layout) -> String {
    let mut writer = Writer {
        out: String::new(),
        column: 0,
        whitespace: true,
        indention: true,
        layout,
    };
    writer.node(value, NodeContext::Root, -1);
    writer.start_line(0);
    writer.out
}

/// The position of a node in its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeContext {
    Root,
    Item,
    /// A key that fits before its colon.
    SimpleKey,
    /// A key behind a question mark.
    LongKey,
    MapValue,
}

/// Writes characters and knows enough about the last ones to place the next.
struct Writer {
    out: String,
    column: usize,
    /// The last thing written separates already.
    whitespace: bool,
    /// Nothing but indentation and indicators stand on this line.
    indention: bool,
    layout: Layout,
}

/// Lines are broken at the next space behind this column.
const WIDTH: usize = 80;

/// How a text may be broken into lines.
#[derive(Debug, Clone, Copy)]
struct Fold {
    allowed: bool,
    /// Between quotes a text is not broken at its edges.
    quoted: bool,
    indent: usize,
}

impl Fold {
    fn of(place: NodeContext, indent: isize, quoted: bool) -> Self {
        Self {
            allowed: place != NodeContext::SimpleKey,
            quoted,
            indent: usize::try_from(indent).map_or(2, |indent| indent + 2),
        }
    }
}

/// Keys longer than this are written behind a question mark.
const LONGEST_SIMPLE_KEY: usize = 128;

impl Writer {
    /// `indent` is that of the surrounding block, -1 outside any.
    fn node(&mut self, value: &Value, place: NodeContext, indent: isize) {
        match value {
            Value::Null => self.plain("null"),
            Value::Bool(true) => self.plain("true"),
            Value::Bool(false) => self.plain("false"),
            Value::Number(number) => self.plain(&scalar::number(number)),
            Value::String(text) => self.text(text, place, indent),
            Value::Array(items) if items.is_empty() => self.indicator("[]", true, false),
            Value::Object(map) if map.is_empty() => self.indicator("{}", true, false),
            Value::Array(items) => self.list(items, place, indent),
            Value::Object(map) => self.map(map, indent),
        }
    }

    fn list(&mut self, items: &[Value], place: NodeContext, indent: isize) {
        let below_its_key = place == NodeContext::MapValue && !self.indention;
        let indent = if below_its_key && self.layout == Layout::Compact {
            indent
        } else {
            deeper(indent)
        };
        for item in items {
            self.start_line(indent);
            self.indicator("-", true, true);
            self.node(item, NodeContext::Item, indent);
        }
    }

    fn map(&mut self, map: &Map<String, Value>, indent: isize) {
        let indent = deeper(indent);
        let mut entries: Vec<(&String, &Value)> = map.iter().collect();
        entries.sort_by(|a, b| natural(a.0, b.0));
        for (key, value) in entries {
            self.start_line(indent);
            let simple = key.len() <= LONGEST_SIMPLE_KEY && !key.chars().any(scalar::is_break);
            if simple {
                self.text(key, NodeContext::SimpleKey, indent);
                self.indicator(":", false, false);
            } else {
                self.indicator("?", true, true);
                self.text(key, NodeContext::LongKey, indent);
                self.start_line(indent);
                self.indicator(":", true, true);
            }
            self.node(value, NodeContext::MapValue, indent);
        }
    }

    fn text(&mut self, text: &str, place: NodeContext, indent: isize) {
        match style_of_text(text, place == NodeContext::SimpleKey, self.layout) {
            Style::Plain => {
                self.separate();
                self.folded(text, Fold::of(place, indent, false));
            }
            Style::Single => {
                self.separate();
                self.put("'");
                self.folded(&text.replace('\'', "''"), Fold::of(place, indent, true));
                self.put("'");
            }
            Style::Double => {
                self.separate();
                self.double_quoted(text, &Fold::of(place, indent, true));
            }
            Style::Literal => return self.literal(text, indent),
        }
        self.settled();
    }

    /// A text in one line, or in several where it is too long and has single spaces to break at.
    fn folded(&mut self, text: &str, fold: Fold) {
        let mut after_space = false;
        let mut rest = text.char_indices().peekable();
        while let Some((at, c)) = rest.next() {
            let next = rest.peek().map(|(_, next)| *next);
            let inside = !fold.quoted || (at > 0 && next.is_some());
            let breaks = c == ' ' && !after_space && next != Some(' ') && inside;
            if breaks && fold.allowed && self.is_too_long() {
                self.line_break('\n');
                self.fill(fold.indent);
            } else {
                self.out.push(c);
                self.column += 1;
            }
            after_space = c == ' ';
        }
    }

    fn double_quoted(&mut self, text: &str, fold: &Fold) {
        self.put("\"");
        let mut after_space = false;
        let last = text.chars().count().saturating_sub(1);
        let mut rest = text.chars().enumerate().peekable();
        let marked = text.starts_with('\u{feff}');
        while let Some((i, c)) = rest.next() {
            if c == ' ' && !after_space && fold.allowed && self.is_too_long() && i > 0 && i < last {
                self.line_break('\n');
                self.fill(fold.indent);
                // A space at the start of a line would be lost without it.
                if rest.peek().is_some_and(|(_, next)| *next == ' ') {
                    self.put("\\");
                }
            } else {
                self.put(&scalar::escaped(c, marked));
            }
            after_space = c == ' ';
        }
        self.put("\"");
    }

    fn is_too_long(&self) -> bool {
        self.layout == Layout::Compact && self.column > WIDTH
    }

    fn fill(&mut self, indent: usize) {
        while self.column < indent {
            self.put(" ");
        }
    }

    fn literal(&mut self, text: &str, indent: isize) {
        self.indicator("|", true, false);
        if text.starts_with(' ') || text.starts_with(scalar::is_break) {
            self.put("2");
        }
        let mut backwards = text.chars().rev();
        let ends_with_break = backwards.next().is_some_and(scalar::is_break);
        let before_it = backwards.next();
        if !ends_with_break {
            self.put("-");
        } else if before_it.is_none_or(scalar::is_break) {
            self.put("+");
        }
        self.line_break('\n');
        (self.indention, self.whitespace) = (true, true);
        // A scalar lies one level deeper than its block, at the root as well.
        let indent = if indent < 0 { 2 } else { indent + 2 };
        let mut after_break = true;
        for c in text.chars() {
            if scalar::is_break(c) {
                self.line_break(c);
                self.indention = true;
                after_break = true;
            } else {
                if after_break {
                    self.start_line(indent);
                }
                self.out.push(c);
                self.column += 1;
                self.indention = false;
                after_break = false;
            }
        }
    }

    fn plain(&mut self, text: &str) {
        self.separate();
        self.put(text);
        self.settled();
    }

    fn settled(&mut self) {
        (self.whitespace, self.indention) = (false, false);
    }

    fn separate(&mut self) {
        if !self.whitespace {
            self.put(" ");
        }
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn line_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
    }

    fn indicator(&mut self, text: &str, needs_space: bool, keeps_indention: bool) {
        if needs_space {
            self.separate();
        }
        self.put(text);
        self.whitespace = false;
        self.indention &= keeps_indention;
    }

    /// Goes to the column `indent`, on a new line unless this one is still free up to there.
    fn start_line(&mut self, indent: isize) {
        let indent = usize::try_from(indent).unwrap_or(0);
        let taken = self.column > indent || (self.column == indent && !self.whitespace);
        if !self.indention || taken {
            self.line_break('\n');
        }
        self.fill(indent);
        (self.whitespace, self.indention) = (true, true);
    }
}

fn deeper(indent: isize) -> isize {
    if indent < 0 { 0 } else { indent + 2 }
}

/// The order of keys: letters after everything else, runs of digits by their number.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(x, y)| x != y) else {
        return a.len().cmp(&b.len());
    };
    match (a[at].is_alphabetic(), b[at].is_alphabetic()) {
        (true, true) => return a[at].cmp(&b[at]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero inside a number that began earlier counts; a leading one does not.
    let zero = a[at] == '0' || b[at] == '0';
    let earlier_digit = a[..at]
        .iter()
        .rev()
        .take_while(|c| c.is_numeric())
        .any(|c| *c != '0');
    let start = i64::from(zero && earlier_digit);
    let (a_number, a_digits) = leading_number(&a[at..], start);
    let (b_number, b_digits) = leading_number(&b[at..], start);
    (a_number, a_digits, a[at]).cmp(&(b_number, b_digits, b[at]))
}

fn leading_number(chars: &[char], start: i64) -> (i64, usize) {
    let mut number = start;
    let mut n_digits = 0;
    for digit in chars.iter().map_while(|c| c.to_digit(10)) {
        number = number.wrapping_mul(10).wrapping_add(i64::from(digit));
        n_digits += 1;
    }
    (number, n_digits)
}

#[cfg(test)]
mod tests;
