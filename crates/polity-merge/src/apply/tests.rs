//! Server-side apply, statement by statement.

#![expect(
    clippy::needless_pass_by_value,
    reason = "cases read better as literals"
)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

const V1: &str = "example.com/v1";

fn schema() -> Schema {
    let text = json!({"type": "string"});
    let fields = json!({"type": "object", "properties": {
        "replicas": {"type": "integer"},
        "image": text,
        "paused": {"type": "boolean"},
        "containers": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": text, "image": text, "tag": text}}},
        "names": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "args": {"type": "array", "items": text},
        "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
        "data": {"type": "object", "additionalProperties": text},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    Schema::parse_crd(&json!({"type": "object", "properties": {"spec": fields, "status": fields}}))
        .unwrap()
}

/// One object and the clock, driven by the requests a test makes.
struct Scenario {
    schema: Schema,
    object: Option<Value>,
    hour: i64,
}

fn scenario() -> Scenario {
    Scenario {
        schema: schema(),
        object: None,
        hour: 0,
    }
}

fn body(spec: Value) -> Value {
    json!({"apiVersion": V1, "kind": "Thing", "metadata": {"name": "t", "namespace": "ns"}, "spec": spec})
}

impl Scenario {
    fn now(&mut self) -> jiff::Timestamp {
        self.hour += 1;
        jiff::Timestamp::from_second(self.hour * 3600).unwrap()
    }

    fn try_apply(&mut self, manager: &str, spec: Value, force: bool) -> Result<(), ApplyError> {
        self.apply_body(
            manager,
            &body(spec),
            force,
            "",
            &FieldSet::of_paths(&["status"]),
        )
    }

    fn apply_body(
        &mut self,
        manager: &str,
        body: &Value,
        force: bool,
        subresource: &str,
        ignore: &FieldSet,
    ) -> Result<(), ApplyError> {
        let now = self.now();
        let input = ApplyInput {
            schema: &self.schema,
            live: self.object.as_ref(),
            body,
            manager,
            subresource,
            api_version: V1,
            force,
            now,
            ignore,
        };
        let mut merged = apply(&input)?;
        merged["metadata"]["uid"] = json!("u");
        self.object = Some(merged);
        Ok(())
    }

    fn apply(&mut self, manager: &str, spec: Value) -> &mut Self {
        if let Err(error) = self.try_apply(manager, spec, false) {
            panic!("{error}");
        }
        self
    }

    fn update(&mut self, manager: &str, spec: Value) -> &mut Self {
        self.update_with(manager, |object| object["spec"] = spec.clone())
    }

    fn update_with(&mut self, manager: &str, change: impl Fn(&mut Value)) -> &mut Self {
        self.update_in(manager, "", V1, &FieldSet::of_paths(&["status"]), change)
    }

    fn update_in(
        &mut self,
        manager: &str,
        subresource: &str,
        api_version: &str,
        ignore: &FieldSet,
        change: impl Fn(&mut Value),
    ) -> &mut Self {
        let now = self.now();
        let mut new = self.object.clone().unwrap_or_else(|| body(json!({})));
        change(&mut new);
        track_update(UpdateInput {
            schema: &self.schema,
            live: self.object.as_ref(),
            blank: None,
            new: &mut new,
            manager,
            subresource,
            api_version,
            now,
            ignore,
        });
        new["metadata"]["uid"] = json!("u");
        self.object = Some(new);
        self
    }

    fn spec(&self) -> Value {
        self.object.as_ref().unwrap()["spec"].clone()
    }

    fn entries(&self) -> Vec<Value> {
        self.object.as_ref().unwrap()["metadata"]["managedFields"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    /// `manager operation hour: paths` for every entry, in stored order.
    fn owners(&self) -> Vec<String> {
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        self.entries()
            .iter()
            .map(|entry| {
                let paths: Vec<_> = FieldSet::parse(&entry["fieldsV1"])
                    .unwrap()
                    .paths()
                    .iter()
                    .map(ToString::to_string)
                    .collect();
                let hour = entry["time"].as_str().map_or("-".to_owned(), |time| {
                    time[11..13].trim_start_matches('0').to_owned()
                });
                let subresource = entry["subresource"]
                    .as_str()
                    .map_or(String::new(), |name| format!(" /{name}"));
                format!(
                    "{} {}{subresource} {hour}: {}",
                    text(entry, "manager"),
                    text(entry, "operation"),
                    paths.join(" ")
                )
            })
            .collect()
    }
}

fn refused(result: Result<(), ApplyError>) -> String {
    result.expect_err("the apply is refused").to_string()
}

#[test]
fn an_apply_creates_and_is_recorded() {
    let mut scenario = scenario();
    scenario.apply("m1", json!({"replicas": 1}));
    assert_eq!(scenario.spec(), json!({"replicas": 1}));
    assert_eq!(
        scenario.entries(),
        [json!({
            "manager": "m1", "operation": "Apply", "apiVersion": V1, "time": "1970-01-01T01:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
        })]
    );
}

#[test]
fn merging_keeps_fields_of_others_and_drops_fields_no_longer_applied() {
    let mut scenario = scenario();
    scenario.apply("m1", json!({"replicas": 1, "image": "a", "containers": [{"name": "x", "image": "1"}, {"name": "y"}], "names": ["p", "q"], "data": {"k": "v", "l": "w"}}));
    scenario.apply(
        "m2",
        json!({"image": "a", "containers": [{"name": "z"}], "names": ["q", "r"]}),
    );
    assert_eq!(
        scenario.spec(),
        json!({
            "replicas": 1, "image": "a",
            "containers": [{"name": "x", "image": "1"}, {"name": "y"}, {"name": "z"}],
            "names": ["p", "q", "r"], "data": {"k": "v", "l": "w"},
        })
    );
    scenario.apply(
        "m1",
        json!({"containers": [{"name": "x"}], "data": {"l": "w"}}),
    );
    assert_eq!(
        scenario.spec(),
        json!({
            "image": "a", "containers": [{"name": "x"}, {"name": "z"}], "names": ["q", "r"], "data": {"l": "w"},
        })
    );
    assert_eq!(
        scenario.owners(),
        [
            "m2 Apply 2: .spec.image .spec.containers[name=\"z\"] .spec.containers[name=\"z\"].name .spec.names[=\"q\"] .spec.names[=\"r\"]",
            "m1 Apply 3: .spec.containers[name=\"x\"] .spec.containers[name=\"x\"].name .spec.data.l",
        ]
    );
    scenario.apply("m1", json!({}));
    assert_eq!(
        scenario.spec(),
        json!({"image": "a", "containers": [{"name": "z"}], "names": ["q", "r"]})
    );
}

#[test]
fn applied_order_takes_precedence_where_it_is_defined() {
    let mut scenario = scenario();
    scenario.apply("m1", json!({"names": ["a", "b", "c"]}));
    scenario.apply("m2", json!({"names": ["c", "a", "d"]}));
    assert_eq!(scenario.spec()["names"], json!(["b", "c", "a", "d"]));
}

#[test]
fn atomics_are_replaced_as_a_whole() {
    let mut scenario = scenario();
    scenario.apply("m1", json!({"args": ["a"], "selector": {"a": "1"}}));
    let message =
        refused(scenario.try_apply("m2", json!({"args": ["b"], "selector": {"b": "2"}}), false));
    assert_eq!(
        message,
        "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .spec.args\n- .spec.selector"
    );
    scenario.apply("m1", json!({"args": ["c"], "selector": {"c": "3"}}));
    assert_eq!(
        scenario.spec(),
        json!({"args": ["c"], "selector": {"c": "3"}})
    );
}

#[test]
fn force_takes_fields_and_entries_left_empty_vanish() {
    let mut scenario = scenario();
    scenario.apply("m1", json!({"replicas": 1}));
    scenario.apply("m3", json!({"image": "a"}));
    scenario
        .try_apply("m2", json!({"replicas": 2}), true)
        .unwrap();
    assert_eq!(scenario.spec(), json!({"replicas": 2, "image": "a"}));
    assert_eq!(
        scenario.owners(),
        ["m3 Apply 2: .spec.image", "m2 Apply 3: .spec.replicas"]
    );
}

#[test]
fn the_same_value_is_shared() {
    let mut scenario = scenario();
    scenario.apply("m1", json!({"replicas": 1, "image": "a"}));
    scenario.apply("m2", json!({"replicas": 1}));
    assert_eq!(
        scenario.owners(),
        [
            "m2 Apply -: .spec.replicas",
            "m1 Apply 1: .spec.image .spec.replicas"
        ]
    );
    let message = refused(scenario.try_apply("m1", json!({"replicas": 2}), false));
    assert_eq!(
        message,
        "Apply failed with 1 conflict: conflict with \"m2\": .spec.replicas"
    );
    scenario.apply("m1", json!({"image": "a"}));
    assert_eq!(scenario.spec(), json!({"replicas": 1, "image": "a"}));
}

#[test]
fn a_body_that_does_not_fit_is_refused() {
    let cases = [
        (json!({"x": 1}), ".spec.x: field not declared in schema"),
        (
            json!({"containers": [{"name": "a"}, {"name": "a"}]}),
            ".spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (
            json!({"names": ["a", "a"]}),
            ".spec.names: duplicate entries for key [=\"a\"]",
        ),
        (
            json!({"replicas": "1"}),
            ".spec.replicas: expected numeric (int or float), got string",
        ),
        (
            json!({"image": 1}),
            ".spec.image: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            json!({"paused": "x"}),
            ".spec.paused: expected boolean, got &{x}",
        ),
        (
            json!({"containers": {"a": 1}}),
            ".spec.containers: expected list, got &{map[a:1]}",
        ),
        (
            json!({"data": [1, "b"]}),
            ".spec.data: expected map, got &{[1 b]}",
        ),
        (
            json!({"containers": [{"image": "a"}]}),
            ".spec.containers: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)",
        ),
        (
            json!({"image": 1, "paused": 2}),
            "errors:\n  .spec.image: expected string, got &value.valueUnstructured{Value:1}\n  .spec.paused: expected boolean, got &{2}",
        ),
    ];
    for (spec, expected) in cases {
        let message = refused(scenario().try_apply("m", spec, false));
        assert_eq!(
            message,
            format!(
                "failed to create typed patch object (ns/t; example.com/v1, Kind=Thing): {expected}"
            )
        );
    }
}

#[test]
fn a_body_may_not_bring_managed_fields() {
    let mut body = body(json!({}));
    body["metadata"]["managedFields"] = json!([]);
    let error = scenario()
        .apply_body("m", &body, false, "", &FieldSet::new())
        .unwrap_err();
    assert_eq!(error, ApplyError::ManagedFieldsInBody);
}

#[test]
fn server_fields_and_defaults_have_no_owner() {
    let mut scenario = scenario();
    let mut body = body(json!({"replicas": 1}));
    body["metadata"]["labels"] = json!({"a": "b"});
    scenario
        .apply_body("m", &body, false, "", &FieldSet::new())
        .unwrap();
    scenario.object.as_mut().unwrap()["spec"]["paused"] = json!(false);
    assert_eq!(
        scenario.owners(),
        ["m Apply 1: .metadata.labels.a .spec.replicas"]
    );
    scenario.apply("m", json!({}));
    assert_eq!(scenario.spec(), json!({"paused": false}));
}

#[test]
fn conflicts_are_reported_with_their_causes() {
    let mut scenario = scenario();
    scenario.update("web", json!({"replicas": 1, "image": "a"}));
    scenario.update_in(
        "ctrl",
        "status",
        V1,
        &FieldSet::of_paths(&["spec"]),
        |object| object["status"] = json!({"image": "s"}),
    );
    let Err(ApplyError::Conflicts(conflicts)) =
        scenario.try_apply("m", json!({"replicas": 2, "image": "b"}), false)
    else {
        panic!()
    };
    assert_eq!(
        conflict_message(&conflicts),
        "Apply failed with 2 conflicts: conflicts with \"web\" using example.com/v1:\n- .spec.image\n- .spec.replicas"
    );
    assert_eq!(
        conflict_causes(&conflicts),
        [
            ConflictCause {
                message: "conflict with \"web\" using example.com/v1".into(),
                field: ".spec.image".into()
            },
            ConflictCause {
                message: "conflict with \"web\" using example.com/v1".into(),
                field: ".spec.replicas".into()
            },
        ]
    );
    let mut status = body(json!({}));
    status["status"] = json!({"image": "t"});
    let error = scenario
        .apply_body(
            "m",
            &status,
            false,
            "status",
            &FieldSet::of_paths(&["spec"]),
        )
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"ctrl\" with subresource \"status\" using example.com/v1: .status.image"
    );
    let at = Conflict {
        time: Some(jiff::Timestamp::UNIX_EPOCH),
        ..conflicts[0].clone()
    };
    assert_eq!(
        conflict_message(&[at]),
        "Apply failed with 1 conflict: conflict with \"web\" using example.com/v1 at 1970-01-01T00:00:00Z: .spec.image"
    );
}

#[test]
fn updates_own_the_fields_they_change() {
    let mut scenario = scenario();
    scenario.update(
        "a",
        json!({"replicas": 1, "image": "x", "containers": [{"name": "c", "image": "1"}]}),
    );
    assert_eq!(
        scenario.owners(),
        [
            "a Update 1: .spec .spec.containers .spec.image .spec.replicas .spec.containers[name=\"c\"] .spec.containers[name=\"c\"].image .spec.containers[name=\"c\"].name",
        ]
    );
    scenario.update(
        "b",
        json!({"replicas": 2, "containers": [{"name": "c", "image": "2"}]}),
    );
    assert_eq!(
        scenario.owners(),
        [
            "a Update 1: .spec .spec.containers .spec.containers[name=\"c\"] .spec.containers[name=\"c\"].name",
            "b Update 2: .spec.replicas .spec.containers[name=\"c\"].image",
        ]
    );
    scenario.update("a", json!({"replicas": 3}));
    assert_eq!(scenario.owners(), ["a Update 3: .spec .spec.replicas"]);
}

#[test]
fn versions_are_different_updaters_and_one_applier() {
    let mut scenario = scenario();
    scenario.update("a", json!({"replicas": 1}));
    scenario.update_in("a", "", "example.com/v2", &FieldSet::new(), |object| {
        object["spec"] = json!({"replicas": 1, "image": "x"});
    });
    assert_eq!(scenario.entries().len(), 2);
    scenario
        .try_apply("a", json!({"image": "y"}), true)
        .unwrap();
    assert_eq!(
        scenario.owners(),
        ["a Apply 3: .spec.image", "a Update 1: .spec .spec.replicas"]
    );
}

#[test]
fn fields_that_an_endpoint_ignores_are_not_recorded() {
    let mut scenario = scenario();
    scenario.update_with("m", |object| {
        object["spec"] = json!({"replicas": 1});
        object["status"] = json!({"replicas": 1});
    });
    scenario.update_in(
        "ctrl",
        "status",
        V1,
        &FieldSet::of_paths(&["spec", "metadata"]),
        |object| object["status"] = json!({"replicas": 2}),
    );
    assert_eq!(
        scenario.owners(),
        [
            "m Update 1: .spec .spec.replicas",
            "ctrl Update /status 2: .status.replicas"
        ]
    );
}

#[test]
fn time_moves_only_with_the_managers_changes() {
    let mut scenario = scenario();
    scenario.update("a", json!({"replicas": 1}));
    scenario.update("b", json!({"replicas": 1}));
    scenario.update_with("c", |object| {
        object["metadata"]["resourceVersion"] = json!("7");
    });
    assert_eq!(scenario.owners(), ["a Update 1: .spec .spec.replicas"]);
    scenario.apply("z", json!({"image": "a"}));
    scenario.update("b", json!({"replicas": 2, "image": "a"}));
    assert_eq!(
        scenario.owners(),
        [
            "z Apply 4: .spec.image",
            "a Update 1: .spec",
            "b Update 5: .spec.replicas"
        ]
    );
}

#[test]
fn the_oldest_updates_are_merged() {
    let mut scenario = scenario();
    for index in 0..13 {
        scenario.update_with(&format!("m{index:02}"), |object| {
            object["spec"]["data"][format!("k{index:02}")] = json!("v");
        });
    }
    let owners = scenario.owners();
    assert_eq!(owners.len(), 10);
    assert!(
        owners[0].starts_with("ancient-changes Update 4: "),
        "{}",
        owners[0]
    );
    assert!(
        owners[0].ends_with(".spec.data.k00 .spec.data.k01 .spec.data.k02 .spec.data.k03"),
        "{}",
        owners[0]
    );
}

#[test]
fn unrecorded_fields_are_kept_for_the_first_apply() {
    let mut scenario = scenario();
    let mut old = body(json!({"replicas": 1}));
    old["metadata"]["uid"] = json!("u");
    scenario.object = Some(old);
    scenario.update("a", json!({"replicas": 2}));
    assert!(scenario.entries().is_empty());
    assert_eq!(
        refused(scenario.try_apply("m", json!({"replicas": 3}), false)),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using example.com/v1: .spec.replicas"
    );
    scenario.apply("m", json!({"image": "x"}));
    assert_eq!(
        scenario.owners(),
        [
            "m Apply 3: .spec.image",
            "before-first-apply Update 3: .spec .spec.replicas"
        ]
    );
}

#[test]
fn kubectl_takes_over_from_itself() {
    let last = body(json!({"replicas": 1}));
    let annotated = |spec: Value| {
        let mut object = body(spec);
        object["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": last.to_string()});
        object
    };
    let mut scenario = scenario();
    scenario.update_with("kubectl-client-side-apply", |object| {
        *object = annotated(json!({"replicas": 1, "image": "i"}));
    });
    let message = refused(scenario.try_apply("other", json!({"replicas": 2}), false));
    assert!(message.contains("kubectl-client-side-apply"), "{message}");
    let message =
        refused(scenario.try_apply("kubectl", json!({"replicas": 2, "image": "j"}), false));
    assert_eq!(
        message,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using example.com/v1: .spec.image"
    );
    scenario.apply("kubectl", json!({"replicas": 2}));
    assert_eq!(scenario.spec(), json!({"replicas": 2, "image": "i"}));
    let annotation = &scenario.object.as_ref().unwrap()["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    assert_eq!(
        annotation,
        &json!(format!("{}\n", body(json!({"replicas": 2}))))
    );
    scenario.update("hpa", json!({"replicas": 5, "image": "i"}));
    assert!(
        scenario
            .try_apply("kubectl", json!({"replicas": 2}), false)
            .is_err()
    );
}

#[test]
fn an_apply_that_changes_nothing_changes_nothing() {
    let mut scenario = scenario();
    scenario.apply(
        "m",
        json!({"replicas": 1, "containers": [{"name": "a"}], "open": {"x": {"y": 1}}}),
    );
    let before = scenario.object.clone();
    scenario.apply(
        "m",
        json!({"replicas": 1, "containers": [{"name": "a"}], "open": {"x": {"y": 1}}}),
    );
    assert_eq!(scenario.object, before);
}

#[test]
fn unknown_parts_merge_by_deduced_types() {
    let mut scenario = scenario();
    scenario.apply("m1", json!({"open": {"a": {"b": 1}, "l": [1]}}));
    scenario.apply("m2", json!({"open": {"a": {"c": 2}}}));
    assert_eq!(
        scenario.spec(),
        json!({"open": {"a": {"b": 1, "c": 2}, "l": [1]}})
    );
    assert!(
        scenario
            .try_apply("m2", json!({"open": {"l": [2]}}), false)
            .is_err()
    );
}

#[test]
fn managed_fields_can_be_cleared_but_not_spoilt() {
    let mut scenario = scenario();
    scenario.update("a", json!({"replicas": 1}));
    let tracked = scenario.entries();
    for spoilt in [
        json!(null),
        json!([{"manager": "x"}]),
        json!("x"),
        json!([{"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}]),
    ] {
        scenario.update_with("a", |object| {
            object["metadata"]["managedFields"] = spoilt.clone();
        });
        assert_eq!(scenario.entries(), tracked, "{spoilt}");
    }
    for cleared in [json!([]), json!([{}])] {
        let mut scenario = Scenario {
            schema: schema(),
            object: scenario.object.clone(),
            hour: 9,
        };
        scenario.update_with("a", |object| {
            object["metadata"]["managedFields"] = cleared.clone();
        });
        assert!(scenario.entries().is_empty());
        scenario.update("b", json!({"replicas": 2}));
        assert!(scenario.entries().is_empty());
    }
    let ignored = FieldSet::new();
    scenario.update_in("ctrl", "status", V1, &ignored, |object| {
        object["metadata"]["managedFields"] = json!([]);
    });
    assert_eq!(scenario.entries(), tracked);
}

#[test]
fn unreadable_live_managed_fields_stop_an_apply_only() {
    let mut scenario = scenario();
    scenario.update("a", json!({"replicas": 1}));
    scenario.object.as_mut().unwrap()["metadata"]["managedFields"][0]["fieldsV1"] =
        json!({"x": {}});
    let error = scenario.try_apply("m", json!({}), false).unwrap_err();
    assert!(matches!(error, ApplyError::LiveManagedFields(_)));
    scenario.update("b", json!({"replicas": 2}));
    assert!(scenario.entries().is_empty());
}

fn any_spec() -> impl Strategy<Value = Value> {
    let texts = prop::collection::btree_set("[a-d]", 0..4);
    let containers = prop::collection::btree_map("[a-c]", prop::option::of("[x-z]"), 0..3)
        .prop_map(|all| {
            let element = |(name, image): (String, Option<String>)| match image {
                Some(image) => json!({"name": name, "image": image}),
                None => json!({"name": name}),
            };
            Value::Array(all.into_iter().map(element).collect())
        });
    let data = prop::collection::btree_map("[a-c]", "[x-z]", 0..3);
    (
        prop::option::of(0..3i64),
        prop::option::of(texts),
        prop::option::of(containers),
        prop::option::of(data),
    )
        .prop_map(|(replicas, names, containers, data)| {
            let mut spec = serde_json::Map::new();
            let mut put = |key: &str, value: Option<Value>| {
                if let Some(value) = value {
                    spec.insert(key.to_owned(), value);
                }
            };
            put("replicas", replicas.map(|value| json!(value)));
            put("names", names.clone().map(|value| json!(value)));
            put("args", names.map(|value| json!(value)));
            put("containers", containers);
            put("data", data.clone().map(|value| json!(value)));
            put("open", data.map(|value| json!({"deep": value})));
            Value::Object(spec)
        })
}

proptest! {
    #[test]
    fn apply_is_idempotent(start in any_spec(), mine in any_spec(), mut again in any_spec()) {
        // An apply that owns nothing leaves no trace; the next one would start from an untracked object.
        again["image"] = json!("i");
        let mut scenario = scenario();
        scenario.update("u", start);
        scenario.try_apply("m", mine, true).unwrap();
        scenario.try_apply("m", again.clone(), true).unwrap();
        let once = scenario.object.clone();
        scenario.try_apply("m", again, false).unwrap();
        prop_assert_eq!(&scenario.object, &once);
    }

    #[test]
    fn a_forced_apply_sets_its_fields(start in any_spec(), mine in any_spec()) {
        let mut scenario = scenario();
        scenario.update("u", start);
        scenario.try_apply("m", mine.clone(), true).unwrap();
        let merged = scenario.object.clone().unwrap();
        let found = typed::compare(Type::of(&scenario.schema), &body(mine), &merged);
        prop_assert!(found.modified.is_empty() && found.removed.paths().iter().all(|path| !path.to_string().starts_with(".spec.")), "{:?}", found);
    }

    #[test]
    fn disjoint_appliers_never_conflict(a in 0..9i64, b in "[a-z]", names in prop::collection::btree_set("[a-d]", 0..3)) {
        let mut scenario = scenario();
        scenario.apply("m1", json!({"replicas": a, "names": names, "containers": [{"name": "a", "image": b}]}));
        scenario.apply("m2", json!({"image": b, "names": ["z"], "containers": [{"name": "a", "tag": b}, {"name": "b"}]}));
        scenario.apply("m1", json!({"replicas": a + 1, "containers": [{"name": "a", "image": "z"}]}));
        prop_assert_eq!(&scenario.spec()["replicas"], &json!(a + 1));
        prop_assert_eq!(&scenario.spec()["containers"][0]["tag"], &json!(b));
        scenario.apply("m2", json!({}));
        prop_assert_eq!(scenario.spec(), json!({"replicas": a + 1, "containers": [{"name": "a", "image": "z"}]}));
    }
}
