//! Reads a Markdown page as a list of steps: files to write and commands to run.
//!
//! The conventions are in `CONTRIBUTING.md`.

use std::fmt;

/// The language of a block of commands with their output.
const CONSOLE: &str = "console";
/// The mark of a console block that is not executed.
const NO_RUN: &str = "no-run";
/// Languages of commands that this module would not execute.
const OTHER_SHELLS: [&str; 4] = ["sh", "bash", "shell", "zsh"];

/// One step of a page, with the line it starts at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) action: Action,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Write a file, relative to the current folder of the shell.
    Write { path: String, text: String },
    /// Run a command and compare its output with the lines below it.
    Run(Command),
    /// Run commands that the page does not show.
    Setup(String),
    /// A command of a block that is marked `no-run`.
    Skip(Command),
}

/// A command and the output that the page shows for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) text: String,
    pub(crate) expected: Vec<String>,
    pub(crate) ends: Ends,
}

/// How a command has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    Success,
    Failure,
    /// The next command of the page prints the exit code.
    Either,
}

/// A page that does not follow the conventions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PageError {
    pub(crate) line: usize,
    pub(crate) reason: String,
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// A fenced block.
struct Block<'a> {
    /// The line of the opening fence.
    line: usize,
    info: &'a str,
    lines: Vec<&'a str>,
}

/// The steps of a page, in order.
pub(crate) fn steps(text: &str) -> Result<Vec<Step>, PageError> {
    let mut steps = Vec::new();
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line));
    // The file that the next block is written to, and the paragraph above it.
    let mut file: Option<(usize, String)> = None;
    let mut paragraph = String::new();
    while let Some((line, content)) = lines.next() {
        let trimmed = content.trim_start();
        if let Some(rest) = trimmed.strip_prefix("<!-- file: ") {
            let path = rest.trim_end().trim_end_matches("-->").trim();
            if !paragraph.contains(&format!("`{path}`")) {
                return Err(error(
                    line,
                    format!("the paragraph above does not name `{path}`"),
                ));
            }
            file = Some((line, path.to_owned()));
        } else if trimmed == "<!-- setup" {
            let script: Vec<_> = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| line.trim() != "-->")
                .collect();
            let action = Action::Setup(script.join("\n"));
            steps.push(Step { line, action });
        } else if trimmed.starts_with("```") {
            let indent = content.len() - trimmed.len();
            let block = block(line, indent, trimmed, &mut lines)?;
            match file.take() {
                Some((_, path)) => {
                    let text = block.lines.join("\n") + "\n";
                    let action = Action::Write { path, text };
                    steps.push(Step { line, action });
                }
                None => steps.extend(console(&block)?),
            }
        } else {
            if let Some((line, path)) = file {
                return Err(error(line, format!("no block follows for the file {path}")));
            }
            if !trimmed.is_empty() && paragraph.ends_with("\n\n") {
                paragraph.clear();
            }
            paragraph.push_str(content);
            paragraph.push('\n');
        }
    }
    expect_shown_codes(&mut steps);
    Ok(steps)
}

fn block<'a>(
    line: usize,
    indent: usize,
    fence: &'a str,
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Result<Block<'a>, PageError> {
    let mut block = Block {
        line,
        info: fence.trim_start_matches('`').trim(),
        lines: Vec::new(),
    };
    for (_, content) in lines {
        if content.trim() == "```" {
            return Ok(block);
        }
        let blank = content.len() - content.trim_start().len();
        block.lines.push(&content[indent.min(blank)..]);
    }
    Err(error(line, "the block has no end".to_owned()))
}

/// The commands of a block; none if it is no console block.
fn console(block: &Block<'_>) -> Result<Vec<Step>, PageError> {
    let mut words = block.info.split_whitespace();
    let skip = match (words.next(), words.next(), words.next()) {
        (Some(CONSOLE), None, _) => false,
        (Some(CONSOLE), Some(NO_RUN), None) => true,
        (Some(CONSOLE), ..) => {
            return Err(error(
                block.line,
                format!("unknown mark in `{}`", block.info),
            ));
        }
        (Some(shell), ..) if OTHER_SHELLS.contains(&shell) => {
            let reason = format!("commands belong into a `{CONSOLE}` block, not `{shell}`");
            return Err(error(block.line, reason));
        }
        _ => return Ok(Vec::new()),
    };
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = block.lines.iter().zip(block.line + 1..);
    while let Some((content, line)) = lines.next() {
        let Some(command) = content.strip_prefix("$ ") else {
            let Some(Action::Run(command) | Action::Skip(command)) =
                steps.last_mut().map(|step| &mut step.action)
            else {
                return Err(error(line, "output without a command".to_owned()));
            };
            command.expected.push((*content).to_owned());
            continue;
        };
        let mut text = command.to_owned();
        let end = heredoc(command);
        while end.is_some() || text.ends_with('\\') {
            let Some((more, _)) = lines.next() else {
                return Err(error(line, "the command has no end".to_owned()));
            };
            text.push('\n');
            text.push_str(more);
            if end.as_deref() == Some(*more) {
                break;
            }
        }
        let command = Command {
            text,
            expected: Vec::new(),
            ends: Ends::Success,
        };
        let action = if skip {
            Action::Skip(command)
        } else {
            Action::Run(command)
        };
        steps.push(Step { line, action });
    }
    Ok(steps)
}

/// The word that ends the here-document of a command.
fn heredoc(command: &str) -> Option<String> {
    let (_, rest) = command.split_once("<<")?;
    let word = rest.trim_start_matches('-').trim_start();
    let word: String = word
        .trim_start_matches(['\'', '"'])
        .chars()
        .take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
        .collect();
    (!word.is_empty()).then_some(word)
}

/// A command fails if the page shows an error, and may fail if the page shows its exit code next.
fn expect_shown_codes(steps: &mut [Step]) {
    let mut is_shown = false;
    for step in steps.iter_mut().rev() {
        let Action::Run(command) = &mut step.action else {
            is_shown = false;
            continue;
        };
        let first = command.expected.first().map_or("", String::as_str);
        command.ends = if is_shown {
            Ends::Either
        } else if ["Error from server", "error:"]
            .iter()
            .any(|start| first.starts_with(start))
        {
            Ends::Failure
        } else {
            Ends::Success
        };
        is_shown = command.text == "echo $?";
    }
}

fn error(line: usize, reason: String) -> PageError {
    PageError { line, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: &str, expected: &[&str]) {
        let shown = |step: &Step| match &step.action {
            Action::Write { path, text } => format!("{}: write {path} {text:?}", step.line),
            Action::Setup(script) => format!("{}: setup {script:?}", step.line),
            Action::Skip(command) => format!("{}: skip {:?}", step.line, command.text),
            Action::Run(Command {
                text,
                expected,
                ends,
            }) => {
                format!("{}: run {text:?} {expected:?} {ends:?}", step.line)
            }
        };
        let found = match steps(page) {
            Ok(steps) => steps.iter().map(shown).collect(),
            Err(error) => vec![error.to_string()],
        };
        assert_eq!(found, expected, "{page}");
    }

    #[test]
    fn commands_have_the_output_below_them() {
        check(
            "Text.\n```console\n$ one\n$ two\na\n\nb\n```\n",
            &[
                r#"3: run "one" [] Success"#,
                r#"4: run "two" ["a", "", "b"] Success"#,
            ],
        );
    }

    #[test]
    fn a_command_goes_on_after_a_backslash_and_in_a_here_document() {
        check(
            "```console\n$ a \\\n  b\n$ cat <<'EOF'\n$ no command\nEOF\n$ c\n```\n",
            &[
                r#"2: run "a \\\n  b" [] Success"#,
                r#"4: run "cat <<'EOF'\n$ no command\nEOF" [] Success"#,
                r#"7: run "c" [] Success"#,
            ],
        );
    }

    #[test]
    fn an_error_or_a_shown_code_says_how_a_command_ends() {
        check(
            "```console\n$ a\nerror: no\n$ b\n$ echo $?\n2\n```\n",
            &[
                r#"2: run "a" ["error: no"] Failure"#,
                r#"4: run "b" [] Either"#,
                r#"5: run "echo $?" ["2"] Success"#,
            ],
        );
    }

    #[test]
    fn files_are_named_above_their_block() {
        check(
            "Save `a.yaml`:\n\n<!-- file: a.yaml -->\n```yaml\na: 1\n```\n",
            &[r#"4: write a.yaml "a: 1\n""#],
        );
        check(
            "Save it:\n\n<!-- file: a.yaml -->\n```yaml\na: 1\n```\n",
            &["line 3: the paragraph above does not name `a.yaml`"],
        );
        check(
            "`a`\n<!-- file: a -->\ntext\n",
            &["line 2: no block follows for the file a"],
        );
    }

    #[test]
    fn blocks_in_lists_lose_their_indentation() {
        check(
            "1. `a.yaml`\n   <!-- file: a.yaml -->\n   ```yaml\n   a:\n     b: 1\n   ```\n",
            &[r#"3: write a.yaml "a:\n  b: 1\n""#],
        );
    }

    #[test]
    fn marks_and_hidden_setups() {
        check(
            "<!-- setup\nexport A=1\nb\n-->\n```console no-run\n$ a\nout\n```\n```yaml\n$ no\n```\n",
            &[r#"1: setup "export A=1\nb""#, r#"6: skip "a""#],
        );
        check(
            "```console norun\n$ a\n```\n",
            &["line 1: unknown mark in `console norun`"],
        );
        check(
            "```sh\na\n```\n",
            &["line 1: commands belong into a `console` block, not `sh`"],
        );
        check(
            "```console\nout\n```\n",
            &["line 2: output without a command"],
        );
        check("```console\n$ a\n", &["line 1: the block has no end"]);
    }
}
