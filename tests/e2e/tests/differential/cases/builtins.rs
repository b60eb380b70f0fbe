//! Built-in kinds: defaults, initial status and validation.

use serde_json::{Value, json};

use crate::case::{Case, case, get, merge, post, put};

fn template(label: &str) -> Value {
    json!({"metadata": {"labels": {"app": label}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}})
}

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": "a"}}, "template": template("a")}})
}

fn in_ns(group_version: &str, plural: &str) -> String {
    format!("/{group_version}/namespaces/{{ns}}/{plural}")
}

pub(crate) fn cases() -> Vec<Case> {
    let apps = |plural: &str| in_ns("apis/apps/v1", plural);
    let batch = |plural: &str| in_ns("apis/batch/v1", plural);
    let core = |plural: &str| in_ns("api/v1", plural);
    let networking = |plural: &str| in_ns("apis/networking.k8s.io/v1", plural);
    vec![
        case(
            "builtins: pods",
            [
                post(
                    core("pods"),
                    json!({"metadata": {"name": "p"}, "spec": {"containers": [
                    {"name": "c", "image": "nginx:1.2", "ports": [{"containerPort": 80}], "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                     "livenessProbe": {"httpGet": {"port": 80}}, "resources": {"limits": {"cpu": "1000m", "memory": "0.5Gi"}}},
                ], "volumes": [{"name": "v", "configMap": {"name": "m"}}, {"name": "e"}]}}),
                ),
                post(
                    core("pods"),
                    json!({"metadata": {"name": "q"}, "spec": {"containers": []}}),
                ),
                post(
                    core("pods"),
                    json!({"metadata": {"name": "q"}, "spec": {"containers": [{"name": "Bad", "image": "i"}, {"name": "c"}]}}),
                ),
                merge(
                    core("pods/p"),
                    json!({"spec": {"containers": [{"name": "c", "image": "nginx:1.3"}]}}),
                ),
                merge(core("pods/p"), json!({"metadata": {"labels": {"a": "b"}}})),
                get(core("pods")).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
            ],
        ),
        case(
            "builtins: deployments",
            [
                post(apps("deployments"), deployment("d")),
                merge(apps("deployments/d"), json!({"spec": {"replicas": 3}})),
                merge(
                    apps("deployments/d"),
                    json!({"metadata": {"annotations": {"x": "y"}}}),
                ),
                merge(
                    apps("deployments/d"),
                    json!({"metadata": {"labels": {"x": "y"}}}),
                ),
                merge(
                    apps("deployments/d"),
                    json!({"spec": {"selector": {"matchLabels": {"app": "b"}}}}),
                ),
                get(apps("deployments/d/scale")),
                merge(
                    apps("deployments/d/scale"),
                    json!({"spec": {"replicas": 5}}),
                ),
                put(
                    apps("deployments/d/scale"),
                    json!({"metadata": {"name": "d", "namespace": "{ns}"}, "spec": {"replicas": 6}}),
                ),
                merge(
                    apps("deployments/d/scale"),
                    json!({"spec": {"replicas": -1}}),
                ),
                merge(
                    apps("deployments/d/status"),
                    json!({"status": {"replicas": 2, "observedGeneration": 1}, "spec": {"replicas": 9}}),
                ),
                get(apps("deployments")).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                post(
                    apps("deployments"),
                    json!({"metadata": {"name": "e"}, "spec": {"template": template("a")}}),
                ),
                post(
                    apps("deployments"),
                    json!({"metadata": {"name": "e"}, "spec": {"selector": {"matchLabels": {"app": "b"}}, "template": template("a")}}),
                ),
                post(
                    apps("deployments"),
                    json!({"metadata": {"name": "e"}, "spec": {"replicas": "three", "selector": {"matchLabels": {"app": "a"}}, "template": template("a")}}),
                ),
                post(apps("deployments"), json!({"metadata": {"name": "e"}})),
            ],
        ),
        case(
            "builtins: other workloads",
            [
                post(
                    apps("statefulsets"),
                    json!({"metadata": {"name": "s"}, "spec": {"serviceName": "s", "selector": {"matchLabels": {"app": "a"}}, "template": template("a"),
                    "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}}]}}),
                ),
                post(
                    apps("daemonsets"),
                    json!({"metadata": {"name": "s"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template("a")}}),
                ),
                post(
                    apps("replicasets"),
                    json!({"metadata": {"name": "s"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template("a")}}),
                ),
                post(
                    core("replicationcontrollers"),
                    json!({"metadata": {"name": "s"}, "spec": {"template": template("a")}}),
                ),
                get(core("replicationcontrollers"))
                    .accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                get(apps("statefulsets")).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
            ],
        ),
        case(
            "builtins: jobs",
            [
                post(
                    batch("jobs"),
                    json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}),
                ),
                post(
                    batch("jobs"),
                    json!({"metadata": {"name": "k"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
                ),
                post(
                    batch("cronjobs"),
                    json!({"metadata": {"name": "c"}, "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "i"}]}}}}}}),
                ),
                post(
                    batch("cronjobs"),
                    json!({"metadata": {"name": "d"}, "spec": {"schedule": "often", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "i"}]}}}}}}),
                ),
                get(batch("jobs")).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                get(batch("cronjobs")).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
            ],
        ),
        case(
            "builtins: services",
            [
                post(
                    core("services"),
                    json!({"metadata": {"name": "s"}, "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}}),
                ),
                post(
                    core("services"),
                    json!({"metadata": {"name": "headless"}, "spec": {"clusterIP": "None", "ports": [{"port": 80, "targetPort": "web"}]}}),
                ),
                post(
                    core("services"),
                    json!({"metadata": {"name": "np"}, "spec": {"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}}),
                ),
                post(
                    core("services"),
                    json!({"metadata": {"name": "ext"}, "spec": {"type": "ExternalName", "externalName": "example.com"}}),
                ),
                post(
                    core("services"),
                    json!({"metadata": {"name": "bad"}, "spec": {"ports": [{"port": 0}, {"port": 80, "protocol": "SMTP"}]}}),
                ),
                post(
                    core("services"),
                    json!({"metadata": {"name": "bad"}, "spec": {}}),
                ),
                merge(
                    core("services/s"),
                    json!({"spec": {"ports": [{"port": 81, "protocol": "TCP"}]}}),
                ),
                merge(
                    core("services/s"),
                    json!({"spec": {"clusterIP": "127.96.77.1"}}),
                ),
                get(core("services?fieldSelector=spec.type%3DNodePort")),
                get(core("services/ext")).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
            ],
        ),
        case(
            "builtins: configuration",
            [
                post(
                    core("secrets"),
                    json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}}),
                ),
                post(
                    core("secrets"),
                    json!({"metadata": {"name": "t"}, "data": {"c": "not base64!"}}),
                ),
                merge(core("secrets/s"), json!({"type": "example.com/other"})),
                merge(core("secrets/s"), json!({"immutable": true})),
                merge(core("secrets/s"), json!({"stringData": {"a": "c"}})),
                post(
                    core("configmaps"),
                    json!({"metadata": {"name": "m"}, "data": {"a/b": "c"}}),
                ),
                post(
                    core("configmaps"),
                    json!({"metadata": {"name": "m"}, "data": {"a": 1}}),
                ),
                post(
                    core("configmaps"),
                    json!({"metadata": {"name": "m"}, "data": {"a": "b"}, "binaryData": {"a": "AAAA"}}),
                ),
                post(
                    core("serviceaccounts"),
                    json!({"metadata": {"name": "robot"}}),
                ),
                post(
                    core("resourcequotas"),
                    json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "10", "requests.cpu": "1500m"}}}),
                ),
                post(
                    core("limitranges"),
                    json!({"metadata": {"name": "q"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}}),
                ),
                post(
                    core("persistentvolumeclaims"),
                    json!({"metadata": {"name": "q"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
                ),
            ],
        ),
        case(
            "builtins: network and policy",
            [
                post(
                    networking("ingresses"),
                    json!({"metadata": {"name": "i"}, "spec": {"rules": [{"host": "a.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}]}}),
                ),
                post(
                    networking("ingresses"),
                    json!({"metadata": {"name": "j"}, "spec": {"rules": [{"http": {"paths": [{"path": "x", "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}]}}),
                ),
                post(
                    networking("networkpolicies"),
                    json!({"metadata": {"name": "n"}, "spec": {"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]}}),
                ),
                post(
                    in_ns("apis/policy/v1", "poddisruptionbudgets"),
                    json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
                ),
                post(
                    in_ns("apis/policy/v1", "poddisruptionbudgets"),
                    json!({"metadata": {"name": "c"}, "spec": {"minAvailable": 1, "maxUnavailable": "10%"}}),
                ),
                post(
                    in_ns("apis/autoscaling/v2", "horizontalpodautoscalers"),
                    json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 4, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}}),
                ),
                post(
                    in_ns("apis/discovery.k8s.io/v1", "endpointslices"),
                    json!({"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"port": 80}]}),
                ),
                get(networking("ingresses")).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                get(networking("networkpolicies"))
                    .accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
            ],
        ),
        case(
            "builtins: endpoints on loopback",
            [post(
                in_ns("apis/discovery.k8s.io/v1", "endpointslices"),
                json!({"metadata": {"name": "f"}, "addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"]}], "ports": [{"port": 80}]}),
            )],
        ),
        case(
            "builtins: cluster kinds",
            [
                post(
                    "/api/v1/namespaces",
                    json!({"metadata": {"name": "{ns}-more", "labels": {"a": "b"}}}),
                ),
                post("/api/v1/nodes", json!({"metadata": {"name": "{ns}"}})),
                post(
                    "/api/v1/persistentvolumes",
                    json!({"metadata": {"name": "{ns}"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}}}),
                ),
                post(
                    "/apis/storage.k8s.io/v1/storageclasses",
                    json!({"metadata": {"name": "{ns}"}, "provisioner": "example.com/x"}),
                ),
                post(
                    "/apis/scheduling.k8s.io/v1/priorityclasses",
                    json!({"metadata": {"name": "{ns}"}, "value": 7}),
                ),
                post(
                    "/apis/node.k8s.io/v1/runtimeclasses",
                    json!({"metadata": {"name": "{ns}"}, "handler": "runc"}),
                ),
                post(
                    "/apis/networking.k8s.io/v1/ingressclasses",
                    json!({"metadata": {"name": "{ns}"}, "spec": {"controller": "example.com/x"}}),
                ),
                get("/api/v1/namespaces/{ns}-more")
                    .accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
            ],
        ),
        case(
            "builtins: events in both groups",
            [
                post(
                    core("events"),
                    json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "ConfigMap", "name": "m", "namespace": "{ns}", "apiVersion": "v1"}, "reason": "Tried", "message": "hello", "type": "Normal", "source": {"component": "me"}, "count": 2, "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:06Z"}),
                ),
                get(in_ns("apis/events.k8s.io/v1", "events/e")),
                post(
                    in_ns("apis/events.k8s.io/v1", "events"),
                    json!({"metadata": {"name": "f"}, "eventTime": "2026-01-02T03:04:05.123456Z", "regarding": {"kind": "ConfigMap", "name": "m", "namespace": "{ns}"}, "reason": "Tried", "note": "hello", "type": "Normal", "action": "Try", "reportingController": "me.example.com", "reportingInstance": "me-1"}),
                ),
                get(core("events/f")),
                post(
                    in_ns("apis/events.k8s.io/v1", "events"),
                    json!({"metadata": {"name": "g"}, "regarding": {"kind": "ConfigMap", "name": "m", "namespace": "{ns}"}, "type": "Odd"}),
                ),
                post(
                    core("events"),
                    json!({"metadata": {"name": "h"}, "involvedObject": {"kind": "ConfigMap", "name": "m", "namespace": "elsewhere"}}),
                ),
                get(core(
                    "events?fieldSelector=involvedObject.name%3Dm,type%3DNormal,reason%3DTried",
                )),
                get(core("events")).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
            ],
        ),
    ]
}
