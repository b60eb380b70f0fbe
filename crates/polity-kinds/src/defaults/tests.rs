//! The defaults of fields that an object leaves out.

use serde_json::json;

use super::*;

fn check(group: &str, version: &str, kind: &str, mut given: Value, expected: &[(&str, Value)]) {
    let gvk = GroupVersionKind::new(group, version, kind);
    apply_defaults(&gvk, &mut given);
    for (pointer, value) in expected {
        assert_eq!(
            given.pointer(pointer).unwrap_or(&Value::Null),
            value,
            "{kind} {pointer} in {given:#}"
        );
    }
    let once = given.clone();
    apply_defaults(&gvk, &mut given);
    assert_eq!(given, once, "defaults are stable");
}

#[test]
fn every_line_of_the_table_names_a_field() {
    let mut n_lines = 0;
    for (ty, rows) in CONSTANTS.iter() {
        let message = wire::table()
            .by_type(ty)
            .unwrap_or_else(|| panic!("{ty} is a type"));
        for (field, _) in rows {
            assert!(
                message.fields.iter().any(|known| known.name == *field),
                "{ty} has {field}"
            );
            n_lines += 1;
        }
    }
    assert!(n_lines > 90);
}

#[test]
fn deployments() {
    let given = json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx",
        "ports": [{"containerPort": 80}], "readinessProbe": {"httpGet": {"port": 80}}, "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
        "volumes": [{"name": "empty"}, {"name": "s", "secret": {"secretName": "s"}}]}}}});
    let expected = [
        ("/spec/replicas", json!(1)),
        (
            "/spec/strategy",
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}),
        ),
        ("/spec/revisionHistoryLimit", json!(10)),
        ("/spec/progressDeadlineSeconds", json!(600)),
        ("/spec/template/spec/restartPolicy", json!("Always")),
        ("/spec/template/spec/dnsPolicy", json!("ClusterFirst")),
        (
            "/spec/template/spec/schedulerName",
            json!("default-scheduler"),
        ),
        (
            "/spec/template/spec/terminationGracePeriodSeconds",
            json!(30),
        ),
        ("/spec/template/spec/securityContext", json!({})),
        ("/spec/template/spec/enableServiceLinks", Value::Null),
        (
            "/spec/template/spec/containers/0/imagePullPolicy",
            json!("Always"),
        ),
        (
            "/spec/template/spec/containers/0/terminationMessagePath",
            json!("/dev/termination-log"),
        ),
        (
            "/spec/template/spec/containers/0/terminationMessagePolicy",
            json!("File"),
        ),
        ("/spec/template/spec/containers/0/resources", json!({})),
        (
            "/spec/template/spec/containers/0/ports/0/protocol",
            json!("TCP"),
        ),
        (
            "/spec/template/spec/containers/0/env/0/valueFrom/fieldRef/apiVersion",
            json!("v1"),
        ),
        (
            "/spec/template/spec/containers/0/readinessProbe",
            json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
                   "successThreshold": 1, "failureThreshold": 3}),
        ),
        (
            "/spec/template/spec/volumes/0",
            json!({"name": "empty", "emptyDir": {}}),
        ),
        (
            "/spec/template/spec/volumes/1/secret/defaultMode",
            json!(420),
        ),
    ];
    check("apps", "v1", "Deployment", given, &expected);
    let recreate = json!({"spec": {"strategy": {"type": "Recreate"}, "replicas": 0}});
    check(
        "apps",
        "v1",
        "Deployment",
        recreate,
        &[
            ("/spec/strategy", json!({"type": "Recreate"})),
            ("/spec/replicas", json!(0)),
        ],
    );
}

#[test]
fn other_workloads() {
    let expected = [
        ("/spec/replicas", json!(1)),
        ("/spec/podManagementPolicy", json!("OrderedReady")),
        (
            "/spec/updateStrategy",
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}}),
        ),
        ("/spec/revisionHistoryLimit", json!(10)),
        (
            "/spec/persistentVolumeClaimRetentionPolicy",
            json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
        ),
        (
            "/spec/volumeClaimTemplates/0/kind",
            json!("PersistentVolumeClaim"),
        ),
        (
            "/spec/volumeClaimTemplates/0/spec/volumeMode",
            json!("Filesystem"),
        ),
    ];
    check(
        "apps",
        "v1",
        "StatefulSet",
        json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "c"}}]}}),
        &expected,
    );
    let expected = [
        (
            "/spec/updateStrategy",
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}),
        ),
        ("/spec/revisionHistoryLimit", json!(10)),
    ];
    check("apps", "v1", "DaemonSet", json!({}), &expected);
    check(
        "apps",
        "v1",
        "ReplicaSet",
        json!({}),
        &[("/spec/replicas", json!(1))],
    );
    let given = json!({"metadata": {"name": "r"}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    let expected = [
        ("/spec/replicas", json!(1)),
        ("/spec/selector", json!({"a": "b"})),
        ("/metadata/labels", json!({"a": "b"})),
    ];
    check("", "v1", "ReplicationController", given, &expected);
}

#[test]
fn jobs() {
    let given = json!({"metadata": {"name": "j"}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    let expected = [
        ("/spec/parallelism", json!(1)),
        ("/spec/completions", json!(1)),
        ("/spec/backoffLimit", json!(6)),
        ("/spec/completionMode", json!("NonIndexed")),
        ("/spec/suspend", json!(false)),
        ("/spec/podReplacementPolicy", json!("TerminatingOrFailed")),
        ("/spec/manualSelector", json!(false)),
        ("/metadata/labels", json!({"a": "b"})),
    ];
    check("batch", "v1", "Job", given, &expected);
    let queue = [
        ("/spec/parallelism", json!(3)),
        ("/spec/completions", Value::Null),
    ];
    check(
        "batch",
        "v1",
        "Job",
        json!({"spec": {"parallelism": 3}}),
        &queue,
    );
    let expected = [
        ("/spec/concurrencyPolicy", json!("Allow")),
        ("/spec/suspend", json!(false)),
        ("/spec/successfulJobsHistoryLimit", json!(3)),
        ("/spec/failedJobsHistoryLimit", json!(1)),
        ("/spec/jobTemplate/spec/parallelism", Value::Null),
        (
            "/spec/jobTemplate/spec/template/spec/restartPolicy",
            json!("Always"),
        ),
    ];
    check("batch", "v1", "CronJob", json!({}), &expected);
}

#[test]
fn pods() {
    let given = json!({"spec": {"serviceAccountName": "sa", "hostNetwork": true, "containers": [
        {"name": "c", "image": "a:1", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "500m"}}}]}});
    let expected = [
        ("/spec/serviceAccount", json!("sa")),
        ("/spec/enableServiceLinks", json!(true)),
        ("/spec/containers/0/imagePullPolicy", json!("IfNotPresent")),
        (
            "/spec/containers/0/ports/0",
            json!({"containerPort": 80, "hostPort": 80, "protocol": "TCP"}),
        ),
        (
            "/spec/containers/0/resources/requests",
            json!({"cpu": "500m", "memory": "1Gi"}),
        ),
    ];
    check("", "v1", "Pod", given, &expected);
    check(
        "",
        "v1",
        "Pod",
        json!({"status": {"podIP": "10.0.0.1"}}),
        &[("/status/podIPs", json!([{"ip": "10.0.0.1"}]))],
    );
}

#[test]
fn services() {
    let given = json!({"spec": {"ports": [{"port": 80}, {"port": 81, "targetPort": "http"}]}});
    let expected = [
        ("/spec/type", json!("ClusterIP")),
        ("/spec/sessionAffinity", json!("None")),
        ("/spec/internalTrafficPolicy", json!("Cluster")),
        ("/spec/externalTrafficPolicy", Value::Null),
        (
            "/spec/ports/0",
            json!({"port": 80, "targetPort": 80, "protocol": "TCP"}),
        ),
        ("/spec/ports/1/targetPort", json!("http")),
    ];
    check("", "v1", "Service", given, &expected);
    let expected = [
        ("/spec/externalTrafficPolicy", json!("Cluster")),
        ("/spec/allocateLoadBalancerNodePorts", json!(true)),
        (
            "/spec/sessionAffinityConfig/clientIP/timeoutSeconds",
            json!(10800),
        ),
    ];
    check(
        "",
        "v1",
        "Service",
        json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP"}}),
        &expected,
    );
}

#[test]
fn configuration_kinds() {
    let secret = json!({"data": {"a": "YQ=="}, "stringData": {"b": "hello"}});
    let expected = [
        ("/type", json!("Opaque")),
        ("/data", json!({"a": "YQ==", "b": "aGVsbG8="})),
        ("/stringData", Value::Null),
    ];
    check("", "v1", "Secret", secret, &expected);
    let label = [("/metadata/labels/kubernetes.io~1metadata.name", json!("n"))];
    check(
        "",
        "v1",
        "Namespace",
        json!({"metadata": {"name": "n"}}),
        &label,
    );
    let expected = [
        ("/reclaimPolicy", json!("Delete")),
        ("/volumeBindingMode", json!("Immediate")),
    ];
    check("storage.k8s.io", "v1", "StorageClass", json!({}), &expected);
    let item = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"memory": "1Mi"}}]}});
    let expected = [
        ("/spec/limits/0/default", json!({"cpu": "1"})),
        (
            "/spec/limits/0/defaultRequest",
            json!({"cpu": "1", "memory": "1Mi"}),
        ),
    ];
    check("", "v1", "LimitRange", item, &expected);
    let policy = json!({"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]}});
    let expected = [
        ("/spec/policyTypes", json!(["Ingress", "Egress"])),
        ("/spec/egress/0/ports/0/protocol", json!("TCP")),
    ];
    check(
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        policy,
        &expected,
    );
    let slice = [(
        "/ports/0",
        json!({"name": "", "protocol": "TCP", "port": 80}),
    )];
    check(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        json!({"ports": [{"port": 80}]}),
        &slice,
    );
}

#[test]
fn role_bindings() {
    let given = json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
        {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]});
    let expected = [
        ("/roleRef/apiGroup", json!("rbac.authorization.k8s.io")),
        ("/subjects/0/apiGroup", json!("rbac.authorization.k8s.io")),
        ("/subjects/1/apiGroup", Value::Null),
    ];
    check(
        "rbac.authorization.k8s.io",
        "v1",
        "RoleBinding",
        given,
        &expected,
    );
}

#[test]
fn autoscalers() {
    let given = json!({"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}});
    let expected = [
        ("/spec/minReplicas", json!(1)),
        (
            "/spec/metrics/0/resource/target",
            json!({"type": "Utilization", "averageUtilization": 80}),
        ),
        ("/spec/behavior/scaleUp/selectPolicy", json!("Max")),
        (
            "/spec/behavior/scaleDown/stabilizationWindowSeconds",
            json!(60),
        ),
        (
            "/spec/behavior/scaleDown/policies",
            json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]),
        ),
    ];
    check(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        given,
        &expected,
    );
}

#[test]
fn webhook_configurations() {
    let given = json!({"webhooks": [{"name": "a.b.c", "clientConfig": {"service": {"name": "s", "namespace": "n"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}]});
    let expected = [
        ("/webhooks/0/failurePolicy", json!("Fail")),
        ("/webhooks/0/matchPolicy", json!("Equivalent")),
        ("/webhooks/0/namespaceSelector", json!({})),
        ("/webhooks/0/objectSelector", json!({})),
        ("/webhooks/0/timeoutSeconds", json!(10)),
        ("/webhooks/0/reinvocationPolicy", json!("Never")),
        ("/webhooks/0/rules/0/scope", json!("*")),
        ("/webhooks/0/clientConfig/service/port", json!(443)),
    ];
    check(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        given.clone(),
        &expected,
    );
    let none = [("/webhooks/0/reinvocationPolicy", Value::Null)];
    check(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        given,
        &none,
    );
}

#[test]
fn odd_shapes_pass_through() {
    for odd in [
        json!(null),
        json!([]),
        json!({"spec": []}),
        json!({"metadata": 3, "spec": {"containers": [1, null]}}),
    ] {
        for (group, version, kind) in [
            ("", "v1", "LimitRange"),
            ("", "v1", "Namespace"),
            ("", "v1", "Node"),
            ("", "v1", "Pod"),
            ("", "v1", "ReplicationController"),
            ("", "v1", "Secret"),
            ("", "v1", "Service"),
            ("apps", "v1", "DaemonSet"),
            ("apps", "v1", "Deployment"),
            ("apps", "v1", "StatefulSet"),
            ("autoscaling", "v2", "HorizontalPodAutoscaler"),
            ("batch", "v1", "CronJob"),
            ("batch", "v1", "Job"),
            ("networking.k8s.io", "v1", "NetworkPolicy"),
            ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
        ] {
            apply_defaults(
                &GroupVersionKind::new(group, version, kind),
                &mut odd.clone(),
            );
        }
    }
}
