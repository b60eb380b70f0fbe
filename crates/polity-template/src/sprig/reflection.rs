//! Functions that return the type or kind of values.

use super::strings::{made, truth};
use crate::arg::text;
use crate::function::{Function, Type, function};
use crate::run::too_deep;
use crate::semver::{Version, satisfies};
use crate::value::Value;

const A: Type = Type::Any;
const T: Type = Type::Text;

pub(crate) const TABLE: &[(&str, Function)] = &[
    (
        "typeOf",
        function(&[A], None, |_, v| made(v[0].type_name())),
    ),
    (
        "typeIs",
        function(&[T, A], None, |_, v| truth(text(&v[0]) == v[1].type_name())),
    ),
    (
        "typeIsLike",
        function(&[T, A], None, |_, v| {
            let (wanted, found) = (text(&v[0]), v[1].type_name());
            truth(wanted == found || found.strip_prefix('*') == Some(wanted))
        }),
    ),
    (
        "kindOf",
        function(&[A], None, |_, v| made(v[0].kind_name())),
    ),
    (
        "kindIs",
        function(&[T, A], None, |_, v| truth(text(&v[0]) == v[1].kind_name())),
    ),
    (
        "deepEqual",
        function(&[A, A], None, |_, v| {
            truth(v[0].deep_equal(&v[1], 0).ok_or_else(too_deep)?)
        }),
    ),
    (
        "semver",
        function(&[T], None, |_, v| {
            Ok(Value::Version(Version::parse(text(&v[0]))?.into()))
        }),
    ),
    (
        "semverCompare",
        function(&[T, T], None, |_, v| {
            truth(satisfies(text(&v[0]), text(&v[1]))?)
        }),
    ),
];
