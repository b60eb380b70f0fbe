//! Everything once, rights that are few, and a Service that leads somewhere.

use std::collections::BTreeSet;

use super::*;

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
