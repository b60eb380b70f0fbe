//! StatefulSets as processes: they come, change, answer and go.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use polity_local::logs::LogQuery;
use polity_testing::eventually;
use serde_json::json;

use crate::cluster::{GREETING, SHOWN_FILE, TestCluster, is_alive, process_of};

async fn get(port: i32) -> Option<String> {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.get(format!("http://127.0.0.1:{port}/")).send();
    answer.await.ok()?.text().await.ok()
}

async fn slices(cluster: &TestCluster) -> Vec<EndpointSlice> {
    let api: Api<EndpointSlice> = Api::namespaced(cluster.client.clone(), "team");
    api.list(&ListParams::default()).await.unwrap().items
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_comes_answers_changes_and_goes() {
    let cluster = TestCluster::new().await;
    let runtime = cluster.run().await;
    let _: Service = cluster
        .create(json!({"metadata": {"name": "web"}, "spec": {
            "selector": {"app": "web"}, "ports": [{"port": 443, "targetPort": "https"}],
        }}))
        .await;
    let _: StatefulSet = cluster.create(cluster.set(2, "serve")).await;
    let pods = cluster.pods_become("web-0:ready:0 web-1:ready:0").await;
    cluster.set_completes().await;

    // Each answers at an address its own EndpointSlice tells.
    let ready = eventually("both are in the endpoints", || async {
        let slices = slices(&cluster).await;
        let ready = slices.iter().filter(|slice| {
            let endpoint = &slice.endpoints.as_ref().unwrap()[0];
            endpoint.conditions.as_ref().unwrap().ready == Some(true)
        });
        let ready: Vec<EndpointSlice> = ready.cloned().collect();
        (ready.len() == 2).then_some(ready)
    })
    .await;
    for slice in &ready {
        let port = slice.ports.as_ref().unwrap()[0].port.unwrap();
        let name = slice.name_any();
        let name = name.strip_prefix("web-").unwrap();
        assert_eq!(get(port).await.unwrap().trim(), name);
    }

    // What they said is kept.
    let log = eventually("its log is there", || async {
        let log = runtime.log("web-1", LogQuery::default()).await;
        log.filter(|log| !log.is_empty())
    })
    .await;
    assert_eq!(log, "web-1 says hello\n");

    // An update replaces both, the highest first.
    let env = json!([{"name": GREETING, "value": "good morning"}]);
    let template = json!({"spec": {"containers": [{"name": "server", "env": env}]}});
    cluster.edit_set(json!({"template": template})).await;
    cluster.set_completes().await;
    let after = cluster.pods_become("web-0:ready:0 web-1:ready:0").await;
    assert!(
        pods.iter()
            .zip(&after)
            .all(|(old, new)| old.uid() != new.uid())
    );
    assert!(pods.iter().all(|pod| !is_alive(process_of(pod))));
    assert!(after[0].metadata.creation_timestamp >= after[1].metadata.creation_timestamp);

    // Scaled down, the highest goes.
    cluster.edit_set(json!({"replicas": 1})).await;
    cluster.pods_become("web-0:ready:0").await;
    eventually("its endpoint is gone", || async {
        slices(&cluster).await.len() == 1
    })
    .await;

    // Deleted, everything goes.
    cluster.delete_set().await;
    cluster.pods_become("").await;
    assert!(after.iter().all(|pod| !is_alive(process_of(pod))));
    eventually("its endpoints are gone", || async {
        slices(&cluster).await.is_empty()
    })
    .await;
    let pods_dir = cluster.data_dir.path().join("pods");
    eventually("its files are gone", || async {
        std::fs::read_dir(&pods_dir).unwrap().count() == 0
    })
    .await;
    runtime.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_acts_as_its_own_service_account() {
    let cluster = TestCluster::new().await;
    let _runtime = cluster.run().await;
    let _: StatefulSet = cluster.create(cluster.set(1, "serve")).await;
    let pod = cluster.pods_become("web-0:ready:0").await.remove(0);
    let path = cluster
        .data_dir
        .path()
        .join("pods")
        .join(pod.uid().unwrap())
        .join("access/kubeconfig");
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    assert_eq!(config.default_namespace, "team");
    let reviews: Api<SelfSubjectReview> = Api::all(Client::try_from(config).unwrap());
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await
        .unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    assert_eq!(
        user.username.as_deref(),
        Some("system:serviceaccount:team:default")
    );
    let pod_name = &user.extra.unwrap()["authentication.kubernetes.io/pod-name"];
    assert_eq!(pod_name, &["web-0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_follow_their_objects_and_claims_outlive_their_pods() {
    let cluster = TestCluster::new().await;
    let _runtime = cluster.run().await;
    let _: ConfigMap = cluster
        .create(json!({"metadata": {"name": "settings"}, "data": {"a.txt": "one"}}))
        .await;
    let mut set = cluster.set(1, "serve");
    let pod = &mut set["spec"]["template"]["spec"];
    let env = pod["containers"][0]["env"].as_array_mut().unwrap();
    env.push(json!({"name": SHOWN_FILE, "value": "/config/a.txt"}));
    pod["volumes"] = json!([
        {"name": "config", "configMap": {"name": "settings"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}},
    ]);
    pod["containers"][0]["volumeMounts"] =
        json!([{"name": "config", "mountPath": "/config"}, {"name": "data", "mountPath": "/data"}]);
    let claim = json!({"metadata": {"name": "shared"}, "spec": {
        "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    let _: PersistentVolumeClaim = cluster.create(claim).await;
    let _: StatefulSet = cluster.create(set).await;
    let _: Service = cluster
        .create(json!({"metadata": {"name": "web"}, "spec": {
            "selector": {"app": "web"}, "ports": [{"port": 443, "targetPort": 8443}],
        }}))
        .await;
    cluster.pods_become("web-0:ready:0").await;
    let answer = async || {
        let slices = slices(&cluster).await;
        let port = slices.first()?.ports.as_ref()?[0].port?;
        get(port).await
    };
    eventually("the file is there", || async {
        answer().await.as_deref() == Some("web-0 one")
    })
    .await;

    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "team");
    let patch = Patch::Merge(json!({"data": {"a.txt": "two"}}));
    maps.patch("settings", &PatchParams::default(), &patch)
        .await
        .unwrap();
    eventually("the file has changed", || async {
        answer().await.as_deref() == Some("web-0 two")
    })
    .await;

    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client.clone(), "team");
    let claim = eventually("the claim is bound", || async {
        let claim = claims.get("shared").await.unwrap();
        let phase = claim.status.clone().and_then(|status| status.phase);
        (phase.as_deref() == Some("Bound")).then_some(claim)
    })
    .await;
    let place = cluster
        .data_dir
        .path()
        .join("claims")
        .join(claim.uid().unwrap());
    std::fs::write(place.join("kept"), "x").unwrap();
    cluster.edit_set(json!({"replicas": 0})).await;
    cluster.pods_become("").await;
    assert!(place.join("kept").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_told_and_waited_for() {
    let cluster = TestCluster::new().await;
    let _runtime = cluster.run().await;
    let mut set = cluster.set(1, "serve");
    set["spec"]["template"]["spec"]["containers"][0]["env"][2] = json!({"name": GREETING, "valueFrom": {"configMapKeyRef": {"name": "late", "key": "word"}}});
    let _: StatefulSet = cluster.create(set).await;
    eventually("the status says what is missing", || async {
        let pod = cluster.pods().get_opt("web-0").await.unwrap()?;
        let container = pod.status?.container_statuses?.remove(0);
        let waiting = container.state?.waiting?;
        (waiting.message? == "configmap \"late\" not found").then_some(())
    })
    .await;
    let _: ConfigMap = cluster
        .create(json!({"metadata": {"name": "late"}, "data": {"word": "at last"}}))
        .await;
    cluster.pods_become("web-0:ready:0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_of_other_images_are_left_alone() {
    let cluster = TestCluster::new().await;
    let _runtime = cluster.run().await;
    let mut other = cluster.set(1, "serve");
    other["metadata"]["name"] = json!("other");
    other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx");
    let other: StatefulSet = cluster.create(other).await;
    let _: StatefulSet = cluster.create(cluster.set(1, "serve")).await;
    cluster.pods_become("web-0:ready:0").await;
    let now = cluster.sets().get("other").await.unwrap();
    assert_eq!(now.resource_version(), other.resource_version());
}
