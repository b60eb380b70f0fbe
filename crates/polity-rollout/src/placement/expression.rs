//! Predicates over the object of a cluster, which a caller with an expression language evaluates.

use polity_core::ManagedCluster;

/// Compiles the expressions of predicates, whose variable `managedCluster` is the object of a cluster.
pub trait ClusterExpressions {
    /// Compiles one expression, or says what is wrong with it.
    fn compile(&self, expression: &str) -> Result<Box<dyn ClusterExpression + '_>, String>;
}

/// A compiled expression.
pub trait ClusterExpression {
    /// Whether it holds of a cluster. An error, like anything but true, means that it does not; its text is for people.
    fn holds(&self, cluster: &ManagedCluster) -> Result<bool, String>;
}

/// For callers without an expression language: a placement that needs one is misconfigured.
#[derive(Debug, Clone, Copy)]
pub struct NoExpressions;

impl ClusterExpressions for NoExpressions {
    fn compile(&self, _: &str) -> Result<Box<dyn ClusterExpression + '_>, String> {
        Err("expressions are not supported here".to_owned())
    }
}
