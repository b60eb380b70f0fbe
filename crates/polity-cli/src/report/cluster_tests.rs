//! `polity report view` on a cluster: the API server in this process.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use polity_report::public::ReportGroup;
use polity_testing::TestServer;
use serde_json::json;

use polity_source::reports::from_cluster;

async fn install(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in polity_api::crd::shared() {
        let created = api.create(&PostParams::default(), &definition).await;
        created.unwrap();
    }
}

/// Creates a report of a group with one failing result.
async fn report(client: &Client, group: ReportGroup, namespace: Option<&str>, name: &str) {
    let place = usize::from(namespace.is_none());
    let kind = GroupVersionKind::gvk(group.group(), group.version(), group.kinds()[place]);
    let resource = ApiResource::from_gvk_with_plural(&kind, group.plurals()[place]);
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let mut object = json!({
        "apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name},
        "results": [{"policy": "team-label", "result": "fail", "source": "scanner",
                     "resources": [{"apiVersion": "v1", "kind": "Pod", "name": name}]}],
    });
    if group == ReportGroup::ALL[1] {
        object["source"] = json!("scanner");
    }
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let created = api.create(&PostParams::default(), &object).await;
    created.unwrap_or_else(|error| panic!("creating {name}: {error}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_of_a_cluster_are_read_page_by_page_in_both_groups() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let nothing = from_cluster(&client, &[]).await.unwrap_err();
    assert_eq!(nothing.to_string(), "the cluster serves no kind of report");

    install(&client).await;
    let [first, second] = ReportGroup::ALL;
    for n in 0..510 {
        report(&client, first, Some("default"), &format!("p{n:03}")).await;
    }
    report(&client, second, Some("kube-system"), "other").await;
    report(&client, first, None, "cluster-one").await;
    report(&client, second, None, "cluster-two").await;

    let all = from_cluster(&client, &[]).await.unwrap();
    assert_eq!(all.unreadable, Vec::<String>::new());
    assert_eq!(all.n_reports, 513, "two pages, both groups, both scopes");
    let names: BTreeSet<&str> = all.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names.len(), 513, "each once");

    let one = from_cluster(&client, &["kube-system".to_owned()]).await;
    assert_eq!(one.unwrap().n_reports, 1, "no other is asked for");
}
