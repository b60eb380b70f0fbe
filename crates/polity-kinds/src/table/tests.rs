//! The columns and cells of the built-in kinds.

use super::*;
use crate::builtin::builtin_resources;

fn def(kind: &str) -> &'static ResourceDef {
    builtin_resources()
        .iter()
        .find(|def| def.gvk.group_kind().to_string() == kind)
        .unwrap()
}

fn now() -> Timestamp {
    "2026-01-10T00:00:00Z".parse().unwrap()
}

#[track_caller]
fn check(kind: &str, mut object: Value, expected: Value) {
    object["metadata"]["name"] = json!("x");
    object["metadata"]["creationTimestamp"] = json!("2026-01-09T23:55:00Z");
    let shown = cells(def(kind), &object, now());
    assert_eq!(shown.len(), columns(def(kind)).len());
    let Value::Array(expected) = expected else {
        panic!("expected cells are a list")
    };
    assert_eq!(shown, expected, "{kind}");
}

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    for def in builtin_resources() {
        for odd in [
            json!({}),
            json!({"spec": [], "status": 3, "metadata": null}),
            json!(null),
        ] {
            assert_eq!(
                cells(def, &odd, now()).len(),
                columns(def).len(),
                "{}",
                def.gvk
            );
        }
        let name = columns(def)
            .iter()
            .find(|column| column.name == "Name")
            .unwrap();
        assert_eq!(name.format, "name");
    }
}

#[test]
fn every_line_of_the_table_belongs_to_a_kind() {
    for kind in COLUMNS.keys() {
        assert_eq!(def(kind).gvk.group_kind().to_string(), *kind);
    }
}

#[test]
fn pods() {
    let wide = |ready: &str, status: &str, restarts: &str| {
        json!([
            "x", ready, status, restarts, "5m", "<none>", "<none>", "<none>", "<none>"
        ])
    };
    let one = json!([{"name": "a"}]);
    check(
        "Pod",
        json!({"spec": {"containers": one}, "status": {"phase": "Pending"}}),
        wide("0/1", "Pending", "0"),
    );
    let running = json!([{"ready": true, "state": {"running": {}}, "restartCount": 2,
        "lastState": {"terminated": {"finishedAt": "2026-01-09T23:54:00Z"}}}]);
    check(
        "Pod",
        json!({"spec": {"containers": one, "nodeName": "n", "readinessGates": [{"conditionType": "g"}]},
               "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "containerStatuses": running,
                          "conditions": [{"type": "g", "status": "True"}]}}),
        json!([
            "x",
            "1/1",
            "Running",
            "2 (6m ago)",
            "5m",
            "10.0.0.1",
            "n",
            "<none>",
            "1/1"
        ]),
    );
    let crashing =
        json!([{"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 3}]);
    check(
        "Pod",
        json!({"spec": {"containers": one}, "status": {"phase": "Running", "containerStatuses": crashing}}),
        wide("0/1", "CrashLoopBackOff", "3"),
    );
    let init = json!({"containers": one, "initContainers": [{"name": "i"}]});
    check(
        "Pod",
        json!({"spec": init, "status": {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}}),
        wide("0/1", "Init:0/1", "0"),
    );
    let failed = json!([{"name": "i", "state": {"terminated": {"exitCode": 2}}}]);
    check(
        "Pod",
        json!({"spec": init, "status": {"phase": "Pending", "initContainerStatuses": failed}}),
        wide("0/1", "Init:ExitCode:2", "0"),
    );
    let done = json!([{"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]);
    check(
        "Pod",
        json!({"spec": {"containers": one}, "status": {"phase": "Succeeded", "containerStatuses": done}}),
        wide("0/1", "Completed", "0"),
    );
    check(
        "Pod",
        json!({"metadata": {"deletionTimestamp": "2026-01-09T23:59:00Z"}, "spec": {"containers": one}, "status": {"phase": "Running"}}),
        wide("0/1", "Terminating", "0"),
    );
    let gated = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
    check(
        "Pod",
        json!({"spec": {"containers": one}, "status": {"phase": "Pending", "conditions": gated}}),
        wide("0/1", "SchedulingGated", "0"),
    );
    let sidecar =
        json!({"containers": one, "initContainers": [{"name": "s", "restartPolicy": "Always"}]});
    check(
        "Pod",
        json!({"spec": sidecar, "status": {"phase": "Running",
            "initContainerStatuses": [{"name": "s", "started": true, "ready": true, "restartCount": 1, "state": {"running": {}}}],
            "containerStatuses": [{"ready": true, "state": {"running": {}}}]}}),
        wide("2/2", "Running", "1"),
    );
}

#[test]
fn workloads() {
    let template = json!({"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}});
    let selector = json!({"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "t", "operator": "In", "values": ["a", "b"]}]});
    check(
        "Deployment.apps",
        json!({"spec": {"replicas": 3, "template": template, "selector": selector},
               "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}}),
        json!(["x", "2/3", 3, 1, "5m", "a,b", "i:1,j", "app=x,t in (a,b)"]),
    );
    check(
        "StatefulSet.apps",
        json!({"spec": {"replicas": 1, "template": template}}),
        json!(["x", "0/1", "5m", "a,b", "i:1,j"]),
    );
    check(
        "DaemonSet.apps",
        json!({"spec": {"template": template, "selector": {"matchLabels": {"a": "b"}}}, "status": {"desiredNumberScheduled": 4}}),
        json!(["x", 4, 0, 0, 0, 0, "<none>", "5m", "a,b", "i:1,j", "a=b"]),
    );
    check(
        "Job.batch",
        json!({"spec": {"completions": 1, "template": template}, "status": {"succeeded": 1, "startTime": "2026-01-09T23:56:00Z",
               "completionTime": "2026-01-09T23:56:30Z", "conditions": [{"type": "Complete", "status": "True"}]}}),
        json!([
            "x", "Complete", "1/1", "30s", "5m", "a,b", "i:1,j", "<none>"
        ]),
    );
    check(
        "CronJob.batch",
        json!({"spec": {"schedule": "* * * * *", "suspend": false}, "status": {"active": [{}], "lastScheduleTime": "2026-01-09T23:59:00Z"}}),
        json!([
            "x",
            "* * * * *",
            "<none>",
            "False",
            1,
            "60s",
            "5m",
            "",
            "",
            "<none>"
        ]),
    );
}

#[test]
fn services_and_ingresses() {
    check(
        "Service",
        json!({"spec": {"type": "NodePort", "clusterIPs": ["10.0.0.1"], "selector": {"app": "x"},
               "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}),
        json!([
            "x",
            "NodePort",
            "10.0.0.1",
            "<none>",
            "80:30080/TCP,53/UDP",
            "5m",
            "app=x"
        ]),
    );
    check(
        "Service",
        json!({"spec": {"type": "LoadBalancer", "clusterIPs": ["None"]}}),
        json!([
            "x",
            "LoadBalancer",
            "None",
            "<pending>",
            "<none>",
            "5m",
            "<none>"
        ]),
    );
    check(
        "Ingress.networking.k8s.io",
        json!({"spec": {"ingressClassName": "c", "tls": [{}], "rules": [{"host": "a"}, {"host": "b"}, {"host": "c"}, {"host": "d"}]},
               "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "h"}]}}}),
        json!(["x", "c", "a,b,c + 1 more...", "1.2.3.4,h", "80, 443", "5m"]),
    );
    check(
        "EndpointSlice.discovery.k8s.io",
        json!({"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]}),
        json!(["x", "IPv4", "80", "10.0.0.1,10.0.0.2", "5m"]),
    );
    check(
        "Endpoints",
        json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "::1"}], "ports": [{"port": 80}]}]}),
        json!(["x", "10.0.0.1:80,[::1]:80", "5m"]),
    );
}

#[test]
fn cluster_kinds() {
    check(
        "Namespace",
        json!({"status": {"phase": "Active"}}),
        json!(["x", "Active", "5m"]),
    );
    check(
        "ConfigMap",
        json!({"data": {"a": "1"}, "binaryData": {"b": ""}}),
        json!(["x", 2, "5m"]),
    );
    check(
        "Secret",
        json!({"type": "Opaque", "data": {"a": ""}}),
        json!(["x", "Opaque", 1, "5m"]),
    );
    check(
        "Node",
        json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}, "spec": {"unschedulable": true},
               "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.37.0"},
                          "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}]}}),
        json!([
            "x",
            "Ready,SchedulingDisabled",
            "control-plane",
            "5m",
            "v1.37.0",
            "10.0.0.9",
            "<none>",
            "<unknown>",
            "<unknown>",
            "<unknown>"
        ]),
    );
    let event = json!({"involvedObject": {"kind": "Pod", "name": "p"}, "reason": "R", "type": "Normal", "message": " m ",
        "firstTimestamp": "2026-01-09T23:50:00Z", "lastTimestamp": "2026-01-09T23:59:30Z", "count": 4, "source": {"component": "c"}});
    let expected = json!(["30s", "Normal", "R", "pod/p", "", "c", "m", "10m", 4, "x"]);
    check("Event", event.clone(), expected.clone());
    let mut new = event;
    events::to_events(&mut new);
    check("Event.events.k8s.io", new, expected);
    check(
        "PersistentVolumeClaim",
        json!({"spec": {"volumeName": "v", "storageClassName": "s", "volumeMode": "Filesystem"},
               "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce", "ReadWriteMany"]}}),
        json!([
            "x",
            "Bound",
            "v",
            "1Gi",
            "RWO,RWX",
            "s",
            "<unset>",
            "5m",
            "Filesystem"
        ]),
    );
    check(
        "Role.rbac.authorization.k8s.io",
        json!({}),
        json!(["x", "2026-01-09T23:55:00Z"]),
    );
}

#[test]
fn policy_kinds() {
    check(
        "PodDisruptionBudget.policy",
        json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}}),
        json!(["x", "50%", "N/A", 1, "5m"]),
    );
    check(
        "HorizontalPodAutoscaler.autoscaling",
        json!({"spec": {"minReplicas": 1, "maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "d"},
               "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]},
               "status": {"currentReplicas": 2}}),
        json!(["x", "Deployment/d", "cpu: <unknown>/80%", "1", 5, 2, "5m"]),
    );
    check(
        "RoleBinding.rbac.authorization.k8s.io",
        json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"},
               {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}),
        json!(["x", "Role/r", "5m", "u", "", "n/s"]),
    );
    check(
        "Lease.coordination.k8s.io",
        json!({"spec": {"holderIdentity": "h"}}),
        json!(["x", "h", "5m"]),
    );
    check(
        "ValidatingWebhookConfiguration.admissionregistration.k8s.io",
        json!({"webhooks": [{}, {}]}),
        json!(["x", 2, "5m"]),
    );
    check(
        "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
        json!({"spec": {"policyName": "p", "paramRef": {"name": "r"}}}),
        json!(["x", "p", "*/r", "5m"]),
    );
    check(
        "CustomResourceDefinition.apiextensions.k8s.io",
        json!({"spec": {"group": "g", "scope": "Cluster", "names": {"kind": "K", "shortNames": ["k"]},
               "versions": [{"name": "v1", "served": true, "storage": true}, {"name": "v1beta1", "served": false}]},
               "status": {"conditions": [{"type": "Established", "status": "True"}]}}),
        json!([
            "x",
            "Cluster",
            "v1(storage)",
            "2026-01-09T23:55:00Z",
            "g",
            "K",
            "k",
            true
        ]),
    );
}
