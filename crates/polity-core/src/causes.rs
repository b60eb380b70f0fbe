//! Errors for people who read them in one line.

use std::error::Error;

/// An error with its causes, each said once.
pub fn in_one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        // Some errors repeat their cause.
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = cause.source();
    }
    text
}

/// The words of what is at the bottom of an error.
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut reason = error;
    while let Some(cause) = reason.source() {
        reason = cause;
    }
    reason.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum PullError {
        #[error("no route to host")]
        Route,
        #[error("connecting: {0}")]
        Connect(#[source] Box<PullError>),
        #[error("pulling")]
        Pull(#[source] Box<PullError>),
    }

    #[test]
    fn causes_are_said_once() {
        let error = PullError::Pull(PullError::Connect(PullError::Route.into()).into());
        assert_eq!(in_one_line(&error), "pulling: connecting: no route to host");
        assert_eq!(innermost(&error), "no route to host");
        assert_eq!(innermost(&PullError::Route), "no route to host");
    }
}
