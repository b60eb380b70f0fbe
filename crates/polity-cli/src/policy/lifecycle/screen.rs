//! Prints an answer again and again: in place on a terminal, one after the other elsewhere.

use std::io::{self, Write};

use jiff::Timestamp;

use super::table;
use super::view::View;
use crate::output::{Format, Paint};

/// To the top left, and clear from there.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// How answers that replace each other are printed.
pub(super) struct Screen<W> {
    out: W,
    format: Format,
    paint: Paint,
    is_terminal: bool,
    last: Option<View>,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W, format: Format, paint: Paint, is_terminal: bool) -> Self {
        Self {
            out,
            format,
            paint,
            is_terminal,
            last: None,
        }
    }

    /// Prints an answer, unless it is the one that was printed last.
    pub(super) fn show(&mut self, view: View, now: Timestamp) -> anyhow::Result<()> {
        if self.last.as_ref() == Some(&view) {
            return Ok(());
        }
        let text = match self.format {
            Format::Table if self.is_terminal => {
                format!("{CLEAR}{}", table::page(&view, now, self.paint))
            }
            Format::Table if self.last.is_some() => {
                format!("\n{}", table::page(&view, now, self.paint))
            }
            Format::Table => table::page(&view, now, self.paint),
            // One a line, so that a program knows where each ends.
            Format::Json => format!("{}\n", serde_json::to_string(&view)?),
            Format::Yaml => format!("---\n{}\n", serde_saphyr::to_string(&view)?.trim_end()),
        };
        self.write(&text)?;
        self.last = Some(view);
        Ok(())
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}
