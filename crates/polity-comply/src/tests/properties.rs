//! What holds for every definition and every object.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::world::{TestCluster, object, policy};
use crate::compare::{Question, compare};
use crate::policy::ComplianceType::{self, MustHave, MustOnlyHave};
use crate::{State, Status};

/// JSON as manifests have it: few names, so that definitions and objects meet.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        prop::sample::select(vec!["", "a", "b", "1", "1Gi", "1024Mi", "true"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            map(inner).prop_map(Value::Object),
        ]
    })
}

fn map(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let key = prop::sample::select(vec!["name", "x", "y", "z"]).prop_map(str::to_owned);
    prop::collection::btree_map(key, inner, 0..4).prop_map(|map| map.into_iter().collect())
}

fn spec() -> impl Strategy<Value = Value> {
    map(value()).prop_map(Value::Object)
}

fn labels() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec!["l", "m", "n"]).prop_map(str::to_owned);
    prop::collection::btree_map(key, "[ab]?", 0..3).prop_map(|labels| json!(labels))
}

fn pod() -> impl Strategy<Value = Value> {
    (spec(), labels()).prop_map(|(spec, labels)| {
        object(
            "Pod",
            "default",
            "web",
            json!({"spec": spec, "labels": labels}),
        )
    })
}

fn compliance() -> impl Strategy<Value = ComplianceType> {
    prop_oneof![Just(MustHave), Just(MustOnlyHave)]
}

fn question<'a>(
    definition: &'a Value,
    object: &'a Value,
    compliance: ComplianceType,
) -> Question<'a> {
    Question {
        definition,
        object,
        compliance,
        metadata_compliance: compliance,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_was_merged_complies(definition in pod(), existing in pod(), compliance in compliance()) {
        let first = compare(question(&definition, &existing, compliance)).unwrap();
        let second = compare(question(&definition, &first.updated, compliance)).unwrap();
        prop_assert!(second.matches(), "{} is not as specified", first.updated);
    }

    #[test]
    fn merging_is_idempotent(definition in pod(), existing in pod(), compliance in compliance()) {
        let first = compare(question(&definition, &existing, compliance)).unwrap();
        let second = compare(question(&definition, &first.updated, compliance)).unwrap();
        prop_assert_eq!(first.updated, second.updated);
    }

    #[test]
    fn an_object_complies_with_itself(object in pod(), compliance in compliance()) {
        let comparison = compare(question(&object, &object, compliance)).unwrap();
        prop_assert!(comparison.matches());
        prop_assert_eq!(&comparison.updated, &object);
    }

    #[test]
    fn a_plan_applied_leaves_nothing_to_do(
        definitions in prop::collection::vec(pod(), 1..4),
        existing in prop::option::of(pod()),
        compliance in prop::sample::select(vec!["musthave", "mustonlyhave", "mustnothave"]),
    ) {
        let templates: Vec<Value> = definitions
            .into_iter()
            .enumerate()
            .map(|(index, mut definition)| {
                definition["metadata"]["name"] = json!(format!("web{index}"));
                definition["spec"]["immutable"] = json!("x");
                json!({"complianceType": compliance, "objectDefinition": definition, "recreateOption": "IfRequired"})
            })
            .collect();
        let enforce = policy(json!({"remediationAction": "enforce"}), json!(templates));
        let mut existing: Vec<Value> = existing.into_iter().collect();
        for object in &mut existing {
            object["metadata"]["name"] = json!("web0");
        }
        let mut world = TestCluster::with(existing);
        let first = world.run(&enforce, &Status::default());
        prop_assert_eq!(first.status.state, State::Compliant);
        let n_writes = world.n_writes;
        let second = world.run(&enforce, &first.status);
        prop_assert_eq!(second.status.state, State::Compliant);
        prop_assert_eq!(world.n_writes, n_writes, "{:?}", second.messages);
    }

    #[test]
    fn nothing_panics_on_odd_policies(spec in spec(), template in value(), definition in value()) {
        let mut spec = spec;
        spec["object-templates"] = json!([template, {"complianceType": "musthave", "objectDefinition": definition}]);
        let document = json!({"metadata": {"name": "p"}, "spec": spec});
        if let Ok(policy) = crate::ConfigurationPolicy::from_json(&document) {
            TestCluster::default().run(&policy, &Status::default());
        }
        crate::policy::unknown_fields(&document);
    }
}
