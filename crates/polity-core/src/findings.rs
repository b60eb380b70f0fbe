//! What was found in foreign input, in a list of bounded length.

use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;

/// How many findings are kept. A real Kubernetes API server keeps as many strict decoding errors.
pub const MAX_FINDINGS: usize = 100;

/// Texts in the order in which they were found, each once. After [`MAX_FINDINGS`] texts, repetitions
/// included, findings are counted only.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    kept: Vec<String>,
    seen: HashSet<String>,
    /// How many texts were made for this list.
    n_made: usize,
    n_more: usize,
}

impl Findings {
    /// Adds a finding. The text is made only as long as there is space for it: a text may be long,
    /// and input can repeat it as often as it likes.
    pub fn add(&mut self, text: impl FnOnce() -> String) {
        if self.n_made == MAX_FINDINGS || self.kept.len() == MAX_FINDINGS {
            self.n_more += 1;
            return;
        }
        self.n_made += 1;
        self.keep(text());
    }

    fn keep(&mut self, text: String) {
        if self.kept.len() == MAX_FINDINGS {
            self.n_more += 1;
        } else if self.seen.insert(text.clone()) {
            self.kept.push(text);
        }
    }

    /// Adds all findings of another list. Its texts are there already, so they do not count as made.
    pub fn append(&mut self, other: Self) {
        for text in other.kept {
            self.keep(text);
        }
        self.n_more += other.n_more;
    }

    /// The findings in other words.
    #[must_use]
    pub fn map(&self, text: impl Fn(&str) -> String) -> Self {
        let mut mapped = Self::default();
        for kept in &self.kept {
            mapped.add(|| text(kept));
        }
        mapped.n_more = self.n_more;
        mapped
    }

    /// How many findings were only counted. A text that was found repeatedly counts each time.
    pub fn n_more(&self) -> usize {
        self.n_more
    }

    /// Sorts what was kept.
    pub fn sort(&mut self) {
        self.kept.sort();
    }
}

/// Two lists are equal that show the same.
impl PartialEq for Findings {
    fn eq(&self, other: &Self) -> bool {
        (&self.kept, self.n_more) == (&other.kept, other.n_more)
    }
}

impl Eq for Findings {}

impl Deref for Findings {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.kept
    }
}

impl<const N: usize> PartialEq<[&str; N]> for Findings {
    fn eq(&self, other: &[&str; N]) -> bool {
        self.n_more == 0 && self.kept == *other
    }
}

/// The findings, separated by commas, and how many more there are.
impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kept.join(", "))?;
        match self.n_more {
            0 => Ok(()),
            n_more => write!(f, ", and {n_more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_kept_once_and_in_order() {
        let mut findings = Findings::default();
        for text in ["b", "a", "b"] {
            findings.add(|| text.to_owned());
        }
        assert_eq!(findings, ["b", "a"]);
        assert_eq!(findings.to_string(), "b, a");
    }

    #[test]
    fn what_is_beyond_the_limit_is_counted_and_not_made() {
        let mut findings = Findings::default();
        let mut n_made = 0;
        for number in 0..1_000_000 {
            findings.add(|| {
                n_made += 1;
                number.to_string()
            });
        }
        assert_eq!((findings.len(), n_made), (MAX_FINDINGS, MAX_FINDINGS));
        assert_eq!(findings.n_more(), 1_000_000 - MAX_FINDINGS);
        assert!(findings.to_string().ends_with(", 99, and 999900 more"));
    }

    #[test]
    fn a_text_that_is_found_again_and_again_is_made_a_bounded_number_of_times() {
        let mut findings = Findings::default();
        let mut n_made = 0;
        for _ in 0..1_000_000 {
            findings.add(|| {
                n_made += 1;
                "same".to_owned()
            });
        }
        assert_eq!((findings.len(), n_made), (1, MAX_FINDINGS));
        assert_eq!(findings.n_more(), 1_000_000 - MAX_FINDINGS);
    }

    #[test]
    fn a_list_that_is_appended_counts_as_if_it_were_found_here() {
        let list = |texts: std::ops::Range<usize>| {
            let mut findings = Findings::default();
            for number in texts {
                findings.add(|| number.to_string());
            }
            findings
        };
        let mut findings = list(0..70);
        findings.append(list(60..200));
        assert_eq!((findings.len(), findings.n_more()), (MAX_FINDINGS, 100));
    }
}
