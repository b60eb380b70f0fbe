//! `kubectl create KIND`. Since release 1.32 these bodies are protobuf, before they were JSON.

use e2e::Kubectl;

e2e::scenarios![
    creates_every_kind_it_can,
    creates_from_files,
    a_dry_run_creates_nothing
];

/// Creates every kind that kubectl has a subcommand for, and checks the stored object.
fn creates_every_kind_it_can(k: &Kubectl) {
    let name = k.namespace();
    let cases = [
        (
            "configmap c --from-literal=a=1",
            "cm/c",
            ".data",
            r#"{"a":"1"}"#,
        ),
        (
            "secret generic s --from-literal=a=1",
            "secret/s",
            ".type .data.a",
            "Opaque MQ==",
        ),
        ("serviceaccount sa", "sa/sa", ".metadata.name", "sa"),
        (
            "deployment d --image=i:1 --replicas=2 --port=80",
            "deploy/d",
            ".spec.replicas .spec.template.spec.containers[0].image .spec.template.spec.containers[0].ports[0].containerPort",
            "2 i:1 80",
        ),
        (
            "job j --image=i:1 -- echo hello",
            "job/j",
            ".spec.template.spec.containers[0].command[0] .spec.template.spec.restartPolicy .spec.backoffLimit",
            "echo Never 6",
        ),
        (
            "cronjob cj --image=i:1 --schedule='*/5 * * * *'",
            "cj/cj",
            ".spec.schedule .spec.concurrencyPolicy",
            "*/5 * * * * Allow",
        ),
        (
            "service clusterip s1 --tcp=80:8080",
            "svc/s1",
            ".spec.type .spec.ports[0].port .spec.ports[0].targetPort",
            "ClusterIP 80 8080",
        ),
        (
            "service nodeport s2 --tcp=80",
            "svc/s2",
            ".spec.type",
            "NodePort",
        ),
        (
            "service externalname s3 --external-name=example.com",
            "svc/s3",
            ".spec.type .spec.externalName",
            "ExternalName example.com",
        ),
        (
            "ingress i --rule=a.example.com/x=s1:80",
            "ing/i",
            ".spec.rules[0].host .spec.rules[0].http.paths[0].backend.service.port.number",
            "a.example.com 80",
        ),
        (
            "role r --verb=get,list --resource=pods,deployments.apps",
            "role/r",
            ".rules[*].resources[*]",
            "pods deployments",
        ),
        (
            "rolebinding rb --role=r --user=jane",
            "rolebinding/rb",
            ".roleRef.name .subjects[0].name",
            "r jane",
        ),
        (
            "quota q --hard=pods=3,cpu=2",
            "quota/q",
            ".spec.hard",
            r#"{"cpu":"2","pods":"3"}"#,
        ),
        (
            "poddisruptionbudget p --selector=app=x --min-available=50%",
            "pdb/p",
            ".spec.minAvailable",
            "50%",
        ),
    ];
    for (arguments, object, path, expected) in cases {
        k.ok(&format!("create {arguments}"));
        assert_eq!(k.field(object, path), expected, "{arguments}");
    }
    let cluster_wide = [
        (
            format!("clusterrole {name} --verb=get --non-resource-url=/x"),
            format!("clusterrole/{name}"),
            ".rules[0].nonResourceURLs[0]",
            "/x",
        ),
        (
            format!("clusterrolebinding {name} --clusterrole={name} --serviceaccount={name}:sa"),
            format!("clusterrolebinding/{name}"),
            ".subjects[0].kind .subjects[0].name",
            "ServiceAccount sa",
        ),
        (
            format!("priorityclass {name} --value=7 --description=seven"),
            format!("pc/{name}"),
            ".value .description",
            "7 seven",
        ),
    ];
    for (arguments, object, path, expected) in cluster_wide {
        k.ok(&format!("create {arguments}"));
        assert_eq!(k.field(&object, path), expected, "{arguments}");
    }
    let token = k.ok("create token sa --duration=20m --audience=https://example.com");
    assert_eq!(token.split('.').count(), 3, "{token}");
}

/// Several documents in one stream, a generated name, and one document that fails.
fn creates_from_files(k: &Kubectl) {
    let stream = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: b\nstringData:\n  x: hello\n";
    assert_eq!(
        k.ok_with_input("create -f -", stream),
        "configmap/a created\nsecret/b created"
    );
    assert_eq!(k.field("secret/b", ".data.x"), "aGVsbG8=");
    let generated = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  generateName: some-\n";
    let (first, second) = (
        k.ok_with_input("create -f - -o name", generated),
        k.ok_with_input("create -f - -o name", generated),
    );
    assert!(
        first.starts_with("configmap/some-") && first.len() == "configmap/some-".len() + 5,
        "{first}"
    );
    assert_ne!(first, second);
    let some = k.run("create -f -", &stream.replace("name: b", "name: c"));
    assert_eq!(some.code, Some(1));
    assert_eq!(some.stdout, "secret/c created\n");
    assert!(
        some.stderr.contains(
            r#"(AlreadyExists): error when creating "STDIN": configmaps "a" already exists"#
        ),
        "{some:?}"
    );
}

fn a_dry_run_creates_nothing(k: &Kubectl) {
    assert_eq!(
        k.ok("create configmap a --dry-run=server"),
        "configmap/a created (server dry run)"
    );
    assert_eq!(k.ok("get cm a --ignore-not-found"), "");
    let object = k.json("create deployment d --image=i:1 --dry-run=server");
    assert_eq!(object["spec"]["progressDeadlineSeconds"], 600);
    assert!(object["metadata"]["uid"].is_string());
    assert!(
        object["metadata"].get("resourceVersion").is_none(),
        "{object}"
    );
    let refused = k.fails("create configmap UPPER --dry-run=server");
    assert!(
        refused.contains("metadata.name: Invalid value"),
        "{refused}"
    );
}
