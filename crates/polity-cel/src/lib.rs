//! CEL with the Kubernetes libraries: compile once, check, evaluate within bounds of work and size.
//!
//! Parsing and most library functions come from `kube-cel`. Checking and evaluation are ours, because an API server
//! needs three things that crate lacks:
//!
//! - **Types before run time.** [`Expression::compile`] infers types as far as the environment declares them. It
//!   rejects unknown variables, functions and fields, calls without a matching overload, and results that cannot have
//!   the required type. Values of type `dyn` are checked at run time.
//! - **Bounds.** Evaluation spends units of a [`Budget`]: one for every step, and more for work that grows with its
//!   operands, paid before the work is done. Time and memory of an evaluation are therefore bounded for every
//!   expression and every input. No clock, lock or thread is involved, so the same input always has the same result.
//! - **The authorizer.** Expressions can check permissions of a user through [`Authorizer`].
//!
//! [`Rules`] evaluates the `x-kubernetes-validations` of a CRD.

mod authorizer;
mod budget;
mod check;
mod convert;
mod escape;
mod eval;
mod expression;
mod library;
mod node;
mod operators;
mod rules;
mod syntax;
#[cfg(test)]
mod tests;
mod types;

pub use authorizer::{AccessDecision, AccessQuery, AccessTarget, Authorizer, ServiceAccountRef};
pub use budget::Budget;
pub use escape::is_reserved;
pub use expression::{Bindings, CompileError, Environment, EvalError, Expression, Output};
pub use rules::Rules;
