//! CEL expressions in the predicates of placements, evaluated by `polity-cel` within a budget.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polity_cel::{Bindings, Budget, Environment, Expression, Output};
use polity_core::cluster::{AddOnScores, Taint};
use polity_core::{ClusterName, ManagedCluster};
use polity_merge::patch::merge_patch;
use polity_rollout::placement::{ClusterExpression, ClusterExpressions};
use serde_json::{Map, Value, json};

/// The ManagedCluster objects and add-on scores that the expressions of predicates read.
///
/// It can be shared between threads: a scheduler may run on another one than the reader of the objects.
#[derive(Debug, Default)]
pub struct CelPredicates<'a> {
    by_cluster: Mutex<HashMap<ClusterName, Inputs<'a>>>,
}

/// What expressions can read of one cluster.
#[derive(Debug, Default)]
struct Inputs<'a> {
    /// The cluster as it was read, with its object.
    read: Option<(ManagedCluster, Cow<'a, Value>)>,
    scores: Map<String, Value>,
    /// The variables of expressions, made for the first one, and the cluster that they were made of.
    bindings: Option<(ManagedCluster, Arc<Bindings>)>,
}

impl<'a> CelPredicates<'a> {
    /// Sets the object of a cluster.
    pub fn set_cluster(&self, cluster: &ManagedCluster, object: Cow<'a, Value>) {
        // A simulation reads all its objects again after every edit of one.
        if !self.is_current(&cluster.name, &object) {
            self.change(&cluster.name, |inputs| {
                inputs.read = Some((cluster.clone(), object));
            });
        }
    }

    /// Removes a cluster with its scores.
    pub fn remove_cluster(&self, cluster: &ClusterName) {
        self.lock().remove(cluster);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClusterName, Inputs<'a>>> {
        // Every change is a single assignment, so a panic elsewhere leaves nothing half done.
        self.by_cluster
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn is_current(&self, cluster: &ClusterName, object: &Value) -> bool {
        let by_cluster = self.lock();
        let inputs = by_cluster.get(cluster);
        let read = inputs.and_then(|inputs| inputs.read.as_ref());
        read.is_some_and(|(_, read)| read.as_ref() == object)
    }

    /// Sets the scores of one AddOnPlacementScore. Expressions read them as a list of `{name, value}` under its name.
    pub fn set_scores(&self, scores: &AddOnScores) {
        let item = |(name, value): (&String, &i32)| json!({"name": name, "value": value});
        let items = scores.scores.iter().map(item).collect();
        self.change(&scores.cluster, |inputs| {
            inputs.scores.insert(scores.resource_name.clone(), items);
        });
    }

    fn change(&self, cluster: &ClusterName, change: impl FnOnce(&mut Inputs<'a>)) {
        let mut by_cluster = self.lock();
        let inputs = by_cluster.entry(cluster.clone()).or_default();
        inputs.bindings = None;
        change(inputs);
    }

    fn bindings(&self, cluster: &ManagedCluster) -> Arc<Bindings> {
        let mut by_cluster = self.lock();
        let inputs = by_cluster.entry(cluster.name.clone()).or_default();
        if let Some((of, bindings)) = &inputs.bindings
            && of == cluster
        {
            return Arc::clone(bindings);
        }
        let object = inputs.current(cluster);
        let scores = Value::Object(inputs.scores.clone());
        let bindings = Arc::new(Bindings::new().cluster(&object, &scores));
        inputs.bindings = Some((cluster.clone(), Arc::clone(&bindings)));
        bindings
    }
}

impl Inputs<'_> {
    /// The current object of a cluster: a scenario changes labels, and its scripted clusters have no object.
    fn current(&self, cluster: &ManagedCluster) -> Cow<'_, Value> {
        let object = match &self.read {
            Some((read, object)) if read == cluster => return Cow::Borrowed(object.as_ref()),
            Some((_, object)) => Some(object.as_ref()),
            None => None,
        };
        let mut object = object.cloned().unwrap_or_else(|| json!({}));
        let claim = |(name, value): (&String, &String)| json!({"name": name, "value": value});
        let claims: Vec<Value> = cluster.claims.iter().map(claim).collect();
        let taints: Vec<Value> = cluster.taints.iter().map(taint).collect();
        // Merging alone would keep labels that are gone.
        merge_patch(&mut object, &json!({"metadata": {"labels": null}}));
        merge_patch(
            &mut object,
            &json!({
                "metadata": {"name": cluster.name, "labels": cluster.labels},
                "spec": {"taints": taints},
                "status": {"clusterClaims": claims},
            }),
        );
        Cow::Owned(object)
    }
}

fn taint(taint: &Taint) -> Value {
    let fields = [
        ("key", Some(taint.key.clone())),
        ("value", Some(taint.value.clone())),
        ("effect", Some(taint.effect.to_string())),
        ("timeAdded", taint.time_added.map(|time| time.to_string())),
    ];
    let given = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    json!(given.collect::<BTreeMap<_, _>>())
}

impl ClusterExpressions for CelPredicates<'_> {
    fn compile(&self, expression: &str) -> Result<Box<dyn ClusterExpression + '_>, String> {
        // The type is checked when it runs: anything but true does not hold.
        let environment = Environment::cluster_predicates();
        let compiled = Expression::compile(expression, &environment, Output::Any);
        Ok(Box::new(Compiled {
            expression: compiled.map_err(|error| error.to_string())?,
            clusters: self,
        }))
    }
}

struct Compiled<'e, 'a> {
    expression: Expression,
    clusters: &'e CelPredicates<'a>,
}

impl ClusterExpression for Compiled<'_, '_> {
    fn holds(&self, cluster: &ManagedCluster) -> Result<bool, String> {
        let mut budget = Budget::of(Budget::PER_EXPRESSION);
        self.expression
            .evaluate_bool(&self.clusters.bindings(cluster), &mut budget)
            .map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicates_can_be_shared_between_threads() {
        fn is_shareable<T: Send + Sync>() {}
        is_shareable::<CelPredicates<'_>>();
        is_shareable::<Compiled<'_, '_>>();
    }

    #[test]
    fn a_removed_cluster_has_neither_object_nor_scores() {
        let predicates = CelPredicates::default();
        let cluster = ManagedCluster::named("c1");
        let object =
            json!({"metadata": {"name": "c1"}, "status": {"version": {"kubernetes": "v1.30.0"}}});
        let holds = || {
            let expression = "managedCluster.status.version.kubernetes == 'v1.30.0'";
            predicates.compile(expression).unwrap().holds(&cluster)
        };
        predicates.set_cluster(&cluster, Cow::Borrowed(&object));
        assert_eq!(holds(), Ok(true));
        predicates.remove_cluster(&cluster.name);
        assert_ne!(holds(), Ok(true));
    }
}
