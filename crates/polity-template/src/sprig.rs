//! The functions of sprig v3, by topic. `env` and `expandenv` are refused.

pub(crate) mod cast;
mod certificates;
mod crypto;
mod dates;
mod decimal;
mod defaults;
mod dicts;
mod encoding;
pub(crate) mod json;
mod lists;
mod numbers;
mod paths;
mod reflection;
pub(crate) mod regex;
mod strings;
pub(crate) use strings::padded;
mod urls;
mod words;

use crate::function::{Call, Function, Type};

pub(crate) const TABLES: &[&[(&str, Function)]] = &[
    strings::TABLE,
    words::TABLE,
    numbers::TABLE,
    lists::TABLE,
    dicts::TABLE,
    defaults::TABLE,
    dates::TABLE,
    encoding::TABLE,
    crypto::TABLE,
    certificates::TABLE,
    reflection::TABLE,
    regex::TABLE,
    paths::TABLE,
    urls::TABLE,
    REFUSED,
];

/// Functions that would disclose the machine on which a template is resolved.
const REFUSED: &[(&str, Function)] = &[("env", refused()), ("expandenv", refused())];

const fn refused() -> Function {
    Function {
        parameters: &[],
        rest: Some(Type::Any),
        call: Call::Refused(|name| {
            format!(
                "use of denylisted template function: function '{name}' is considered a security risk"
            )
        }),
    }
}
