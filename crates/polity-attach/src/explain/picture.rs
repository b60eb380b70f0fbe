//! An explanation as a picture: the object, the levels on its paths, and the policies on them.
//!
//! Only the content of the explanation is drawn, so a picture never reveals more than its reader may see.

use std::collections::{BTreeMap, BTreeSet};

use super::{Explanation, PolicyEntry};
use crate::object::ObjectRef;
use crate::topology::{DOT_HEAD, escaped, quoted};

/// What is drawn; the number of a thing is its place in the order of its name.
struct Picture<'a> {
    levels: Vec<String>,
    /// From below to above.
    inherits: BTreeSet<(usize, usize)>,
    policies: Vec<(String, &'a PolicyEntry)>,
    /// From a policy to a level.
    targets: BTreeSet<(usize, usize)>,
}

impl Explanation {
    /// Graphviz, bottom to top. A policy that does not act is dashed.
    pub fn to_dot(&self) -> String {
        let picture = Picture::of(self);
        let object = self.object.short();
        let mut out = DOT_HEAD.to_owned();
        for (index, level) in picture.levels.iter().enumerate() {
            let style = if *level == object { " penwidth=2" } else { "" };
            out.push_str(&format!(
                "  l{index} [label=\"{}\"{style}]\n",
                quoted(level)
            ));
        }
        for (index, (name, policy)) in picture.policies.iter().enumerate() {
            let style = if policy.acts == "yes" {
                "style=\"rounded,filled\" fillcolor=\"#dbeafe\""
            } else {
                "style=\"rounded,dashed\""
            };
            out.push_str(&format!(
                "  p{index} [label=\"{}\\n{}\" {style}]\n",
                quoted(name),
                quoted(&policy.effect.text)
            ));
        }
        for (below, above) in &picture.inherits {
            out.push_str(&format!("  l{below} -> l{above} [label=\"inherits\"]\n"));
        }
        for (policy, level) in &picture.targets {
            out.push_str(&format!(
                "  p{policy} -> l{level} [label=\"targets\" style=dashed color=\"#2563eb\"]\n"
            ));
        }
        out.push_str("}\n");
        out
    }

    /// Mermaid, bottom to top. A policy that does not act is dashed.
    pub fn to_mermaid(&self) -> String {
        let picture = Picture::of(self);
        let object = self.object.short();
        let mut out = String::from("flowchart BT\n");
        for (index, level) in picture.levels.iter().enumerate() {
            out.push_str(&format!("  l{index}[\"{}\"]\n", escaped(level)));
            if *level == object {
                out.push_str(&format!("  style l{index} stroke-width:3px\n"));
            }
        }
        for (index, (name, policy)) in picture.policies.iter().enumerate() {
            out.push_str(&format!(
                "  p{index}([\"{}<br/>{}\"])\n",
                escaped(name),
                escaped(&policy.effect.text)
            ));
            let style = if policy.acts == "yes" {
                "fill:#dbeafe,stroke:#2563eb"
            } else {
                "stroke-dasharray:4"
            };
            out.push_str(&format!("  style p{index} {style}\n"));
        }
        for (below, above) in &picture.inherits {
            out.push_str(&format!("  l{below} -->|\"inherits\"| l{above}\n"));
        }
        for (policy, level) in &picture.targets {
            out.push_str(&format!("  p{policy} -.->|\"targets\"| l{level}\n"));
        }
        out
    }
}

impl<'a> Picture<'a> {
    fn of(explanation: &'a Explanation) -> Self {
        let paths: Vec<Vec<&str>> = explanation
            .resultants
            .iter()
            .flat_map(|resultant| &resultant.contexts)
            .map(|path| path.split(" > ").collect())
            .collect();
        let targets: Vec<BTreeSet<String>> = explanation.policies.iter().map(targets).collect();
        let on_paths = paths.iter().flatten().map(|level| (*level).to_owned());
        let levels: BTreeSet<String> = on_paths
            .chain(targets.iter().flatten().cloned())
            .chain([explanation.object.short()])
            .collect();
        let levels: Vec<String> = levels.into_iter().collect();
        let numbers: BTreeMap<&str, usize> = levels
            .iter()
            .enumerate()
            .map(|(number, level)| (level.as_str(), number))
            .collect();
        let pairs = paths.iter().flat_map(|path| path.windows(2));
        let inherits = pairs
            .map(|pair| (numbers[pair[1]], numbers[pair[0]]))
            .collect();
        let policies = explanation
            .policies
            .iter()
            .map(|policy| (short(&policy.reference.object), policy));
        let attached = targets.iter().enumerate();
        let attached = attached.flat_map(|(policy, levels)| {
            let numbers = &numbers;
            let levels = levels.iter();
            levels.map(move |level| (policy, numbers[level.as_str()]))
        });
        Self {
            inherits,
            policies: policies.collect(),
            targets: attached.collect(),
            levels,
        }
    }
}

/// The levels that a policy is attached to: those its settings name, or its targets where it sets nothing here.
fn targets(policy: &PolicyEntry) -> BTreeSet<String> {
    let settings = policy.settings.iter();
    let levels: BTreeSet<String> = settings.map(|setting| setting.level.clone()).collect();
    if levels.is_empty() {
        let targets = policy.provenance.iter();
        return targets.map(|target| short(&target.reference)).collect();
    }
    levels
}

/// `Kind/ns/name`, as the steps of paths are written.
fn short(object: &ObjectRef) -> String {
    format!("{}/{}", object.kind, object.path())
}
