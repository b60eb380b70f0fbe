//! The generation of built-in kinds, and fields that a write may not change (docs/spec/apiserver.md#6).

use serde_json::{Value, json};

use super::*;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "generation": 40},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

fn generation(object: &Value) -> Option<i64> {
    object["metadata"]["generation"].as_i64()
}

#[tokio::test]
async fn each_kind_counts_generations_by_its_rule() {
    let (_server, http) = start().await;
    let endpoint_slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let network_policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let annotate = json!({"metadata": {"annotations": {"a": "b"}}});
    for (collection, object, changes) in [
        (
            DEPLOYMENTS,
            deployment("d"),
            vec![
                (&label, Some(1)),
                (&annotate, Some(2)),
                (&json!({"spec": {"replicas": 2}}), Some(3)),
                (&json!({"spec": {"replicas": 2}}), Some(3)),
                (&json!({"status": {"replicas": 9}}), Some(3)),
            ],
        ),
        (
            network_policies,
            json!({"metadata": {"name": "n"}, "spec": {"podSelector": {}}}),
            vec![
                (&label, Some(1)),
                (&annotate, Some(1)),
                (
                    &json!({"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}),
                    Some(2),
                ),
            ],
        ),
        (
            endpoint_slices,
            json!({"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": []}),
            vec![
                (&annotate, Some(1)),
                (&label, Some(2)),
                (&json!({"ports": [{"port": 80}]}), Some(3)),
            ],
        ),
        (
            MAPS,
            named("m"),
            vec![(&label, None), (&json!({"data": {"k": "v"}}), None)],
        ),
    ] {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let stored = create(&http, collection, &object).await;
        assert_eq!(generation(&stored), changes[0].1.map(|_| 1), "{collection}");
        for (change, expected) in changes {
            let changed = http
                .merge(&one(collection, &name), change)
                .await
                .expect(200);
            assert_eq!(generation(&changed), expected, "{collection} {change}");
        }
    }
}

#[tokio::test]
async fn deletion_counts_once_and_status_never() {
    let (_server, http) = start().await;
    create(&http, DEPLOYMENTS, &deployment("d")).await;
    let path = one(DEPLOYMENTS, "d");
    let status = http
        .merge(
            &format!("{path}/status"),
            &json!({"status": {"replicas": 1}, "spec": {"replicas": 7}}),
        )
        .await
        .expect(200);
    assert_eq!(
        (
            generation(&status),
            &status["status"]["replicas"],
            &status["spec"]["replicas"]
        ),
        (Some(1), &json!(1), &json!(1))
    );
    http.merge(
        &path,
        &json!({"metadata": {"finalizers": ["it.polity.dev/hold"]}}),
    )
    .await
    .expect(200);
    assert_eq!(generation(&http.delete(&path).await.expect(200)), Some(2));
    assert_eq!(generation(&http.delete(&path).await.expect(200)), Some(2));
    assert_eq!(
        generation(
            &http
                .merge(&path, &json!({"spec": {"paused": true}}))
                .await
                .expect(200)
        ),
        Some(3)
    );
}

#[tokio::test]
async fn fields_that_only_the_server_sets() {
    let (_server, http) = start().await;
    let wishes = json!({
        "name": "m", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/me", "generation": 5,
        "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5,
    });
    let stored = create(&http, MAPS, &json!({"metadata": wishes})).await;
    let meta = &stored["metadata"];
    for key in [
        "selfLink",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        assert_eq!(meta[key], Value::Null, "{key}");
    }
    assert_eq!(meta["uid"].as_str().map(str::len), Some(36));
    assert!(
        meta["creationTimestamp"]
            .as_str()
            .is_some_and(|time| time.len() == 20 && !time.starts_with("2001"))
    );

    let mut other = stored.clone();
    other["metadata"]["uid"] = json!("other");
    assert_eq!(
        http.put(&one(MAPS, "m"), &other).await.refusal(),
        (409, "Conflict"),
    );
    assert_eq!(
        http.merge(&one(MAPS, "m"), &json!({"metadata": {"uid": "other"}}))
            .await
            .refusal(),
        (422, "Invalid"),
    );
    let apply =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "none", "uid": "x"}});
    assert_eq!(
        http.apply(&format!("{MAPS}/none?fieldManager=it"), &apply)
            .await
            .refusal(),
        (409, "Conflict"),
    );
    let mut later = stored.clone();
    later["metadata"]["creationTimestamp"] = json!("2030-01-01T00:00:00Z");
    later["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
    later["data"] = json!({"k": "v"});
    let updated = http.put(&one(MAPS, "m"), &later).await.expect(200);
    assert_eq!(
        (
            &updated["metadata"]["creationTimestamp"],
            &updated["metadata"]["deletionTimestamp"]
        ),
        (&meta["creationTimestamp"], &Value::Null)
    );
}

#[tokio::test]
async fn generated_names() {
    let (_server, http) = start().await;
    let generate = |prefix: &str| json!({"metadata": {"generateName": prefix}});
    let stored = create(&http, MAPS, &generate("job-")).await;
    let name = stored["metadata"]["name"].as_str().unwrap();
    let suffix = name.strip_prefix("job-").unwrap();
    assert!(
        suffix.len() == 5
            && suffix
                .chars()
                .all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)),
        "{name}"
    );
    let long = create(&http, MAPS, &generate(&"x".repeat(100))).await;
    assert_eq!(long["metadata"]["name"].as_str().unwrap().len(), 63);
    let answer = http.post(MAPS, &json!({"metadata": {}})).await;
    assert_eq!(answer.refusal(), (422, "Invalid"));
    assert!(
        answer
            .message()
            .contains("metadata.name: Required value: name or generateName is required"),
        "{}",
        answer.message()
    );
    let both = create(
        &http,
        MAPS,
        &json!({"metadata": {"name": "given", "generateName": "job-"}}),
    )
    .await;
    assert_eq!(both["metadata"]["name"], "given");
}

#[tokio::test]
async fn versions_grow_over_all_kinds() {
    let (_server, http) = start().await;
    let mut last = 0;
    for collection in [MAPS, SECRETS, NAMESPACES, MAPS] {
        let stored = create(
            &http,
            collection,
            &json!({"metadata": {"generateName": "a-"}}),
        )
        .await;
        assert!(version(&stored) > last);
        last = version(&stored);
    }
    assert!(
        version(&http.get(SECRETS).await.expect(200)) >= last,
        "a list has the counter's value"
    );
}
