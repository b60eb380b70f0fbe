//! CEL with the Kubernetes libraries: compile once, check, evaluate within bounds of work and size.
//!
//! Parsing and most library functions come from `kube-cel`; checking and evaluation are ours,
//! because an API server needs three things that crate leaves out:
//!
//! - **Types before run time.** [`Expression::compile`] infers types as far as the environment
//!   declares them. An unknown variable, function or field, a call that no overload fits and a
//!   result that cannot be of the wanted type are refused; what is `dyn` is checked at run time.
//! - **Bounds.** Evaluation spends units of a [`Budget`]: one for every step, more for work that
//!   grows with its operands, paid before the work is done. What the expression can do with its
//!   budget is therefore bounded in time and memory, whatever it says and whatever it is given.
//!   There is no clock, no lock and no thread involved, so the same input always ends the same way.
//! - **The authorizer.** Expressions may ask what a user may do, through [`Authorizer`].
//!
//! [`Rules`] runs the `x-kubernetes-validations` of a CRD on top of that.

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
