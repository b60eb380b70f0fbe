//! How commands end: 0 fine, 1 findings, 2 error, 3 incomplete, 64 wrong usage.

use std::io::{self, Write as _};
use std::process::ExitCode;

/// What a shell makes of a program that a closed pipe ended.
const UNREAD: u8 = 141;

/// The end of a command that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Fine,
    /// It ran, and what it looked for is not as it should be.
    Findings,
    /// A code of its own, for a command whose users know others.
    Code(u8),
    /// It ran and found nothing, but could not see everything.
    Incomplete,
}

/// What went wrong, in one line, with what to do about it in another.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Hinted {
    pub message: String,
    pub hint: String,
}

impl Hinted {
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Fine => Self::SUCCESS,
            Exit::Findings => Self::from(1),
            Exit::Code(code) => Self::from(code),
            Exit::Incomplete => Self::from(3),
        }
    }
}

/// An error with its causes, in one line. A cause that was told already is not told again.
pub(crate) fn in_words(error: &anyhow::Error) -> String {
    let mut words = error.to_string();
    for cause in error.chain().skip(1) {
        let text = cause.to_string();
        if !words.ends_with(&text) {
            words.push_str(": ");
            words.push_str(&text);
        }
    }
    words
}

/// Prints an error with its causes and its hint to stderr; the code is 2.
///
/// That nobody reads on is no error worth words: `polity … | head` ends as other programs do.
pub fn report(error: &anyhow::Error) -> ExitCode {
    // Only what we write ourselves comes without any other error around it.
    let io = error.downcast_ref::<io::Error>();
    if io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::from(UNREAD);
    }
    let mut line = format!("error: {}", in_words(error));
    if let Some(hinted) = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Hinted>())
    {
        line.push_str("\nhint: ");
        line.push_str(&hinted.hint);
    }
    // Where stderr is closed there is nobody to tell.
    writeln!(io::stderr(), "{line}").ok();
    ExitCode::from(2)
}
