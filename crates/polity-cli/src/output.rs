//! `-o`: output as a table for people, as JSON or YAML for programs. stdout carries data, stderr messages.

use std::io::{IsTerminal, Write};

use jiff::Timestamp;
pub(crate) use polity_runtime::client::one_line;
use serde::Serialize;

/// An output format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    #[default]
    Table,
    Json,
    Yaml,
}

/// `-o FORMAT`.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct OutputArgs {
    /// Output format
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        value_enum,
        default_value_t
    )]
    pub output: Format,
}

impl OutputArgs {
    /// Prints a value; `table` renders it for people.
    pub fn print<T: Serialize>(
        self,
        answer: &T,
        table: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        let text = match self.output {
            Format::Table => table(answer),
            Format::Json => serde_json::to_string_pretty(answer)?,
            Format::Yaml => serde_saphyr::to_string(answer)?,
        };
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.trim_end().as_bytes())?;
        stdout.write_all(b"\n")?;
        Ok(())
    }
}

/// A text in a colour, where colours are welcome: on a terminal, and without `NO_COLOR`.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    coloured: bool,
}

impl Paint {
    /// For what goes to stdout.
    pub fn for_stdout() -> Self {
        let refused = polity_runtime::env::read(polity_runtime::env::NO_COLOR).is_some();
        Self {
            coloured: !refused && std::io::stdout().is_terminal(),
        }
    }

    /// For what goes to stderr.
    pub fn for_stderr() -> Self {
        let refused = polity_runtime::env::read(polity_runtime::env::NO_COLOR).is_some();
        Self {
            coloured: !refused && std::io::stderr().is_terminal(),
        }
    }

    pub fn plain() -> Self {
        Self { coloured: false }
    }

    pub fn good(self, text: &str) -> String {
        self.wrapped("32", text)
    }

    pub fn bad(self, text: &str) -> String {
        self.wrapped("31", text)
    }

    pub fn warn(self, text: &str) -> String {
        self.wrapped("33", text)
    }

    pub fn bold(self, text: &str) -> String {
        self.wrapped("1", text)
    }

    fn wrapped(self, code: &str, text: &str) -> String {
        if self.coloured {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Rows in columns as wide as their widest cell.
pub fn columns(rows: &[Vec<String>]) -> String {
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| visible(cell))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..n_columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            line.push_str(cell);
            line.push_str(&" ".repeat(widths[column] - visible(cell) + 3));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// How long ago something was, as kubectl writes it: `3d`, `2h`, `5m`, `7s`.
pub(crate) fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    let Some(since) = since else {
        return "<unknown>".to_owned();
    };
    let seconds = (now.as_second() - since.as_second()).max(0);
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The width of a cell on a terminal, without its colour codes.
fn visible(cell: &str) -> usize {
    let mut width = 0;
    let mut in_code = false;
    for c in cell.chars() {
        match c {
            '\x1b' => in_code = true,
            'm' if in_code => in_code = false,
            _ if in_code => {}
            _ => width += 1,
        }
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_their_colour() {
        let paint = Paint { coloured: true };
        let rows = vec![
            vec!["NAME".to_owned(), "STATE".to_owned(), "X".to_owned()],
            vec!["a-long-name".to_owned(), paint.good("up"), "1".to_owned()],
        ];
        let text = columns(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "NAME          STATE   X");
        assert_eq!(lines[1], "a-long-name   \x1b[32mup\x1b[0m      1");
    }
}
