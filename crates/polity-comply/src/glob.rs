//! Shell patterns as Go's `filepath.Match` reads them: `*`, `?`, `[a-z]`, `[^a]` and `\` before a character.

/// A pattern that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in pattern")]
pub struct BadPattern;

/// One step of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Any run of characters but the separator.
    Star,
    /// Any character but the separator.
    Any,
    Exactly(char),
    OneOf {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// A pattern, read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob(Vec<Part>);

impl Glob {
    pub(crate) fn parse(pattern: &str) -> Result<Self, BadPattern> {
        let mut parts = Vec::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            let part = match c {
                '*' if parts.last() == Some(&Part::Star) => continue,
                '*' => Part::Star,
                '?' => Part::Any,
                '[' => class(&mut chars)?,
                '\\' => Part::Exactly(chars.next().ok_or(BadPattern)?),
                c => Part::Exactly(c),
            };
            parts.push(part);
        }
        Ok(Self(parts))
    }

    /// Whether the whole text fits. The time is bounded by the product of both lengths.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut part, mut at) = (0, 0);
        // Where to go on when the last star has to take one character more.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match self.0.get(part) {
                Some(Part::Star) => {
                    retry = Some((part, at));
                    part += 1;
                    continue;
                }
                Some(one) if at < text.len() && one.fits(text[at]) => {
                    part += 1;
                    at += 1;
                    continue;
                }
                None if at == text.len() => return true,
                _ => {}
            }
            match retry {
                Some((star, taken)) if taken < text.len() && text[taken] != '/' => {
                    retry = Some((star, taken + 1));
                    part = star + 1;
                    at = taken + 1;
                }
                _ => return false,
            }
        }
    }
}

impl Part {
    fn fits(&self, c: char) -> bool {
        match self {
            Self::Star => false,
            Self::Any => c != '/',
            Self::Exactly(expected) => c == *expected,
            Self::OneOf { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

/// What follows `[`: ranges up to the closing bracket, at least one.
fn class(chars: &mut std::str::Chars<'_>) -> Result<Part, BadPattern> {
    let negated = chars.as_str().starts_with('^');
    if negated {
        chars.next();
    }
    let mut ranges = Vec::new();
    loop {
        if !ranges.is_empty() && chars.as_str().starts_with(']') {
            chars.next();
            return Ok(Part::OneOf { negated, ranges });
        }
        let low = class_char(chars)?;
        let high = if chars.as_str().starts_with('-') {
            chars.next();
            class_char(chars)?
        } else {
            low
        };
        ranges.push((low, high));
    }
}

fn class_char(chars: &mut std::str::Chars<'_>) -> Result<char, BadPattern> {
    match chars.next() {
        None | Some('-' | ']') => Err(BadPattern),
        Some('\\') => chars.next().ok_or(BadPattern),
        Some(c) => Ok(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_go_does() {
        for (pattern, text, expected) in [
            ("*", "anything", Ok(true)),
            ("*", "", Ok(true)),
            ("", "", Ok(true)),
            ("", "a", Ok(false)),
            ("kube-*", "kube-system", Ok(true)),
            ("kube-*", "default", Ok(false)),
            ("*-a-*", "x-a-a-y", Ok(true)),
            ("a?c", "abc", Ok(true)),
            ("a?c", "ac", Ok(false)),
            ("[a-c]x", "bx", Ok(true)),
            ("[^a-c]x", "bx", Ok(false)),
            ("[^a-c]x", "dx", Ok(true)),
            ("[ab]*[12]", "b-2", Ok(true)),
            ("*/x", "a/x", Ok(true)),
            ("*x", "a/x", Ok(false)),
            ("**", "ab", Ok(true)),
            ("\\*", "*", Ok(true)),
            ("é?", "éa", Ok(true)),
            ("[", "a", Err(BadPattern)),
            ("[]", "a", Err(BadPattern)),
            ("[a", "a", Err(BadPattern)),
            ("[a-", "a", Err(BadPattern)),
            ("[-a]", "a", Err(BadPattern)),
            ("\\", "a", Err(BadPattern)),
        ] {
            let matched = Glob::parse(pattern).map(|glob| glob.matches(text));
            assert_eq!(matched, expected, "{pattern:?} on {text:?}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_their_product() {
        let glob = Glob::parse(&"a*".repeat(200)).unwrap();
        assert!(!glob.matches(&format!("{}b", "c".repeat(20_000))));
        assert!(!glob.matches(&format!("{}/", "a".repeat(20_000))));
    }
}
