//! The effects of webhooks on a request, alone and together.

use super::*;

#[tokio::test]
async fn patches_are_applied_read_and_passed_on() {
    let hooks = Hooks::start(|path, _| match path {
        "/label" => patch(&json!([{"op": "add", "path": "/metadata/labels/x", "value": "1"}])),
        "/replace" => patch(&json!([{"op": "replace", "path": "/metadata/annotations", "value": {"a": "b"}}])),
        "/prune" => patch(&json!([{"op": "add", "path": "/pruned", "value": true}])),
        "/empty" => patch(&json!([])),
        "/managed" => patch(&json!([{"op": "add", "path": "/metadata/managedFields", "value": [{"manager": "x"}]}, {"op": "add", "path": "/y", "value": 1}])),
        "/missing" => patch(&json!([{"op": "remove", "path": "/nope"}])),
        "/test" => patch(&json!([{"op": "test", "path": "/metadata/name", "value": "zz"}])),
        "/op" => patch(&json!([{"op": "frob", "path": "/x"}])),
        "/spec" => patch(&json!([{"op": "add", "path": "/spec", "value": "text"}])),
        "/move" => patch(&json!([{"op": "replace", "path": "/metadata/namespace", "value": "other"}])),
        _ => allow(),
    })
    .await;
    let cluster = Cluster::new();
    let list = ["/label", "/replace", "/prune", "/empty", "/managed"]
        .map(|path| hooks.webhook("h.x.y", path));
    let (result, _) = Given::create()
        .mutate(&configs(&[configuration("Mutating", "c", &list)]), &cluster)
        .await;
    let mutated = result.unwrap();
    assert!(mutated.changed);
    let mut expected = Given::create().object.unwrap();
    expected["metadata"]["labels"]["x"] = json!("1");
    expected["metadata"]["annotations"] = json!({"a": "b"});
    expected["y"] = json!(1);
    assert_eq!(
        mutated.object,
        Some(expected),
        "bad managedFields are ignored"
    );
    let second = &hooks.seen()[1].body["request"]["object"];
    assert_eq!(
        second["metadata"]["labels"]["x"],
        json!("1"),
        "each sees its predecessor's output"
    );

    let (result, _) = Given::create()
        .mutate(
            &one("Mutating", &hooks.webhook("h.x.y", "/prune")),
            &cluster,
        )
        .await;
    assert!(!result.unwrap().changed, "what is pruned is no change");

    for path in ["/missing", "/test", "/op", "/spec"] {
        let mut webhook = hooks.webhook("h.x.y", path);
        webhook["failurePolicy"] = json!("Ignore");
        let (code, text) = message(
            Given::create()
                .mutate(&one("Mutating", &webhook), &cluster)
                .await
                .0,
        );
        assert_eq!(code, 500, "{path}: {text}");
        assert!(
            text.starts_with("Internal error occurred: "),
            "{path}: {text}"
        );
    }
    let (result, _) = Given::create()
        .mutate(&one("Mutating", &hooks.webhook("h.x.y", "/move")), &cluster)
        .await;
    let why =
        "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!(message(result), (400, why.to_owned()));

    let mut delete = Given::create();
    delete.operation = Operation::Delete;
    delete.old_object = delete.object.take();
    let (result, _) = delete
        .mutate(
            &one("Mutating", &hooks.webhook("h.x.y", "/label")),
            &cluster,
        )
        .await;
    let why = "admission webhook \"h.x.y\" attempted to modify the object, which is not supported for this operation";
    assert_eq!(
        message(result),
        (500, format!("Internal error occurred: {why}"))
    );
}

#[tokio::test]
async fn mutating_webhooks_run_in_order_and_again_if_needed() {
    // `set-x` changes the object in every call until its mark is set.
    let hooks = Hooks::start(|path, _| match path {
        "/mark" => patch(&json!([{"op": "add", "path": "/metadata/labels/mark", "value": "1"}])),
        "/again" => patch(&json!([{"op": "add", "path": "/metadata/labels/again", "value": "2"}])),
        _ => allow(),
    })
    .await;
    let webhook = |path: &str, policy: &str| {
        let mut webhook = hooks.webhook("h.x.y", path);
        webhook["reinvocationPolicy"] = json!(policy);
        webhook
    };
    let objects = [
        configuration(
            "Mutating",
            "b",
            &[
                webhook("/b1", "IfNeeded"),
                webhook("/mark", "IfNeeded"),
                webhook("/b3", "Never"),
            ],
        ),
        configuration(
            "Mutating",
            "a",
            &[webhook("/a1", "Never"), webhook("/again", "IfNeeded")],
        ),
        configuration("Mutating", "c", &[webhook("/c1", "IfNeeded")]),
    ];
    let (result, _) = Given::create()
        .mutate(&configs(&objects), &Cluster::new())
        .await;
    assert!(result.unwrap().changed);
    let paths: Vec<String> = hooks
        .seen()
        .iter()
        .map(|request| request.path.replace("?timeout=5s", ""))
        .collect();
    // `mark` changed the object after `again` and `b1` ran; nothing changed after `mark` and `c1`.
    assert_eq!(
        paths,
        [
            "/a1", "/again", "/b1", "/mark", "/b3", "/c1", "/again", "/b1"
        ]
    );

    let quiet = configs(&[configuration(
        "Mutating",
        "a",
        &[webhook("/a1", "IfNeeded"), webhook("/a2", "IfNeeded")],
    )]);
    Given::create()
        .mutate(&quiet, &Cluster::new())
        .await
        .0
        .unwrap();
    assert_eq!(
        hooks.seen().len(),
        10,
        "nothing changed, nothing runs again"
    );
}

#[tokio::test]
async fn validating_webhooks_run_in_parallel_and_all_finish() {
    // Each response waits until all calls have arrived, so sequential calls would never end.
    let everyone_here = Arc::new(tokio::sync::Barrier::new(4));
    let hooks = Hooks::start(move |path, _| CannedResponse {
        barrier: Some(Arc::clone(&everyone_here)),
        ..if path == "/no" {
            deny(&json!({"message": "refused"}))
        } else {
            allow().with_warning(path)
        }
    })
    .await;
    let list =
        ["/1", "/no", "/3", "/4"].map(|path| hooks.webhook(&format!("h{}.x.y", &path[1..]), path));
    let (result, notes) = Given::create()
        .validate(
            &configs(&[configuration("Validating", "c", &list)]),
            &Cluster::new(),
        )
        .await;
    assert_eq!(
        message(result),
        (
            400,
            "admission webhook \"hno.x.y\" denied the request: refused".to_owned()
        )
    );
    assert_eq!(notes.warnings, ["/1", "/3", "/4"]);
}

#[tokio::test]
async fn dry_runs_are_shown_only_to_webhooks_without_side_effects() {
    let hooks = Hooks::start(|_, _| allow()).await;
    let mut given = Given::create();
    given.dry_run = true;
    for (effects, is_called) in [
        ("None", true),
        ("NoneOnDryRun", true),
        ("Some", false),
        ("Unknown", false),
    ] {
        let mut webhook = hooks.webhook("h.x.y", "/");
        webhook["sideEffects"] = json!(effects);
        webhook["failurePolicy"] = json!("Ignore");
        let (result, _) = given
            .validate(&one("Validating", &webhook), &Cluster::new())
            .await;
        match result {
            Ok(()) => assert!(is_called, "{effects}"),
            Err(error) => {
                assert!(!is_called, "{effects}");
                assert_eq!(
                    (error.code.as_u16(), error.message.as_str()),
                    (400, "admission webhook \"h.x.y\" does not support dry run")
                );
            }
        }
    }
}

#[tokio::test]
async fn warnings_and_annotations_are_collected_even_from_refusals() {
    let hooks = Hooks::start(|path, _| match path {
        "/a" => allow().with_warning("first").with_annotation("k", "v"),
        _ => deny(&json!(null)).with_warning("second"),
    })
    .await;
    let list = [hooks.webhook("a.x.y", "/a"), hooks.webhook("b.x.y", "/b")];
    let (result, notes) = Given::create()
        .mutate(
            &configs(&[configuration("Mutating", "c", &list)]),
            &Cluster::new(),
        )
        .await;
    assert!(result.is_err());
    assert_eq!(notes.warnings, ["first", "second"]);
    assert_eq!(
        notes.audit_annotations,
        BTreeMap::from([("a.x.y/k".to_owned(), "v".to_owned())])
    );
}

#[tokio::test]
async fn a_new_index_reuses_unchanged_webhooks() {
    let hooks = Hooks::start(|_, _| allow()).await;
    let kept = configuration("Validating", "kept", &[hooks.webhook("h.x.y", "/kept")]);
    let mut changed = configuration(
        "Validating",
        "changed",
        &[hooks.webhook("h.x.y", "/before")],
    );
    let cluster = Cluster::new();
    let first = configs(&[kept.clone(), changed.clone()]);
    assert!(!first.is_empty());
    changed["metadata"]["resourceVersion"] = json!("2");
    changed["webhooks"][0]["clientConfig"]["url"] = json!(format!("{}/after", hooks.origin()));
    let second = first.refreshed(&[kept, changed]);
    assert!(
        Arc::ptr_eq(&first.validating[1], &second.validating[1]),
        "the unchanged one is the same"
    );
    Given::create().validate(&second, &cluster).await.0.unwrap();
    let mut paths: Vec<String> = hooks
        .seen()
        .into_iter()
        .map(|request| request.path)
        .collect();
    paths.sort();
    assert_eq!(paths, ["/after?timeout=5s", "/kept?timeout=5s"]);
    assert!(second.refreshed(&[]).is_empty());
}

#[test]
fn match_conditions_are_checked_when_written() {
    let conditions = json!([
        {"name": "a", "expression": "1"},
        {"name": "a", "expression": "foo == 1"},
        {"name": "", "expression": ""},
        {"name": "fine", "expression": "object.x == 1"},
    ]);
    let object = configuration(
        "Mutating",
        "c",
        &[json!({"name": "h.x.y", "matchConditions": conditions})],
    );
    let texts: Vec<String> = validate_match_conditions(&object)
        .iter()
        .map(ToString::to_string)
        .collect();
    let at = "webhooks[0].matchConditions";
    assert_eq!(
        texts,
        [
            format!("{at}[0].expression: Invalid value: \"1\": must evaluate to bool but got int"),
            format!(
                "{at}[1].expression: Invalid value: \"foo == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo == 1\n | ^"
            ),
            format!("{at}[1].name: Duplicate value: \"a\""),
            format!("{at}[2].expression: Required value"),
            format!("{at}[2].name: Required value"),
        ]
    );
    let many: Vec<Value> = (0..65)
        .map(|index| json!({"name": format!("n{index}"), "expression": "true"}))
        .collect();
    let object = configuration(
        "Mutating",
        "c",
        &[json!({"name": "h.x.y", "matchConditions": many})],
    );
    let texts: Vec<String> = validate_match_conditions(&object)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        texts,
        [format!("{at}: Too many: 65: must have at most 64 items")]
    );
}
