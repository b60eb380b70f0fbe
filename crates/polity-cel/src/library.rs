//! The functions of the Kubernetes CEL environment: their overloads, costs and implementations.
//!
//! Only functions that a 1.37 API server declares are declared here. Most functions run in `kube-cel`. Those that
//! behave differently there, or whose cost cannot be bounded from outside, are implemented here.

use std::sync::LazyLock;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::{Context, ExecutionError, Value};

use crate::authorizer;
use crate::budget::Budget;
use crate::convert;
use crate::expression::{Environment, EvalError};
use crate::operators;
use crate::types::Type;

/// One way to call a function. The target of a method is its first parameter.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) name: &'static str,
    pub(crate) is_method: bool,
    parameters: &'static [Kind],
    result: Kind,
    run: Run,
}

/// A type in a signature. The last few depend on the first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Any,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Time,
    Span,
    List,
    Texts,
    Numbers,
    Map,
    TypeName,
    Optional,
    Named(&'static str),
    /// Query parameters of a URL.
    Query,
    /// A list of integers.
    Ints,
    OptionalNamed(&'static str),
    OptionalTexts,
    /// The type of the first parameter.
    Same,
    /// The element type of the first parameter.
    Element,
    OptionalElement,
    /// The content of the first parameter, which is an optional.
    Held,
    /// An optional of the first parameter.
    Holder,
}

/// How a function is implemented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    Library,
    Native(Native),
}

/// The functions that are ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Native {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    Find,
    FindAll,
    Convert(Conversion),
    TypeOf,
    Dyn,
    OptionalOf,
    OptionalNone,
    OptionalOfNonZero,
    HasValue,
    OptionalValue,
    Or,
    OrValue,
    Authorizer,
    ParseJson,
    Scores,
}

/// The type conversions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversion {
    Int,
    Uint,
    Double,
    Bool,
    String,
    Bytes,
    Duration,
    Timestamp,
}

/// A function as a call has bound it.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    run: BoundRun,
}

#[derive(Debug)]
enum BoundRun {
    Library(Box<IdedExpr>),
    Native(Native),
}

const fn method(
    name: &'static str,
    parameters: &'static [Kind],
    result: Kind,
    run: Run,
) -> Overload {
    Overload {
        name,
        is_method: true,
        parameters,
        result,
        run,
    }
}

const fn global(
    name: &'static str,
    parameters: &'static [Kind],
    result: Kind,
    run: Run,
) -> Overload {
    Overload {
        name,
        is_method: false,
        parameters,
        result,
        run,
    }
}

const fn native(native: Native) -> Run {
    Run::Native(native)
}

const fn to(conversion: Conversion) -> Run {
    Run::Native(Native::Convert(conversion))
}

const IP: Kind = Kind::Named("net.IP");
const CIDR: Kind = Kind::Named("net.CIDR");
const URL: Kind = Kind::Named("kubernetes.URL");
const QUANTITY: Kind = Kind::Named("kubernetes.Quantity");
const SEMVER: Kind = Kind::Named("kubernetes.Semver");
const FORMAT: Kind = Kind::Named("kubernetes.NamedFormat");
const AUTHORIZER: Kind = Kind::Named(authorizer::AUTHORIZER);
const PATH: Kind = Kind::Named(authorizer::PATH);
const GROUP: Kind = Kind::Named(authorizer::GROUP);
const RESOURCE: Kind = Kind::Named(authorizer::RESOURCE);
const DECISION: Kind = Kind::Named(authorizer::DECISION);

use Kind::{
    Any, Bool, Bytes, Double, Element, Held, Holder, Int, Ints, List, Map, Numbers, Optional,
    OptionalElement, OptionalNamed, OptionalTexts, Query, Same, Span, Text, Texts, Time, TypeName,
    Uint,
};
use Run::Library;

const SIZE: Run = native(Native::Size);
const AUTHZ: Run = native(Native::Authorizer);

#[rustfmt::skip]
const OVERLOADS: &[Overload] = &[
    // Standard functions.
    method("size", &[Text], Int, SIZE), method("size", &[Bytes], Int, SIZE),
    method("size", &[List], Int, SIZE), method("size", &[Map], Int, SIZE),
    global("size", &[Text], Int, SIZE), global("size", &[Bytes], Int, SIZE),
    global("size", &[List], Int, SIZE), global("size", &[Map], Int, SIZE),
    method("contains", &[Text, Text], Bool, native(Native::Contains)),
    method("startsWith", &[Text, Text], Bool, native(Native::StartsWith)),
    method("endsWith", &[Text, Text], Bool, native(Native::EndsWith)),
    method("matches", &[Text, Text], Bool, native(Native::Matches)),
    global("matches", &[Text, Text], Bool, native(Native::Matches)),
    global("type", &[Any], TypeName, native(Native::TypeOf)),
    global("dyn", &[Any], Any, native(Native::Dyn)),
    global("int", &[Int], Int, to(Conversion::Int)), global("int", &[Uint], Int, to(Conversion::Int)),
    global("int", &[Double], Int, to(Conversion::Int)), global("int", &[Text], Int, to(Conversion::Int)),
    global("int", &[Time], Int, to(Conversion::Int)), global("int", &[Span], Int, to(Conversion::Int)),
    global("uint", &[Int], Uint, to(Conversion::Uint)), global("uint", &[Uint], Uint, to(Conversion::Uint)),
    global("uint", &[Double], Uint, to(Conversion::Uint)), global("uint", &[Text], Uint, to(Conversion::Uint)),
    global("double", &[Int], Double, to(Conversion::Double)), global("double", &[Uint], Double, to(Conversion::Double)),
    global("double", &[Double], Double, to(Conversion::Double)), global("double", &[Text], Double, to(Conversion::Double)),
    global("bool", &[Bool], Bool, to(Conversion::Bool)), global("bool", &[Text], Bool, to(Conversion::Bool)),
    global("string", &[Bool], Text, to(Conversion::String)), global("string", &[Int], Text, to(Conversion::String)),
    global("string", &[Uint], Text, to(Conversion::String)), global("string", &[Double], Text, to(Conversion::String)),
    global("string", &[Text], Text, to(Conversion::String)), global("string", &[Bytes], Text, to(Conversion::String)),
    global("string", &[Time], Text, to(Conversion::String)), global("string", &[Span], Text, to(Conversion::String)),
    global("string", &[IP], Text, to(Conversion::String)), global("string", &[CIDR], Text, to(Conversion::String)),
    global("bytes", &[Bytes], Bytes, to(Conversion::Bytes)), global("bytes", &[Text], Bytes, to(Conversion::Bytes)),
    global("duration", &[Span], Span, to(Conversion::Duration)), global("duration", &[Text], Span, to(Conversion::Duration)),
    global("duration", &[Int], Span, to(Conversion::Duration)),
    global("timestamp", &[Time], Time, to(Conversion::Timestamp)), global("timestamp", &[Text], Time, to(Conversion::Timestamp)),
    global("timestamp", &[Int], Time, to(Conversion::Timestamp)),
    method("getFullYear", &[Time], Int, Library), method("getMonth", &[Time], Int, Library),
    method("getDate", &[Time], Int, Library), method("getDayOfMonth", &[Time], Int, Library),
    method("getDayOfWeek", &[Time], Int, Library), method("getDayOfYear", &[Time], Int, Library),
    method("getHours", &[Time], Int, Library), method("getHours", &[Span], Int, Library),
    method("getMinutes", &[Time], Int, Library), method("getMinutes", &[Span], Int, Library),
    method("getSeconds", &[Time], Int, Library), method("getSeconds", &[Span], Int, Library),
    method("getMilliseconds", &[Time], Int, Library), method("getMilliseconds", &[Span], Int, Library),
    // Optional values.
    global("optional.of", &[Any], Holder, native(Native::OptionalOf)),
    global("optional.none", &[], Optional, native(Native::OptionalNone)),
    global("optional.ofNonZeroValue", &[Any], Holder, native(Native::OptionalOfNonZero)),
    method("hasValue", &[Optional], Bool, native(Native::HasValue)),
    method("value", &[Optional], Held, native(Native::OptionalValue)),
    method("or", &[Optional, Same], Same, native(Native::Or)),
    method("orValue", &[Optional, Held], Held, native(Native::OrValue)),
    // Strings.
    method("charAt", &[Text, Int], Text, Library),
    method("indexOf", &[Text, Text], Int, Library), method("indexOf", &[Text, Text, Int], Int, Library),
    method("lastIndexOf", &[Text, Text], Int, Library), method("lastIndexOf", &[Text, Text, Int], Int, Library),
    method("lowerAscii", &[Text], Text, Library), method("upperAscii", &[Text], Text, Library),
    method("replace", &[Text, Text, Text], Text, Library), method("replace", &[Text, Text, Text, Int], Text, Library),
    method("split", &[Text, Text], Texts, Library), method("split", &[Text, Text, Int], Texts, Library),
    method("substring", &[Text, Int], Text, Library), method("substring", &[Text, Int, Int], Text, Library),
    method("trim", &[Text], Text, Library),
    method("join", &[Texts], Text, Library), method("join", &[Texts, Text], Text, Library),
    method("format", &[Text, List], Text, Library),
    global("strings.quote", &[Text], Text, Library),
    method("find", &[Text, Text], Text, native(Native::Find)),
    method("findAll", &[Text, Text], Texts, native(Native::FindAll)),
    method("findAll", &[Text, Text, Int], Texts, native(Native::FindAll)),
    // Lists.
    method("isSorted", &[List], Bool, Library), method("sum", &[Numbers], Element, Library),
    method("min", &[List], Element, Library), method("max", &[List], Element, Library),
    method("indexOf", &[List, Element], Int, Library), method("lastIndexOf", &[List, Element], Int, Library),
    method("slice", &[List, Int, Int], Same, Library),
    method("flatten", &[List], List, Library), method("flatten", &[List, Int], List, Library),
    method("sort", &[List], Same, Library), method("distinct", &[List], Same, Library),
    method("reverse", &[List], Same, Library),
    method("first", &[List], OptionalElement, Library), method("last", &[List], OptionalElement, Library),
    global("lists.range", &[Int], Ints, Library),
    global("sets.contains", &[List, List], Bool, Library), global("sets.equivalent", &[List, List], Bool, Library),
    global("sets.intersects", &[List, List], Bool, Library),
    // URLs, addresses, quantities, versions, formats.
    global("url", &[Text], URL, Library), global("isURL", &[Text], Bool, Library),
    method("getScheme", &[URL], Text, Library), method("getHost", &[URL], Text, Library),
    method("getHostname", &[URL], Text, Library), method("getPort", &[URL], Text, Library),
    method("getEscapedPath", &[URL], Text, Library), method("getQuery", &[URL], Query, Library),
    global("ip", &[Text], IP, Library), global("isIP", &[Text], Bool, Library),
    global("ip.isCanonical", &[Text], Bool, Library), method("family", &[IP], Int, Library),
    method("isUnspecified", &[IP], Bool, Library), method("isLoopback", &[IP], Bool, Library),
    method("isLinkLocalMulticast", &[IP], Bool, Library), method("isLinkLocalUnicast", &[IP], Bool, Library),
    method("isGlobalUnicast", &[IP], Bool, Library),
    global("cidr", &[Text], CIDR, Library), global("isCIDR", &[Text], Bool, Library),
    method("containsIP", &[CIDR, Text], Bool, Library), method("containsIP", &[CIDR, IP], Bool, Library),
    method("containsCIDR", &[CIDR, Text], Bool, Library), method("containsCIDR", &[CIDR, CIDR], Bool, Library),
    method("ip", &[CIDR], IP, Library), method("masked", &[CIDR], CIDR, Library),
    method("prefixLength", &[CIDR], Int, Library),
    global("quantity", &[Text], QUANTITY, Library), global("isQuantity", &[Text], Bool, Library),
    method("sign", &[QUANTITY], Int, Library), method("isInteger", &[QUANTITY], Bool, Library),
    method("asInteger", &[QUANTITY], Int, Library), method("asApproximateFloat", &[QUANTITY], Double, Library),
    method("add", &[QUANTITY, QUANTITY], QUANTITY, Library), method("add", &[QUANTITY, Int], QUANTITY, Library),
    method("sub", &[QUANTITY, QUANTITY], QUANTITY, Library), method("sub", &[QUANTITY, Int], QUANTITY, Library),
    method("isLessThan", &[QUANTITY, QUANTITY], Bool, Library), method("isLessThan", &[SEMVER, SEMVER], Bool, Library),
    method("isGreaterThan", &[QUANTITY, QUANTITY], Bool, Library), method("isGreaterThan", &[SEMVER, SEMVER], Bool, Library),
    method("compareTo", &[QUANTITY, QUANTITY], Int, Library), method("compareTo", &[SEMVER, SEMVER], Int, Library),
    global("semver", &[Text], SEMVER, Library), global("semver", &[Text, Bool], SEMVER, Library),
    global("isSemver", &[Text], Bool, Library), global("isSemver", &[Text, Bool], Bool, Library),
    method("major", &[SEMVER], Int, Library), method("minor", &[SEMVER], Int, Library), method("patch", &[SEMVER], Int, Library),
    global("format.named", &[Text], OptionalNamed("kubernetes.NamedFormat"), Library),
    global("format.dns1123Label", &[], FORMAT, Library), global("format.dns1123Subdomain", &[], FORMAT, Library),
    global("format.dns1035Label", &[], FORMAT, Library), global("format.qualifiedName", &[], FORMAT, Library),
    global("format.dns1123LabelPrefix", &[], FORMAT, Library), global("format.dns1123SubdomainPrefix", &[], FORMAT, Library),
    global("format.dns1035LabelPrefix", &[], FORMAT, Library), global("format.labelValue", &[], FORMAT, Library),
    global("format.uri", &[], FORMAT, Library), global("format.uuid", &[], FORMAT, Library),
    global("format.byte", &[], FORMAT, Library), global("format.date", &[], FORMAT, Library),
    global("format.datetime", &[], FORMAT, Library),
    method("validate", &[FORMAT, Text], OptionalTexts, Library),
    // Authorization.
    method("path", &[AUTHORIZER, Text], PATH, AUTHZ), method("group", &[AUTHORIZER, Text], GROUP, AUTHZ),
    method("serviceAccount", &[AUTHORIZER, Text, Text], AUTHORIZER, AUTHZ),
    method("resource", &[GROUP, Text], RESOURCE, AUTHZ), method("subresource", &[RESOURCE, Text], RESOURCE, AUTHZ),
    method("namespace", &[RESOURCE, Text], RESOURCE, AUTHZ), method("name", &[RESOURCE, Text], RESOURCE, AUTHZ),
    method("fieldSelector", &[RESOURCE, Text], RESOURCE, AUTHZ), method("labelSelector", &[RESOURCE, Text], RESOURCE, AUTHZ),
    method("check", &[PATH, Text], DECISION, AUTHZ), method("check", &[RESOURCE, Text], DECISION, AUTHZ),
    method("allowed", &[DECISION], Bool, AUTHZ), method("reason", &[DECISION], Text, AUTHZ),
    method("errored", &[DECISION], Bool, AUTHZ), method("error", &[DECISION], Text, AUTHZ),
];

/// Additional functions of cluster predicates. API servers do not declare them.
#[rustfmt::skip]
const CLUSTER_OVERLOADS: &[Overload] = &[
    method("parseJSON", &[Text], Any, native(Native::ParseJson)),
    method("scores", &[Map, Text], List, native(Native::Scores)),
];

/// Everything that an environment declares.
fn declared(environment: &Environment) -> impl Iterator<Item = &'static Overload> {
    let besides = if environment.knows_clusters {
        CLUSTER_OVERLOADS
    } else {
        &[]
    };
    OVERLOADS.iter().chain(besides)
}

/// All overloads of a function, methods or globals.
pub(crate) fn overloads(
    environment: &Environment,
    name: &str,
    is_method: bool,
) -> impl Iterator<Item = &'static Overload> {
    declared(environment)
        .filter(move |overload| overload.name == name && overload.is_method == is_method)
}

/// Whether any function is called so, in any form.
pub(crate) fn is_known(environment: &Environment, name: &str) -> bool {
    declared(environment).any(|overload| overload.name == name)
}

impl Overload {
    /// Whether the call could be meant for this overload.
    pub(crate) fn accepts(&self, arguments: &[Type]) -> bool {
        self.parameters.len() == arguments.len()
            && self
                .parameters
                .iter()
                .zip(arguments)
                .all(|(kind, argument)| {
                    kind.accepts(argument)
                        && relative(*kind, arguments).is_none_or(|kind| kind.overlaps(argument))
                })
    }

    /// The type of the call.
    pub(crate) fn result(&self, arguments: &[Type]) -> Type {
        relative(self.result, arguments).unwrap_or_else(|| self.result.as_type())
    }

    /// The function, ready to be called.
    pub(crate) fn bind(&self) -> Function {
        let run = match self.run {
            Run::Native(native) => BoundRun::Native(native),
            Run::Library => BoundRun::Library(Box::new(self.library_call())),
        };
        Function {
            name: self.name,
            run,
        }
    }

    /// A call of the library's function with variables as arguments.
    fn library_call(&self) -> IdedExpr {
        let mut arguments: Vec<IdedExpr> = (0..self.parameters.len())
            .map(|index| IdedExpr {
                id: 0,
                expr: Expr::Ident(ARGUMENTS[index].to_owned()),
            })
            .collect();
        let target = self.is_method.then(|| Box::new(arguments.remove(0)));
        let call = CallExpr {
            func_name: self.name.to_owned(),
            target,
            args: arguments,
        };
        IdedExpr {
            id: 0,
            expr: Expr::Call(call),
        }
    }
}

/// A type that depends on the first argument's.
fn relative(kind: Kind, arguments: &[Type]) -> Option<Type> {
    let first = arguments.first()?;
    let element = || first.element().unwrap_or(Type::Dyn);
    match kind {
        Kind::Same => Some(first.clone()),
        Kind::Element => Some(element()),
        Kind::OptionalElement => Some(Type::optional(element())),
        Kind::Held => match first {
            Type::Optional(inner) => Some((**inner).clone()),
            _ => Some(Type::Dyn),
        },
        Kind::Holder => Some(Type::optional(first.clone())),
        _ => None,
    }
}

const ARGUMENTS: [&str; 4] = ["@0", "@1", "@2", "@3"];

impl Kind {
    fn accepts(self, argument: &Type) -> bool {
        match self {
            Self::Optional => matches!(argument, Type::Dyn | Type::Optional(_)),
            Self::Numbers => match argument {
                Type::List(element) => {
                    matches!(
                        **element,
                        Type::Dyn | Type::Int | Type::Uint | Type::Double | Type::Duration
                    )
                }
                other => *other == Type::Dyn,
            },
            kind => kind.as_type().overlaps(argument),
        }
    }

    fn as_type(self) -> Type {
        match self {
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::Text => Type::String,
            Self::Bytes => Type::Bytes,
            Self::Time => Type::Timestamp,
            Self::Span => Type::Duration,
            Self::List | Self::Numbers => Type::list(Type::Dyn),
            Self::Texts => Type::list(Type::String),
            Self::Ints => Type::list(Type::Int),
            Self::Map => Type::map(Type::Dyn, Type::Dyn),
            Self::Query => Type::map(Type::String, Type::list(Type::String)),
            Self::TypeName => Type::Kind,
            Self::Optional => Type::optional(Type::Dyn),
            Self::OptionalNamed(name) => Type::optional(Type::Opaque(name)),
            Self::OptionalTexts => Type::optional(Type::list(Type::String)),
            Self::Named(name) => Type::Opaque(name),
            Self::Any
            | Self::Same
            | Self::Element
            | Self::OptionalElement
            | Self::Held
            | Self::Holder => Type::Dyn,
        }
    }
}

impl Function {
    /// The native function, if it is one.
    pub(crate) fn native(&self) -> Option<Native> {
        match self.run {
            BoundRun::Native(native) => Some(native),
            BoundRun::Library(_) => None,
        }
    }

    /// Runs a function of the library; its cost is paid first.
    pub(crate) fn run_library(
        &self,
        arguments: &[Value],
        budget: &mut Budget,
    ) -> Result<Value, EvalError> {
        let BoundRun::Library(call) = &self.run else {
            return Err(EvalError::NoSuchOverload);
        };
        pay(self.name, arguments, budget)?;
        let result = in_library(call, arguments);
        match self.name {
            // The library returns an error instead of an empty optional.
            "format.named" => Ok(convert::optional(result.ok())),
            _ => result,
        }
    }
}

/// Calls a global function of the library that takes one argument.
pub(crate) fn library_function(name: &str, argument: Value) -> Result<Value, EvalError> {
    let argument_name = IdedExpr {
        id: 0,
        expr: Expr::Ident(ARGUMENTS[0].to_owned()),
    };
    let call = CallExpr {
        func_name: name.to_owned(),
        target: None,
        args: vec![argument_name],
    };
    in_library(
        &IdedExpr {
            id: 0,
            expr: Expr::Call(call),
        },
        &[argument],
    )
}

static LIBRARY: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

fn in_library(call: &IdedExpr, arguments: &[Value]) -> Result<Value, EvalError> {
    let mut scope = LIBRARY.new_inner_scope();
    for (name, argument) in ARGUMENTS.iter().zip(arguments) {
        scope.add_variable_from_value(*name, argument.clone());
    }
    Value::resolve(call, &scope).map_err(|error| match error {
        ExecutionError::FunctionError { message, .. } => EvalError::Failed(message),
        ExecutionError::Overflow(..) => EvalError::Failed("integer overflow".into()),
        _ => EvalError::NoSuchOverload,
    })
}

/// Spends the maximum cost of a library call, and refuses calls with unsafe arguments.
fn pay(name: &str, arguments: &[Value], budget: &mut Budget) -> Result<(), EvalError> {
    for argument in arguments {
        operators::spend_deep(argument, budget)?;
    }
    let extra = match (name, arguments) {
        (
            "sets.contains" | "sets.equivalent" | "sets.intersects",
            [Value::List(a), Value::List(b)],
        ) => a.len() as u64 * b.len() as u64 * 2,
        ("distinct", [Value::List(list)]) => list.len() as u64 * list.len() as u64,
        ("sort", [Value::List(list)]) => list.len() as u64 * 16,
        ("indexOf" | "lastIndexOf", [Value::String(text), Value::String(part), ..]) => {
            (text.len() as u64 / 10 + 1) * (part.len() as u64 / 10 + 1)
        }
        ("split", [Value::String(text), ..]) => text.len() as u64,
        ("join", [Value::List(list), Value::String(separator)]) => {
            list.len() as u64 * separator.len() as u64 / 10
        }
        (
            "replace",
            [
                Value::String(text),
                Value::String(from),
                Value::String(with),
                ..,
            ],
        ) => {
            let n_matches = text.len() / from.len().max(1) + 1;
            n_matches as u64 * with.len() as u64 / 10
        }
        ("format", [Value::String(text), ..]) => format_digits(text),
        ("lists.range", [Value::Int(n)]) => u64::try_from(*n).unwrap_or(0),
        ("sum", [Value::List(list)]) => {
            // The library would also concatenate, at a quadratic price.
            if list
                .iter()
                .any(|value| !convert::is_number_or_duration(value))
            {
                return Err(EvalError::NoSuchOverload);
            }
            0
        }
        _ => 0,
    };
    budget.spend(extra)?;
    Ok(())
}

/// How many digits the `%.Nf` clauses of a format request.
fn format_digits(format: &str) -> u64 {
    format
        .split("%.")
        .skip(1)
        .map(|clause| {
            let n_digits = clause.bytes().take_while(u8::is_ascii_digit).count();
            clause[..n_digits].parse::<u64>().unwrap_or(u64::MAX)
        })
        .fold(0, u64::saturating_add)
}
