//! The language: text with actions between delimiters, read into a tree.

pub(crate) mod lex;
pub(crate) mod node;
pub(crate) mod number;
pub(crate) mod parse;
pub(crate) mod unquote;
