//! Recommended policies from a ConfigMap (`--defaults-configmap-name`): made, kept up to date, and never
//! against their owners.

use std::cell::Cell;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use polity_api::policies::v1::PolicyServer;
use polity_lifecycle::defaults::{Defaults, LABEL, RECORD};
use polity_testing::{FaultyClient, eventually, for_every_write};
use serde_json::{Value, json};

use crate::cluster::{NAMESPACE, TestCluster, clock};
use crate::whole::Running;

const MAP: &str = "recommended";

/// A cluster with a ConfigMap in it.
struct Scene<'a> {
    cluster: &'a TestCluster,
    /// The ConfigMap.
    map: &'a str,
}

impl<'a> Scene<'a> {
    fn new(cluster: &'a TestCluster) -> Self {
        Self { cluster, map: MAP }
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.client.clone(), NAMESPACE)
    }

    /// Makes these documents all there is in the ConfigMap.
    async fn say(&self, documents: &[Value]) {
        let texts: Vec<_> = documents.iter().map(ToString::to_string).collect();
        self.say_text(&texts.join("\n---\n")).await;
    }

    async fn say_text(&self, text: &str) {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.map}, "data": {"p.yaml": text},
        });
        let params = PatchParams::apply("somebody").force();
        let patch = Patch::Apply(&body);
        self.maps().patch(self.map, &params, &patch).await.unwrap();
    }

    fn with(&self, client: Client) -> Defaults {
        Defaults::new(client, clock(), NAMESPACE, self.map)
    }

    async fn keep(&self) {
        let defaults = self.with(self.cluster.client.clone());
        defaults.reconcile().await.unwrap();
    }

    /// `p=monitor q=protect`: the policies there are, and their mode.
    async fn policies(&self) -> String {
        let all = self.cluster.policies().list(&ListParams::default()).await;
        let mut shown: Vec<_> = all
            .unwrap()
            .iter()
            .map(|one| {
                let mode = json!(one.spec.policy.enforcement.mode);
                format!("{}={}", one.name_any(), mode.as_str().unwrap_or_default())
            })
            .collect();
        shown.sort();
        shown.join(" ")
    }

    /// What was told about the ConfigMap, with how often.
    async fn told(&self) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.cluster.client.clone(), NAMESPACE);
        let all = events.list(&ListParams::default()).await.unwrap();
        let mut told: Vec<_> = all
            .iter()
            .map(|event| {
                assert_eq!(event.type_.as_deref(), Some("Warning"));
                let regarding = event.regarding.as_ref().unwrap();
                assert_eq!(regarding.name.as_deref(), Some(self.map));
                let count = event.series.as_ref().map_or(1, |series| series.count);
                let note = event.note.as_deref().unwrap_or_default();
                format!("{count} {note}")
            })
            .collect();
        told.sort();
        told
    }
}

fn server(name: &str) -> Value {
    json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer", "metadata": {"name": name},
        "spec": {"image": "polity", "replicas": 1},
    })
}

fn policy(name: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "module": "registry.example/policy:1", "mutating": false, "mode": mode, "failurePolicy": "Ignore",
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["CREATE"],
            }],
        },
    })
}

fn with_module(mut policy: Value, module: &str) -> Value {
    policy["spec"]["module"] = json!(module);
    policy
}

#[tokio::test]
async fn what_is_absent_is_created_and_at_rest_nothing_is_written() {
    let cluster = TestCluster::bare().await;
    let scene = Scene::new(&cluster);
    scene.keep().await;
    scene
        .say(&[policy("p", "monitor"), server("s"), policy("q", "monitor")])
        .await;
    scene.keep().await;
    assert_eq!(scene.policies().await, "p=monitor q=monitor");
    let servers: Api<PolicyServer> = Api::all(cluster.client.clone());
    assert_eq!(servers.get("s").await.unwrap().labels()[LABEL], MAP);
    let counting = FaultyClient::new(cluster.client.clone());
    scene.with(counting.client()).reconcile().await.unwrap();
    assert_eq!(counting.writes(), []);
    // Whoever writes the ConfigMap leaves our record alone.
    scene
        .say(&[policy("p", "protect"), server("s"), policy("q", "monitor")])
        .await;
    let writing = FaultyClient::new(cluster.client.clone());
    scene.with(writing.client()).reconcile().await.unwrap();
    assert_eq!(scene.policies().await, "p=protect q=monitor");
    assert_eq!(writing.n_writes(), 2, "the policy, and the record");
    assert_eq!(scene.told().await, [""; 0]);
}

#[tokio::test]
async fn a_field_that_somebody_changed_stays_theirs() {
    let cluster = TestCluster::bare().await;
    let scene = Scene::new(&cluster);
    scene.say(&[policy("p", "monitor")]).await;
    scene.keep().await;
    cluster.change("p", json!({"mode": "protect"})).await;
    scene.keep().await;
    assert_eq!(scene.policies().await, "p=protect");
    assert_eq!(
        scene.told().await,
        [""; 0],
        "the document asks for nothing new"
    );
    let module = "registry.example/policy:2";
    scene
        .say(&[with_module(policy("p", "monitor"), module)])
        .await;
    for _ in 0..3 {
        scene.keep().await;
    }
    assert_eq!(scene.policies().await, "p=protect");
    let found = cluster.policies().get("p").await.unwrap();
    assert_eq!(
        found.spec.policy.module.module, module,
        "the rest is brought up to date"
    );
    let told = scene.told().await;
    let [told] = &told[..] else {
        panic!("{told:?}");
    };
    let beginning =
        "1 p.yaml, document 1: ClusterAdmissionPolicy p keeps .spec.mode (conflict with ";
    assert!(told.starts_with(beginning), "{told}");
}

#[tokio::test]
async fn what_somebody_deleted_stays_deleted_until_its_document_changes() {
    let cluster = TestCluster::bare().await;
    let scene = Scene::new(&cluster);
    scene
        .say(&[policy("p", "monitor"), policy("q", "monitor")])
        .await;
    scene.keep().await;
    cluster.delete("p").await;
    scene.keep().await;
    assert_eq!(scene.policies().await, "q=monitor");
    scene
        .say(&[policy("p", "monitor"), policy("q", "protect")])
        .await;
    scene.keep().await;
    assert_eq!(scene.policies().await, "q=protect");
    scene
        .say(&[policy("p", "protect"), policy("q", "protect")])
        .await;
    scene.keep().await;
    assert_eq!(scene.policies().await, "p=protect q=protect");
}

#[tokio::test]
async fn what_vanishes_is_deleted_if_we_made_it() {
    let cluster = TestCluster::bare().await;
    let scene = Scene::new(&cluster);
    cluster.add_policy("theirs").await;
    scene
        .say(&[
            policy("p", "monitor"),
            policy("q", "monitor"),
            policy("theirs", "monitor"),
        ])
        .await;
    scene.keep().await;
    assert_eq!(scene.policies().await, "p=monitor q=monitor theirs=protect");
    let told = scene.told().await;
    let expected = "1 p.yaml, document 3: ClusterAdmissionPolicy theirs is there already and not from here: it is left alone";
    assert_eq!(told, [expected]);
    // A copy carries our label, and was made by somebody else all the same.
    let mut copy = policy("copy", "monitor");
    copy["metadata"]["labels"] = json!({LABEL: MAP});
    cluster.add(&copy).await;
    // Whoever takes the label off takes the policy over.
    let patch = Patch::Merge(json!({"metadata": {"labels": {LABEL: null}}}));
    let params = PatchParams::default();
    cluster
        .policies()
        .patch("q", &params, &patch)
        .await
        .unwrap();
    scene.say(&[]).await;
    scene.keep().await;
    assert_eq!(
        scene.policies().await,
        "copy=monitor q=monitor theirs=protect"
    );
    // Without the ConfigMap nothing happens.
    scene.say(&[policy("p", "monitor")]).await;
    scene.keep().await;
    let at_once = DeleteParams::default();
    scene.maps().delete(MAP, &at_once).await.unwrap();
    scene.keep().await;
    assert!(scene.policies().await.contains("p=monitor"));
}

#[tokio::test]
async fn one_bad_document_is_told_once_and_the_others_go_on() {
    let cluster = TestCluster::bare().await;
    let scene = Scene::new(&cluster);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}});
    let mut elsewhere = policy("n", "monitor");
    elsewhere["kind"] = json!("AdmissionPolicy");
    elsewhere["metadata"]["namespace"] = json!("nowhere");
    let documents = [
        policy("p", "monitor").to_string(),
        "a: [".to_owned(),
        secret.to_string(),
        policy("bad", "nonsense").to_string(),
        elsewhere.to_string(),
        policy("q", "monitor").to_string(),
    ];
    scene.say_text(&documents.join("\n---\n")).await;
    for _ in 0..3 {
        scene.keep().await;
    }
    assert_eq!(scene.policies().await, "p=monitor q=monitor");
    let told = scene.told().await;
    let expected = [
        "1 p.yaml, document 2: it is not YAML",
        "1 p.yaml, document 3: Secret of v1 is no policy",
        "1 p.yaml, document 4: ",
        "1 p.yaml, document 5: ",
    ];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{told}");
    }
    assert!(told[2].contains("spec.mode"), "{}", told[2]);
    assert!(told[3].contains("nowhere"), "{}", told[3]);
    // What the unreadable document may have been about is not deleted meanwhile.
    scene.say_text("a: [").await;
    scene.keep().await;
    assert_eq!(scene.policies().await, "p=monitor q=monitor");
    scene.say_text("").await;
    scene.keep().await;
    assert_eq!(scene.policies().await, "");
}

#[tokio::test]
async fn killed_at_every_write_it_comes_to_the_same_end() {
    let cluster = TestCluster::bare().await;
    let n_runs = Cell::new(0);
    let n_cut_off = for_every_write(|point| {
        let n_run = n_runs.replace(n_runs.get() + 1);
        let cluster = &cluster;
        async move {
            let map = format!("map{n_run}");
            let scene = Scene { cluster, map: &map };
            let name = |letter: &str| format!("{letter}{n_run}");
            let shown = async || {
                let all = scene.policies().await;
                let own = all.split(' ').filter(|one| {
                    let (name, _) = one.split_once('=').unwrap_or_default();
                    name.get(1..) == Some(n_run.to_string().as_str())
                });
                own.collect::<Vec<_>>().join(" ")
            };
            let dying = scene.with(point.client(cluster.client.clone()).client());
            let look = async || {
                // Whether it notices that it is cut off does not matter.
                let _ = dying.reconcile().await;
                scene.keep().await;
            };
            let (p, q, r) = (name("p"), name("q"), name("r"));
            scene
                .say(&[
                    policy(&p, "monitor"),
                    policy(&q, "monitor"),
                    policy(&r, "monitor"),
                ])
                .await;
            look().await;
            cluster.delete(&r).await;
            cluster.change(&p, json!({"mode": "protect"})).await;
            let p_again = with_module(policy(&p, "monitor"), "registry.example/policy:2");
            scene.say(&[p_again, policy(&r, "monitor")]).await;
            look().await;
            assert_eq!(shown().await, format!("{p}=protect"), "{point:?}");
            let found = cluster.policies().get(&p).await.unwrap();
            let module = found.spec.policy.module.module;
            assert_eq!(module, "registry.example/policy:2", "{point:?}");
            let counting = FaultyClient::new(cluster.client.clone());
            scene.with(counting.client()).reconcile().await.unwrap();
            assert_eq!(counting.writes(), [], "{point:?}");
            scene.say(&[]).await;
            look().await;
            assert_eq!(shown().await, "", "{point:?}");
        }
    })
    .await;
    assert!(n_cut_off > 15, "{n_cut_off}");
}

/// With the account and the rights of an installation, and by the watch alone.
#[tokio::test(flavor = "multi_thread")]
async fn the_controller_keeps_to_a_config_map_that_comes_later() {
    let cluster = TestCluster::bare().await;
    let scene = Scene::new(&cluster);
    let running = Running::start_with_defaults(&cluster, Some(MAP)).await;
    scene
        .say(&[server("default"), policy("p", "monitor")])
        .await;
    // Not before its webhooks are there: what they fill in is to be filled in.
    cluster
        .add(&json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "kubewarden-controller-mutating-webhook-configuration"},
        }))
        .await;
    eventually("it is there", || async {
        scene.policies().await == "p=monitor"
    })
    .await;
    let mut bad = policy("bad", "monitor");
    bad["spec"]["mode"] = json!("nonsense");
    scene.say(&[policy("p", "protect"), bad]).await;
    eventually("it is brought up to date", || async {
        scene.policies().await == "p=protect"
    })
    .await;
    eventually("the ConfigMap says what was wrong", || async {
        let events: Api<Event> = Api::namespaced(cluster.client.clone(), NAMESPACE);
        let all = events.list(&ListParams::default()).await.unwrap();
        let mut notes = all.iter().filter_map(|one| one.note.as_deref());
        notes.any(|note| note.starts_with("p.yaml, document 2: "))
    })
    .await;
    scene.say(&[server("default")]).await;
    eventually("it is finalised and gone", || async {
        scene.policies().await.is_empty()
    })
    .await;
    eventually("the record is of what is there", || async {
        let map = scene.maps().get(MAP).await.unwrap();
        !map.annotations()[RECORD].contains("ClusterAdmissionPolicy")
    })
    .await;
    running.stop().await;
}
