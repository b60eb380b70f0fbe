//! `$(NAME)` in values, commands and arguments.

use std::collections::BTreeMap;

/// Replaces `$(NAME)` by the variable's value. An unknown name stays as it is, and `$$` is one dollar sign, so
/// `$$(NAME)` is the text `$(NAME)`.
pub(super) fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(escaped) = after.strip_prefix('$') {
            out.push('$');
            rest = escaped;
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|s| s.split_once(')')) {
            match env.get(name) {
                Some(value) => out.push_str(value),
                None => out.push_str(&rest[at..rest.len() - tail.len()]),
            }
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn references_are_replaced_once() {
        let env = BTreeMap::from([
            ("A".to_owned(), "1".to_owned()),
            ("B".to_owned(), "$(A)".to_owned()),
        ]);
        let cases = [
            ("", ""),
            ("plain", "plain"),
            ("$(A)-$(A)", "1-1"),
            ("$(B)", "$(A)"),
            ("$(C)", "$(C)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$(A", "$(A"),
            ("$A", "$A"),
            ("100$", "100$"),
            ("$()", "$()"),
            ("é$(A)é", "é1é"),
        ];
        for (text, expected) in cases {
            assert_eq!(expand(text, &env), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_without_dollars_is_itself(text in "[^$]*") {
            prop_assert_eq!(expand(&text, &BTreeMap::new()), text);
        }

        #[test]
        fn anything_is_taken(text in ".*") {
            expand(&text, &BTreeMap::from([("A".to_owned(), "x".to_owned())]));
        }
    }
}
