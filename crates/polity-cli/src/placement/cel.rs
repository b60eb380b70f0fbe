//! Expressions in predicates, evaluated by `polity-cel` within its bounds.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use polity_cel::{Bindings, Budget, Environment, Expression, Output};
use polity_core::cluster::{AddOnScores, Taint};
use polity_core::{ClusterName, ManagedCluster};
use polity_merge::patch::merge_patch;
use polity_rollout::placement::{ClusterExpression, ClusterExpressions};
use serde_json::{Map, Value, json};

/// The whole objects of clusters with the scores that add-ons gave them, as expressions see them.
#[derive(Debug, Default)]
pub struct Expressions<'a> {
    by_cluster: RefCell<HashMap<ClusterName, Known<'a>>>,
}

/// What is known of a cluster besides what the scheduler knows.
#[derive(Debug, Default)]
struct Known<'a> {
    /// The cluster as it was written, with its object.
    written: Option<(ManagedCluster, Cow<'a, Value>)>,
    scores: Map<String, Value>,
    /// What expressions see, made when one first asks, and the cluster it was made of.
    seen: Option<(ManagedCluster, Rc<Bindings>)>,
}

impl<'a> Expressions<'a> {
    /// Takes a cluster as it stands in a manifest, instead of what was known of it.
    pub fn know(&self, cluster: &ManagedCluster, object: Cow<'a, Value>) {
        // A simulation reads all its objects again after every edit of one.
        if !self.knows(&cluster.name, &object) {
            self.change(&cluster.name, |known| {
                known.written = Some((cluster.clone(), object));
            });
        }
    }

    fn knows(&self, cluster: &ClusterName, object: &Value) -> bool {
        let by_cluster = self.by_cluster.borrow();
        let known = by_cluster.get(cluster);
        let written = known.and_then(|known| known.written.as_ref());
        written.is_some_and(|(_, written)| written.as_ref() == object)
    }

    /// Takes the scores of one resource, which expressions see as a list of `{name, value}` by the name of that.
    pub fn know_scores(&self, scores: &AddOnScores) {
        let item = |(name, value): (&String, &i32)| json!({"name": name, "value": value});
        let items = scores.scores.iter().map(item).collect();
        self.change(&scores.cluster, |known| {
            known.scores.insert(scores.resource_name.clone(), items);
        });
    }

    fn change(&self, cluster: &ClusterName, change: impl FnOnce(&mut Known<'a>)) {
        let mut by_cluster = self.by_cluster.borrow_mut();
        let known = by_cluster.entry(cluster.clone()).or_default();
        known.seen = None;
        change(known);
    }

    fn see(&self, cluster: &ManagedCluster) -> Rc<Bindings> {
        let mut by_cluster = self.by_cluster.borrow_mut();
        let known = by_cluster.entry(cluster.name.clone()).or_default();
        if let Some((of, seen)) = &known.seen
            && of == cluster
        {
            return Rc::clone(seen);
        }
        let object = known.current(cluster);
        let scores = Value::Object(known.scores.clone());
        let seen = Rc::new(Bindings::new().cluster(&object, &scores));
        known.seen = Some((cluster.clone(), Rc::clone(&seen)));
        seen
    }
}

impl Known<'_> {
    /// The object of a cluster as it is by now: a scenario changes labels, and its scripted clusters have no object.
    fn current(&self, cluster: &ManagedCluster) -> Cow<'_, Value> {
        let object = match &self.written {
            Some((written, object)) if written == cluster => return Cow::Borrowed(object.as_ref()),
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

impl ClusterExpressions for Expressions<'_> {
    fn compile(&self, expression: &str) -> Result<Box<dyn ClusterExpression + '_>, String> {
        // Whatever it evaluates to is looked at when it runs: anything but true does not hold.
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
    clusters: &'e Expressions<'a>,
}

impl ClusterExpression for Compiled<'_, '_> {
    fn holds(&self, cluster: &ManagedCluster) -> Result<bool, String> {
        let mut budget = Budget::of(Budget::PER_EXPRESSION);
        self.expression
            .evaluate_bool(&self.clusters.see(cluster), &mut budget)
            .map_err(|error| error.to_string())
    }
}
