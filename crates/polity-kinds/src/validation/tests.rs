//! Invalid objects and their messages.

use polity_core::field::join;
use serde_json::json;

use super::*;
use crate::builtin;
use crate::create::prepare_create;
use crate::defaults::apply_defaults;

fn gvk(kind: &str) -> GroupVersionKind {
    builtin::kinds()
        .find(|gvk| gvk.group_kind().to_string() == kind)
        .unwrap_or_else(|| panic!("{kind} is a kind"))
}

fn defaulted(kind: &str, mut object: Value) -> Value {
    apply_defaults(&gvk(kind), &mut object);
    if kind == "Job.batch" {
        prepare_create(&gvk(kind), &mut object, "u");
    }
    object
}

/// Validates the creation of an object after defaulting it.
#[track_caller]
fn check(kind: &str, object: Value, expected: &str) {
    let errors = validate(&gvk(kind), &defaulted(kind, object), None);
    assert_eq!(join(&errors), expected, "{kind}");
}

#[track_caller]
fn check_update(kind: &str, old: Value, new: Value, expected: &str) {
    let errors = validate(
        &gvk(kind),
        &defaulted(kind, new),
        Some(&defaulted(kind, old)),
    );
    assert_eq!(join(&errors), expected, "{kind}");
}

fn pod_spec() -> Value {
    json!({"containers": [{"name": "c", "image": "i"}]})
}

fn deployment(selector: &str, label: &str) -> Value {
    json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"app": selector}},
           "template": {"metadata": {"labels": {"app": label}}, "spec": pod_spec()}}})
}

#[test]
fn deployments() {
    check("Deployment.apps", deployment("x", "x"), "");
    check(
        "Deployment.apps",
        deployment("y", "x"),
        "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template `labels`",
    );
    check(
        "Deployment.apps",
        json!({"spec": {"template": {"spec": {}}}}),
        "[spec.selector: Required value, \
         spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`, \
         spec.template.spec.containers: Required value]",
    );
    check(
        "Deployment.apps",
        json!({"spec": {"selector": {}, "template": {"spec": pod_spec()}}}),
        "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
    );
    check_update(
        "Deployment.apps",
        deployment("x", "x"),
        deployment("y", "y"),
        "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"y\"}}: field is immutable",
    );
    let mut negative = deployment("x", "x");
    negative["spec"]["replicas"] = json!(-1);
    check(
        "Deployment.apps",
        negative,
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    );
    let mut never = deployment("x", "x");
    never["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    check(
        "Deployment.apps",
        never,
        "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
    );
}

#[test]
fn other_workloads() {
    let template =
        |label: &str| json!({"metadata": {"labels": {"app": label}}, "spec": pod_spec()});
    let selector = json!({"matchLabels": {"app": "x"}});
    for kind in ["ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps"] {
        check(
            kind,
            json!({"spec": {"selector": selector, "template": template("x")}}),
            "",
        );
        check(
            kind,
            json!({"spec": {"selector": selector, "template": template("y")}}),
            "spec.template.metadata.labels: Invalid value: {\"app\":\"y\"}: `selector` does not match template `labels`",
        );
        check_update(
            kind,
            json!({"spec": {"selector": selector, "template": template("x")}}),
            json!({"spec": {"selector": {"matchLabels": {"app": "y"}}, "template": template("y")}}),
            "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"y\"}}: field is immutable",
        );
    }
    let job = |policy: &str| {
        json!({"metadata": {"name": "j", "uid": "u"},
        "spec": {"template": {"spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]}}}})
    };
    check("Job.batch", job("Never"), "");
    check(
        "Job.batch",
        job("Always"),
        "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
    );
    let mut mislabelled = job("Never");
    mislabelled["spec"]["template"]["metadata"] = json!({"labels": {"job-name": "other"}});
    check(
        "Job.batch",
        mislabelled,
        "spec.template.metadata.labels[job-name]: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u\",\"batch.kubernetes.io/job-name\":\"j\",\"controller-uid\":\"u\",\"job-name\":\"other\"}: must be 'j'",
    );
    check(
        "CronJob.batch",
        json!({"metadata": {"name": "c"}, "spec": {"schedule": "* *", "jobTemplate": {"spec": job("Never")["spec"]}}}),
        "spec.schedule: Invalid value: \"* *\": expected exactly 5 fields, found 2: [* *]",
    );
}

#[test]
fn claims_of_a_stateful_set_can_be_mounted() {
    let set = |claim: &str| {
        let mut pod = pod_spec();
        pod["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
        let storage = json!({"requests": {"storage": "1Gi"}});
        json!({"spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": pod},
            "volumeClaimTemplates": [{
                "metadata": {"name": claim},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": storage},
            }],
        }})
    };
    check("StatefulSet.apps", set("data"), "");
    check(
        "StatefulSet.apps",
        set("other"),
        "spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\"",
    );
}

#[test]
fn pods() {
    check("Pod", json!({"spec": pod_spec()}), "");
    let cases = [
        (json!({}), "spec.containers: Required value"),
        (
            json!({"containers": [{"image": "i"}]}),
            "spec.containers[0].name: Required value",
        ),
        (
            json!({"containers": [{"name": "c"}]}),
            "spec.containers[0].image: Required value",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}),
            "spec.containers[1].name: Duplicate value: \"c\"",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i"}], "initContainers": [{"name": "c", "image": "i"}]}),
            "spec.initContainers[0].name: Duplicate value: \"c\"",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v"}, {"name": "v"}]}),
            "spec.volumes[1].name: Duplicate value: \"v\"",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}),
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i", "imagePullPolicy": "Soon"}]}),
            "spec.containers[0].imagePullPolicy: Unsupported value: \"Soon\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 70000}]}]}),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i", "livenessProbe": {}}]}),
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]}),
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Sometimes"}),
            "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ),
    ];
    for (spec, expected) in cases {
        check("Pod", json!({"spec": spec}), expected);
    }
    let bad_name = json!({"spec": {"containers": [{"name": "C_1", "image": "i"}]}});
    let errors = validate(&gvk("Pod"), &defaulted("Pod", bad_name), None);
    assert!(errors[0].to_string().starts_with(
        "spec.containers[0].name: Invalid value: \"C_1\": a lowercase RFC 1123 label"
    ));
}

#[test]
fn of_a_pod_only_a_few_fields_change() {
    let pod = |spec: Value| json!({"spec": spec});
    let with = |field: &str, value: Value| {
        let mut spec = pod_spec();
        spec[field] = value;
        pod(spec)
    };
    let old = pod(pod_spec());
    check_update(
        "Pod",
        old.clone(),
        pod(json!({"containers": [{"name": "c", "image": "other"}]})),
        "",
    );
    check_update(
        "Pod",
        old.clone(),
        with("activeDeadlineSeconds", json!(5)),
        "",
    );
    check_update(
        "Pod",
        old.clone(),
        with("tolerations", json!([{"key": "k", "operator": "Exists"}])),
        "",
    );
    check_update(
        "Pod",
        with("schedulingGates", json!([{"name": "g"}])),
        old.clone(),
        "",
    );
    check_update(
        "Pod",
        old.clone(),
        with("schedulingGates", json!([{"name": "g"}])),
        "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'",
    );
    check_update(
        "Pod",
        old.clone(),
        pod(json!({"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]})),
        "spec.containers: Forbidden: pod updates may not add or remove containers",
    );
    let changed = validate(
        &gvk("Pod"),
        &defaulted("Pod", with("hostNetwork", json!(true))),
        Some(&defaulted("Pod", old)),
    );
    assert_eq!(changed.len(), 1);
    assert!(
        changed[0]
            .to_string()
            .starts_with("spec: Forbidden: pod updates may not change fields other than")
    );
}

#[test]
fn configuration() {
    check("ConfigMap", json!({"data": {"a.b-c_D": "x"}}), "");
    check(
        "ConfigMap",
        json!({"data": {"a": "x"}, "binaryData": {"a": ""}}),
        "data[a]: Invalid value: \"a\": duplicate of key present in binaryData",
    );
    let errors = validate(&gvk("ConfigMap"), &json!({"data": {"a b": ""}}), None);
    assert!(
        errors[0]
            .to_string()
            .starts_with("data[a b]: Invalid value: \"a b\": a valid config key")
    );
    check(
        "ConfigMap",
        json!({"data": {"a": "x".repeat(1024 * 1024 + 1)}}),
        "[]: Too long: may not be more than 1048576 bytes",
    );
    check_update(
        "ConfigMap",
        json!({"immutable": true, "data": {"a": "1"}}),
        json!({"immutable": true, "data": {"a": "2"}}),
        "data: Forbidden: field is immutable when `immutable` is set",
    );
    check_update(
        "Secret",
        json!({"type": "a"}),
        json!({"type": "b"}),
        "type: Invalid value: \"b\": field is immutable",
    );
    check(
        "Secret",
        json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}),
        "data[tls.key]: Required value",
    );
    check(
        "PriorityClass.scheduling.k8s.io",
        json!({"metadata": {"name": "p"}, "value": 1_000_000_001}),
        "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
    );
    check_update(
        "PriorityClass.scheduling.k8s.io",
        json!({"value": 1}),
        json!({"value": 2}),
        "value: Forbidden: may not be changed in an update.",
    );
    check(
        "PersistentVolumeClaim",
        json!({"spec": {}}),
        "[spec.accessModes: Required value: at least 1 access mode is required, spec.resources[storage]: Required value]",
    );
}

#[test]
fn services() {
    check("Service", json!({"spec": {"ports": [{"port": 80}]}}), "");
    check("Service", json!({"spec": {}}), "spec.ports: Required value");
    check("Service", json!({"spec": {"clusterIP": "None"}}), "");
    check(
        "Service",
        json!({"spec": {"ports": [{"port": 80}, {"port": 81}]}}),
        "[spec.ports[0].name: Required value, spec.ports[1].name: Required value]",
    );
    check(
        "Service",
        json!({"spec": {"ports": [{"port": 0, "targetPort": 1}]}}),
        "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
    );
    check(
        "Service",
        json!({"spec": {"type": "ExternalName"}}),
        "spec.externalName: Required value",
    );
    check(
        "Service",
        json!({"spec": {"type": "Odd", "ports": [{"port": 80}]}}),
        "spec.type: Unsupported value: \"Odd\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
    );
    check_update(
        "Service",
        json!({"spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}}),
        json!({"spec": {"clusterIP": "10.0.0.2", "ports": [{"port": 80}]}}),
        "spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set",
    );
}

#[test]
fn ingresses_and_network_policies() {
    let ingress = |path: Value| json!({"spec": {"rules": [{"http": {"paths": [path]}}]}});
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    check(
        "Ingress.networking.k8s.io",
        ingress(json!({"path": "/", "pathType": "Prefix", "backend": backend})),
        "",
    );
    check(
        "Ingress.networking.k8s.io",
        ingress(json!({"path": "/", "backend": backend})),
        "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
    );
    check(
        "Ingress.networking.k8s.io",
        ingress(json!({"path": "a", "pathType": "Exact", "backend": backend})),
        "spec.rules[0].http.paths[0].path: Invalid value: \"a\": must be an absolute path",
    );
    check(
        "Ingress.networking.k8s.io",
        json!({"spec": {}}),
        "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified",
    );
    check(
        "NetworkPolicy.networking.k8s.io",
        json!({"spec": {"podSelector": {}}}),
        "",
    );
    check(
        "NetworkPolicy.networking.k8s.io",
        json!({"spec": {"podSelector": {}, "ingress": [{"from": [{}]}]}}),
        "spec.ingress[0].from[0]: Required value: must specify a peer",
    );
    check(
        "NetworkPolicy.networking.k8s.io",
        json!({"spec": {"podSelector": {}, "policyTypes": ["Odd"]}}),
        "spec.policyTypes[0]: Unsupported value: \"Odd\": supported values: \"Ingress\", \"Egress\"",
    );
}

#[test]
fn role_based_access() {
    check(
        "Role.rbac.authorization.k8s.io",
        json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
        "",
    );
    check(
        "Role.rbac.authorization.k8s.io",
        json!({"rules": [{"apiGroups": [""], "resources": ["pods"]}]}),
        "rules[0].verbs: Required value",
    );
    check(
        "Role.rbac.authorization.k8s.io",
        json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}),
        "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
    );
    let binding = |name: &str| json!({"roleRef": {"kind": "ClusterRole", "name": name}, "subjects": [{"kind": "User", "name": "u"}]});
    check("RoleBinding.rbac.authorization.k8s.io", binding("r"), "");
    check_update(
        "RoleBinding.rbac.authorization.k8s.io",
        binding("r"),
        binding("s"),
        "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"ClusterRole\",\"Name\":\"s\"}: field is immutable",
    );
    check(
        "ClusterRoleBinding.rbac.authorization.k8s.io",
        json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]}),
        "[roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\", subjects[0].namespace: Required value]",
    );
}

#[test]
fn budgets_leases_and_autoscalers() {
    check(
        "PodDisruptionBudget.policy",
        json!({"spec": {"minAvailable": "50%", "selector": {}}}),
        "",
    );
    check(
        "PodDisruptionBudget.policy",
        json!({"spec": {"minAvailable": 1, "maxUnavailable": 1}}),
        "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":null,\"MaxUnavailable\":1,\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set",
    );
    check(
        "Lease.coordination.k8s.io",
        json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
        "[spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0, \
         spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0]",
    );
    check(
        "HorizontalPodAutoscaler.autoscaling",
        json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "minReplicas": 3, "maxReplicas": 2}}),
        "spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`",
    );
}

#[test]
fn events() {
    let event = |namespace: &str, involved: &str| json!({"metadata": {"namespace": namespace}, "involvedObject": {"namespace": involved}});
    check("Event", event("a", "a"), "");
    check("Event", event("default", ""), "");
    let mismatch = "involvedObject.namespace: Invalid value: \"b\": does not match event.namespace";
    check("Event", event("a", "b"), mismatch);
    check(
        "Event",
        event("a", ""),
        "involvedObject.namespace: Invalid value: \"\": does not match event.namespace",
    );
    let new = json!({"metadata": {"namespace": "a"}, "regarding": {"namespace": "a"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "c", "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal"});
    check("Event.events.k8s.io", new.clone(), "");
    check(
        "Event.events.k8s.io",
        json!({"metadata": {"namespace": "default"}, "type": "Normal"}),
        "eventTime: Required value",
    );
    let mut long = new.clone();
    long["note"] = json!("x".repeat(1025));
    check(
        "Event.events.k8s.io",
        long,
        "message: Invalid value: \"\": can have at most 1024 characters",
    );
    let mut odd = new.clone();
    odd["type"] = json!("Odd");
    check(
        "Event.events.k8s.io",
        odd,
        "type: Invalid value: \"\": has invalid value: Odd",
    );
    let mut series = new.clone();
    series["series"] = json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"});
    check_update("Event.events.k8s.io", new.clone(), series, "");
    let mut renamed = new.clone();
    renamed["reason"] = json!("Other");
    check_update(
        "Event.events.k8s.io",
        new,
        renamed,
        "reason: Invalid value: \"Other\": field is immutable",
    );
}

fn webhook() -> Value {
    json!({"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
           "clientConfig": {"url": "https://host/path"},
           "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]})
}

#[test]
fn webhook_configurations() {
    let configuration = |hook: Value| json!({"metadata": {"name": "w"}, "webhooks": [hook]});
    let changed = |field: &str, value: Value| {
        let mut hook = webhook();
        hook[field] = value;
        configuration(hook)
    };
    let kind = "ValidatingWebhookConfiguration.admissionregistration.k8s.io";
    check(kind, configuration(webhook()), "");
    let form = "; desired format: https://host[/path]";
    let cases = [
        ("name", json!(""), "webhooks[0].name: Required value".to_owned()),
        (
            "name",
            json!("a.b"),
            "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots".to_owned(),
        ),
        (
            "sideEffects",
            json!("Some"),
            "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"".to_owned(),
        ),
        (
            "sideEffects",
            Value::Null,
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun".to_owned(),
        ),
        (
            "admissionReviewVersions",
            json!([]),
            "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1".to_owned(),
        ),
        (
            "admissionReviewVersions",
            json!(["v2"]),
            "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1".to_owned(),
        ),
        (
            "timeoutSeconds",
            json!(31),
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds".to_owned(),
        ),
        (
            "clientConfig",
            json!({}),
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required".to_owned(),
        ),
        (
            "clientConfig",
            json!({"url": "http://h"}),
            format!("webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme{form}"),
        ),
        (
            "clientConfig",
            json!({"url": "https://h/?q=1"}),
            "webhooks[0].clientConfig.url: Invalid value: \"q=1\": query parameters are not permitted in the URL".to_owned(),
        ),
        (
            "clientConfig",
            json!({"service": {"name": "s", "namespace": "n", "path": "xyz"}}),
            "webhooks[0].clientConfig.service.path: Invalid value: \"xyz\": must start with a '/'".to_owned(),
        ),
        (
            "matchConditions",
            json!([{"name": "a", "expression": "true"}, {"name": "a", "expression": "true"}]),
            "webhooks[0].matchConditions[1].name: Duplicate value: \"a\"".to_owned(),
        ),
        (
            "rules",
            json!([{"operations": ["PATCH"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]),
            "webhooks[0].rules[0].operations[0]: Unsupported value: \"PATCH\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"".to_owned(),
        ),
    ];
    for (field, value, expected) in cases {
        check(kind, changed(field, value), &expected);
    }
    let twice = json!({"metadata": {"name": "w"}, "webhooks": [webhook(), webhook()]});
    check(kind, twice, "webhooks[1].name: Duplicate value: \"a.b.c\"");
}

#[test]
fn admission_policies() {
    check(
        "ValidatingAdmissionPolicy.admissionregistration.k8s.io",
        json!({"spec": {}}),
        "[spec.matchConstraints: Required value, \
         spec.validations: Required value: validations or auditAnnotations must contain at least one item, \
         spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item]",
    );
    check(
        "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
        json!({"spec": {"policyName": "p", "validationActions": ["Deny"]}}),
        "",
    );
}

#[test]
fn names_follow_their_kind() {
    let cases = [
        ("ConfigMap", "a.b-c", true),
        ("ConfigMap", "A", false),
        ("ConfigMap", "system:x", false),
        ("Namespace", "a", true),
        ("Namespace", "a.b", false),
        ("Service", "1a", true),
        ("Service", "a.b", false),
        ("ClusterRole.rbac.authorization.k8s.io", "system:x", true),
        ("ClusterRole.rbac.authorization.k8s.io", "a/b", false),
        ("ClusterRole.rbac.authorization.k8s.io", "..", false),
    ];
    for (kind, name, expected) in cases {
        assert_eq!(
            validate_name(&gvk(kind), name, false).is_ok(),
            expected,
            "{kind} {name}"
        );
    }
    assert!(validate_name(&gvk("Pod"), "a-", false).is_err());
    assert!(validate_name(&gvk("Pod"), "a-", true).is_ok());
}

#[test]
fn odd_shapes_pass_through() {
    let odd = [
        json!(null),
        json!({"spec": 3, "metadata": [], "data": 7, "webhooks": {}, "rules": [1]}),
        json!({"spec": {"template": [], "selector": "x", "containers": [null, 1], "ports": [{}], "resources": []}}),
    ];
    for gvk in builtin::kinds() {
        for object in &odd {
            validate(&gvk, object, Some(object));
        }
    }
}

#[test]
fn an_object_with_very_many_mistakes_has_a_bounded_number_of_errors() {
    let keys: Vec<String> = (0..20_000).map(|number| format!("-{number}")).collect();
    let labels: Object = keys.iter().map(|key| (key.clone(), json!("v"))).collect();
    let mut in_template = deployment("x", "x");
    in_template["spec"]["template"]["metadata"] = json!({"labels": labels, "annotations": labels});
    let mut in_selector = deployment("x", "x");
    in_selector["spec"]["selector"]["matchLabels"] = json!(labels);
    let mut in_containers = deployment("x", "x");
    in_containers["spec"]["template"]["spec"]["containers"] =
        keys.iter().map(|key| json!({"name": key})).collect();
    for object in [in_template, in_selector, in_containers] {
        let errors = validate(&gvk("Deployment.apps"), &object, None);
        assert_eq!(errors.len(), polity_core::field::MAX_ERRORS);
    }
}
