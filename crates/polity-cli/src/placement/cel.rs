//! Expressions in predicates, evaluated by `polity-cel` within its bounds.

use std::collections::HashMap;

use polity_cel::{Bindings, Budget, Environment, Expression, Output};
use polity_core::{ClusterName, ManagedCluster};
use polity_rollout::placement::{ClusterExpression, ClusterExpressions};
use serde_json::Value;

/// The whole objects of clusters with the scores that add-ons gave them, as expressions see them.
#[derive(Debug, Default)]
pub struct Expressions {
    by_cluster: HashMap<ClusterName, Bindings>,
}

impl Expressions {
    /// Takes clusters as they stand in manifests, and scores as lists of `{name, value}` by the name of their
    /// resource.
    pub fn new<'a>(clusters: impl IntoIterator<Item = (ClusterName, &'a Value, Value)>) -> Self {
        let bind = |(name, object, scores): (ClusterName, &Value, Value)| {
            (name, Bindings::new().cluster(object, &scores))
        };
        Self {
            by_cluster: clusters.into_iter().map(bind).collect(),
        }
    }
}

impl ClusterExpressions for Expressions {
    fn compile(&self, expression: &str) -> Result<Box<dyn ClusterExpression + '_>, String> {
        // Whatever it evaluates to is looked at when it runs: anything but true does not hold.
        let environment = Environment::cluster_predicates();
        let compiled = Expression::compile(expression, &environment, Output::Any);
        Ok(Box::new(Compiled {
            expression: compiled.map_err(|error| error.to_string())?,
            by_cluster: &self.by_cluster,
        }))
    }
}

struct Compiled<'a> {
    expression: Expression,
    by_cluster: &'a HashMap<ClusterName, Bindings>,
}

impl ClusterExpression for Compiled<'_> {
    fn holds(&self, cluster: &ManagedCluster) -> Result<bool, String> {
        let bindings = self.by_cluster.get(&cluster.name);
        let bindings = bindings.ok_or("the object of the cluster is not known")?;
        let mut budget = Budget::of(Budget::PER_EXPRESSION);
        self.expression
            .evaluate_bool(bindings, &mut budget)
            .map_err(|error| error.to_string())
    }
}
