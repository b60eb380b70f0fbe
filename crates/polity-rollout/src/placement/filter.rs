//! Which clusters match the predicates, and which taints are tolerated. See docs/spec/governance.md#6-1.

use jiff::{SignedDuration, Timestamp};
use polity_core::ManagedCluster;
use polity_core::cluster::{Taint, TaintEffect};
use polity_core::placement::{Misconfigured, Predicate, ToleratedValue, Toleration};

use super::expression::{ClusterExpression, ClusterExpressions};
use super::fleet::Fleet;
use super::label_index::ClusterNumbers;

/// The predicates of a placement, with their expressions compiled, over one fleet.
pub(super) struct Predicates<'a>(Vec<Compiled<'a>>);

struct Compiled<'a> {
    predicate: &'a Predicate,
    /// The clusters that the selector means; none when it means all of them.
    selected: Option<ClusterNumbers>,
    expressions: Vec<Box<dyn ClusterExpression + 'a>>,
}

impl<'a> Predicates<'a> {
    pub(super) fn compile(
        predicates: &'a [Predicate],
        language: &'a dyn ClusterExpressions,
        fleet: &Fleet,
    ) -> Result<Self, Misconfigured> {
        let compile = |predicate: &'a Predicate| {
            let expressions = predicate.expressions.iter();
            Ok(Compiled {
                predicate,
                selected: fleet.matching(&predicate.selector),
                expressions: expressions
                    .map(|expression| language.compile(expression))
                    .collect::<Result<_, _>>()?,
            })
        };
        predicates
            .iter()
            .map(compile)
            .collect::<Result<_, String>>()
            .map(Self)
            .map_err(Misconfigured::predicate)
    }

    /// Whether one of the predicates holds; without any, everyone qualifies.
    pub(super) fn hold(&self, number: u32, fleet: &Fleet) -> bool {
        let mut predicates = self.0.iter();
        self.0.is_empty() || predicates.any(|compiled| compiled.holds(number, fleet))
    }

    /// Why each of the predicates does not hold.
    pub(super) fn misses(&self, cluster: &ManagedCluster) -> Vec<Miss> {
        self.0
            .iter()
            .filter_map(|compiled| compiled.miss(cluster))
            .collect()
    }
}

/// The first part of a predicate that does not hold of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Miss {
    /// The label selector.
    Labels(String),
    /// The claim selector.
    Claims(String),
    /// An expression, with what went wrong in it, if something did.
    Expression {
        expression: String,
        error: Option<String>,
    },
}

impl Compiled<'_> {
    fn holds(&self, number: u32, fleet: &Fleet) -> bool {
        let mut expressions = self.expressions.iter();
        let is_selected = self
            .selected
            .as_ref()
            .is_none_or(|all| all.contains(number));
        is_selected
            && expressions.all(|expression| expression.holds(fleet.cluster(number)) == Ok(true))
    }

    fn miss(&self, cluster: &ManagedCluster) -> Option<Miss> {
        let selector = &self.predicate.selector;
        if !selector.labels.matches(&cluster.labels) {
            return Some(Miss::Labels(selector.labels.to_string()));
        }
        if !selector.claims.matches(&cluster.claims) {
            return Some(Miss::Claims(selector.claims.to_string()));
        }
        let mut both = self.predicate.expressions.iter().zip(&self.expressions);
        both.find_map(|(text, expression)| {
            let error = match expression.holds(cluster) {
                Ok(true) => return None,
                Ok(false) => None,
                Err(error) => Some(error),
            };
            Some(Miss::Expression {
                expression: text.clone(),
                error,
            })
        })
    }
}

/// What the taints of a cluster mean for a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tolerance<'a> {
    /// Every taint is tolerated, all of them until that time.
    Tolerated { until: Option<Timestamp> },
    /// This taint is not.
    Refused(&'a Taint),
}

/// Looks at every taint of a cluster. A cluster that the placement has already is not new; few need to know.
pub(super) fn tolerate<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    is_new: impl Fn() -> bool,
    now: Timestamp,
) -> Tolerance<'a> {
    let mut until: Option<Timestamp> = None;
    for taint in taints {
        let needs_toleration = match taint.effect {
            TaintEffect::PreferNoSelect => false,
            TaintEffect::NoSelectIfNew => is_new(),
            TaintEffect::NoSelect => true,
        };
        if !needs_toleration {
            continue;
        }
        match tolerated_until(taint, tolerations, now) {
            None => return Tolerance::Refused(taint),
            Some(end) if end == Timestamp::MAX => {}
            Some(end) => until = Some(until.map_or(end, |until| until.min(end))),
        }
    }
    Tolerance::Tolerated { until }
}

/// Until when some toleration holds for a taint: `MAX` is for ever, `None` not even now.
fn tolerated_until(taint: &Taint, tolerations: &[Toleration], now: Timestamp) -> Option<Timestamp> {
    tolerations
        .iter()
        .filter(|toleration| is_meant(toleration, taint))
        .filter_map(|toleration| end(toleration, taint))
        .filter(|end| now < *end)
        .max()
}

fn is_meant(toleration: &Toleration, taint: &Taint) -> bool {
    toleration
        .effect
        .is_none_or(|effect| effect == taint.effect)
        && toleration.key.as_ref().is_none_or(|key| *key == taint.key)
        && match &toleration.value {
            ToleratedValue::Any => true,
            ToleratedValue::Exactly(value) => *value == taint.value,
        }
}

/// When a toleration runs out; a taint that does not say when it was set was set long ago.
fn end(toleration: &Toleration, taint: &Taint) -> Option<Timestamp> {
    let Some(seconds) = toleration.seconds else {
        return Some(Timestamp::MAX);
    };
    let length = SignedDuration::from_secs(seconds);
    taint.time_added?.saturating_add(length).ok()
}
