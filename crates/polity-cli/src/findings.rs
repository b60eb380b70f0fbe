//! Findings: what a command that looks over files or objects has to say about them.
//!
//! One form for all such commands, so that every one of them prints text for people, JSON for programs, and SARIF
//! for editors and code hosts. A finding says where, by which rule, why it matters and how to mend it.

mod sarif;

use std::io::Write as _;

pub use polity_source::findings::{Finding, Level, Rule};
use serde::Serialize;

use crate::exit::Exit;
use crate::output::Paint;

/// All that a command found, in the order of files and lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    rules: Vec<Rule>,
    findings: Vec<Finding>,
}

/// The forms in which findings are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FindingsFormat {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
    /// For editors and code hosts: SARIF 2.1.0
    Sarif,
}

/// `-o FORMAT`, for commands that find things.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct FindingsArgs {
    /// Output format
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        value_enum,
        default_value_t
    )]
    pub output: FindingsFormat,
}

impl FindingsArgs {
    /// Prints them to stdout; the exit says whether there is something to mend.
    pub fn print(self, findings: &Findings) -> anyhow::Result<Exit> {
        let text = match self.output {
            FindingsFormat::Text => findings.to_text(Paint::for_stdout()),
            FindingsFormat::Json => findings.to_json()?,
            FindingsFormat::Sarif => findings.to_sarif()?,
        };
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.trim_end().as_bytes())?;
        stdout.write_all(b"\n")?;
        Ok(findings.exit())
    }
}

impl Findings {
    /// Findings of a command with these rules. A rule need not be told beforehand; its name is then all there is.
    pub fn new(
        rules: impl IntoIterator<Item = Rule>,
        findings: impl IntoIterator<Item = Finding>,
    ) -> Self {
        let mut findings: Vec<Finding> = findings.into_iter().collect();
        findings.sort_by(Finding::reading_order);
        findings.dedup();
        Self {
            rules: rules.into_iter().collect(),
            findings,
        }
    }

    pub fn as_slice(&self) -> &[Finding] {
        &self.findings
    }

    /// How many are of a level.
    pub fn count(&self, level: Level) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    }

    /// Errors and warnings are findings to the caller; notes are not.
    pub fn exit(&self) -> Exit {
        if self.count(Level::Error) + self.count(Level::Warning) > 0 {
            Exit::Findings
        } else {
            Exit::Fine
        }
    }

    /// For people: one block for each finding, and a count.
    pub fn to_text(&self, paint: Paint) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let head = format!("{}[{}]", finding.level.as_str(), finding.rule);
            let head = match finding.level {
                Level::Error => paint.bad(&head),
                Level::Warning => paint.warn(&head),
                Level::Note => paint.bold(&head),
            };
            text.push_str(&format!("{head}: {}\n", one_line(&finding.why)));
            let places = [finding.link(), one_line(&finding.place)];
            let places: Vec<&str> = places
                .iter()
                .map(String::as_str)
                .filter(|place| !place.is_empty())
                .collect();
            if !places.is_empty() {
                text.push_str(&format!("  --> {}\n", places.join("  ")));
            }
            if !finding.mend.is_empty() {
                text.push_str(&format!("  mend: {}\n", one_line(&finding.mend)));
            }
            text.push('\n');
        }
        text.push_str(&self.counts());
        text.push('\n');
        text
    }

    /// For programs: the findings, and how many there are of each level.
    pub fn to_json(&self) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct FindingList<'a> {
            errors: usize,
            warnings: usize,
            notes: usize,
            findings: &'a [Finding],
        }
        serde_json::to_string_pretty(&FindingList {
            errors: self.count(Level::Error),
            warnings: self.count(Level::Warning),
            notes: self.count(Level::Note),
            findings: &self.findings,
        })
    }

    /// For editors and code hosts: SARIF 2.1.0.
    pub fn to_sarif(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&sarif::log(&self.rules, &self.findings))
    }

    fn counts(&self) -> String {
        if self.findings.is_empty() {
            return "nothing found".to_owned();
        }
        let parts: Vec<String> = [Level::Error, Level::Warning, Level::Note]
            .into_iter()
            .map(|level| (self.count(level), level.as_str()))
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}{}", if count == 1 { "" } else { "s" }))
            .collect();
        parts.join(", ")
    }
}

/// Texts come from manifests: nothing in them may break a line or colour a terminal.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control())
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Findings {
        Findings::new(
            [Rule::new(
                "dependency-cycle",
                "Dependencies must not go round in a circle",
            )],
            [
                Finding::note("unused", "nothing selects it"),
                Finding::warning(
                    "offline",
                    "the placement drops clusters\n\u{1b}[31mthat are offline",
                )
                .in_file("b.yaml", None),
                Finding::error(
                    "dependency-cycle",
                    "A → B → A: none of them is ever applied",
                )
                .in_file("a.yaml", Some(12))
                .at("Policy/shop/a spec.dependencies[0]")
                .mend("remove one of the dependencies"),
                Finding::error(
                    "dependency-cycle",
                    "A → B → A: none of them is ever applied",
                )
                .in_file("a.yaml", Some(12))
                .at("Policy/shop/a spec.dependencies[0]")
                .mend("remove one of the dependencies"),
            ],
        )
    }

    #[test]
    fn text_reads_as_a_compiler_would_say_it() {
        insta::assert_snapshot!(found().to_text(Paint::plain()), @r"
        note[unused]: nothing selects it

        error[dependency-cycle]: A → B → A: none of them is ever applied
          --> a.yaml:12  Policy/shop/a spec.dependencies[0]
          mend: remove one of the dependencies

        warning[offline]: the placement drops clusters [31mthat are offline
          --> b.yaml

        1 error, 1 warning, 1 note
        ");
        assert_eq!(
            Findings::default().to_text(Paint::plain()),
            "nothing found\n"
        );
    }

    #[test]
    fn notes_are_no_reason_to_fail() {
        assert_eq!(found().exit(), Exit::Findings);
        let note = Findings::new([], [Finding::note("unused", "nothing selects it")]);
        assert_eq!(note.exit(), Exit::Fine);
        assert_eq!(Findings::default().exit(), Exit::Fine);
    }

    #[test]
    fn json_says_everything_that_is_known() {
        let json: serde_json::Value = serde_json::from_str(&found().to_json().unwrap()).unwrap();
        assert_eq!(json["errors"], 1);
        assert_eq!(
            json["findings"][1],
            serde_json::json!({
                "level": "error",
                "rule": "dependency-cycle",
                "file": "a.yaml",
                "line": 12,
                "place": "Policy/shop/a spec.dependencies[0]",
                "why": "A → B → A: none of them is ever applied",
                "mend": "remove one of the dependencies"
            })
        );
        assert_eq!(
            json["findings"][0],
            serde_json::json!({"level": "note", "rule": "unused", "why": "nothing selects it"})
        );
    }
}
