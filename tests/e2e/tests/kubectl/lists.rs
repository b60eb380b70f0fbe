//! Many objects: selectors, sorting, chunks, watches and raw paths.

use e2e::Kubectl;
use serde_json::{Value, json};

e2e::scenarios![
    selects_and_sorts,
    reads_long_lists_in_chunks,
    watches,
    watches_with_selectors_and_in_json,
    watches_only_new_changes,
    reads_raw_paths,
];

fn config_maps(names: impl IntoIterator<Item = (String, Value)>) -> String {
    let items: Vec<Value> = names
        .into_iter()
        .map(|(name, labels)| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"n": name}}))
        .collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Label and field selectors, `--sort-by`, all namespaces.
fn selects_and_sorts(k: &Kubectl) {
    let maps = [("a", "3", "web"), ("b", "1", "web"), ("c", "2", "db")];
    let list = config_maps(maps.map(|(name, order, tier)| {
        (
            name.to_owned(),
            json!({"order": order, "tier": tier, "mine": "yes"}),
        )
    }));
    k.ok_with_input("create -f -", &list);
    let cases = [
        ("-l tier=web", "a b"),
        ("-l tier!=web,mine", "c"),
        ("-l 'tier in (web,db),order notin (1)'", "a c"),
        (
            "-l '!mine,!none' --field-selector=metadata.name!=kube-root-ca.crt",
            "",
        ),
        ("--field-selector=metadata.name=b", "b"),
        ("-l mine --sort-by=.metadata.labels.order", "b c a"),
        ("-l mine --sort-by='{.data.n}'", "a b c"),
    ];
    for (selection, expected) in cases {
        let names = k.ok(&format!(
            "get cm {selection} -o jsonpath={{.items[*].metadata.name}}"
        ));
        assert_eq!(names, expected, "{selection}");
    }
    let table = k.ok("get cm -l mine --sort-by=.metadata.labels.order -L tier --no-headers");
    let first: Vec<_> = table
        .lines()
        .map(|line| line.split_whitespace().next().unwrap_or_default())
        .collect();
    assert_eq!(first, ["b", "c", "a"], "{table}");
    let everywhere = k.ok("get cm -A -l mine -o jsonpath={.items[*].metadata.namespace}");
    assert!(everywhere.contains(k.namespace()), "{everywhere}");
    let wrong = k.fails("get cm --field-selector=data.n=a");
    assert!(
        wrong.contains(
            r#""data.n" is not a known field selector: only "metadata.name", "metadata.namespace""#
        ),
        "{wrong}"
    );
    let unparsable = k.fails("get cm -l 'a in'");
    assert!(
        unparsable.contains("unable to parse requirement") || unparsable.contains("found ''"),
        "{unparsable}"
    );
    k.ok("delete cm -l tier=web");
    assert_eq!(k.ok("get cm -l mine -o name"), "configmap/c");
}

/// Continue tokens until the end of the list, also in tables.
fn reads_long_lists_in_chunks(k: &Kubectl) {
    k.ok_with_input(
        "create -f -",
        &config_maps((0..23).map(|n| (format!("m{n:02}"), json!({"mine": "yes"})))),
    );
    for size in [1, 5, 23, 24, 0] {
        let names = k.ok(&format!("get cm -l mine --chunk-size={size} -o name"));
        assert_eq!(names.lines().count(), 23, "{size}: {names}");
    }
    assert_eq!(
        k.ok("get cm -l mine --chunk-size=7 --no-headers")
            .lines()
            .count(),
        23
    );
    let page = k.ok(&format!(
        "get --raw /api/v1/namespaces/{}/configmaps?limit=10&labelSelector=mine",
        k.namespace()
    ));
    let page: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(page["items"].as_array().unwrap().len(), 10);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let next = k.ok(&format!(
        "get --raw /api/v1/namespaces/{}/configmaps?limit=20&labelSelector=mine&continue={token}",
        k.namespace()
    ));
    let next: Value = serde_json::from_str(&next).unwrap();
    assert_eq!(next["items"].as_array().unwrap().len(), 13);
    assert_eq!(
        next["metadata"]["resourceVersion"],
        page["metadata"]["resourceVersion"]
    );
    k.ok("delete cm -l mine");
}

/// A list followed by every change, as rows of one table.
fn watches(k: &Kubectl) {
    k.ok("create configmap a");
    let watch = k.start("get configmap a --watch --output-watch-events");
    assert!(watch.line().starts_with("EVENT      NAME   DATA   AGE"));
    assert!(watch.line().starts_with("ADDED      a      0 "));
    k.ok(r#"patch cm a -p '{"data":{"x":"1"}}'"#);
    assert!(watch.line().starts_with("MODIFIED   a      1 "));
    k.ok("delete cm a");
    assert!(watch.line().starts_with("DELETED    a      1 "));
    k.ok("create configmap a");
    assert!(watch.line().starts_with("ADDED      a      0 "));
}

/// An object that starts or stops matching the selector is reported as added or deleted.
fn watches_with_selectors_and_in_json(k: &Kubectl) {
    k.ok("create configmap there");
    k.ok("label cm there tier=web");
    let watch = k.start("get cm -l tier=web --watch --output-watch-events -o jsonpath={.type}:{.object.metadata.name}{\"\\n\"}");
    assert_eq!(watch.line(), "ADDED:there");
    k.ok("create configmap a");
    k.ok("label cm a tier=web");
    assert_eq!(watch.line(), "ADDED:a");
    k.ok("label cm a tier=db --overwrite");
    assert_eq!(watch.line(), "DELETED:a");
    k.ok("delete cm there");
    assert_eq!(watch.line(), "DELETED:there");
}

/// `--watch-only` skips existing objects.
fn watches_only_new_changes(k: &Kubectl) {
    k.ok("create configmap there");
    k.ok("create configmap later");
    let watch = k.start("get cm --watch-only -o name");
    let mut n_changes = 0;
    let first = e2e::eventually("the watch is open", || {
        n_changes += 1;
        k.ok(&format!("annotate cm later n={n_changes} --overwrite"));
        watch.line_so_far()
    });
    assert_eq!(first, "configmap/later");
}

/// `get --raw` with kubectl's credentials.
fn reads_raw_paths(k: &Kubectl) {
    k.ok("create configmap a");
    let raw = |path: &str| k.ok(&format!("get --raw {path}"));
    assert_eq!(raw("/healthz"), "ok");
    assert!(raw("/readyz?verbose").ends_with("readyz check passed"));
    let object: Value = serde_json::from_str(&raw(&format!(
        "/api/v1/namespaces/{}/configmaps/a",
        k.namespace()
    )))
    .unwrap();
    assert_eq!(object["kind"], "ConfigMap");
    assert!(raw("/metrics").contains("apiserver_request_total"));
    let missing = k.fails("get --raw /apis/none.example.com/v1");
    assert!(missing.contains("(NotFound)"), "{missing}");
    let path = format!("/api/v1/namespaces/{}/configmaps", k.namespace());
    let created = k.ok_with_input(
        &format!("create --raw {path} -f -"),
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"raw"}}"#,
    );
    assert!(created.contains("\"uid\""), "{created}");
    k.ok(&format!("delete --raw {path}/raw"));
    assert_eq!(k.ok("get cm raw --ignore-not-found"), "");
}
