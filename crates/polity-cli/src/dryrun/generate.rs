//! `polity dryrun generate`: the kinds of a cluster, for `--mappings-file`.

use std::collections::BTreeSet;
use std::io::Write as _;

use anyhow::Context as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use polity_core::{GroupVersion, yaml_out};
use polity_runtime::args::ClientArgs;
use polity_runtime::client::describe;
use polity_source::cluster::NAMESPACE_SCOPE;
use serde_json::{Value, json};

use crate::connect;

/// Print the kinds of a cluster, as --mappings-file reads them
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity dryrun generate > mappings.yaml\n  DRYRUN_MAPPINGS_FILE=mappings.yaml polity dryrun -p policy.yaml widgets.yaml"
)]
pub(super) struct GenerateArgs {
    #[command(flatten)]
    client: ClientArgs,
}

impl GenerateArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Self { client } = self;
        let client = connect(&client).await?;
        let text = mappings_of(&client).await?;
        std::io::stdout().lock().write_all(text.as_bytes())?;
        Ok(())
    }
}

/// The kinds that a cluster serves, as YAML.
pub(super) async fn mappings_of(client: &kube::Client) -> anyhow::Result<String> {
    let mut resources = Vec::new();
    let core = client.list_core_api_versions().await;
    for version in core.context("asking for the core versions")?.versions {
        let list = client.list_core_api_resources(&version).await;
        resources.push(list.with_context(|| format!("asking for the kinds of {version}"))?);
    }
    let groups = client.list_api_groups().await;
    for group in groups.context("asking for the groups")?.groups {
        for version in group.versions {
            let group_version = version.group_version;
            match client.list_api_group_resources(&group_version).await {
                Ok(list) => resources.push(list),
                // An aggregated API that is down must not hide all others.
                Err(error) => {
                    let reason = describe(&error).message;
                    eprintln!("warning: {group_version} is left out: {reason}");
                }
            }
        }
    }
    Ok(yaml_out::to_yaml(&mappings(&resources)))
}

/// The entries, sorted by group, version and plural; subresources are no kinds.
fn mappings(lists: &[APIResourceList]) -> Value {
    let mut rows = BTreeSet::new();
    for list in lists {
        let Ok(GroupVersion { group, version }) = list.group_version.parse() else {
            continue;
        };
        for resource in &list.resources {
            if resource.name.contains('/') {
                continue;
            }
            let singular = match resource.singular_name.as_str() {
                "" => resource.kind.to_lowercase(),
                singular => singular.to_owned(),
            };
            let order = format!("{group}/{version} {}", resource.name);
            let scope = match resource.namespaced {
                true => NAMESPACE_SCOPE,
                false => "root",
            };
            rows.insert((
                order,
                group.clone(),
                version.clone(),
                resource.kind.clone(),
                singular,
                resource.name.clone(),
                scope,
            ));
        }
    }
    rows.into_iter()
        .map(|(_, group, version, kind, singular, plural, scope)| {
            json!({
                "Group": group, "Version": version, "Kind": kind,
                "Singular": singular, "Plural": plural, "Scope": scope,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;

    use super::*;

    #[test]
    fn mappings_are_sorted_and_without_subresources() {
        let resource = |name: &str, kind: &str, namespaced: bool| APIResource {
            name: name.to_owned(),
            kind: kind.to_owned(),
            namespaced,
            ..APIResource::default()
        };
        let list = |group_version: &str, resources: Vec<APIResource>| APIResourceList {
            group_version: group_version.to_owned(),
            resources,
        };
        let lists = [
            list(
                "apps/v1",
                vec![
                    resource("deployments", "Deployment", true),
                    resource("deployments/scale", "Scale", true),
                ],
            ),
            list(
                "v1",
                vec![
                    resource("pods", "Pod", true),
                    resource("nodes", "Node", false),
                ],
            ),
        ];
        insta::assert_snapshot!(yaml_out::to_yaml(&mappings(&lists)), @r#"
        - Group: ""
          Kind: Node
          Plural: nodes
          Scope: root
          Singular: node
          Version: v1
        - Group: ""
          Kind: Pod
          Plural: pods
          Scope: namespace
          Singular: pod
          Version: v1
        - Group: apps
          Kind: Deployment
          Plural: deployments
          Scope: namespace
          Singular: deployment
          Version: v1
        "#);
    }
}
