//! Lists: selectors, pages, version parameters.

use serde_json::json;

use crate::case::{Case, Step, case, delete, get, post};

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

fn maps() -> Vec<Step> {
    [
        ("a", "web", "1"),
        ("b", "web", "2"),
        ("c", "db", "2"),
        ("d", "db", "3"),
    ]
    .map(|(name, tier, n)| {
        post(
            MAPS,
            json!({"metadata": {"name": name, "labels": {"tier": tier, "n": n, "diff": "yes"}}}),
        )
        .setup()
    })
    .into()
}

fn listing(query: &str) -> Step {
    get(format!("{MAPS}?{query}"))
}

pub(crate) fn cases() -> Vec<Case> {
    let with_maps = |name, steps: Vec<Step>| case(name, maps().into_iter().chain(steps));
    vec![
        with_maps(
            "lists: label selectors",
            vec![
                listing("labelSelector=tier%3Dweb"),
                listing("labelSelector=tier+in+(web,db),n!%3D2,diff"),
                listing("labelSelector=tier+notin+(web),diff"),
                listing("labelSelector=!absent,n%3E1,diff"),
                listing("labelSelector=tier%3D%3D"),
                listing("labelSelector=tier+in+web"),
                listing("labelSelector=,"),
                listing("labelSelector=a+b"),
                listing("labelSelector=tier%3D-bad-"),
                listing("labelSelector=n%3Eone"),
                listing("labelSelector=bad+key%3Dx"),
            ],
        ),
        with_maps(
            "lists: field selectors",
            vec![
                listing("fieldSelector=metadata.name%3Db"),
                listing(
                    "fieldSelector=metadata.name!%3Db,metadata.namespace%3D{ns}&labelSelector=diff",
                ),
                listing("fieldSelector=metadata.name%3Dnone"),
                listing("fieldSelector=spec.x%3Db"),
                listing("fieldSelector=metadata.name"),
                listing("fieldSelector=metadata.name%3Da%5Cx"),
                get("/api/v1/namespaces/{ns}/pods?fieldSelector=spec.image%3Dx"),
                get("/api/v1/namespaces?fieldSelector=metadata.name%3D{ns}"),
                get("/api/v1/namespaces?fieldSelector=status.phase%3DActive,metadata.name%3D{ns}"),
            ],
        ),
        with_maps(
            "lists: pages",
            vec![
                listing("limit=2&labelSelector=diff").save("next", "/metadata/continue"),
                delete(format!("{MAPS}/d")).setup(),
                listing("limit=3&labelSelector=diff&continue={next}"),
                get("/api/v1/namespaces/{ns}/secrets?limit=1"),
                listing("limit=2&continue={next}&resourceVersion=5"),
                listing("limit=abc"),
                listing("limit=-1&labelSelector=diff"),
                listing("continue=nonsense"),
                listing("limit=1&continue=eyJ2IjoieCJ9"),
            ],
        ),
        with_maps(
            "lists: versions",
            vec![
                listing("limit=1&labelSelector=diff").save("rv", "/metadata/resourceVersion"),
                listing("resourceVersion=0&labelSelector=diff"),
                delete(format!("{MAPS}/a")).setup(),
                listing("resourceVersion={rv}&resourceVersionMatch=Exact&labelSelector=diff"),
                listing(
                    "resourceVersion={rv}&resourceVersionMatch=NotOlderThan&labelSelector=diff",
                ),
                listing("resourceVersion={rv}&limit=10&labelSelector=diff"),
                listing("resourceVersionMatch=Exact"),
                listing("resourceVersion=0&resourceVersionMatch=Exact"),
                listing("resourceVersion=1&resourceVersionMatch=Sometimes"),
                listing("resourceVersion={rv}&resourceVersionMatch=NotOlderThan&continue=x"),
                listing("resourceVersion=abc"),
                listing(
                    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0",
                ),
                listing("resourceVersion=999999999"),
                get(format!("{MAPS}/b?resourceVersion=0")),
                get(format!("{MAPS}/b?resourceVersion=999999999")),
                get(format!("{MAPS}/b?resourceVersion=abc")),
            ],
        ),
        case(
            "lists: places",
            [
                get("/api/v1/namespaces/not-there/configmaps"),
                get("/api/v1/namespaces/{ns}/nodes"),
                get("/api/v1/secrets?fieldSelector=metadata.namespace%3D{ns}"),
                get("/apis/apps/v1/namespaces/{ns}/deployments"),
                get("/apis/apps/v1/namespaces/{ns}/deployments?watch=false"),
            ],
        ),
    ]
}
