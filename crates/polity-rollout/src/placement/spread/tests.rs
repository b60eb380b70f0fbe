//! The choice against its definition: every candidate looked at, every time.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn term(key: &str, max_skew: u32, when_unsatisfiable: Unsatisfiable) -> SpreadTerm {
    SpreadTerm {
        key: key.to_owned(),
        source: TopologySource::Label,
        max_skew,
        when_unsatisfiable,
    }
}

fn cluster(number: usize, labels: &[(&str, Option<u8>)]) -> ManagedCluster {
    let mut cluster = ManagedCluster::named(format!("c{number:03}"));
    let given = labels
        .iter()
        .filter_map(|(key, value)| Some(((*key).to_owned(), (*value)?.to_string())));
    cluster.labels = given.collect();
    cluster
}

/// How often each value of a term was chosen among those with the same values in the terms before.
fn counts(
    candidates: &[Candidate],
    terms: &[SpreadTerm],
    chosen: &[Chosen],
    of: usize,
) -> Vec<Counts> {
    let path = |position: usize, level: usize| -> Vec<Option<&str>> {
        let terms = terms[..level].iter();
        terms
            .map(|term| value(candidates[position].cluster, term))
            .collect()
    };
    let at = |level: usize| {
        let mut by_value: BTreeMap<_, u32> = (0..candidates.len())
            .filter(|position| path(*position, level) == path(of, level))
            .map(|position| (path(position, level + 1), 0))
            .collect();
        for chosen in chosen {
            if let Some(count) = by_value.get_mut(&path(chosen.position, level + 1)) {
                *count += 1;
            }
        }
        Counts {
            own: by_value[&path(of, level + 1)],
            least: by_value.values().copied().min().unwrap_or(0),
            most: by_value.values().copied().max().unwrap_or(0),
        }
    };
    (0..terms.len()).map(at).collect()
}

fn by_definition(
    candidates: &[Candidate],
    terms: &[SpreadTerm],
    weight: i32,
    limit: usize,
) -> Vec<Chosen> {
    let mut chosen: Vec<Chosen> = Vec::new();
    while chosen.len() < limit {
        let open = (0..candidates.len())
            .filter(|position| chosen.iter().all(|chosen| chosen.position != *position));
        let best = open
            .filter_map(|position| {
                let counts = counts(candidates, terms, &chosen, position);
                let mut both = terms.iter().zip(&counts);
                let fits = both.all(|(term, counts)| {
                    term.when_unsatisfiable == Unsatisfiable::ScheduleAnyway
                        || counts.own + 1 - counts.least <= term.max_skew
                });
                let spread = spread_score(counts);
                let total = candidates[position].total + i64::from(weight) * i64::from(spread);
                fits.then_some((Reverse(total), position, spread))
            })
            .min();
        let Some((_, position, spread)) = best else {
            break;
        };
        chosen.push(Chosen {
            position,
            spread: Some(spread),
        });
    }
    chosen
}

proptest! {
    #[test]
    fn the_choice_is_that_of_the_definition(
        fleet in vec((proptest::option::of(0u8..9), proptest::option::of(0u8..4), -3i64..4), 0..24),
        skews in vec((1u32..3, any::<bool>()), 1..4),
        weight in -3i32..4,
        limit in 0usize..30,
    ) {
        let clusters: Vec<_> = fleet
            .iter()
            .enumerate()
            .map(|(number, (a, b, _))| cluster(number, &[("a", *a), ("b", *b), ("c", Some(number as u8))]))
            .collect();
        let candidates: Vec<_> = clusters
            .iter()
            .zip(&fleet)
            .map(|(cluster, (_, _, total))| Candidate { cluster, total: total * 50 })
            .collect();
        let terms: Vec<_> = ["a", "b", "c"]
            .iter()
            .zip(&skews)
            .map(|(key, (skew, must))| {
                let when = if *must { Unsatisfiable::DoNotSchedule } else { Unsatisfiable::ScheduleAnyway };
                term(key, *skew, when)
            })
            .collect();
        prop_assert_eq!(
            choose(&candidates, &terms, weight, limit),
            by_definition(&candidates, &terms, weight, limit)
        );
        let mut turned = terms;
        turned.reverse();
        prop_assert_eq!(
            choose(&candidates, &turned, weight, limit),
            by_definition(&candidates, &turned, weight, limit)
        );
    }
}
