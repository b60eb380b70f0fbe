//! The differences we accept, each with its reason. An entry that matches nothing is a failure: the list stays short.

use crate::compare::Difference;

/// A kind of difference that is all right.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// Part of the case's name; empty for all cases.
    pub(crate) case: &'static str,
    /// Start and end of the JSON pointer, with `*` between them: `/body/message`, `/body/items/*/spec/x`.
    pub(crate) at: &'static str,
    pub(crate) reason: &'static str,
}

/// All of them.
pub(crate) const ACCEPTED: &[Accepted] = &[];

/// The entry that covers a difference.
pub(crate) fn covering(case: &str, difference: &Difference) -> Option<usize> {
    ACCEPTED
        .iter()
        .position(|accepted| case.contains(accepted.case) && is_at(accepted.at, &difference.at))
}

fn is_at(pattern: &str, pointer: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == pointer,
        Some((start, end)) => {
            pointer.len() >= start.len() + end.len()
                && pointer.starts_with(start)
                && pointer.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_one_star() {
        assert!(is_at("/body/message", "/body/message"));
        assert!(!is_at("/body/message", "/body/messages"));
        assert!(is_at("/body/*/x", "/body/a/b/x"));
        assert!(is_at("/body/*", "/body/a"));
        assert!(!is_at("/body/*/x", "/body/a/y"));
    }
}
