//! Concurrent writers: one succeeds, the others get a conflict, and no write is lost (docs/spec/apiserver.md#7).

use std::collections::BTreeSet;

use futures::future::join_all;
use polity_testing::http::short;
use serde_json::json;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_writers_with_the_same_version_exactly_one_succeeds() {
    let (_server, http) = start().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let mut lease = create(
        &http,
        leases,
        &json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "nobody"}}),
    )
    .await;
    for round in 0..20 {
        let writers = (0..8).map(|writer| {
            let (http, mut wanted) = (http.clone(), lease.clone());
            wanted["spec"]["holderIdentity"] = json!(format!("{round}-{writer}"));
            tokio::spawn(async move { http.put(&one(leases, "l"), &wanted).await })
        });
        let answers: Vec<_> = join_all(writers)
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        let winners: Vec<_> = answers.iter().filter(|answer| answer.code == 200).collect();
        assert_eq!(winners.len(), 1, "round {round}");
        assert!(
            answers
                .iter()
                .all(|answer| answer.code == 200 || answer.refusal() == (409, "Conflict"))
        );
        lease = http.get(&one(leases, "l")).await.expect(200);
        assert_eq!(lease, winners[0].body);
    }
    let mut without = lease.clone();
    without["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    assert_eq!(
        http.put(&one(leases, "l"), &without).await.refusal(),
        (422, "Invalid"),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_without_a_version_all_land() {
    let (_server, http) = start().await;
    create(&http, MAPS, &named("m")).await;
    let patches = (0..40).map(|n| {
        let http = http.clone();
        tokio::spawn(async move {
            http.merge(&one(MAPS, "m"), &json!({"data": {format!("k{n}"): "v"}}))
                .await
                .code
        })
    });
    let codes: BTreeSet<u16> = join_all(patches)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(codes, BTreeSet::from([200]));
    let stored = http.get(&one(MAPS, "m")).await.expect(200);
    assert_eq!(stored["data"].as_object().unwrap().len(), 40);
    let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"k": "v"}});
    assert_eq!(
        http.merge(&one(MAPS, "m"), &stale).await.refusal(),
        (409, "Conflict")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn managers_that_apply_at_once_all_keep_their_fields() {
    let (_server, http) = start().await;
    let applies = (0..16).map(|n| {
        let http = http.clone();
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {format!("k{n}"): "v"}});
        tokio::spawn(async move { http.apply(&format!("{MAPS}/m?fieldManager=manager-{n}"), &body).await.code })
    });
    let mut codes: Vec<u16> = join_all(applies)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    codes.sort_unstable();
    assert_eq!(codes[..15], [200; 15]);
    assert_eq!(codes[15], 201, "one of them created it");
    let stored = http.get(&one(MAPS, "m")).await.expect(200);
    assert_eq!(stored["data"].as_object().unwrap().len(), 16);
    assert_eq!(
        stored["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .len(),
        16
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_creations_succeeds_and_deletions_check_the_uid() {
    let (_server, http) = start().await;
    let from = version(&http.get(SECRETS).await.expect(200));
    for _ in 0..10 {
        let creations = (0..6).map(|_| {
            let http = http.clone();
            tokio::spawn(async move { http.post(SECRETS, &named("a")).await.code })
        });
        let mut codes: Vec<u16> = join_all(creations)
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        codes.sort_unstable();
        assert_eq!(codes, [201, 409, 409, 409, 409, 409]);
        let deletions = (0..6).map(|_| {
            let http = http.clone();
            tokio::spawn(async move { http.delete(&one(SECRETS, "a")).await.code })
        });
        let mut codes: Vec<u16> = join_all(deletions)
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        codes.sort_unstable();
        assert_eq!(codes, [200, 404, 404, 404, 404, 404]);
    }
    let mut lines = http
        .watch(&format!("{SECRETS}?watch=true&resourceVersion={from}"))
        .await;
    for _ in 0..10 {
        assert_eq!(
            [short(&lines.event().await), short(&lines.event().await)],
            ["ADDED a", "DELETED a"]
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_counts_every_increment() {
    let (_server, http) = start().await;
    create(
        &http,
        MAPS,
        &json!({"metadata": {"name": "counter"}, "data": {"n": "0"}}),
    )
    .await;
    let writers = (0..4).map(|_| {
        let http = http.clone();
        tokio::spawn(async move {
            let mut done = 0;
            while done < 15 {
                let mut map = http.get(&one(MAPS, "counter")).await.expect(200);
                let n: u32 = map["data"]["n"].as_str().unwrap().parse().unwrap();
                map["data"]["n"] = json!((n + 1).to_string());
                match http.put(&one(MAPS, "counter"), &map).await.code {
                    200 => done += 1,
                    409 => {}
                    other => panic!("{other}"),
                }
            }
        })
    });
    for writer in join_all(writers).await {
        writer.unwrap();
    }
    assert_eq!(
        http.get(&one(MAPS, "counter")).await.expect(200)["data"]["n"],
        "60"
    );
}
