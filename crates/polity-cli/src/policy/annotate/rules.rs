//! What the rules in metadata must be like: as a webhook configuration would take them.

use anyhow::{Context as _, bail};
use polity_eval::Rule;

/// What a webhook can be asked about.
const OPERATIONS: [&str; 5] = ["CREATE", "UPDATE", "DELETE", "CONNECT", "*"];

/// Checks all rules, and says what is wrong with the first that is not right.
pub(super) fn check(rules: &[Rule]) -> anyhow::Result<()> {
    for (n, rule) in rules.iter().enumerate() {
        check_rule(rule).with_context(|| format!("rules[{n}]"))?;
    }
    Ok(())
}

fn check_rule(rule: &Rule) -> anyhow::Result<()> {
    for (name, list) in [
        ("apiGroups", &rule.api_groups),
        ("apiVersions", &rule.api_versions),
        ("operations", &rule.operations),
    ] {
        if list.is_empty() {
            bail!("{name} must not be empty");
        }
        if list.len() > 1 && list.iter().any(|item| item == "*") {
            bail!("{name}: * stands alone");
        }
    }
    if rule.api_versions.iter().any(String::is_empty) {
        bail!("apiVersions: a version must not be empty");
    }
    let is_unknown = |operation: &&String| !OPERATIONS.contains(&operation.as_str());
    if let Some(operation) = rule.operations.iter().find(is_unknown) {
        bail!(
            "operations: {operation:?} is none of {}",
            OPERATIONS.join(", ")
        );
    }
    check_resources(&rule.resources).context("resources")
}

fn check_resources(resources: &[String]) -> anyhow::Result<()> {
    if resources.is_empty() {
        bail!("must not be empty");
    }
    let has = |resource: &str| resources.iter().any(|other| other == resource);
    if has("*/*") && resources.len() > 1 {
        bail!("*/* stands alone");
    }
    for resource in resources {
        match resource.split_once('/') {
            None if resource.is_empty() => bail!("a resource must not be empty"),
            None if resource != "*" && has("*") => bail!("{resource} is in * already"),
            Some((of, sub)) if of.is_empty() || sub.is_empty() => {
                bail!("{resource:?} is no resource with a subresource")
            }
            Some((of, sub)) if sub != "*" && has(&format!("{of}/*")) => {
                bail!("{resource} is in {of}/* already")
            }
            Some((of, sub)) if of != "*" && has(&format!("*/{sub}")) => {
                bail!("{resource} is in */{sub} already")
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &[&str], versions: &[&str], resources: &[&str], operations: &[&str]) -> Rule {
        let list = |items: &[&str]| items.iter().map(|&item| item.to_owned()).collect();
        Rule {
            api_groups: list(groups),
            api_versions: list(versions),
            resources: list(resources),
            operations: list(operations),
        }
    }

    #[test]
    fn rules_of_section_10() {
        for resources in [
            &["pods"][..],
            &["*"],
            &["*/*"],
            &["pods", "pods/status"],
            &["pods/*", "pods"],
            &["*", "*/scale"],
        ] {
            let good = rule(&[""], &["v1"], resources, &["CREATE"]);
            assert!(check(&[good]).is_ok(), "{resources:?}");
        }
        for (groups, versions, resources, operations, expected) in [
            (
                &[][..],
                &["v1"][..],
                &["pods"][..],
                &["CREATE"][..],
                "apiGroups must not be empty",
            ),
            (
                &["", "*"],
                &["v1"],
                &["pods"],
                &["CREATE"],
                "apiGroups: * stands alone",
            ),
            (
                &[""],
                &["v1", "*"],
                &["pods"],
                &["CREATE"],
                "apiVersions: * stands alone",
            ),
            (
                &[""],
                &[""],
                &["pods"],
                &["CREATE"],
                "apiVersions: a version must not be empty",
            ),
            (
                &[""],
                &["v1"],
                &["pods"],
                &["*", "CREATE"],
                "operations: * stands alone",
            ),
            (
                &[""],
                &["v1"],
                &["pods"],
                &["create"],
                "operations: \"create\" is none of",
            ),
            (
                &[""],
                &["v1"],
                &[],
                &["CREATE"],
                "resources: must not be empty",
            ),
            (
                &[""],
                &["v1"],
                &[""],
                &["CREATE"],
                "resources: a resource must not be empty",
            ),
            (
                &[""],
                &["v1"],
                &["*/*", "pods"],
                &["CREATE"],
                "resources: */* stands alone",
            ),
            (
                &[""],
                &["v1"],
                &["*", "pods"],
                &["CREATE"],
                "resources: pods is in * already",
            ),
            (
                &[""],
                &["v1"],
                &["pods/*", "pods/log"],
                &["CREATE"],
                "resources: pods/log is in pods/* already",
            ),
            (
                &[""],
                &["v1"],
                &["*/log", "pods/log"],
                &["CREATE"],
                "resources: pods/log is in */log already",
            ),
            (
                &[""],
                &["v1"],
                &["pods/"],
                &["CREATE"],
                "resources: \"pods/\" is no resource",
            ),
        ] {
            let error = check(&[rule(groups, versions, resources, operations)]).unwrap_err();
            let text = format!("{error:#}");
            assert!(text.starts_with(&format!("rules[0]: {expected}")), "{text}");
        }
    }
}
