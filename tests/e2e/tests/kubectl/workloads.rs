//! A Deployment and related kinds. No kubelet and no workload controller runs on either server, so the test writes the
//! status that they would report.

use e2e::Kubectl;
use serde_json::json;

e2e::scenarios![
    runs_a_deployment,
    waits_for_a_rollout,
    shows_all_workloads,
    runs_and_exposes_a_pod,
    scales_every_scalable_kind,
];
// Older releases use autoscaling/v1, which is not served.
e2e::scenarios_of_new_kubectls![autoscales];

/// Defaults, strategic merge of containers, generation, scale, describe.
fn runs_a_deployment(k: &Kubectl) {
    let manifest = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1"}, {"name": "side", "image": "envoy:1"}]},
            },
        },
    });
    assert_eq!(
        k.apply(&manifest.to_string()),
        "deployment.apps/web created"
    );
    assert_eq!(
        k.apply(&manifest.to_string()),
        "deployment.apps/web unchanged"
    );
    let table = k.ok("get deployment web");
    assert!(
        table.starts_with(
            "NAME   READY   UP-TO-DATE   AVAILABLE   AGE\nweb    0/1     0            0           "
        ),
        "{table}"
    );
    let wide = k.ok("get deploy web -o wide");
    assert!(
        wide.contains("CONTAINERS")
            && wide.contains("main,side")
            && wide.contains("nginx:1,envoy:1"),
        "{wide}"
    );

    assert_eq!(
        k.ok("set image deploy/web side=envoy:2"),
        "deployment.apps/web image updated"
    );
    assert_eq!(
        k.field("deploy/web", ".spec.template.spec.containers[*].image"),
        "nginx:1 envoy:2"
    );
    k.ok("set env deploy/web -c main MODE=fast");
    assert_eq!(
        k.field(
            "deploy/web",
            ".spec.template.spec.containers[0].env[0].value"
        ),
        "fast"
    );
    k.ok("set resources deploy/web -c main --limits=cpu=200m,memory=64Mi");
    assert_eq!(
        k.field(
            "deploy/web",
            ".spec.template.spec.containers[0].resources.limits.cpu"
        ),
        "200m"
    );
    assert_eq!(
        k.ok("rollout restart deploy/web"),
        "deployment.apps/web restarted"
    );
    assert_ne!(
        k.field(
            "deploy/web",
            r".spec.template.metadata.annotations.kubectl\.kubernetes\.io/restartedAt"
        ),
        ""
    );
    assert_eq!(
        k.ok("rollout pause deploy/web"),
        "deployment.apps/web paused"
    );
    assert_eq!(
        k.ok("rollout resume deploy/web"),
        "deployment.apps/web resumed"
    );
    assert_eq!(
        k.ok("scale deploy/web --replicas=3"),
        "deployment.apps/web scaled"
    );
    assert_eq!(k.field("deploy/web", ".spec.replicas"), "3");
    let refused = k.fails("scale deploy/web --replicas=4 --current-replicas=9");
    assert!(
        refused.contains("Expected replicas to be 9, was 3"),
        "{refused}"
    );
    assert_eq!(k.field("deploy/web", ".metadata.generation"), "8");

    k.ok(r#"patch deploy web -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}'"#);
    assert_eq!(
        k.field("deploy/web", ".spec.template.spec.containers[*].name"),
        "main"
    );
    let text = k.describe("deployment web");
    for part in [
        "Replicas: 3 desired",
        "StrategyType: RollingUpdate",
        "Image: nginx:1",
        "MODE: fast",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // Newer releases of kubectl also print the namespace.
    assert!(
        k.ok("delete deployment web")
            .starts_with(r#"deployment.apps "web" deleted"#)
    );
    assert_eq!(k.ok("get deploy --ignore-not-found"), "");
}

/// `rollout status` and `wait` follow the object until its status matches.
fn waits_for_a_rollout(k: &Kubectl) {
    k.ok("create deployment web --image=nginx:1 --replicas=2");
    let rollout = k.start("rollout status deployment/web --timeout=60s");
    let condition = k.start("wait deployment/web --for=condition=Available --timeout=60s");
    let path =
        k.start("wait deployment/web --for=jsonpath={.status.readyReplicas}=2 --timeout=60s");
    assert!(
        rollout.line().contains("Waiting for deployment"),
        "it waits at first"
    );
    let status = json!({"status": {
        "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}],
    }});
    k.ok(&format!(
        "patch deployment web --subresource=status --type=merge -p '{status}'"
    ));
    assert!(
        rollout
            .finish()
            .stdout
            .contains("deployment \"web\" successfully rolled out")
    );
    assert_eq!(
        condition.finish().stdout,
        "deployment.apps/web condition met\n"
    );
    assert_eq!(path.finish().stdout, "deployment.apps/web condition met\n");
    assert_eq!(
        k.field("deploy/web", ".metadata.generation"),
        "1",
        "a status is no change of the spec"
    );
    assert!(k.ok("get deploy web").contains("2/2"));
    let never = k.fails("wait deployment/web --for=condition=Progressing --timeout=1s");
    assert!(
        never.contains("timed out waiting for the condition on deployments/web"),
        "{never}"
    );
}

/// The category `all`, one list per kind.
fn shows_all_workloads(k: &Kubectl) {
    k.ok("create deployment web --image=nginx:1");
    k.ok("create job once --image=busybox:1");
    k.ok("create cronjob often --image=busybox:1 --schedule='* * * * *'");
    k.ok("create service clusterip web --tcp=80:8080");
    let names = k.ok("get all -o name");
    assert_eq!(
        names,
        "service/web\ndeployment.apps/web\ncronjob.batch/often\njob.batch/once"
    );
    let table = k.ok("get all");
    for part in [
        "service/web   ClusterIP",
        "deployment.apps/web   0/1",
        "cronjob.batch/often   * * * * *",
        "job.batch/once",
    ] {
        assert!(table.contains(part), "{part} in {table}");
    }
    let text = k.describe("service web");
    assert!(
        text.contains(
            "
Type: ClusterIP
"
        ),
        "{text}"
    );
    assert!(k.describe("job once").contains("Image: busybox:1"));
    k.ok("delete all --all --wait=true");
    assert_eq!(k.ok("get all -o name"), "");
}

/// A Pod without a node is deleted immediately. `expose` creates its Service.
fn runs_and_exposes_a_pod(k: &Kubectl) {
    assert_eq!(
        k.ok("run web --image=nginx:1 --port=80 --labels=app=web"),
        "pod/web created"
    );
    assert_eq!(
        k.ok("expose pod web --port=8080 --target-port=80"),
        "service/web exposed"
    );
    assert_eq!(k.field("svc/web", ".spec.selector"), r#"{"app":"web"}"#);
    assert_eq!(
        k.field(
            "pod/web",
            ".status.phase .status.qosClass .spec.restartPolicy"
        ),
        "Pending BestEffort Always"
    );
    let table = k.ok("get pod web");
    assert!(
        table.starts_with(
            "NAME   READY   STATUS    RESTARTS   AGE\nweb    0/1     Pending   0          "
        ),
        "{table}"
    );
    assert!(k.describe("pod web").contains("Image: nginx:1"));
    assert_eq!(
        k.ok("get pod --field-selector=status.phase=Pending -o name"),
        "pod/web"
    );
    assert_eq!(
        k.ok("get pod --field-selector=status.phase=Running -o name"),
        ""
    );
    k.ok(r#"patch pod web --subresource=status --type=merge -p '{"status":{"phase":"Running"}}'"#);
    assert_eq!(
        k.ok("get pod --field-selector=status.phase=Running -o name"),
        "pod/web"
    );
    let deletion = k.start("wait pod/web --for=delete --timeout=60s");
    k.ok("delete pod web");
    let deletion = deletion.finish();
    assert_eq!(deletion.code, Some(0), "{deletion:?}");
}

/// The scale subresource of every kind that has one.
fn scales_every_scalable_kind(k: &Kubectl) {
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let selector = json!({"matchLabels": {"app": "x"}});
    for (kind, resource) in [("StatefulSet", "statefulset"), ("ReplicaSet", "replicaset")] {
        let spec = json!({"selector": selector, "serviceName": "x", "template": template});
        let mut object =
            json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec});
        if kind == "ReplicaSet" {
            object["spec"]
                .as_object_mut()
                .unwrap()
                .remove("serviceName");
        }
        k.apply(&object.to_string());
        k.ok(&format!("scale {resource} x --replicas=5"));
        assert_eq!(k.field(&format!("{resource}/x"), ".spec.replicas"), "5");
    }
}

/// kubectl uses autoscaling/v2, which is the version served here.
fn autoscales(k: &Kubectl) {
    k.ok("create deployment x --image=i:1");
    k.ok("autoscale deployment x --min=2 --max=9 --cpu=70%");
    let fields = ".spec.minReplicas .spec.maxReplicas .spec.scaleTargetRef.name .spec.metrics[0].resource.target.averageUtilization";
    assert_eq!(k.field("hpa/x", fields), "2 9 x 70");
    assert!(k.ok("get hpa x").contains("Deployment/x"));
}
