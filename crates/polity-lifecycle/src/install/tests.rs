//! The manifests are unique, rights are few, and the default policy server has limits.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use polity_api::policies::v1::PolicyServer;

use super::*;
use crate::objects::{self, Setup};
use crate::validation::{self, References};

fn installation() -> Installation {
    Installation {
        namespace: "kubewarden".into(),
        image: "polity".into(),
        replicas: 1,
    }
}

#[test]
fn everything_has_a_kind_and_a_name_and_is_there_once() {
    let files = installation().files();
    let all: Vec<_> = files.iter().flat_map(|(_, manifests)| manifests).collect();
    let keys: BTreeSet<_> = all
        .iter()
        .map(|one| {
            let metadata = &one["metadata"];
            [
                &one["apiVersion"],
                &one["kind"],
                &metadata["namespace"],
                &metadata["name"],
            ]
            .map(ToString::to_string)
        })
        .collect();
    assert_eq!(keys.len(), all.len());
    assert!(keys.iter().flatten().all(|text| !text.is_empty()));
}

#[test]
fn nobody_has_all_rights_and_nobody_reads_revisions_or_secrets_everywhere() {
    for role in installation().roles() {
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        for rule in role["rules"].as_array().into_iter().flatten() {
            let text = rule.to_string();
            assert!(!text.contains('*'), "{name}: {text}");
            if role["kind"] == "ClusterRole" {
                assert!(!text.contains("policyrevisions"), "{name}: {text}");
                assert!(!text.contains("secrets"), "{name}: {text}");
            }
        }
    }
}

#[test]
fn the_cleanup_may_stop_the_controller_and_no_other() {
    let roles = installation().roles();
    let own = roles
        .iter()
        .filter(|role| role["metadata"]["name"] == CLEANUP_ACCOUNT);
    let rules: Vec<_> = own
        .flat_map(|role| role["rules"].as_array().into_iter().flatten())
        .collect();
    assert!(!rules.is_empty());
    for rule in rules {
        let text = rule.to_string();
        assert!(
            !text.contains("secrets") && !text.contains("create"),
            "{text}"
        );
        if text.contains("deployments") {
            assert_eq!(rule["resourceNames"], json!([CONTROLLER]), "{text}");
        }
    }
}

#[test]
fn the_service_leads_to_the_controller() {
    let manifests = installation().controller();
    let [service, deployment] = &manifests[..] else {
        panic!("a Service and a Deployment");
    };
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    for (key, value) in service["spec"]["selector"]
        .as_object()
        .into_iter()
        .flatten()
    {
        assert_eq!(labels[key], *value);
    }
    let ports = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"];
    let target = &service["spec"]["ports"][0]["targetPort"];
    assert!(
        ports
            .as_array()
            .into_iter()
            .flatten()
            .any(|port| port["containerPort"] == *target)
    );
}

#[test]
fn the_controller_binds_one_cluster_role_and_holds_what_it_gives_to_policy_servers() {
    let roles = installation().roles();
    let of_controller = |kind: &str| -> Vec<Value> {
        let role = roles
            .iter()
            .find(|role| role["kind"] == kind && role["metadata"]["name"] == CONTROLLER)
            .unwrap();
        role["rules"].as_array().unwrap().clone()
    };
    let bind: Vec<_> = of_controller("ClusterRole")
        .into_iter()
        .filter(|rule| rule["verbs"].as_array().unwrap().contains(&json!("bind")))
        .collect();
    assert_eq!(
        bind,
        [json!({
            "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"],
            "resourceNames": [CONTEXT_WATCHER],
        })]
    );
    let server: PolicyServer = serde_json::from_value(installation().defaults().remove(0)).unwrap();
    let setup = Setup {
        namespace: "kubewarden".to_owned(),
        ..Setup::default()
    };
    let held = of_controller("Role");
    for given in objects::role(&server, &setup).rules.unwrap() {
        for verb in &given.verbs {
            let is_held = held.iter().any(|rule| {
                let has = |field: &str, wanted: &str| {
                    rule[field].as_array().unwrap().contains(&json!(wanted))
                };
                rule.get("resourceNames").is_none()
                    && has("apiGroups", &given.api_groups.as_ref().unwrap()[0])
                    && has("resources", &given.resources.as_ref().unwrap()[0])
                    && has("verbs", verb)
            });
            assert!(is_held, "{verb} {:?}", given.resources);
        }
    }
}

#[test]
fn the_default_policy_server_limits_memory_and_what_tenants_may_ask_for() {
    let server: PolicyServer = serde_json::from_value(installation().defaults().remove(0)).unwrap();
    assert_eq!(
        server.spec.namespaced_policies_capabilities.as_deref(),
        Some(&["oci/*", "net/*", "crypto/*", "cache/*"].map(str::to_owned)[..])
    );
    let wrong = validation::server(&server, &References::default());
    assert!(wrong.is_empty(), "{wrong:?}");
    let memory = |amounts: Option<BTreeMap<String, Quantity>>| amounts.unwrap()["memory"].0.clone();
    assert_eq!(memory(server.spec.requests), "128Mi");
    assert_eq!(memory(server.spec.limits), "2Gi");
}
