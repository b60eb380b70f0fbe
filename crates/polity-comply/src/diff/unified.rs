//! Unified diffs with the hunks Go's difflib finds: the longest run of common lines first, then the same to its
//! left and right. Other algorithms find other, equally correct hunks; these are the ones users compare with.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

/// From this many lines on, lines that are everywhere are not used to find runs.
const POPULAR_FROM: usize = 200;
/// From this many lines on, what is common at both ends is set aside first: the hunks may then differ from
/// difflib's, and the work is that of the change.
const LARGE: usize = 20_000;

/// The diff from `a` to `b`, with headers; empty when they are the same.
pub(super) fn unified(a: &str, b: &str, from: &str, to: &str, context: usize) -> String {
    let (a, b) = (lines(a), lines(b));
    let mut out = String::new();
    for hunk in hunks(&operations(&a, &b), context) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else {
            continue;
        };
        if out.is_empty() {
            _ = write!(out, "--- {from}\n+++ {to}\n");
        }
        let old = range(first.a.start, last.a.end);
        let new = range(first.b.start, last.b.end);
        _ = writeln!(out, "@@ -{old} +{new} @@");
        for operation in &hunk {
            if operation.equal {
                push(&mut out, ' ', &a[operation.a.clone()]);
            } else {
                push(&mut out, '-', &a[operation.a.clone()]);
                push(&mut out, '+', &b[operation.b.clone()]);
            }
        }
    }
    out
}

/// The lines of a text; what follows the last line break is a line too, if an empty one.
fn lines(text: &str) -> Vec<&str> {
    text.split('\n').collect()
}

fn push(out: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        out.push(sign);
        out.push_str(line);
        out.push('\n');
    }
}

/// A range of lines in a hunk's header: first line and length, the latter only if it is not one.
fn range(start: usize, end: usize) -> String {
    match end - start {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

/// Lines that stay, or lines of `a` that become lines of `b`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Operation {
    equal: bool,
    a: Range<usize>,
    b: Range<usize>,
}

/// A run of common lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    a: usize,
    b: usize,
    length: usize,
}

fn operations(a: &[&str], b: &[&str]) -> Vec<Operation> {
    let mut operations = Vec::new();
    let (mut at_a, mut at_b) = (0, 0);
    let end = Run {
        a: a.len(),
        b: b.len(),
        length: 0,
    };
    for run in runs(a, b).into_iter().chain([end]) {
        if at_a < run.a || at_b < run.b {
            operations.push(Operation {
                equal: false,
                a: at_a..run.a,
                b: at_b..run.b,
            });
        }
        (at_a, at_b) = (run.a + run.length, run.b + run.length);
        if run.length > 0 {
            operations.push(Operation {
                equal: true,
                a: run.a..at_a,
                b: run.b..at_b,
            });
        }
    }
    operations
}

/// All runs in order; adjacent ones are one.
fn runs(a: &[&str], b: &[&str]) -> Vec<Run> {
    let (start, end) = match a.len().max(b.len()) > LARGE {
        true => common_ends(a, b),
        false => (0, 0),
    };
    let matcher = Matcher::new(a, b);
    let mut found = Vec::new();
    if start > 0 {
        found.push(Run {
            a: 0,
            b: 0,
            length: start,
        });
    }
    // An explicit stack: the depth is the text's, not ours.
    let mut pending = vec![(start..a.len() - end, start..b.len() - end)];
    while let Some((in_a, in_b)) = pending.pop() {
        let Some(run) = matcher.longest(in_a.clone(), in_b.clone()) else {
            continue;
        };
        found.push(run);
        let after = (run.a + run.length..in_a.end, run.b + run.length..in_b.end);
        for (in_a, in_b) in [(in_a.start..run.a, in_b.start..run.b), after] {
            if !in_a.is_empty() && !in_b.is_empty() {
                pending.push((in_a, in_b));
            }
        }
    }
    if end > 0 {
        found.push(Run {
            a: a.len() - end,
            b: b.len() - end,
            length: end,
        });
    }
    found.sort_by_key(|run| run.a);
    let mut joined: Vec<Run> = Vec::with_capacity(found.len());
    for run in found {
        match joined.last_mut() {
            Some(last) if last.a + last.length == run.a && last.b + last.length == run.b => {
                last.length += run.length;
            }
            _ => joined.push(run),
        }
    }
    joined
}

/// How many lines are the same at the start, and of the rest at the end.
fn common_ends(a: &[&str], b: &[&str]) -> (usize, usize) {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let start = a.iter().zip(b).take_while(same).count();
    let rest_a = a[start..].iter().rev();
    let end = rest_a.zip(b[start..].iter().rev()).take_while(same).count();
    (start, end)
}

/// Finds runs between two texts.
struct Matcher<'a> {
    a: &'a [&'a str],
    b: &'a [&'a str],
    /// Where in `b` a line is.
    places: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Matcher<'a> {
    fn new(a: &'a [&'a str], b: &'a [&'a str]) -> Self {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, line) in b.iter().enumerate() {
            places.entry(line).or_default().push(at);
        }
        if b.len() >= POPULAR_FROM {
            let most = b.len() / 100 + 1;
            places.retain(|_, places| places.len() <= most);
        }
        Self { a, b, places }
    }

    /// The longest run in these ranges, and of several the first in `a`, then in `b`.
    fn longest(&self, in_a: Range<usize>, in_b: Range<usize>) -> Option<Run> {
        let mut best = Run {
            a: in_a.start,
            b: in_b.start,
            length: 0,
        };
        // Lengths of the runs that end in the line before, by where they end in `b`.
        let mut ending: HashMap<usize, usize> = HashMap::new();
        for at_a in in_a.clone() {
            let mut next = HashMap::new();
            for &at_b in self.places.get(self.a[at_a]).into_iter().flatten() {
                if at_b < in_b.start {
                    continue;
                }
                if at_b >= in_b.end {
                    break;
                }
                let before = at_b.checked_sub(1).and_then(|before| ending.get(&before));
                let length = before.copied().unwrap_or(0) + 1;
                next.insert(at_b, length);
                if length > best.length {
                    best = Run {
                        a: at_a + 1 - length,
                        b: at_b + 1 - length,
                        length,
                    };
                }
            }
            ending = next;
        }
        self.stretch(&mut best, &in_a, &in_b);
        (best.length > 0).then_some(best)
    }

    /// Takes in lines on both sides that were too popular to be looked for.
    fn stretch(&self, run: &mut Run, in_a: &Range<usize>, in_b: &Range<usize>) {
        while run.a > in_a.start && run.b > in_b.start && self.a[run.a - 1] == self.b[run.b - 1] {
            run.a -= 1;
            run.b -= 1;
            run.length += 1;
        }
        while run.a + run.length < in_a.end
            && run.b + run.length < in_b.end
            && self.a[run.a + run.length] == self.b[run.b + run.length]
        {
            run.length += 1;
        }
    }
}

/// Groups of operations with so many lines of context around them.
fn hunks(operations: &[Operation], context: usize) -> Vec<Vec<Operation>> {
    let mut hunks = Vec::new();
    let mut hunk: Vec<Operation> = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        if !operation.equal {
            hunk.push(operation.clone());
            continue;
        }
        let length = operation.a.len();
        let (first, last) = (index == 0, index + 1 == operations.len());
        if first && !last {
            hunk.push(tail(operation, context));
        } else if last {
            if !first {
                hunk.push(head(operation, context));
            }
        } else if length > 2 * context {
            hunk.push(head(operation, context));
            hunks.push(std::mem::take(&mut hunk));
            hunk.push(tail(operation, context));
        } else {
            hunk.push(operation.clone());
        }
    }
    if hunk.iter().any(|operation| !operation.equal) {
        hunks.push(hunk);
    }
    hunks
}

fn head(operation: &Operation, lines: usize) -> Operation {
    let lines = lines.min(operation.a.len());
    Operation {
        equal: true,
        a: operation.a.start..operation.a.start + lines,
        b: operation.b.start..operation.b.start + lines,
    }
}

fn tail(operation: &Operation, lines: usize) -> Operation {
    let lines = lines.min(operation.a.len());
    Operation {
        equal: true,
        a: operation.a.end - lines..operation.a.end,
        b: operation.b.end - lines..operation.b.end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(a: &str, b: &str) -> String {
        unified(a, b, "x : existing", "x : updated", 5)
    }

    #[test]
    fn equal_texts_have_no_diff() {
        assert_eq!(between("a\nb\n", "a\nb\n"), "");
        assert_eq!(between("", ""), "");
    }

    #[test]
    fn hunks_have_context_and_the_line_after_the_last() {
        assert_eq!(
            between("cities:\n- Raleigh\n", "cities:\n- Raleigh\n- Durham\n"),
            "--- x : existing\n+++ x : updated\n@@ -1,3 +1,4 @@\n cities:\n - Raleigh\n+- Durham\n \n"
        );
        assert_eq!(
            between("cities: {}\n", "cities:\n  raleigh: {}\n"),
            "--- x : existing\n+++ x : updated\n@@ -1,2 +1,3 @@\n-cities: {}\n+cities:\n+  raleigh: {}\n \n"
        );
    }

    #[test]
    fn changes_far_apart_are_hunks_of_their_own() {
        let text = |first: &str, last: &str| -> String {
            let middle: Vec<String> = (0..20).map(|n| format!("line {n}")).collect();
            let middle = middle.join("\n");
            format!("{first}\n{middle}\n{last}\n")
        };
        let diff = between(&text("a", "b"), &text("A", "B"));
        let headers: Vec<&str> = diff.lines().filter(|line| line.starts_with("@@")).collect();
        assert_eq!(headers, ["@@ -1,6 +1,6 @@", "@@ -17,7 +17,7 @@"]);
    }

    #[test]
    fn the_longest_run_is_found_first() {
        // A shortest edit script would keep the first "ab"; difflib keeps the pair at the end.
        let diff = between("a\nb", "a\nc\na\nb");
        assert_eq!(
            diff,
            "--- x : existing\n+++ x : updated\n@@ -1,2 +1,4 @@\n+a\n+c\n a\n b\n"
        );
    }

    #[test]
    fn large_texts_are_compared_by_their_change() {
        let text = |middle: &str| -> String {
            let lines: Vec<String> = (0..100_000).map(|n| format!("- item {}", n % 7)).collect();
            let lines = lines.join(
                "
",
            );
            format!(
                "{lines}
{middle}
{lines}
"
            )
        };
        let diff = between(&text("old"), &text("new"));
        assert!(diff.contains("-old\n+new\n"), "{diff}");
        assert_eq!(diff.lines().count(), 15);
    }
}
