//! A definition never takes the place of a built-in kind, of its objects, or of another definition.

use polity_testing::eventually;
use serde_json::{Value, json};

use super::*;

const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// A definition in any group, approved as the groups of the Kubernetes project require it.
fn definition_in(group: &str, version: &str, plural: &str, kind: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": group, "scope": "Cluster",
            "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

async fn delete_definition(http: &Http, name: &str) {
    let path = one(DEFINITIONS, name);
    http.delete(&path).await.expect(200);
    eventually("the definition is gone", || async {
        http.get(&path).await.code == 404
    })
    .await;
}

#[tokio::test]
async fn a_definition_in_a_protected_group_needs_an_approval() {
    let (_server, http) = start().await;
    let mut definition = definition_in(
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
    );
    definition["metadata"]["annotations"] = json!({});
    let refused = http.post(DEFINITIONS, &definition).await;
    assert_eq!(refused.refusal(), (422, "Invalid"));
    assert!(
        refused.message().contains("api-approved.kubernetes.io"),
        "{}",
        refused.message()
    );
}

/// Each built-in kind in a group that a definition can name.
#[tokio::test]
async fn a_definition_of_a_built_in_resource_changes_nothing_about_it() {
    let (_server, http) = start().await;
    create(&http, WEBHOOKS, &named("kept")).await;
    create(
        &http,
        DEFINITIONS,
        &definition("gears", "Gear", &json!({"type": "object"})),
    )
    .await;
    let groups = http.get("/apis").await.expect(200);
    let groups = groups["groups"].as_array().unwrap().iter();
    let names = groups.map(|group| group["name"].as_str().unwrap().to_owned());
    let mut n_kinds = 0;
    for group in names.filter(|name| name.ends_with(".k8s.io")) {
        let path = format!("/apis/{group}/v1");
        let before = http.get(&path).await.expect(200);
        let resources = before["resources"].as_array().unwrap().clone();
        for resource in &resources {
            let (plural, kind) = (&resource["name"], &resource["kind"]);
            let (plural, kind) = (plural.as_str().unwrap(), kind.as_str().unwrap());
            if plural.contains('/') {
                continue;
            }
            n_kinds += 1;
            let is_stored = resource["verbs"]
                .as_array()
                .unwrap()
                .contains(&json!("list"));
            let collection = format!("{path}/{plural}");
            let keys = || async {
                let listed = http.get(&collection).await.expect(200);
                let own = format!("{plural}.{group}");
                let mut names: Vec<String> = self::names(&listed)
                    .into_iter()
                    .map(str::to_owned)
                    .collect();
                names.retain(|name| *name != own);
                names
            };
            let objects = if is_stored { keys().await } else { Vec::new() };
            create(
                &http,
                DEFINITIONS,
                &definition_in(&group, "v1", plural, kind),
            )
            .await;
            assert_eq!(http.get(&path).await.expect(200), before, "{collection}");
            delete_definition(&http, &format!("{plural}.{group}")).await;
            assert_eq!(http.get(&path).await.expect(200), before, "{collection}");
            if is_stored {
                assert_eq!(keys().await, objects, "{collection}");
            }
        }
    }
    assert!(n_kinds > 20, "{n_kinds} kinds");
    http.get(&one(WEBHOOKS, "kept")).await.expect(200);
}

/// A version that is not built in is served from separate storage.
#[tokio::test]
async fn another_version_of_a_built_in_resource_has_its_own_objects() {
    let (_server, http) = start().await;
    create(&http, WEBHOOKS, &named("built-in")).await;
    let group = "admissionregistration.k8s.io";
    let (plural, kind) = (
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
    );
    create(
        &http,
        DEFINITIONS,
        &definition_in(group, "v2", plural, kind),
    )
    .await;
    let own = format!("/apis/{group}/v2/{plural}");
    let object =
        json!({"apiVersion": format!("{group}/v2"), "kind": kind, "metadata": {"name": "custom"}});
    create(&http, &own, &object).await;
    assert_eq!(names(&http.get(&own).await.expect(200)), ["custom"]);
    assert_eq!(names(&http.get(WEBHOOKS).await.expect(200)), ["built-in"]);
    delete_definition(&http, &format!("{plural}.{group}")).await;
    assert_eq!(http.get(&own).await.code, 404);
    assert_eq!(names(&http.get(WEBHOOKS).await.expect(200)), ["built-in"]);
}

/// The server finds its own kinds by name; a definition with the same kind is not one of them.
#[tokio::test]
async fn a_definition_of_a_built_in_kind_by_another_plural_is_not_taken_for_it() {
    let (_server, http) = start().await;
    let impostor = definition_in(
        "apiextensions.k8s.io",
        "v2",
        "impostors",
        "CustomResourceDefinition",
    );
    create(&http, DEFINITIONS, &impostor).await;
    create(
        &http,
        DEFINITIONS,
        &definition("gears", "Gear", &json!({"type": "object"})),
    )
    .await;
    create(
        &http,
        &collection("gears"),
        &custom("Gear", "g", &json!({})),
    )
    .await;
    // The clean-up writes to the definition through its kind.
    delete_definition(&http, "gears.it.polity.dev").await;
    // The owner of an object is looked up by its kind.
    let kept = create(
        &http,
        DEFINITIONS,
        &definition("cogs", "Cog", &json!({"type": "object"})),
    )
    .await;
    let mut owned = named("owned");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "name": "cogs.it.polity.dev", "uid": kept["metadata"]["uid"],
    }]);
    create(&http, MAPS, &owned).await;
    delete_definition(&http, "cogs.it.polity.dev").await;
    eventually("the garbage collector follows its owner", || async {
        http.get(&one(MAPS, "owned")).await.code == 404
    })
    .await;
}

#[tokio::test]
async fn groups_without_a_dot_are_refused() {
    let (_server, http) = start().await;
    for group in ["", "apps", "batch"] {
        let refused = http
            .post(DEFINITIONS, &definition_in(group, "v1", "pods", "Pod"))
            .await;
        assert_eq!(refused.refusal(), (422, "Invalid"), "{group:?}");
    }
}

/// A name that is refused later does not take away the ones that were accepted.
#[tokio::test]
async fn an_established_definition_stays_served_when_it_asks_for_a_taken_name() {
    let (_server, http) = start().await;
    let schema = json!({"type": "object"});
    let mut first = definition("gears", "Gear", &schema);
    first["spec"]["names"]["shortNames"] = json!(["gr"]);
    create(&http, DEFINITIONS, &first).await;
    create(&http, DEFINITIONS, &definition("cogs", "Cog", &schema)).await;
    create(&http, &collection("cogs"), &custom("Cog", "c", &json!({}))).await;
    let names_of_cogs = json!({"spec": {"names": {"shortNames": ["gr"]}}});
    let path = one(DEFINITIONS, "cogs.it.polity.dev");
    http.merge(&path, &names_of_cogs).await.expect(200);
    let stored = http.get(&path).await.expect(200);
    let conditions = stored["status"]["conditions"].as_array().unwrap().iter();
    let refused = conditions
        .filter(|condition| condition["status"] == "False")
        .map(|condition| condition["reason"].as_str().unwrap());
    assert_eq!(refused.collect::<Vec<_>>(), ["ShortNamesConflict"]);
    assert_eq!(
        names(&http.get(&collection("cogs")).await.expect(200)),
        ["c"]
    );
    let resources = http.get("/apis/it.polity.dev/v1").await.expect(200);
    let cogs = resources["resources"].as_array().unwrap().iter();
    let cogs = cogs.filter(|resource| resource["name"] == "cogs");
    assert!(cogs.clone().count() == 1 && cogs.into_iter().all(|cogs| cogs["shortNames"].is_null()));
}

/// Versions that are no longer served still have objects.
#[tokio::test]
async fn a_definition_that_serves_nothing_is_deleted_with_its_objects() {
    let (_server, http) = start().await;
    let gears = definition("gears", "Gear", &json!({"type": "object"}));
    create(&http, DEFINITIONS, &gears).await;
    create(
        &http,
        &collection("gears"),
        &custom("Gear", "g", &json!({})),
    )
    .await;
    let path = one(DEFINITIONS, "gears.it.polity.dev");
    let mut stored = http.get(&path).await.expect(200);
    stored["spec"]["versions"][0]["served"] = json!(false);
    http.put(&path, &stored).await.expect(200);
    assert_eq!(http.get(&collection("gears")).await.code, 404);
    delete_definition(&http, "gears.it.polity.dev").await;
    create(&http, DEFINITIONS, &gears).await;
    assert_eq!(
        names(&http.get(&collection("gears")).await.expect(200)),
        [] as [&str; 0]
    );
}

/// Both clean-ups delete the same objects.
#[tokio::test]
async fn ns_c6_a_definition_and_a_namespace_are_deleted_at_the_same_time() {
    let (_server, http) = start().await;
    create(
        &http,
        DEFINITIONS,
        &definition("gears", "Gear", &json!({"type": "object"})),
    )
    .await;
    create(&http, NAMESPACES, &named("doomed")).await;
    let gears = "/apis/it.polity.dev/v1/namespaces/doomed/gears";
    for number in 0..20 {
        let gear = custom("Gear", &format!("g{number}"), &json!({}));
        create(&http, gears, &gear).await;
    }
    let (namespace, path) = (
        one(NAMESPACES, "doomed"),
        one(DEFINITIONS, "gears.it.polity.dev"),
    );
    let (first, second) = tokio::join!(http.delete(&namespace), http.delete(&path));
    assert_eq!((first.code, second.code), (200, 200));
    for path in [&namespace, &path] {
        eventually("it is gone", || async { http.get(path).await.code == 404 }).await;
    }
}
