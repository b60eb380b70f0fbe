//! The part of JSONPath that custom resource definitions use: printer columns, selectable fields, scale.
//!
//! `.spec.a[0].b`, `.status.conditions[?(@.type=="Ready")].status`, `['x']`, `[*]`, `[1:3]`, and names in
//! which `\` escapes a dot. Paths come from users and run over users' objects: parsing and matching are
//! bounded by the sizes of both.

use std::str::FromStr;

use serde_json::{Number, Value};

/// Filters may be nested, up to this depth.
const MAX_FILTER_DEPTH: usize = 4;
/// A path is a few names long.
const MAX_LENGTH: usize = 4096;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

/// The text is not a valid path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON path {path:?}: {why}")]
pub struct JsonPathError {
    pub path: String,
    pub why: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Slice { from: Option<i64>, to: Option<i64> },
    Wildcard,
    Filter(Box<Filter>),
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    path: Vec<Step>,
    /// None: the path must lead somewhere.
    test: Option<(Comparison, Value)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Every value the path leads to, in document order.
    pub fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        find(&self.steps, root)
    }

    /// The first value the path leads to.
    pub fn first<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.find(root).into_iter().next()
    }

    /// The names along a path that has nothing but names, such as a scale path.
    pub fn names(&self) -> Option<Vec<&str>> {
        let names = self.steps.iter().map(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            _ => None,
        });
        names.collect()
    }
}

impl FromStr for JsonPath {
    type Err = JsonPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |why| JsonPathError {
            path: text.to_owned(),
            why,
        };
        if text.len() > MAX_LENGTH {
            return Err(JsonPathError {
                path: String::new(),
                why: "it is too long",
            });
        }
        let mut parser = Parser {
            rest: text,
            depth: 0,
        };
        let steps = parser.steps().map_err(error)?;
        if !parser.rest.is_empty() {
            return Err(error("it must consist of .name and [...] parts"));
        }
        if steps.is_empty() && text != "." {
            return Err(error("it must start with a dot"));
        }
        Ok(Self { steps })
    }
}

fn find<'a>(steps: &[Step], root: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![root];
    for step in steps {
        found = found
            .into_iter()
            .flat_map(|value| follow(step, value))
            .collect();
    }
    found
}

fn follow<'a>(step: &Step, value: &'a Value) -> Vec<&'a Value> {
    match (step, value) {
        (Step::Field(name), Value::Object(fields)) => fields.get(name).into_iter().collect(),
        (Step::Index(index), Value::Array(items)) => resolve(*index, items.len())
            .and_then(|at| items.get(at))
            .into_iter()
            .collect(),
        (Step::Slice { from, to }, Value::Array(items)) => {
            let bound = |given: Option<i64>, default| {
                given.map_or(default, |index| {
                    let index = if index < 0 {
                        index.saturating_add(items.len() as i64)
                    } else {
                        index
                    };
                    index.clamp(0, items.len() as i64) as usize
                })
            };
            let (from, to) = (bound(*from, 0), bound(*to, items.len()));
            items.iter().take(to).skip(from).collect()
        }
        (Step::Wildcard, Value::Array(items)) => items.iter().collect(),
        (Step::Wildcard, Value::Object(fields)) => fields.values().collect(),
        (Step::Filter(filter), Value::Array(items)) => {
            items.iter().filter(|item| filter.accepts(item)).collect()
        }
        _ => Vec::new(),
    }
}

/// A possibly negative index, counted from the end then.
fn resolve(index: i64, length: usize) -> Option<usize> {
    let index = if index < 0 {
        index.checked_add(length as i64)?
    } else {
        index
    };
    usize::try_from(index).ok()
}

impl Filter {
    fn accepts(&self, item: &Value) -> bool {
        let found = find(&self.path, item);
        match &self.test {
            None => !found.is_empty(),
            Some((comparison, expected)) => found
                .first()
                .is_some_and(|value| comparison.holds(value, expected)),
        }
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) => as_float(a).partial_cmp(&as_float(b)),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            _ => None,
        };
        match (self, order) {
            (Self::NotEqual, order) => order != Some(Equal),
            (_, None) => false,
            (Self::Equal, Some(order)) => order == Equal,
            (Self::Less, Some(order)) => order == Less,
            (Self::LessOrEqual, Some(order)) => order != Greater,
            (Self::Greater, Some(order)) => order == Greater,
            (Self::GreaterOrEqual, Some(order)) => order != Less,
        }
    }
}

fn as_float(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

type Parsed<T> = Result<T, &'static str>;

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl Parser<'_> {
    /// Steps up to the end, or up to a character that cannot start a step.
    fn steps(&mut self) -> Parsed<Vec<Step>> {
        let mut steps = Vec::new();
        loop {
            if self.skip("..") {
                return Err("recursive descent is not supported");
            } else if self.skip(".") {
                if self.skip("*") {
                    steps.push(Step::Wildcard);
                } else if !self.rest.starts_with('[') && !self.rest.is_empty() {
                    steps.push(Step::Field(self.name()?));
                }
            } else if self.skip("[") {
                steps.push(self.bracket()?);
            } else {
                return Ok(steps);
            }
        }
    }

    fn skip(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn expect(&mut self, token: &str, why: &'static str) -> Parsed<()> {
        self.skip_spaces();
        if self.skip(token) { Ok(()) } else { Err(why) }
    }

    /// A name after a dot; a backslash makes the next character part of it.
    fn name(&mut self) -> Parsed<String> {
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let end = loop {
            match chars.next() {
                Some((_, '\\')) => match chars.next() {
                    Some((_, escaped)) => name.push(escaped),
                    None => return Err("it ends with a backslash"),
                },
                Some((at, c)) if ".[])=!<> \t".contains(c) => break at,
                Some((_, c)) => name.push(c),
                None => break self.rest.len(),
            }
        };
        self.rest = &self.rest[end..];
        if name.is_empty() {
            Err("a name is missing")
        } else {
            Ok(name)
        }
    }

    fn bracket(&mut self) -> Parsed<Step> {
        self.skip_spaces();
        let step = if self.skip("*") {
            Step::Wildcard
        } else if self.skip("?(") {
            let filter = self.filter()?;
            self.expect(")", "a filter is not closed")?;
            Step::Filter(Box::new(filter))
        } else if self.rest.starts_with(['\'', '"']) {
            Step::Field(self.quoted()?)
        } else {
            self.index()?
        };
        self.expect("]", "a bracket is not closed")?;
        Ok(step)
    }

    fn index(&mut self) -> Parsed<Step> {
        let from = self.integer()?;
        self.skip_spaces();
        if self.skip(":") {
            let to = self.integer()?;
            return Ok(Step::Slice { from, to });
        }
        from.map(Step::Index)
            .ok_or("a bracket holds neither index, name, filter nor *")
    }

    fn integer(&mut self) -> Parsed<Option<i64>> {
        self.skip_spaces();
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_digit() && c != '-')
            .unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        if digits.is_empty() {
            return Ok(None);
        }
        self.rest = rest;
        digits
            .parse()
            .map(Some)
            .map_err(|_| "an index is no number")
    }

    fn quoted(&mut self) -> Parsed<String> {
        let mut chars = self.rest.char_indices();
        let Some((_, quote)) = chars.next() else {
            return Err("a quoted text is missing");
        };
        let mut text = String::new();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, escaped)) => text.push(escaped),
                    None => break,
                },
                c if c == quote => {
                    self.rest = &self.rest[at + quote.len_utf8()..];
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        Err("a quoted text is not closed")
    }

    fn filter(&mut self) -> Parsed<Filter> {
        self.depth += 1;
        if self.depth > MAX_FILTER_DEPTH {
            return Err("filters are nested too deeply");
        }
        self.expect("@", "a filter must start with @")?;
        let path = self.steps()?;
        self.skip_spaces();
        let operators = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let operator = operators.into_iter().find(|(token, _)| self.skip(token));
        let test = match operator {
            Some((_, comparison)) => Some((comparison, self.literal()?)),
            None => None,
        };
        self.depth -= 1;
        Ok(Filter { path, test })
    }

    fn literal(&mut self) -> Parsed<Value> {
        self.skip_spaces();
        if self.rest.starts_with(['\'', '"']) {
            return self.quoted().map(Value::String);
        }
        let end = self.rest.find([')', ' ']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match serde_json::from_str(word) {
            Ok(value @ (Value::Bool(_) | Value::Number(_))) => Ok(value),
            _ => Err("a filter compares with a text, a number, true or false"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "metadata": {"annotations": {"io.kubewarden.policy.severity": "high", "x y": 1}},
            "spec": {"replicas": 3, "list": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 3}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]},
        })
    }

    #[test]
    fn paths_lead_to_values() {
        let cases = [
            (".spec.replicas", json!([3])),
            (".spec.list[0].b", json!(["x"])),
            (".spec.list[-1].a", json!([3])),
            (".spec.list[*].b", json!(["x", "y"])),
            (".spec.list[1:].a", json!([2, 3])),
            (".spec.list[:1].a", json!([1])),
            (
                ".status.conditions[?(@.type==\"Ready\")].status",
                json!(["True"]),
            ),
            (
                ".status.conditions[?(@.type=='Synced')].status",
                json!(["False"]),
            ),
            (
                ".status.conditions[?( @.type != 'Ready' )].status",
                json!(["False"]),
            ),
            (".spec.list[?(@.a>=2)].a", json!([2, 3])),
            (".spec.list[?(@.b)].a", json!([1, 2])),
            (
                ".metadata.annotations.io\\.kubewarden\\.policy\\.severity",
                json!(["high"]),
            ),
            (
                ".metadata.annotations['io.kubewarden.policy.severity']",
                json!(["high"]),
            ),
            (".metadata.annotations[\"x y\"]", json!([1])),
            (".metadata['annotations']['x y']", json!([1])),
            (".spec.missing.deeper", json!([])),
            (".spec.list.a", json!([])),
            (".spec.list[9].a", json!([])),
            (".spec.list[-9].a", json!([])),
        ];
        for (path, expected) in cases {
            let parsed: JsonPath = path.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(json!(parsed.find(&object())), expected, "{path}");
        }
    }

    #[test]
    fn invalid_paths_are_refused() {
        let deep = format!(".a{}", "[?(@.a".repeat(20));
        for path in [
            "",
            "spec",
            "..a",
            ".a[",
            ".a[]",
            ".a[x]",
            ".a['x]",
            ".a[?(@.b]",
            ".a\\",
            ".a[?(@.b==x)]",
            ".a b",
            &deep,
        ] {
            assert!(path.parse::<JsonPath>().is_err(), "{path}");
        }
        assert!("x".repeat(5000).parse::<JsonPath>().is_err());
    }

    #[test]
    fn plain_paths_are_lists_of_names() {
        assert_eq!(
            ".spec.replicas".parse::<JsonPath>().unwrap().names(),
            Some(vec!["spec", "replicas"])
        );
        assert_eq!(".spec.list[0]".parse::<JsonPath>().unwrap().names(), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[.\\[\\]?(@)='\"a-c0-9*: \\\\<>!é-]{0,40}") {
            if let Ok(path) = text.parse::<JsonPath>() {
                path.find(&object());
            }
        }
    }
}
