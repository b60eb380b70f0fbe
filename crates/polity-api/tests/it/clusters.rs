//! The kinds of `cluster.open-cluster-management.io`: what they are called, and that nothing in a manifest is lost.

use polity_api::cluster::{v1, v1alpha1, v1beta1, v1beta2};
use polity_api::crds;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[test]
fn definitions_have_the_names_that_clients_use() {
    let mut found: Vec<String> = crds()
        .into_iter()
        .filter(|crd| crd.spec.group == "cluster.open-cluster-management.io")
        .map(|crd| {
            let names = crd.spec.names;
            let version = &crd.spec.versions[0];
            let columns = version.additional_printer_columns.iter().flatten();
            let columns: Vec<_> = columns.map(|column| column.name.as_str()).collect();
            let status = version.subresources.is_some();
            format!(
                "{} {} {} {:?} status={status} {columns:?}",
                names.plural,
                version.name,
                crd.spec.scope,
                names.short_names.unwrap_or_default()
            )
        })
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            "addonplacementscores v1alpha1 Namespaced [] status=true []",
            "clusterclaims v1alpha1 Cluster [] status=false []",
            r#"managedclusters v1 Cluster ["mcl", "mcls"] status=true ["Hub Accepted", "Managed Cluster URLs", "Joined", "Available", "Age"]"#,
            r#"managedclustersetbindings v1beta2 Namespaced ["mclsetbinding", "mclsetbindings"] status=true []"#,
            r#"managedclustersets v1beta2 Cluster ["mclset", "mclsets"] status=true ["Empty", "Age"]"#,
            "placementdecisions v1beta1 Namespaced [] status=true []",
            r#"placements v1beta1 Namespaced [] status=true ["Succeeded", "Reason", "SelectedClusters"]"#,
        ]
    );
}

/// What is written comes back, whatever is added.
fn check<T: DeserializeOwned + Serialize>(manifest: &Value) {
    let typed: T = serde_json::from_str(&manifest.to_string())
        .unwrap_or_else(|error| panic!("{error}: {manifest}"));
    let encoded = serde_json::to_value(typed).unwrap();
    assert_kept(manifest, &encoded, "");
}

fn assert_kept(part: &Value, whole: &Value, path: &str) {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            for (key, value) in part {
                let found = whole.get(key).unwrap_or(&Value::Null);
                assert_kept(value, found, &format!("{path}.{key}"));
            }
        }
        (Value::Array(part), Value::Array(whole)) => {
            assert_eq!(part.len(), whole.len(), "{path}");
            for (index, value) in part.iter().enumerate() {
                assert_kept(value, &whole[index], &format!("{path}[{index}]"));
            }
        }
        _ => assert_eq!(part, whole, "{path}"),
    }
}

fn manifest(version: &str, kind: &str, rest: Value) -> Value {
    let mut object = json!({
        "apiVersion": format!("cluster.open-cluster-management.io/{version}"),
        "kind": kind,
        "metadata": {"name": "x"},
    });
    for (key, value) in rest.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}

#[test]
fn manifests_lose_nothing() {
    let condition = json!([{"type": "T", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-11-15T10:00:00Z"}]);
    check::<v1::ManagedCluster>(&manifest(
        "v1",
        "ManagedCluster",
        json!({
            "spec": {
                "hubAcceptsClient": true, "leaseDurationSeconds": 30,
                "managedClusterClientConfigs": [{"url": "https://c1:6443", "caBundle": "YQ=="}],
                "taints": [{"key": "k", "value": "v", "effect": "NoSelect", "timeAdded": "2026-11-15T10:00:00Z"}],
            },
            "status": {
                "conditions": condition, "capacity": {"cpu": "4"}, "allocatable": {"cpu": "3500m"},
                "version": {"kubernetes": "v1.37.1"}, "clusterClaims": [{"name": "n", "value": "v"}],
                "managedNamespaces": [{"name": "n", "clusterSet": "s", "conditions": condition}],
            },
        }),
    ));
    check::<v1beta2::ManagedClusterSet>(&manifest(
        "v1beta2",
        "ManagedClusterSet",
        json!({"spec": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"a": "b"}}}}}),
    ));
    check::<v1beta2::ManagedClusterSetBinding>(&manifest(
        "v1beta2",
        "ManagedClusterSetBinding",
        json!({"spec": {"clusterSet": "x"}, "status": {"conditions": condition}}),
    ));
    check::<v1beta1::Placement>(&manifest(
        "v1beta1",
        "Placement",
        json!({
            "spec": {
                "clusterSets": ["a"], "numberOfClusters": 3,
                "predicates": [{"requiredClusterSelector": {
                    "labelSelector": {"matchLabels": {"a": "b"}},
                    "claimSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]},
                    "celSelector": {"celExpressions": ["true"]},
                }}],
                "prioritizerPolicy": {"mode": "Exact", "configurations": [
                    {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "r", "scoreName": "s"}}, "weight": -2},
                    {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": 2}]},
                "spreadPolicy": {"spreadConstraints": [{"topologyKey": "zone", "topologyKeyType": "Claim", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}]},
                "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSelectIfNew", "tolerationSeconds": 60}],
                "decisionStrategy": {"groupStrategy": {
                    "decisionGroups": [{"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"a": "b"}}}}],
                    "clustersPerDecisionGroup": 50}},
                "sortBy": "Score", "scoreRateLimit": "30s",
            },
            "status": {
                "numberOfSelectedClusters": 1, "conditions": condition, "lastScoreUpdateTime": "2026-11-15T10:00:00Z",
                "decisionGroups": [{"decisionGroupIndex": 0, "decisionGroupName": "canary", "decisions": ["x-decision-1"], "clusterCount": 1}],
            },
        }),
    ));
    // The strategy that the rules of old releases stored.
    check::<v1beta1::Placement>(&manifest(
        "v1beta1",
        "Placement",
        json!({"spec": {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "25%"}}}}),
    ));
    check::<v1beta1::PlacementDecision>(&manifest(
        "v1beta1",
        "PlacementDecision",
        json!({"status": {"decisions": [{"clusterName": "c1", "reason": "", "score": 7}]}}),
    ));
    check::<v1alpha1::AddOnPlacementScore>(&manifest(
        "v1alpha1",
        "AddOnPlacementScore",
        json!({"status": {"scores": [{"name": "s", "value": -3}], "validUntil": "2026-11-15T10:00:00Z"}}),
    ));
    check::<v1alpha1::ClusterClaim>(&manifest(
        "v1alpha1",
        "ClusterClaim",
        json!({"spec": {"value": "v"}}),
    ));
    check::<v1alpha1::RolloutStrategy>(&json!({
        "type": "Progressive",
        "all": {"progressDeadline": "5m"},
        "progressive": {"minSuccessTime": "1m", "maxFailures": "10%", "maxConcurrency": 2,
            "mandatoryDecisionGroups": [{"groupName": "canary"}, {"groupIndex": 1}]},
        "progressivePerGroup": {"maxFailures": 3, "mandatoryDecisionGroups": [{"groupIndex": 0}]},
    }));
}
