//! Texts that become something else: `toInt`, `toBool`, `toLiteral`, `indent`, `protect`, `skipObject`.

use crate::arg::{int, text, truth};
use crate::function::{Function, Type, function};
use crate::sprig::cast::to_int64;
use crate::value::Value;

const A: Type = Type::Any;
const T: Type = Type::Text;

pub(crate) const TABLE: &[(&str, Function)] = &[
    (
        "toInt",
        function(&[A], None, |_, v| Ok(Value::int(to_int64(&v[0])))),
    ),
    (
        "toBool",
        function(&[T], None, |_, v| {
            let yes = matches!(text(&v[0]), "1" | "t" | "T" | "true" | "TRUE" | "True");
            Ok(Value::Bool(yes))
        }),
    ),
    (
        "toLiteral",
        function(&[T], None, |_, v| {
            if text(&v[0]).contains('\n') {
                return Err(
                    "new lines are not allowed in the string passed to the toLiteral function"
                        .into(),
                );
            }
            Ok(v[0].clone())
        }),
    ),
    (
        "indent",
        function(&[Type::Int, T], None, |run, v| {
            let spaces = int(&v[0]) + run.rules.side.extra_indent();
            let padded = crate::sprig::padded(run, text(&v[1]), spaces)?;
            Ok(Value::text(padded.trim()))
        }),
    ),
    (
        "autoindent",
        function(&[T], None, |_, _| {
            Err("an unexpected error occurred where autoindent could not be processed".into())
        }),
    ),
    (
        "protect",
        function(&[T], None, |run, v| match &run.rules.encryption {
            Some(keys) => Ok(Value::text(keys.protect(text(&v[0])))),
            None => Err("the protect template function is not enabled in this mode".into()),
        }),
    ),
    (
        "skipObject",
        function(&[], Some(Type::Bool), |run, v| {
            match v {
                [] => run.noticed.skip_object = true,
                [only] => run.noticed.skip_object |= truth(only),
                _ => return Err("skipObject takes no more than one argument".into()),
            }
            Ok(Value::text(""))
        }),
    ),
];
