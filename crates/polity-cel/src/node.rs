//! The checked form of an expression: names are resolved, macros expanded, and functions bound.

use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::Key;
use regex::Regex;

use crate::library::{Function, Native};

/// A checked expression.
#[derive(Debug)]
pub(crate) enum Node {
    Literal(Value),
    /// A variable of a comprehension, by its place on the stack.
    Local(usize),
    /// A variable of the environment.
    Global(Arc<str>),
    Select {
        operand: Box<Node>,
        field: Key,
    },
    Has {
        operand: Box<Node>,
        field: Key,
    },
    OptionalSelect {
        operand: Box<Node>,
        field: Key,
    },
    Index {
        operand: Box<Node>,
        index: Box<Node>,
    },
    OptionalIndex {
        operand: Box<Node>,
        index: Box<Node>,
    },
    Not(Box<Node>),
    Negate(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Conditional(Box<[Node; 3]>),
    Binary(Operator, Box<Node>, Box<Node>),
    List(Vec<Element>),
    Map(Vec<(Node, Element)>),
    Comprehension(Box<Comprehension>),
    /// `optMap` and, when `flat`, `optFlatMap`; the value is a local of `body`.
    OptionalMap {
        operand: Box<Node>,
        body: Box<Node>,
        flat: bool,
    },
    SortBy {
        list: Box<Node>,
        key: Box<Node>,
    },
    Call(Box<Call>),
}

impl Node {
    /// Whether the node's type is `dyn` by declaration, not merely unknown to the checker.
    pub(crate) fn is_surely_dyn(&self) -> bool {
        match self {
            Self::Global(_) => true,
            Self::Select { operand, .. } | Self::Index { operand, .. } => operand.is_surely_dyn(),
            Self::Conditional(parts) => parts[1..].iter().any(Self::is_surely_dyn),
            Self::Call(call) => call.function.native() == Some(Native::Dyn),
            _ => false,
        }
    }
}

/// An element of a literal. An optional element without a value is omitted.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) node: Node,
    pub(crate) optional: bool,
}

/// The binary operators that evaluate both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equals,
    NotEquals,
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
    In,
}

/// A loop over a list or the keys of a map.
#[derive(Debug)]
pub(crate) struct Comprehension {
    pub(crate) kind: ComprehensionKind,
    pub(crate) range: Node,
    /// With two variables the first is the index or key and the second the element or value.
    pub(crate) two_variables: bool,
    pub(crate) filter: Option<Node>,
    pub(crate) body: Node,
}

/// How a loop combines the values of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComprehensionKind {
    All,
    Exists,
    ExistsOne,
    /// A list of the body's values: `map`, `filter`, `transformList`.
    List,
    /// The range's keys with the body's values: `transformMap`.
    Map,
    /// The entries of the maps the body gives: `transformMapEntry`.
    Entries,
}

/// A function call; the target of a method is the first argument.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: Function,
    pub(crate) arguments: Vec<Node>,
    /// The compiled pattern, where it is a literal.
    pub(crate) pattern: Option<Regex>,
}
