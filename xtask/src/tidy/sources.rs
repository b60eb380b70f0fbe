//! What Rust files must look like.

use super::Problem;

/// A story longer than this is two stories.
const MAX_LINES: usize = 1000;

/// A line with this text keeps its forbidden word; what follows it is the reason.
const EXCEPTION: &str = "// tidy: ";

/// Words that must not stand in a file. Each is written in two halves, so that this file may name it.
const FORBIDDEN: &[Word] = &[
    Word {
        halves: ("to", "do!("),
        only_in_tests: false,
        mend: "finish it, or leave it out",
    },
    Word {
        halves: ("unimple", "mented!("),
        only_in_tests: false,
        mend: "finish it, or leave it out",
    },
    Word {
        halves: ("TO", "DO"),
        only_in_tests: false,
        mend: "do it, or open an issue",
    },
    Word {
        halves: ("FIX", "ME"),
        only_in_tests: false,
        mend: "mend it, or open an issue",
    },
    Word {
        halves: ("db", "g!("),
        only_in_tests: false,
        mend: "use tracing, or remove it",
    },
    Word {
        halves: ("#[ig", "nore"),
        only_in_tests: false,
        mend: "mend the test, or remove it",
    },
    Word {
        halves: ("#[should", "_panic"),
        only_in_tests: false,
        mend: "return an error and test that",
    },
    Word {
        halves: ("thread::", "sleep("),
        only_in_tests: true,
        mend: "wait for what the test needs, not for a time",
    },
    Word {
        halves: ("time::", "sleep("),
        only_in_tests: true,
        mend: "wait for what the test needs, not for a time",
    },
];

struct Word {
    halves: (&'static str, &'static str),
    only_in_tests: bool,
    mend: &'static str,
}

pub(super) fn check(place: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !opens_with_its_purpose(text) {
        problems.push(Problem {
            place: format!("{place}:1"),
            why: "the file does not open with its purpose".to_owned(),
            mend: "begin with `//!` and a sentence about what it is for".to_owned(),
        });
    }
    let n_lines = text.lines().count();
    if n_lines > MAX_LINES {
        problems.push(Problem {
            place: place.to_owned(),
            why: format!("{n_lines} lines are more than {MAX_LINES}"),
            mend: "split it by noun".to_owned(),
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
            mend,
        } in FORBIDDEN
        {
            let word = format!("{first}{second}");
            if line.contains(&word) && (in_tests || !only_in_tests) {
                problems.push(Problem {
                    place: format!("{place}:{}", index + 1),
                    why: format!("`{}` does not belong here", word.trim_end_matches('(')),
                    mend: format!("{mend} (or say why it is right: `{EXCEPTION}…` on the line)"),
                });
            }
        }
    }
    problems
}

/// Whether a whole file is test code. The crates that tests stand on are not: they wait on others' behalf.
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
