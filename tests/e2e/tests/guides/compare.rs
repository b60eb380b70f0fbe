//! Compares the output of a command with the output that a page shows.
//!
//! - `…` in a line stands for any text, and a line that is only `…` for any number of lines.
//! - The width of the space between columns, trailing space and empty lines at either end are ignored.
//! - Without expected lines, any output matches.

/// The wildcard.
const ANYTHING: &str = "…";

/// `None` if the output is as expected, otherwise both with the differing lines marked.
pub(crate) fn difference(expected: &[String], output: &str) -> Option<String> {
    let expected: Vec<&str> = trimmed(expected.iter().map(String::as_str).collect());
    let output: Vec<&str> = trimmed(output.lines().collect());
    if expected.is_empty() || lines_match(&expected, &output) {
        return None;
    }
    let matches = |a: &str, lines: &[&str], expected_first: bool| {
        let line_fits = |b: &&str| {
            if expected_first {
                line_matches(a, b)
            } else {
                *b != ANYTHING && line_matches(b, a)
            }
        };
        lines.iter().any(line_fits)
    };
    let mut text = String::from("expected (! marks lines that were not printed):\n");
    for line in &expected {
        let is_found = *line == ANYTHING || matches(line, &output, true);
        text.push_str(&format!("  {} {line}\n", if is_found { ' ' } else { '!' }));
    }
    text.push_str("printed (! marks lines that were not expected):\n");
    for line in &output {
        let is_found = matches(line, &expected, false);
        text.push_str(&format!("  {} {line}\n", if is_found { ' ' } else { '!' }));
    }
    Some(text)
}

/// Without empty lines at the ends.
fn trimmed(lines: Vec<&str>) -> Vec<&str> {
    let is_text = |line: &&str| !line.trim().is_empty();
    let start = lines.iter().position(is_text).unwrap_or(lines.len());
    let end = lines
        .iter()
        .rposition(is_text)
        .map_or(start, |last| last + 1);
    lines[start..end].to_vec()
}

fn lines_match(expected: &[&str], output: &[&str]) -> bool {
    glob(
        expected,
        output,
        |line| *line == ANYTHING,
        |a, b| line_matches(a, b),
    )
}

fn line_matches(expected: &str, line: &str) -> bool {
    let expected: Vec<char> = columns(expected).chars().collect();
    let line: Vec<char> = columns(line).chars().collect();
    let is_wild = |letter: &char| ANYTHING.starts_with(*letter);
    glob(&expected, &line, is_wild, |a, b| a == b)
}

/// The line with two spaces between columns, whatever their width, and none at the end.
fn columns(line: &str) -> String {
    let line = line.trim_end();
    let text = line.trim_start();
    let mut result = line[..line.len() - text.len()].to_owned();
    for word in text.split("  ").filter(|word| !word.is_empty()) {
        if !result.trim().is_empty() {
            result.push_str("  ");
        }
        result.push_str(word.trim());
    }
    result
}

/// Whether `items` follow a pattern whose wild elements stand for any number of items.
fn glob<P, T>(
    pattern: &[P],
    items: &[T],
    is_wild: impl Fn(&P) -> bool,
    matches: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut item) = (0, 0);
    // Where to go on after a mismatch: behind the last wildcard, one item later than before.
    let mut retry: Option<(usize, usize)> = None;
    while item < items.len() {
        if pattern.get(at).is_some_and(&is_wild) {
            retry = Some((at + 1, item));
            at += 1;
        } else if pattern.get(at).is_some_and(|p| matches(p, &items[item])) {
            (at, item) = (at + 1, item + 1);
        } else if let Some((after, from)) = retry {
            retry = Some((after, from + 1));
            (at, item) = (after, from + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(is_wild)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: &str, output: &str, is_same: bool) {
        let expected: Vec<_> = expected.lines().map(str::to_owned).collect();
        let difference = difference(&expected, output);
        assert_eq!(difference.is_none(), is_same, "{difference:?}");
    }

    #[test]
    fn equal_but_for_wildcards_and_columns() {
        check("", "anything", true);
        check("a", "a\n", true);
        check("a", "b", false);
        check("a", "a\nb", false);
        check("a\nb", "a", false);
        check("age … since …", "age 3s since 4s", true);
        check("…", "a\nb", true);
        check("a\n…\nd", "a\nb\nc\nd", true);
        check("a\n…\nd", "a\nd", true);
        check("a\n…\nd", "a\nb\nd\ne", false);
        check("…a…b…", "1a2b3", true);
        check("…a…b…", "1b2a3", false);
        check("NAME   AGE   X", "NAME  AGE       X  ", true);
        check("NAME   AGE", "NAME AGE", false);
        check("  - a", "- a", false);
        check("NAME   …", "NAME   PHASE   AGE", true);
        check("\na\n", "\n\na\n\n", true);
    }

    #[test]
    fn a_difference_marks_what_does_not_fit() {
        let expected = ["same".to_owned(), "wanted".to_owned()];
        let text = difference(&expected, "same\nother\n").unwrap();
        assert!(text.contains("    same\n  ! wanted\n"), "{text}");
        assert!(text.contains("    same\n  ! other\n"), "{text}");
    }
}
