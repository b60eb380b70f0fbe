//! Semantic versions and the constraints on them, with the rules (and the generosity) of the library
//! that templates know: `1.2` is a version, `~1.2 || >=2.x` a constraint.

use std::cmp::Ordering;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pub(crate) pre: String,
    pub(crate) metadata: String,
    pub(crate) original: String,
}

const INVALID: &str = "Invalid Semantic Version";

impl Version {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some(parts) = Parts::read(text, false).filter(|(_, rest)| rest.is_empty()) else {
            return Err(INVALID.to_owned());
        };
        let parts = parts.0;
        let segment = |text: &str| {
            match text {
            "" => Ok(0),
            text => text.parse::<u64>().map_err(|_| {
                format!(
                    "Error parsing version segment: strconv.ParseUint: parsing {}: value out of range",
                    crate::syntax::unquote::quote(text)
                )
            }),
        }
        };
        let version = Self {
            major: segment(parts.major)?,
            minor: segment(parts.minor)?,
            patch: segment(parts.patch)?,
            pre: parts.pre.to_owned(),
            metadata: parts.metadata.to_owned(),
            original: text.to_owned(),
        };
        let zero_led = |part: &str| {
            part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit())
        };
        if version.pre.split('.').any(zero_led) {
            return Err("Version segment starts with 0".to_owned());
        }
        Ok(version)
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| compare_pre(&self.pre, &other.pre))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

/// A release is greater than its pre-releases.
fn compare_pre(a: &str, b: &str) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) => match (a.parse::<u64>(), b.parse::<u64>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => a.cmp(b),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// The text of a version.
struct Parts<'t> {
    major: &'t str,
    minor: &'t str,
    patch: &'t str,
    pre: &'t str,
    metadata: &'t str,
}

impl<'t> Parts<'t> {
    /// Reads as much as is a version; with wildcards where a constraint allows them.
    fn read(text: &'t str, wildcards: bool) -> Option<(Self, &'t str)> {
        let is_segment =
            |c: char| c.is_ascii_digit() || (wildcards && matches!(c, 'x' | 'X' | '*' | '|'));
        let take = |text: &'t str| {
            let end = text.find(|c| !is_segment(c)).unwrap_or(text.len());
            text.split_at(end)
        };
        let (major, mut rest) = take(text.strip_prefix('v').unwrap_or(text));
        if major.is_empty() {
            return None;
        }
        let mut further = ["", ""];
        for slot in &mut further {
            let Some(after) = rest.strip_prefix('.') else {
                break;
            };
            let (segment, after) = take(after);
            if segment.is_empty() {
                break;
            }
            (*slot, rest) = (segment, after);
        }
        let [minor, patch] = further;
        let (pre, rest) = labels(rest, '-');
        let (metadata, rest) = labels(rest, '+');
        Some((
            Self {
                major,
                minor,
                patch,
                pre,
                metadata,
            },
            rest,
        ))
    }
}

/// `-rc.1`, `+build`: dotted labels behind a sign.
fn labels(text: &str, sign: char) -> (&str, &str) {
    let Some(after) = text.strip_prefix(sign) else {
        return ("", text);
    };
    let is_label = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut end = 0;
    loop {
        let start = if end == 0 { 0 } else { end + 1 };
        let tail = after.get(start..).unwrap_or_default();
        let length = tail.find(|c| !is_label(c)).unwrap_or(tail.len());
        if length == 0 {
            break;
        }
        end = start + length;
        if !after[end..].starts_with('.') {
            break;
        }
    }
    if end == 0 {
        return ("", text);
    }
    after.split_at(end)
}

/// Does the version satisfy the constraint?
pub(crate) fn satisfies(constraint: &str, version: &str) -> Result<bool, String> {
    let alternatives = parse_constraint(constraint)?;
    let version = Version::parse(version)?;
    Ok(alternatives
        .iter()
        .any(|all| all.iter().all(|one| one.allows(&version))))
}

/// One comparison of a constraint.
struct Constraint {
    operator: &'static str,
    version: Version,
    /// Which part is the first that may be anything.
    open: Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    No,
    Major,
    Minor,
    Patch,
}

fn parse_constraint(text: &str) -> Result<Vec<Vec<Constraint>>, String> {
    rewrite_ranges(text)
        .split("||")
        .map(|all| conjunction(all).ok_or_else(|| format!("improper constraint: {all}")))
        .collect()
}

/// `1.2 - 2.3` is at least the first and at most the second.
fn rewrite_ranges(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    loop {
        let trimmed = rest.trim_start();
        let range = Parts::read(trimmed, true).and_then(|(_, after)| {
            let low = &trimmed[..trimmed.len() - after.len()];
            let dash = after.trim_start();
            let after_dash = dash.strip_prefix('-')?;
            let high = after_dash.trim_start();
            if dash.len() == after.len() || high.len() == after_dash.len() {
                return None;
            }
            let (_, tail) = Parts::read(high, true)?;
            Some((low, &high[..high.len() - tail.len()], tail))
        });
        match range {
            Some((low, high, tail)) => {
                out.push_str(&format!(">= {low}, <= {high} "));
                rest = tail.trim_start();
            }
            None => {
                let mut chars = rest.chars();
                match chars.next() {
                    Some(c) => out.push(c),
                    None => return out,
                }
                rest = chars.as_str();
                // A range cannot start inside of a word.
                while let Some(c) = rest.chars().next().filter(|c| !c.is_whitespace()) {
                    if matches!(c, ',' | '|') {
                        break;
                    }
                    out.push(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
    }
}

const OPERATORS: &[&str] = &[
    "!=", ">=", "=>", "<=", "=<", "~>", "=", ">", "<", "~", "^", "",
];

fn conjunction(text: &str) -> Option<Vec<Constraint>> {
    let mut all = Vec::new();
    let mut rest = text.trim_start();
    loop {
        let operator = OPERATORS
            .iter()
            .find(|operator| rest.starts_with(**operator))
            .copied()?;
        let (parts, after) = Parts::read(rest[operator.len()..].trim_start(), true)?;
        all.push(Constraint::of(operator, &parts)?);
        let next = after.trim_start();
        if next.is_empty() {
            return Some(all);
        }
        rest = match next.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if next.len() < after.len() => next,
            None => return None,
        };
    }
}

impl Constraint {
    fn of(operator: &'static str, parts: &Parts<'_>) -> Option<Self> {
        let is_open = |part: &str| matches!(part, "" | "x" | "X" | "*");
        let pre = if parts.pre.is_empty() {
            String::new()
        } else {
            format!("-{}", parts.pre)
        };
        let (open, text) = if is_open(parts.major) {
            (Open::Major, format!("0.0.0{pre}"))
        } else if is_open(parts.minor) {
            (Open::Minor, format!("{}.0.0{pre}", parts.major))
        } else if is_open(parts.patch) {
            (
                Open::Patch,
                format!("{}.{}.0{pre}", parts.major, parts.minor),
            )
        } else {
            let Parts {
                major,
                minor,
                patch,
                ..
            } = parts;
            (Open::No, format!("{major}.{minor}.{patch}{pre}"))
        };
        Some(Self {
            operator,
            version: Version::parse(&text).ok()?,
            open,
        })
    }

    fn allows(&self, version: &Version) -> bool {
        let unwanted_pre = !version.pre.is_empty() && self.version.pre.is_empty();
        if unwanted_pre && !(self.operator == "!=" && self.open == Open::No) {
            return false;
        }
        let order = version.compare(&self.version);
        match self.operator {
            "!=" => self.differs(version, order),
            ">" => self.is_above(version, order),
            "<" => order == Ordering::Less,
            ">=" | "=>" => order != Ordering::Less,
            "<=" | "=<" => self.is_at_most(version, order),
            "^" => order != Ordering::Less && self.caret(version),
            "~" | "~>" => order != Ordering::Less && self.tilde(version),
            _ if self.open == Open::No => order == Ordering::Equal,
            _ => order != Ordering::Less && self.tilde(version),
        }
    }

    fn differs(&self, version: &Version, order: Ordering) -> bool {
        if self.open == Open::No {
            return order != Ordering::Equal;
        }
        if version.major != self.version.major {
            return true;
        }
        match self.open {
            Open::Minor => false,
            _ if version.minor != self.version.minor => true,
            Open::Patch => {
                let either_pre = !version.pre.is_empty() || !self.version.pre.is_empty();
                either_pre && compare_pre(&version.pre, &self.version.pre) != Ordering::Equal
            }
            _ => version.patch != self.version.patch || order != Ordering::Equal,
        }
    }

    fn is_above(&self, version: &Version, order: Ordering) -> bool {
        if self.open == Open::No || version.major != self.version.major {
            return if self.open == Open::No {
                order == Ordering::Greater
            } else {
                version.major > self.version.major
            };
        }
        match self.open {
            Open::Minor => false,
            Open::Patch => version.minor > self.version.minor,
            _ => order == Ordering::Greater,
        }
    }

    fn is_at_most(&self, version: &Version, order: Ordering) -> bool {
        if self.open == Open::No {
            return order != Ordering::Greater;
        }
        let above_minor = version.major == self.version.major
            && version.minor > self.version.minor
            && self.open != Open::Minor;
        version.major <= self.version.major && !above_minor
    }

    fn tilde(&self, version: &Version) -> bool {
        let own = &self.version;
        let any = (own.major, own.minor, own.patch) == (0, 0, 0)
            && !matches!(self.open, Open::Minor | Open::Patch);
        any || (version.major == own.major
            && (version.minor == own.minor || self.open == Open::Minor))
    }

    fn caret(&self, version: &Version) -> bool {
        let own = &self.version;
        if own.major > 0 || self.open == Open::Minor {
            return version.major == own.major;
        }
        if version.major > 0 {
            return false;
        }
        if own.minor > 0 || self.open == Open::Patch {
            return version.minor == own.minor;
        }
        version.minor == 0 && version.patch == own.patch
    }
}
