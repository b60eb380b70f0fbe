//! Text that must not be seen.

use std::fmt;

/// A token or key. Its `Debug` shows nothing, so no log level can leak it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `text` is the secret, in a time that depends on the length of `text` alone.
    pub fn is(&self, text: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), text.as_bytes());
        let mut difference = u8::from(own.len() != given.len());
        for (index, byte) in given.iter().enumerate() {
            difference |= byte
                ^ own
                    .get(index % own.len().max(1))
                    .copied()
                    .unwrap_or_default();
        }
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_is_shown() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret");
    }

    proptest! {
        #[test]
        fn only_the_secret_itself_is_the_secret(own in "[a-c]{0,4}", given in "[a-c]{0,4}") {
            prop_assert_eq!(Secret::new(own.clone()).is(&given), own == given);
        }
    }
}
