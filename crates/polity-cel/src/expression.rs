//! The public API of the crate: environments, compiled expressions, and the inputs of an evaluation.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel;
use serde_json::Value as Json;

use crate::authorizer::{self, AccessTarget, Authorizer};
use crate::budget::{Budget, Exhausted};
use crate::check::Checker;
use crate::convert;
use crate::eval::Evaluation;
use crate::node::Node;
use crate::syntax;
use crate::types::Type;

/// The variable of predicates over clusters.
const CLUSTER: &str = "managedCluster";

/// The variables an expression may name, with their types.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    pub(crate) variables: BTreeMap<String, Type>,
    /// Whether the functions for cluster predicates are declared.
    pub(crate) knows_clusters: bool,
}

impl Environment {
    /// An environment without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// The variables of match conditions of webhooks: `object`, `oldObject`, `request` and `authorizer`.
    pub fn match_conditions() -> Self {
        let mut environment = Self::new().variable("object").variable("oldObject");
        environment.declare("request", admission_request());
        environment.declare("authorizer", Type::Opaque(authorizer::AUTHORIZER));
        environment.declare(
            "authorizer.requestResource",
            Type::Opaque(authorizer::RESOURCE),
        );
        environment
    }

    /// The variables and functions of placement predicates: `managedCluster`, its scores, and `parseJSON`.
    pub fn cluster_predicates() -> Self {
        Self {
            knows_clusters: true,
            ..Self::new().variable(CLUSTER)
        }
    }

    /// Adds a variable of any type.
    #[must_use]
    pub fn variable(mut self, name: &str) -> Self {
        self.declare(name, Type::Dyn);
        self
    }

    pub(crate) fn declare(&mut self, name: &str, kind: Type) {
        self.variables.insert(name.to_owned(), kind);
    }
}

fn admission_request() -> Type {
    let group_version = |last| {
        Type::object([
            ("group", Type::String),
            ("version", Type::String),
            (last, Type::String),
        ])
    };
    let user = Type::object([
        ("username", Type::String),
        ("uid", Type::String),
        ("groups", Type::list(Type::String)),
        ("extra", Type::map(Type::String, Type::list(Type::String))),
    ]);
    Type::object([
        ("uid", Type::String),
        ("kind", group_version("kind")),
        ("resource", group_version("resource")),
        ("subResource", Type::String),
        ("requestKind", group_version("kind")),
        ("requestResource", group_version("resource")),
        ("requestSubResource", Type::String),
        ("name", Type::String),
        ("namespace", Type::String),
        ("operation", Type::String),
        ("userInfo", user),
        ("dryRun", Type::Bool),
        ("options", Type::Dyn),
    ])
}

/// The required result type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    Bool,
    String,
    Any,
}

/// Why a text is not a valid expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It does not parse or does not type-check; the text points at the place.
    #[error("compilation failed: {0}")]
    Invalid(String),
    /// It is fine but gives a value of another type.
    #[error("must evaluate to {want} but got {got}")]
    WrongOutput { want: &'static str, got: String },
}

/// Why an evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    #[error("operation cancelled: actual cost limit exceeded")]
    BudgetSpent,
    #[error("no such overload")]
    NoSuchOverload,
    #[error("no such key: {0}")]
    NoSuchKey(String),
    #[error("no such attribute(s): {0}")]
    NotBound(String),
    #[error("{0}")]
    Failed(String),
    #[error("expression evaluated to {got}, not {want}")]
    WrongOutput { want: &'static str, got: String },
}

impl From<Exhausted> for EvalError {
    fn from(_: Exhausted) -> Self {
        Self::BudgetSpent
    }
}

/// A compiled expression. Immutable; evaluations share nothing.
#[derive(Debug)]
pub struct Expression {
    root: Node,
    globals: Vec<String>,
}

impl Expression {
    /// Compiles `text`, checking names and types as far as `environment` declares them.
    pub fn compile(
        text: &str,
        environment: &Environment,
        output: Output,
    ) -> Result<Self, CompileError> {
        syntax::with_tree(text, |tree| {
            let mut checker = Checker::new(text, environment);
            let (root, kind) = checker.check(tree)?;
            let want = match output {
                Output::Bool => Some(("bool", Type::Bool)),
                Output::String => Some(("string", Type::String)),
                Output::Any => None,
            };
            match want {
                Some((want, wanted))
                    if !wanted.overlaps(&kind) || (kind == Type::Dyn && root.is_surely_dyn()) =>
                {
                    Err(CompileError::WrongOutput {
                        want,
                        got: kind.to_string(),
                    })
                }
                _ => Ok(Self {
                    root,
                    globals: checker.into_globals(),
                }),
            }
        })
    }

    /// Whether the expression names the variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.globals.iter().any(|name| name == variable)
    }

    /// The expression's value, which must be a bool.
    pub fn evaluate_bool(
        &self,
        bindings: &Bindings,
        budget: &mut Budget,
    ) -> Result<bool, EvalError> {
        match self.evaluate(bindings, budget)? {
            cel::Value::Bool(value) => Ok(value),
            other => Err(EvalError::WrongOutput {
                want: "bool",
                got: convert::type_name(&other).to_owned(),
            }),
        }
    }

    /// The expression's value, which must be a string.
    pub fn evaluate_string(
        &self,
        bindings: &Bindings,
        budget: &mut Budget,
    ) -> Result<String, EvalError> {
        match self.evaluate(bindings, budget)? {
            cel::Value::String(value) => Ok(value.as_ref().clone()),
            other => Err(EvalError::WrongOutput {
                want: "string",
                got: convert::type_name(&other).to_owned(),
            }),
        }
    }

    /// The expression's value as JSON. Values that JSON does not have are an error.
    pub fn evaluate_json(
        &self,
        bindings: &Bindings,
        budget: &mut Budget,
    ) -> Result<Json, EvalError> {
        let value = self.evaluate(bindings, budget)?;
        convert::to_json(&value, budget)
    }

    fn evaluate(&self, bindings: &Bindings, budget: &mut Budget) -> Result<cel::Value, EvalError> {
        budget.within(Budget::PER_EXPRESSION, |budget| {
            Evaluation::new(bindings, budget).run(&self.root)
        })
    }
}

/// The values of an environment's variables. Cloning is cheap; large values are shared.
#[derive(Debug, Clone, Default)]
pub struct Bindings {
    values: BTreeMap<String, cel::Value>,
}

impl Bindings {
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds a variable to a JSON value.
    #[must_use]
    pub fn json(self, name: &str, value: &Json) -> Self {
        self.value(name, convert::from_json(value))
    }

    /// Binds `managedCluster` to a cluster's object; `scores` holds lists of `{name, value}` by the name of their
    /// resource.
    #[must_use]
    pub fn cluster(self, object: &Json, scores: &Json) -> Self {
        self.value(CLUSTER, convert::cluster_with_scores(object, scores))
    }

    /// Binds `authorizer`, and `authorizer.requestResource` to the resource of the request.
    #[must_use]
    pub fn authorizer(self, authorizer: &Arc<dyn Authorizer>, request: AccessTarget) -> Self {
        self.value("authorizer", authorizer::root(Arc::clone(authorizer)))
            .value(
                "authorizer.requestResource",
                authorizer::resource(Arc::clone(authorizer), request),
            )
    }

    pub(crate) fn value(mut self, name: &str, value: cel::Value) -> Self {
        self.values.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn get(&self, name: &str) -> Option<&cel::Value> {
        self.values.get(name)
    }
}
