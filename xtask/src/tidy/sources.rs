//! Rules for Rust files.

use super::Problem;

/// A longer file has more than one subject.
const MAX_LINES: usize = 1000;

/// A line with this text may contain a forbidden word. The reason follows.
const EXCEPTION: &str = "// tidy: ";

/// Forbidden words. Each is written in two halves, so that this file can contain it.
const FORBIDDEN: &[Word] = &[
    Word {
        halves: ("to", "do!("),
        only_in_tests: false,
        fix: "finish it, or remove it",
    },
    Word {
        halves: ("unimple", "mented!("),
        only_in_tests: false,
        fix: "finish it, or remove it",
    },
    Word {
        halves: ("TO", "DO"),
        only_in_tests: false,
        fix: "do it, or open an issue",
    },
    Word {
        halves: ("FIX", "ME"),
        only_in_tests: false,
        fix: "fix it, or open an issue",
    },
    Word {
        halves: ("db", "g!("),
        only_in_tests: false,
        fix: "use tracing, or remove it",
    },
    Word {
        halves: ("#[ig", "nore"),
        only_in_tests: false,
        fix: "fix the test, or remove it",
    },
    Word {
        halves: ("#[should", "_panic"),
        only_in_tests: false,
        fix: "return an error, and test for that",
    },
    Word {
        halves: ("thread::", "sleep("),
        only_in_tests: true,
        fix: "wait for a condition instead of a fixed time",
    },
    Word {
        halves: ("time::", "sleep("),
        only_in_tests: true,
        fix: "wait for a condition instead of a fixed time",
    },
];

struct Word {
    halves: (&'static str, &'static str),
    only_in_tests: bool,
    fix: &'static str,
}

pub(super) fn check(place: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !opens_with_its_purpose(text) {
        problems.push(Problem {
            place: format!("{place}:1"),
            why: "the file does not start with a doc comment".to_owned(),
            fix: "start with `//!` and a sentence about its purpose".to_owned(),
        });
    }
    let n_lines = text.lines().count();
    if n_lines > MAX_LINES {
        problems.push(Problem {
            place: place.to_owned(),
            why: format!("the file has {n_lines} lines, more than {MAX_LINES}"),
            fix: "split it by noun".to_owned(),
        });
    }
    problems.extend(forbidden_words(place, text));
    problems
}

fn opens_with_its_purpose(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    first
        .and_then(|line| line.strip_prefix("//!"))
        .is_some_and(|purpose| !purpose.trim().is_empty())
}

fn forbidden_words(place: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut in_tests = is_test_file(place);
    for (index, line) in text.lines().enumerate() {
        in_tests |= line.trim_start().starts_with("#[cfg(test)]");
        if line.contains(EXCEPTION) {
            continue;
        }
        for Word {
            halves: (first, second),
            only_in_tests,
            fix,
        } in FORBIDDEN
        {
            let word = format!("{first}{second}");
            if line.contains(&word) && (in_tests || !only_in_tests) {
                problems.push(Problem {
                    place: format!("{place}:{}", index + 1),
                    why: format!("`{}` is not allowed here", word.trim_end_matches('(')),
                    fix: format!(
                        "{fix} (or give the reason for an exception: `{EXCEPTION}…` on the line)"
                    ),
                });
            }
        }
    }
    problems
}

/// Whether a whole file is test code. The crates that tests use are not: they wait on behalf of tests.
fn is_test_file(place: &str) -> bool {
    let mut steps = place.split('/');
    match steps.next() {
        Some("tests") => steps.next() == Some("e2e"),
        _ => place.ends_with("/tests.rs") || place.contains("/tests/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_words(place: &str, text: &str) -> usize {
        check(place, &format!("//! Purpose.\n{text}\n")).len()
    }

    #[test]
    fn files_open_with_their_purpose() {
        for (text, fine) in [
            ("//! What it is for.\n", true),
            ("\n//! What it is for.\n", true),
            ("//!\n", false),
            ("//! \n", false),
            ("use std::fs;\n//! Late.\n", false),
            ("", false),
        ] {
            assert_eq!(
                check("crates/x/src/lib.rs", text).is_empty(),
                fine,
                "{text:?}"
            );
        }
    }

    #[test]
    fn long_files_are_split() {
        let text = |n_lines: usize| format!("//! Long.\n{}", "\n".repeat(n_lines - 1));
        assert!(check("a.rs", &text(MAX_LINES)).is_empty());
        assert_eq!(check("a.rs", &text(MAX_LINES + 1)).len(), 1);
    }

    #[test]
    fn words_that_do_not_belong() {
        let todo = ["to", "do!()"].concat();
        let sleep = ["std::thread::", "sleep(x);"].concat();
        assert_eq!(check_words("crates/x/src/lib.rs", &todo), 1);
        assert_eq!(
            check_words("crates/x/src/lib.rs", &sleep),
            0,
            "waiting is fine outside of tests"
        );
        assert_eq!(
            check_words(
                "crates/x/src/lib.rs",
                &format!("#[cfg(test)]\nmod tests {{ {sleep} }}")
            ),
            1
        );
        assert_eq!(check_words("crates/x/src/plan/tests.rs", &sleep), 1);
        assert_eq!(check_words("crates/x/tests/it/main.rs", &sleep), 1);
        assert_eq!(check_words("tests/e2e/src/lib.rs", &sleep), 1);
        assert_eq!(check_words("tests/peers/src/cluster.rs", &sleep), 0);
        assert_eq!(
            check_words(
                "tests/e2e/src/lib.rs",
                &format!("{sleep} {EXCEPTION}a slow client")
            ),
            0
        );
    }
}
