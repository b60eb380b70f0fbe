//! How commands end: 0 fine, 1 findings, 2 error, 3 incomplete, 64 wrong usage.

use std::process::ExitCode;

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

/// Prints an error with its causes and its hint to stderr; the code is 2.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let mut line = format!("error: {error}");
    for cause in error.chain().skip(1) {
        let text = cause.to_string();
        if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
    }
    eprintln!("{line}");
    if let Some(hinted) = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Hinted>())
    {
        eprintln!("hint: {}", hinted.hint);
    }
    ExitCode::from(2)
}
