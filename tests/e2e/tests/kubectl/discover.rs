//! Version, discovery and schemas.

use e2e::Kubectl;
use serde_json::Value;

e2e::scenarios![
    prints_version_and_address,
    lists_its_resources,
    explains_its_kinds
];

/// `version` and `cluster-info`.
fn prints_version_and_address(k: &Kubectl) {
    let version: Value = serde_json::from_str(&k.ok("version -o json")).unwrap();
    assert_eq!(version["serverVersion"]["major"], "1");
    assert_eq!(version["serverVersion"]["minor"], "37");
    assert!(k.ok("version").contains("Server Version: v1.37."));
    assert!(k.ok("cluster-info").contains("is running at"));
    let contexts = k.ok("config current-context");
    assert!(!contexts.is_empty());
}

/// Every served kind with its names, scope and verbs.
fn lists_its_resources(k: &Kubectl) {
    let lines = k.ok("api-resources --no-headers");
    let rows: Vec<Vec<&str>> = lines
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let expected: [&[&str]; 8] = [
        &["configmaps", "cm", "v1", "true", "ConfigMap"],
        &["namespaces", "ns", "v1", "false", "Namespace"],
        &["deployments", "deploy", "apps/v1", "true", "Deployment"],
        &[
            "customresourcedefinitions",
            "crd,crds",
            "apiextensions.k8s.io/v1",
            "false",
            "CustomResourceDefinition",
        ],
        &[
            "horizontalpodautoscalers",
            "hpa",
            "autoscaling/v2",
            "true",
            "HorizontalPodAutoscaler",
        ],
        &[
            "subjectaccessreviews",
            "authorization.k8s.io/v1",
            "false",
            "SubjectAccessReview",
        ],
        &["leases", "coordination.k8s.io/v1", "true", "Lease"],
        &[
            "validatingwebhookconfigurations",
            "admissionregistration.k8s.io/v1",
            "false",
            "ValidatingWebhookConfiguration",
        ],
    ];
    for row in expected {
        assert!(rows.iter().any(|seen| seen == row), "{row:?} in {lines}");
    }
    let wide = k.ok("api-resources --no-headers -o wide --api-group=apps");
    let deployments = wide
        .lines()
        .find(|line| line.starts_with("deployments"))
        .unwrap();
    assert!(
        deployments.contains("create,delete,deletecollection,get,list,patch,update,watch"),
        "{deployments}"
    );
    assert!(deployments.trim_end().ends_with("all"), "{deployments}");
    let names = k.ok("api-resources --verbs=list --namespaced=false -o name");
    assert!(
        names
            .lines()
            .any(|name| name == "clusterroles.rbac.authorization.k8s.io"),
        "{names}"
    );
    let versions = k.ok("api-versions");
    for version in [
        "v1",
        "apps/v1",
        "batch/v1",
        "rbac.authorization.k8s.io/v1",
        "events.k8s.io/v1",
        "policy/v1",
    ] {
        assert!(
            versions.lines().any(|line| line == version),
            "{version} in {versions}"
        );
    }
    for short in [
        "cm", "deploy", "po", "svc", "sa", "ing", "netpol", "pdb", "cj", "hpa", "pvc", "quota",
        "limits", "ep", "rs", "sts", "ds", "ev",
    ] {
        k.ok(&format!("get {short}"));
    }
}

/// `explain`: fields with types and descriptions, nested ones, and all at once.
fn explains_its_kinds(k: &Kubectl) {
    let map = k.ok("explain configmap");
    for part in [
        "KIND:       ConfigMap",
        "VERSION:    v1",
        "data\t<map[string]string>",
        "metadata\t<ObjectMeta>",
    ] {
        assert!(map.contains(part), "{part} in {map}");
    }
    let deep = k.ok("explain deployment.spec.template.spec.containers.resources.limits");
    assert!(
        deep.contains("GROUP:      apps") && deep.contains("map[string]Quantity"),
        "{deep}"
    );
    assert!(
        k.ok("explain ns.status.phase")
            .contains("FIELD: phase <string>")
    );
    assert!(
        k.ok("explain crd.spec.versions.schema")
            .contains("openAPIV3Schema")
    );
    assert!(
        k.ok("explain cronjob --recursive")
            .contains("concurrencyPolicy")
    );
    let missing = k.fails("explain configmap.nothing");
    assert!(
        missing.contains(r#"field "nothing" does not exist"#),
        "{missing}"
    );
}
