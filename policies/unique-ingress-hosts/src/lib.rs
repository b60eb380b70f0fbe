//! No two Ingresses of a cluster serve the same host. Reads the Ingresses of the cluster to know.

use std::collections::BTreeSet;

use policy_kit::{
    Policy, Request, Verdict,
    sdk::wapc_guest::{CallResult, host_call},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// Nothing to set.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {}

impl Policy for Settings {
    fn judge(&self, request: &Request) -> Verdict {
        let wanted = hosts(&request.object);
        if wanted.is_empty() {
            return Verdict::Accept;
        }
        match ingresses() {
            Ok(list) => clash(request, &wanted, &list),
            Err(error) => {
                Verdict::Reject(format!("cannot list the Ingresses of the cluster: {error}"))
            }
        }
    }
}

/// Asks the host; only hosts and names are needed.
fn ingresses() -> Result<Value, String> {
    let query = json!({
        "api_version": "networking.k8s.io/v1",
        "kind": "Ingress",
        "field_masks": ["metadata.name", "metadata.namespace", "spec.rules.host"],
    });
    let answer: CallResult = host_call(
        "kubewarden",
        "kubernetes",
        "list_resources_all",
        query.to_string().as_bytes(),
    );
    let bytes = answer.map_err(|error| error.to_string())?;
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

fn hosts(ingress: &Value) -> BTreeSet<&str> {
    let rules = ingress["spec"]["rules"].as_array().into_iter().flatten();
    rules
        .filter_map(|rule| rule["host"].as_str())
        .filter(|host| !host.is_empty())
        .collect()
}

/// Whether another Ingress has one of the hosts. The one that is judged may be among them already.
fn clash(request: &Request, wanted: &BTreeSet<&str>, list: &Value) -> Verdict {
    let name = request.object["metadata"]["name"]
        .as_str()
        .unwrap_or(&request.name);
    let others = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|other| {
            other["metadata"]["name"] != name
                || other["metadata"]["namespace"] != request.namespace.as_str()
        });
    let problems = others
        .flat_map(|other| {
            let owner = format!(
                "{}/{}",
                other["metadata"]["namespace"].as_str().unwrap_or(""),
                other["metadata"]["name"].as_str().unwrap_or("")
            );
            let taken: Vec<String> = hosts(other)
                .intersection(wanted)
                .map(|host| (*host).to_owned())
                .collect();
            taken
                .into_iter()
                .map(move |host| format!("host {host} belongs to Ingress {owner}"))
        })
        .collect();
    Verdict::from_problems(problems)
}

policy_kit::policy!(Settings);

#[cfg(test)]
mod tests {
    use policy_kit::request;

    use super::*;

    fn ingress(namespace: &str, name: &str, host: &str) -> Value {
        json!({"metadata":{"namespace":namespace,"name":name},"spec":{"rules":[{"host":host}]}})
    }

    #[test]
    fn hosts_belong_to_one_ingress() {
        let list = json!({"items":[ingress("a", "shop", "shop.example"), ingress("b", "blog", "blog.example")]});
        let check = |namespace: &str, name: &str, host: &str| {
            let mut request = request("Ingress", ingress(namespace, name, host));
            namespace.clone_into(&mut request.namespace);
            let wanted = hosts(&request.object);
            clash(&request, &wanted, &list)
        };
        assert_eq!(check("a", "new", "new.example"), Verdict::Accept);
        assert_eq!(
            check("a", "shop", "shop.example"),
            Verdict::Accept,
            "itself"
        );
        assert_eq!(
            check("c", "shop", "shop.example"),
            Verdict::Reject("host shop.example belongs to Ingress a/shop".to_owned())
        );
    }
}
