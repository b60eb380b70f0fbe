//! Closed sets of words that travel as strings: condition types and reasons.

/// Declares an enum whose variants are spelled on the wire exactly as in Rust.
///
/// The wire types keep plain strings, so that an object written by a newer or older release always decodes; code that
/// writes or looks for a word uses the enum.
macro_rules! vocabulary {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// Every word of the set, in the order of the declaration.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The word as it stands in an object.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                }
            }

            /// The member of the set that is spelled so, if there is one.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|member| member.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use vocabulary;

/// The schema of a string that must be one of these words.
pub(crate) fn one_of(words: &[&str]) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "enum": words })
}
