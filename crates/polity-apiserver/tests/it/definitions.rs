//! CustomResourceDefinitions over their life: names, establishment, schemas that change, subresources,
//! columns, versions, deletion (docs/spec/apiserver.md#15).

use polity_testing::eventually;
use polity_testing::http::short;
use serde_json::{Value, json};

use super::*;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn condition(object: &Value, kind: &str) -> (String, String) {
    let conditions = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let found = conditions
        .into_iter()
        .find(|condition| condition["type"] == kind);
    let text = |key: &str| {
        found
            .and_then(|condition| condition[key].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    (text("status"), text("reason"))
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// Changes a definition's spec and returns the stored object.
async fn redefine(http: &Http, plural: &str, change: impl Fn(&mut Value)) -> Value {
    let path = format!("{DEFINITIONS}/{plural}.it.polity.dev");
    let mut stored = http.get(&path).await.expect(200);
    change(&mut stored["spec"]);
    http.put(&path, &stored).await.expect(200)
}

fn spec_schema() -> Value {
    json!({"type": "object", "properties": {"size": {"type": "integer"}, "colour": {"type": "string"}}})
}

#[tokio::test]
async fn a_definition_is_served_before_it_is_established() {
    let (_server, http) = start().await;
    let mut lines = http.watch(&format!("{DEFINITIONS}?watch=true")).await;
    create(
        &http,
        DEFINITIONS,
        &definition("gears", "Gear", &spec_schema()),
    )
    .await;
    let established = loop {
        let object = lines.event().await["object"].clone();
        if condition(&object, "Established").0 == "True" {
            break object;
        }
    };
    // From here on everything about it must be there.
    let resources = http.get("/apis/it.polity.dev/v1").await.expect(200);
    assert!(
        resources["resources"]
            .as_array()
            .unwrap()
            .iter()
            .any(|resource| resource["name"] == "gears")
    );
    assert!(
        http.get("/openapi/v3").await.expect(200)["paths"]["apis/it.polity.dev/v1"].is_object()
    );
    create(
        &http,
        &collection("gears"),
        &custom("Gear", "g", &json!({})),
    )
    .await;

    assert_eq!(
        condition(&established, "NamesAccepted"),
        pair("True", "NoConflicts")
    );
    assert_eq!(
        condition(&established, "Established"),
        pair("True", "InitialNamesAccepted")
    );
    let names =
        json!({"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"});
    assert_eq!(
        (
            &established["spec"]["names"],
            &established["status"]["acceptedNames"]
        ),
        (&names, &names),
    );
    assert_eq!(established["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(
        established["spec"]["conversion"],
        json!({"strategy": "None"})
    );
}

#[tokio::test]
async fn names_are_taken_once() {
    let (_server, http) = start().await;
    let with = |plural: &str, kind: &str, names: Value| {
        let mut definition = definition(plural, kind, &spec_schema());
        for (key, value) in names.as_object().unwrap() {
            definition["spec"]["names"][key] = value.clone();
        }
        definition
    };
    create(
        &http,
        DEFINITIONS,
        &with(
            "gears",
            "Gear",
            json!({"shortNames": ["gr"], "singular": "gear"}),
        ),
    )
    .await;
    for (plural, kind, names, reason) in [
        (
            "cogs",
            "Gear",
            json!({"listKind": "CogList", "singular": "cog"}),
            "KindConflict",
        ),
        (
            "wheels",
            "Wheel",
            json!({"listKind": "GearList"}),
            "ListKindConflict",
        ),
        (
            "bolts",
            "Bolt",
            json!({"singular": "gear"}),
            "SingularConflict",
        ),
        (
            "nuts",
            "Nut",
            json!({"shortNames": ["gr"]}),
            "ShortNamesConflict",
        ),
        ("gear", "Other", json!({}), "PluralConflict"),
    ] {
        create(&http, DEFINITIONS, &with(plural, kind, names)).await;
        let path = format!("{DEFINITIONS}/{plural}.it.polity.dev");
        eventually("the names are judged", || async {
            let stored = http.get(&path).await.expect(200);
            let seen = condition(&stored, "NamesAccepted");
            if seen == pair("False", reason) {
                Ok(())
            } else {
                Err((plural, seen))
            }
        })
        .await;
        assert_eq!(
            http.get(&collection(plural)).await.code,
            404,
            "{plural} is not served"
        );
    }
    // A name that becomes available goes to the definition that waits for it.
    http.delete(&format!("{DEFINITIONS}/gears.it.polity.dev"))
        .await
        .expect(200);
    eventually("cogs are served", || async {
        http.get(&collection("cogs")).await.code == 200
    })
    .await;
}

#[tokio::test]
async fn a_deleted_definition_takes_its_objects_with_it() {
    let (_server, http) = start().await;
    create(
        &http,
        DEFINITIONS,
        &definition("gears", "Gear", &spec_schema()),
    )
    .await;
    let gears = collection("gears");
    create(&http, &gears, &custom("Gear", "free", &json!({}))).await;
    let mut held = custom("Gear", "held", &json!({}));
    held["metadata"]["finalizers"] = json!(["it.polity.dev/hold"]);
    create(&http, &gears, &held).await;

    let path = format!("{DEFINITIONS}/gears.it.polity.dev");
    let deleted = http.delete(&path).await.expect(200);
    assert!(
        deleted["metadata"]["finalizers"]
            .as_array()
            .unwrap()
            .contains(&json!("customresourcecleanup.apiextensions.k8s.io"))
    );
    eventually("what can go is gone", || async {
        names(&http.get(&gears).await.expect(200)) == ["held"]
    })
    .await;
    let terminating = http.get(&path).await.expect(200);
    assert_eq!(condition(&terminating, "Terminating").0, "True");
    assert_eq!(
        http.post(&gears, &custom("Gear", "new", &json!({})))
            .await
            .code,
        403
    );
    let mut applied = custom("Gear", "new", &json!({}));
    applied["metadata"]["namespace"] = json!("default");
    assert_eq!(
        http.apply(&format!("{gears}/new?fieldManager=it"), &applied)
            .await
            .code,
        403
    );
    let resources = http.get("/apis/it.polity.dev/v1").await.expect(200);
    let verbs = resources["resources"][0]["verbs"]
        .as_array()
        .unwrap()
        .clone();
    assert!(
        !verbs
            .iter()
            .any(|verb| ["create", "update", "patch"].contains(&verb.as_str().unwrap())),
        "{verbs:?}"
    );

    http.merge(
        &format!("{gears}/held"),
        &json!({"metadata": {"finalizers": null}}),
    )
    .await
    .expect(200);
    eventually("the definition is gone", || async {
        http.get(&path).await.code == 404
    })
    .await;
    assert_eq!(http.get(&gears).await.text, "404 page not found\n");
    assert_eq!(http.get("/apis/it.polity.dev").await.code, 404);
    assert!(http.get("/openapi/v3").await.expect(200)["paths"]["apis/it.polity.dev/v1"].is_null());
    // Nothing of the old kind shows in a new one of that name.
    create(
        &http,
        DEFINITIONS,
        &definition("gears", "Gear", &spec_schema()),
    )
    .await;
    assert_eq!(names(&http.get(&gears).await.expect(200)), [] as [&str; 0]);
}

#[tokio::test]
async fn an_old_object_gets_new_defaults_and_loses_undeclared_fields() {
    let (_server, http) = start().await;
    create(
        &http,
        DEFINITIONS,
        &definition("gears", "Gear", &spec_schema()),
    )
    .await;
    let gears = collection("gears");
    let old = create(
        &http,
        &gears,
        &custom(
            "Gear",
            "g",
            &json!({"size": 1, "colour": "red", "unknown": true}),
        ),
    )
    .await;
    assert_eq!(old["spec"], json!({"size": 1, "colour": "red"}));
    redefine(&http, "gears", |spec| {
        spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({"type": "object", "properties": {
            "size": {"type": "integer"}, "teeth": {"type": "integer", "default": 12},
        }});
    })
    .await;
    let expected = json!({"size": 1, "teeth": 12});
    let one = http.get(&format!("{gears}/g")).await.expect(200);
    assert_eq!(one["spec"], expected);
    assert_eq!(version(&one), version(&old), "reading writes nothing");
    assert_eq!(
        http.get(&gears).await.expect(200)["items"][0]["spec"],
        expected
    );
    let mut lines = http.watch(&format!("{gears}?watch=true")).await;
    assert_eq!(lines.event().await["object"]["spec"], expected);
    // A field selector and the next write see it as well.
    let next = http
        .merge(
            &format!("{gears}/g"),
            &json!({"metadata": {"labels": {"a": "b"}}}),
        )
        .await
        .expect(200);
    assert_eq!(
        (&next["spec"], &next["metadata"]["generation"]),
        (&expected, &json!(1))
    );
}

#[tokio::test]
async fn generation_and_status() {
    let (_server, http) = start().await;
    create(
        &http,
        DEFINITIONS,
        &definition("plains", "Plain", &spec_schema()),
    )
    .await;
    let mut with_status = definition("gears", "Gear", &spec_schema());
    with_status["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    create(&http, DEFINITIONS, &with_status).await;
    let generation = |object: &Value| object["metadata"]["generation"].as_i64().unwrap();

    // With the subresource, status is written apart and never counts.
    let gears = collection("gears");
    let mut gear = custom("Gear", "g", &json!({"size": 1}));
    gear["status"] = json!({"size": 9});
    gear["metadata"]["generation"] = json!(7);
    let stored = create(&http, &gears, &gear).await;
    assert_eq!((generation(&stored), &stored["status"]), (1, &Value::Null));
    let path = format!("{gears}/g");
    let both =
        json!({"spec": {"size": 2}, "status": {"size": 9}, "metadata": {"labels": {"a": "b"}}});
    let main = http.merge(&path, &both).await.expect(200);
    assert_eq!(
        (generation(&main), &main["spec"]["size"], &main["status"]),
        (2, &json!(2), &Value::Null)
    );
    let both =
        json!({"spec": {"size": 3}, "status": {"size": 2}, "metadata": {"labels": {"a": "c"}}});
    let status = http
        .merge(&format!("{path}/status"), &both)
        .await
        .expect(200);
    assert_eq!(
        (
            generation(&status),
            &status["spec"]["size"],
            &status["status"]["size"]
        ),
        (2, &json!(2), &json!(2))
    );
    assert_eq!(
        status["metadata"]["labels"],
        json!({"a": "b"}),
        "metadata edits are discarded"
    );
    let labelled = http
        .merge(
            &path,
            &json!({"metadata": {"labels": {"a": "c"}, "annotations": {"x": "y"}}}),
        )
        .await
        .expect(200);
    assert_eq!(generation(&labelled), 2);
    assert_eq!(
        http.get(&format!("{path}/status")).await.expect(200)["status"]["size"],
        2
    );

    // The first mark of deletion counts.
    http.merge(
        &path,
        &json!({"metadata": {"finalizers": ["it.polity.dev/hold"]}}),
    )
    .await
    .expect(200);
    assert_eq!(generation(&http.delete(&path).await.expect(200)), 3);
    assert_eq!(generation(&http.delete(&path).await.expect(200)), 3);

    // Without it, status is like the rest.
    let plains = collection("plains");
    let mut plain = custom("Plain", "p", &json!({"size": 1}));
    plain["status"] = json!({"size": 9});
    let stored = create(&http, &plains, &plain).await;
    assert_eq!(
        (generation(&stored), &stored["status"]["size"]),
        (1, &json!(9))
    );
    let changed = http
        .merge(&format!("{plains}/p"), &json!({"status": {"size": 8}}))
        .await
        .expect(200);
    assert_eq!(generation(&changed), 2);
    assert_eq!(http.get(&format!("{plains}/p/status")).await.code, 404);
}

#[tokio::test]
async fn scale() {
    let (_server, http) = start().await;
    let mut gears = definition(
        "gears",
        "Gear",
        &json!({"type": "object", "properties": {"size": {"type": "integer"}}}),
    );
    gears["spec"]["versions"][0]["subresources"] = json!({
        "status": {},
        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"},
    });
    create(&http, DEFINITIONS, &gears).await;
    let gears = collection("gears");
    let stored = create(&http, &gears, &custom("Gear", "g", &json!({"size": 3}))).await;
    let scale = http.get(&format!("{gears}/g/scale")).await.expect(200);
    assert_eq!(
        (&scale["kind"], &scale["apiVersion"]),
        (&json!("Scale"), &json!("autoscaling/v1"))
    );
    assert_eq!(
        (&scale["spec"], &scale["status"]),
        (&json!({"replicas": 3}), &json!({"replicas": 0}))
    );
    for key in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        assert_eq!(scale["metadata"][key], stored["metadata"][key], "{key}");
    }
    http.merge(
        &format!("{gears}/g/status"),
        &json!({"status": {"size": 2, "selector": "app=g"}}),
    )
    .await
    .expect(200);
    let scaled = http
        .merge(
            &format!("{gears}/g/scale"),
            &json!({"spec": {"replicas": 5}}),
        )
        .await
        .expect(200);
    assert_eq!(
        (&scaled["spec"]["replicas"], &scaled["status"]),
        (&json!(5), &json!({"replicas": 2, "selector": "app=g"}))
    );
    let object = http.get(&format!("{gears}/g")).await.expect(200);
    assert_eq!(
        (&object["spec"]["size"], &object["metadata"]["generation"]),
        (&json!(5), &json!(2))
    );
    let mut stale = scale.clone();
    stale["spec"]["replicas"] = json!(1);
    assert_eq!(
        http.put(&format!("{gears}/g/scale"), &stale)
            .await
            .refusal(),
        (409, "Conflict")
    );
    assert_eq!(
        http.merge(
            &format!("{gears}/g/scale"),
            &json!({"spec": {"replicas": -1}})
        )
        .await
        .refusal(),
        (422, "Invalid")
    );
    create(&http, &gears, &custom("Gear", "without", &json!({}))).await;
    assert_eq!(
        http.get(&format!("{gears}/without/scale")).await.code,
        500,
        "a missing spec path"
    );
}

#[tokio::test]
async fn printer_columns() {
    let (_server, http) = start().await;
    let mut gears = definition("gears", "Gear", &spec_schema());
    gears["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    create(&http, DEFINITIONS, &gears).await;
    create(
        &http,
        DEFINITIONS,
        &definition("plains", "Plain", &spec_schema()),
    )
    .await;
    create(
        &http,
        &collection("gears"),
        &custom("Gear", "g", &json!({"size": 3})),
    )
    .await;
    create(
        &http,
        &collection("plains"),
        &custom("Plain", "p", &json!({})),
    )
    .await;
    let columns = |table: &Value| -> Vec<String> {
        table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| {
                format!(
                    "{} {} {}",
                    column["name"].as_str().unwrap(),
                    column["type"].as_str().unwrap(),
                    column["priority"]
                )
            })
            .collect()
    };
    let table = http.get_as(&collection("gears"), TABLE).await.expect(200);
    assert_eq!(
        columns(&table),
        [
            "Name string 0",
            "Size integer 0",
            "Colour string 1",
            "Since date 0"
        ]
    );
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..3], [json!("g"), json!(3), Value::Null]);
    assert!(
        cells[3].as_str().is_some_and(|age| age.ends_with('s')),
        "{cells:?}"
    );
    let plain = http.get_as(&collection("plains"), TABLE).await.expect(200);
    assert_eq!(columns(&plain), ["Name string 0", "Age date 0"]);
}

#[tokio::test]
async fn selectable_fields() {
    let (_server, http) = start().await;
    let mut gears = definition("gears", "Gear", &spec_schema());
    gears["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.colour"}, {"jsonPath": ".spec.size"}]);
    create(&http, DEFINITIONS, &gears).await;
    let gears = collection("gears");
    for (name, colour, size) in [("a", "red", 1), ("b", "blue", 1), ("c", "red", 2)] {
        create(
            &http,
            &gears,
            &custom("Gear", name, &json!({"colour": colour, "size": size})),
        )
        .await;
    }
    for (selector, expected) in [
        ("spec.colour%3Dred", "ac"),
        ("spec.colour%3Dred,spec.size%3D2", "c"),
        ("spec.size%21%3D1", "c"),
        ("spec.colour%3D", ""),
    ] {
        let list = http
            .get(&format!("{gears}?fieldSelector={selector}"))
            .await
            .expect(200);
        assert_eq!(names(&list).concat(), expected, "{selector}");
    }
    assert_eq!(
        http.get(&format!("{gears}?fieldSelector=spec.teeth%3D1"))
            .await
            .refusal(),
        (400, "BadRequest")
    );
    let from = version(&http.get(&gears).await.expect(200));
    let mut lines = http
        .watch(&format!(
            "{gears}?watch=true&resourceVersion={from}&fieldSelector=spec.colour%3Dred"
        ))
        .await;
    http.merge(&format!("{gears}/b"), &json!({"spec": {"colour": "red"}}))
        .await
        .expect(200);
    http.merge(&format!("{gears}/a"), &json!({"spec": {"colour": "blue"}}))
        .await
        .expect(200);
    assert_eq!(
        [short(&lines.event().await), short(&lines.event().await)],
        ["ADDED b", "DELETED a"]
    );
}

#[tokio::test]
async fn versions_share_storage_and_history() {
    let (_server, http) = start().await;
    let mut gears = definition("gears", "Gear", &spec_schema());
    let mut beta = gears["spec"]["versions"][0].clone();
    beta["name"] = json!("v1beta1");
    beta["storage"] = json!(false);
    beta["deprecated"] = json!(true);
    gears["spec"]["versions"].as_array_mut().unwrap().push(beta);
    create(&http, DEFINITIONS, &gears).await;
    let (new, old) = (
        collection("gears"),
        "/apis/it.polity.dev/v1beta1/namespaces/default/gears",
    );
    let mut lines = http.watch(&format!("{old}?watch=true")).await;

    let stored = create(&http, &new, &custom("Gear", "g", &json!({"size": 1}))).await;
    let answer = http.get(&format!("{old}/g")).await;
    assert_eq!(
        answer.header("warning"),
        "299 - \"it.polity.dev/v1beta1 Gear is deprecated; use it.polity.dev/v1 Gear\"",
    );
    let as_old = answer.expect(200);
    assert_eq!(as_old["apiVersion"], "it.polity.dev/v1beta1");
    assert_eq!(version(&as_old), version(&stored));
    let event = lines.event().await;
    assert_eq!(
        (short(&event), &event["object"]["apiVersion"]),
        ("ADDED g".into(), &json!("it.polity.dev/v1beta1"))
    );
    http.merge(&format!("{old}/g"), &json!({"spec": {"size": 2}}))
        .await
        .expect(200);
    assert_eq!(lines.short().await, "MODIFIED g");
    let as_new = http.get(&format!("{new}/g")).await.expect(200);
    assert_eq!(
        (&as_new["apiVersion"], &as_new["spec"]["size"]),
        (&json!("it.polity.dev/v1"), &json!(2))
    );

    // Objects keep the version in which they are stored. New writes may use another version.
    redefine(&http, "gears", |spec| {
        spec["versions"][0]["storage"] = json!(false);
        spec["versions"][1]["storage"] = json!(true);
    })
    .await;
    let path = format!("{DEFINITIONS}/gears.it.polity.dev");
    let mut definition = http.get(&path).await.expect(200);
    assert_eq!(
        definition["status"]["storedVersions"],
        json!(["v1", "v1beta1"])
    );
    assert_eq!(
        http.get(&format!("{new}/g")).await.expect(200)["spec"]["size"],
        2
    );
    definition["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .remove(0);
    assert_eq!(
        http.put(&path, &definition).await.refusal(),
        (422, "Invalid")
    );
    // A version that is not served any more returns 404, and its objects stay.
    redefine(&http, "gears", |spec| {
        spec["versions"][0]["served"] = json!(false);
    })
    .await;
    assert_eq!(http.get(&new).await.code, 404);
    assert_eq!(names(&http.get(old).await.expect(200)), ["g"]);
}

#[tokio::test]
async fn patches_and_bodies_of_custom_resources() {
    let (_server, http) = start().await;
    create(
        &http,
        DEFINITIONS,
        &definition("gears", "Gear", &spec_schema()),
    )
    .await;
    let gears = collection("gears");
    let stored = create(&http, &gears, &custom("Gear", "g", &json!({"size": 1}))).await;
    let strategic = polity_testing::http::json(
        http::Method::PATCH,
        &format!("{gears}/g"),
        "application/strategic-merge-patch+json",
        &json!({}),
    );
    assert_eq!(
        http.send(strategic).await.refusal(),
        (415, "UnsupportedMediaType")
    );
    let mut without_version = stored.clone();
    without_version["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let answer = http.put(&format!("{gears}/g"), &without_version).await;
    assert_eq!(answer.refusal(), (422, "Invalid"));
    assert_eq!(
        answer.body["details"]["causes"][0]["field"],
        "metadata.resourceVersion"
    );
    for (key, value, refusal) in [
        ("kind", "Cog", (422, "Invalid")),
        ("apiVersion", "it.polity.dev/v2", (400, "BadRequest")),
    ] {
        let mut other = custom("Gear", "x", &json!({}));
        other[key] = json!(value);
        assert_eq!(http.post(&gears, &other).await.refusal(), refusal, "{key}");
    }
    assert_eq!(
        http.post(&gears, &custom("Gear", "Not_A_Name", &json!({})))
            .await
            .refusal(),
        (422, "Invalid")
    );
}
