//! Watches: their parameters and their events.

use serde_json::json;

use crate::case::{Case, case, delete, get, merge, post};

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";
/// Excludes the objects that a namespace contains by default.
const MINE: &str = "watch=true&timeoutSeconds=1&labelSelector=diff";

pub(crate) fn cases() -> Vec<Case> {
    let map = |name: &str| {
        post(
            MAPS,
            json!({"metadata": {"name": name, "labels": {"diff": "yes"}}}),
        )
    };
    vec![
        case(
            "watch: initial and later events",
            [
                map("a").setup(),
                get(MAPS).setup().save("rv", "/metadata/resourceVersion"),
                map("b").setup(),
                merge(format!("{MAPS}/a"), json!({"data": {"x": "1"}})).setup(),
                merge(
                    format!("{MAPS}/b"),
                    json!({"metadata": {"labels": {"diff": null}}}),
                )
                .setup(),
                merge(
                    format!("{MAPS}/b"),
                    json!({"metadata": {"labels": {"diff": "again"}}}),
                )
                .setup(),
                delete(format!("{MAPS}/a")).setup(),
                get(format!("{MAPS}?{MINE}&resourceVersion={{rv}}")),
                get(format!("{MAPS}?{MINE}")),
                get(format!("{MAPS}?{MINE}&resourceVersion=0")),
                get(format!(
                    "{MAPS}?{MINE}&resourceVersion={{rv}}&fieldSelector=metadata.name%3Da"
                )),
            ],
        ),
        case(
            "watch: streaming lists",
            [
                map("a").setup(),
                map("b").setup(),
                get(format!(
                    "{MAPS}?{MINE}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
                )),
                get(format!(
                    "{MAPS}?{MINE}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0"
                )),
                get(format!(
                    "{MAPS}?{MINE}&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
                )),
            ],
        ),
        case(
            "watch: bad parameters",
            [
                get(format!("{MAPS}?{MINE}&sendInitialEvents=true")),
                get(format!("{MAPS}?{MINE}&resourceVersionMatch=NotOlderThan")),
                get(format!(
                    "{MAPS}?{MINE}&sendInitialEvents=true&resourceVersionMatch=Exact"
                )),
                get(format!("{MAPS}?{MINE}&resourceVersion=abc")),
                get(format!("{MAPS}?watch=true&timeoutSeconds=abc")),
                get(format!(
                    "{MAPS}?watch=true&timeoutSeconds=1&labelSelector=a+b"
                )),
                get(format!(
                    "{MAPS}?watch=true&timeoutSeconds=1&fieldSelector=x%3Dy"
                )),
            ],
        ),
        case(
            "watch: old paths",
            [get(
                "/api/v1/watch/namespaces/{ns}/configmaps?timeoutSeconds=1",
            )],
        ),
        case(
            "watch: other forms",
            [
                map("a").setup(),
                get(format!("{MAPS}?{MINE}"))
                    .accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                get(format!("{MAPS}?{MINE}"))
                    .accept("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
                get(format!("{MAPS}/a?watch=true&timeoutSeconds=1")),
            ],
        ),
    ]
}
