//! What becomes of documents, as tables.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::lifecycle::PolicyKind;

fn policy(name: &str) -> String {
    format!(
        "apiVersion: policies.kubewarden.io/v1\nkind: ClusterAdmissionPolicy\nmetadata: {{name: {name}}}\nspec: {{}}\n"
    )
}

fn server(name: &str) -> String {
    format!(
        "apiVersion: policies.kubewarden.io/v1\nkind: PolicyServer\nmetadata: {{name: {name}}}\nspec: {{}}\n"
    )
}

fn read(text: &str) -> Documents {
    Documents::read(
        "recommended",
        &BTreeMap::from([("p.yaml".to_owned(), text.to_owned())]),
    )
}

fn key(kind: OwnedKind, name: &str) -> OwnedKey {
    OwnedKey {
        kind,
        namespace: None,
        name: name.to_owned(),
    }
}

fn policy_key(name: &str) -> OwnedKey {
    key(OwnedKind::Policy(PolicyKind::ClusterAdmissionPolicy), name)
}

/// `ours`, `theirs`, `ours going`, `theirs going`.
fn found(words: &str) -> Found {
    Found {
        uid: "uid".to_owned(),
        is_ours: words.starts_with("ours"),
        is_going: words.ends_with("going"),
    }
}

#[test]
fn any_name_of_a_config_map_fits_into_a_label() {
    assert_eq!(label_value("recommended"), "recommended");
    assert!(label_value(&"x".repeat(253)).len() <= 63);
    assert_ne!(label_value(&"x".repeat(253)), label_value(&"x".repeat(252)));
}

#[test]
fn one_document() {
    use Decision::{Apply, LeaveAlone, Rest, Wait};
    for (case, applied, there, expected) in [
        ("new", None, None, Apply),
        ("died before recording", None, Some("ours"), Apply),
        ("somebody else's", None, Some("theirs"), LeaveAlone),
        ("there and going", None, Some("theirs going"), Wait),
        ("at rest", Some("new"), Some("ours"), Rest),
        ("deleted by its owner", Some("new"), None, Rest),
        (
            "being deleted by its owner",
            Some("new"),
            Some("ours going"),
            Rest,
        ),
        ("taken over by its owner", Some("new"), Some("theirs"), Rest),
        ("changed", Some("old"), Some("ours"), Apply),
        (
            "changed after its owner deleted it",
            Some("old"),
            None,
            Apply,
        ),
        (
            "changed while its owner deletes it",
            Some("old"),
            Some("ours going"),
            Wait,
        ),
        (
            "changed after it was taken over",
            Some("old"),
            Some("theirs"),
            LeaveAlone,
        ),
    ] {
        let there = there.map(found);
        assert_eq!(decide("new", applied, there.as_ref()), expected, "{case}");
    }
}

/// What a plan does, in words.
fn steps(documents: &Documents, record: &Record, there: &[(OwnedKey, &str)]) -> Vec<String> {
    let there = there.iter().map(|(key, words)| (key.clone(), found(words)));
    let there = there.collect();
    let plan = Plan::of(documents, record, &there);
    let words = plan.steps.iter().map(|step| match step {
        Step::Apply(key, _) => format!("apply {key}"),
        Step::Delete(key, _) => format!("delete {key}"),
    });
    words.collect()
}

#[test]
fn servers_come_before_their_policies_and_go_after_them() {
    let text = format!("{}---\n{}", policy("p"), server("s"));
    let nothing = Record::default();
    assert_eq!(
        steps(&read(&text), &nothing, &[]),
        ["apply PolicyServer s", "apply ClusterAdmissionPolicy p"]
    );
    let there = [
        (key(OwnedKind::Server, "s"), "ours"),
        (policy_key("p"), "ours"),
    ];
    assert_eq!(
        steps(&read(""), &nothing, &there),
        ["delete ClusterAdmissionPolicy p", "delete PolicyServer s"]
    );
}

#[test]
fn only_what_we_made_goes_with_its_document_and_only_once() {
    for (words, n_expected) in [("ours", 1), ("theirs", 0), ("ours going", 0)] {
        let steps = steps(&read(""), &Record::default(), &[(policy_key("p"), words)]);
        assert_eq!(steps.len(), n_expected, "{words}");
    }
}

#[test]
fn a_slip_in_one_document_deletes_nothing_and_forgets_nothing() {
    let documents = read(&format!("{}---\nkind: [", policy("q")));
    let mut record = Record::default();
    record.apply(&policy_key("p"), "hash");
    let there = BTreeMap::from([(policy_key("p"), found("ours"))]);
    let plan = Plan::of(&documents, &record, &there);
    assert!(matches!(plan.steps[..], [Step::Apply(..)]), "{plan:?}");
    assert_eq!(plan.record.applied(&policy_key("p")), Some("hash"));
    let mended = read(&policy("q"));
    let plan = Plan::of(&mended, &record, &there);
    assert_eq!(plan.steps.len(), 2, "the rest goes on, and p goes");
    assert_eq!(plan.record.applied(&policy_key("p")), None);
}

#[test]
fn what_was_told_is_told_again_only_after_it_was_gone() {
    let problem = |reason: &str| Problem {
        place: "p.yaml, document 1".to_owned(),
        reason: reason.to_owned(),
    };
    let mut record = Record::default();
    let (a, b) = (problem("a"), problem("b"));
    assert_eq!(record.tell(vec![a.clone()]).len(), 1);
    let mut stored = Record::read(Some(&record.text()));
    assert_eq!(stored, record);
    assert_eq!(stored.tell(vec![a.clone(), b.clone()]), [b]);
    assert_eq!(stored.tell(vec![]), []);
    assert_eq!(stored.tell(vec![a.clone()]), [a]);
    assert_eq!(Record::read(Some("nonsense")), Record::default());
}

#[test]
fn a_changed_document_has_another_hash_and_a_rewritten_one_the_same() {
    let hash = |text: &str| read(text).objects[&policy_key("p")].hash.clone();
    let text = policy("p");
    assert_eq!(
        hash(&text),
        hash(&format!("# a comment\n---\n{text}\n...\n"))
    );
    assert_ne!(
        hash(&text),
        hash(&text.replace("spec: {}", "spec: {mode: monitor}"))
    );
    let own = format!("{text}status: {{phase: Active}}\n");
    assert_eq!(
        hash(&text),
        hash(&own.replace("{name: p}", "{name: p, uid: x}"))
    );
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,200}", key in ".{0,20}") {
        let documents = Documents::read(&key, &BTreeMap::from([(key.clone(), text.clone())]));
        let plan = Plan::of(&documents, &Record::read(Some(&text)), &BTreeMap::new()).steps.len();
        prop_assert_eq!(plan, documents.objects.len());
    }

    /// Whatever the documents say, a second look after everything was carried out finds nothing to do.
    #[test]
    fn it_comes_to_rest(
        wanted in prop::collection::btree_set("[a-c]", 0..3),
        there in prop::collection::btree_map("[a-e]", prop::bool::ANY, 0..5),
    ) {
        let text: Vec<_> = wanted.iter().map(|name| policy(name)).collect();
        let documents = read(&text.join("---\n"));
        let mut there: BTreeMap<_, _> = there
            .iter()
            .map(|(name, is_ours)| (policy_key(name), found(if *is_ours { "ours" } else { "theirs" })))
            .collect();
        let before = there.clone();
        let plan = Plan::of(&documents, &Record::default(), &before);
        let mut record = plan.record.clone();
        for step in &plan.steps {
            match step {
                Step::Apply(key, document) => {
                    record.apply(key, &document.hash);
                    there.insert((*key).clone(), found("ours"));
                }
                Step::Delete(key, _) => drop(there.remove(*key)),
            }
        }
        let again = Plan::of(&documents, &record, &there);
        prop_assert!(again.steps.is_empty());
        prop_assert_eq!(&again.record, &record);
        let n_theirs = |all: &BTreeMap<OwnedKey, Found>| all.values().filter(|one| !one.is_ours).count();
        prop_assert_eq!(n_theirs(&before), n_theirs(&there));
    }
}
