//! Cycles in a graph of names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Who waits for whom.
pub(super) type Graph = BTreeMap<String, BTreeSet<String>>;

/// One shortest cycle through each name that is in one; every set of names is listed once. `[a, b, a]`.
pub(super) fn cycles(graph: &Graph) -> Vec<Vec<String>> {
    let mut listed: BTreeSet<BTreeSet<&str>> = BTreeSet::new();
    let mut found = Vec::new();
    for start in graph.keys() {
        let Some(path) = way_back(graph, start) else {
            continue;
        };
        if listed.insert(path.iter().copied().collect()) {
            let mut closed: Vec<String> = path.iter().map(|&name| name.to_owned()).collect();
            closed.push(start.clone());
            found.push(closed);
        }
    }
    found
}

/// The shortest way from a name back to itself, without its end.
fn way_back<'g>(graph: &'g Graph, start: &'g str) -> Option<Vec<&'g str>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(name) = queue.pop_front() {
        for next in graph.get(name).into_iter().flatten() {
            if next == start {
                let mut path = vec![name];
                while let Some(before) = path
                    .last()
                    .filter(|last| **last != start)
                    .and_then(|last| came_from.get(last))
                {
                    path.push(before);
                }
                path.reverse();
                return Some(path);
            }
            if !came_from.contains_key(next.as_str()) {
                came_from.insert(next, name);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cycle_once() {
        let graph = |edges: &[(&str, &str)]| {
            let mut graph = Graph::new();
            for (from, to) in edges {
                graph
                    .entry((*from).to_owned())
                    .or_default()
                    .insert((*to).to_owned());
            }
            graph
        };
        let check = |edges: &[(&str, &str)], expected: &[&str]| {
            let found: Vec<String> = cycles(&graph(edges))
                .iter()
                .map(|cycle| cycle.join(" → "))
                .collect();
            assert_eq!(found, expected);
        };
        check(&[("a", "b"), ("b", "c")], &[]);
        check(&[("a", "a")], &["a → a"]);
        check(&[("a", "b"), ("b", "a"), ("x", "a")], &["a → b → a"]);
        check(
            &[("a", "b"), ("b", "c"), ("c", "a"), ("d", "d")],
            &["a → b → c → a", "d → d"],
        );
    }
}
