//! Requests that a rule allows, and coverage between rules.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;

use super::*;

fn rule(value: serde_json::Value) -> Rule {
    serde_json::from_value(value).unwrap()
}

fn get<'a>(group: &'a str, path: &'a str, name: &'a str) -> Attributes<'a> {
    let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
    Attributes::Resource {
        verb: "get",
        group,
        version: "v1",
        resource,
        subresource,
        name,
        namespace: "ns",
    }
}

#[test]
fn a_rule_matches_verb_group_resource_and_name() {
    let on = |group: &str, resource: &str| json!({"verbs": ["get"], "apiGroups": [group], "resources": [resource]});
    let named =
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]});
    let cases = [
        (on("", "pods"), get("", "pods", "a"), true),
        (on("", "pods"), get("apps", "pods", "a"), false),
        (on("*", "pods"), get("apps", "pods", "a"), true),
        (on("", "*"), get("", "pods", "a"), true),
        (on("", "*"), get("", "pods/log", "a"), true),
        (on("", "pods"), get("", "pods/log", "a"), false),
        (on("", "pods/log"), get("", "pods/log", "a"), true),
        (on("", "pods/log"), get("", "pods", "a"), false),
        (on("", "*/log"), get("", "pods/log", "a"), true),
        (on("", "*/log"), get("", "pods/exec", "a"), false),
        (on("", "*/log"), get("", "pods", "a"), false),
        (on("", "pods/*"), get("", "pods/log", "a"), false),
        (named.clone(), get("", "pods", "a"), true),
        (named.clone(), get("", "pods", "b"), false),
        (named, get("", "pods", ""), false),
        (
            json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
            get("x", "y/z", "n"),
            true,
        ),
        (
            json!({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}),
            get("", "pods", "a"),
            false,
        ),
        (
            json!({"verbs": null, "apiGroups": [""], "resources": ["pods"]}),
            get("", "pods", "a"),
            false,
        ),
    ];
    for (value, request, expected) in cases {
        assert_eq!(
            rule(value.clone()).allows(&request),
            expected,
            "{value} on {request:?}"
        );
    }
}

#[test]
fn paths_match_exactly_by_star_or_by_prefix() {
    for (url, path, expected) in [
        ("/healthz", "/healthz", true),
        ("/healthz", "/healthz/etcd", false),
        ("/healthz/*", "/healthz/etcd", true),
        ("/healthz/*", "/healthz", false),
        ("*", "/anything", true),
        ("/api*", "/apis", true),
    ] {
        let allowed =
            Rule::on_urls(&["get"], &[url]).allows(&Attributes::NonResource { verb: "get", path });
        assert_eq!(allowed, expected, "{url} on {path}");
    }
    let put = Attributes::NonResource {
        verb: "put",
        path: "/healthz",
    };
    assert!(!Rule::on_urls(&["get"], &["/healthz"]).allows(&put));
    assert!(!Rule::on_resources(&["*"], &["*"], &["*"]).allows(&put));
}

#[test]
fn missing_permissions_are_joined_and_sorted() {
    let owned = [Rule::on_resources(&["get"], &[""], &["pods"])];
    let needed = [
        Rule::on_resources(&["get", "list", "watch"], &[""], &["pods", "secrets"]),
        Rule::on_urls(&["get"], &["/metrics"]),
    ];
    let missing = covers(&owned, &needed).unwrap_err();
    assert_eq!(
        describe(&missing).into_iter().collect::<Vec<_>>(),
        [
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
            r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}"#,
            r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#,
        ]
    );
}

#[test]
fn names_narrow_and_subresource_wildcards_widen() {
    let named = rule(
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}),
    );
    let all = Rule::on_resources(&["get"], &[""], &["pods"]);
    let logs = Rule::on_resources(&["get"], &[""], &["*/log"]);
    let log = Rule::on_resources(&["get"], &[""], &["pods/log"]);
    for (owned, needed, expected) in [
        (&all, &named, true),
        (&named, &all, false),
        (&logs, &log, true),
        (&log, &logs, false),
        (&all, &log, false),
    ] {
        let (owned, needed) = (std::slice::from_ref(owned), std::slice::from_ref(needed));
        assert_eq!(
            covers(owned, needed).is_ok(),
            expected,
            "{owned:?} over {needed:?}"
        );
    }
}

#[test]
fn a_rule_that_multiplies_beyond_reason_is_refused_quickly() {
    let many: Vec<String> = (0..50_000).map(|n| n.to_string()).collect();
    let huge = Rule {
        verbs: many.clone(),
        api_groups: many.clone(),
        resources: many.clone(),
        resource_names: many,
        ..Rule::default()
    };
    assert!(
        covers(
            &[Rule::on_resources(&["get"], &[""], &["pods"])],
            std::slice::from_ref(&huge)
        )
        .is_err()
    );
    assert_eq!(covers(&Rule::everything(), &[huge]), Ok(()));
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let some = |words: &'static [&'static str], least: usize| {
        subsequence(words.to_vec(), least..=words.len())
            .prop_map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    let on_resources = (
        some(&["get", "list", "*"], 1),
        some(&["", "apps", "*"], 1),
        some(&["pods", "pods/log", "*/log", "*"], 1),
        some(&["a", "b"], 0),
    )
        .prop_map(|(verbs, api_groups, resources, resource_names)| Rule {
            verbs,
            api_groups,
            resources,
            resource_names,
            ..Rule::default()
        });
    let on_urls = (some(&["get", "*"], 1), some(&["/a", "/a/*", "*"], 1)).prop_map(
        |(verbs, non_resource_urls)| Rule {
            verbs,
            non_resource_urls,
            ..Rule::default()
        },
    );
    prop_oneof![on_resources, on_urls]
}

fn any_rules() -> impl Strategy<Value = Vec<Rule>> {
    proptest::collection::vec(any_rule(), 0..4)
}

proptest! {
    #[test]
    fn rules_cover_themselves(rules in any_rules()) {
        prop_assert_eq!(covers(&rules, &rules), Ok(()));
    }

    #[test]
    fn more_rules_cover_no_less(owned in any_rules(), more in any_rules(), needed in any_rules()) {
        if covers(&owned, &needed).is_ok() {
            let grown: Vec<_> = owned.into_iter().chain(more).collect();
            prop_assert_eq!(covers(&grown, &needed), Ok(()));
        }
    }

    #[test]
    fn everything_covers_all(rules in any_rules()) {
        prop_assert_eq!(covers(&Rule::everything(), &rules), Ok(()));
    }

    #[test]
    fn covered_permissions_are_allowed(
        owned in any_rules(),
        needed in any_rules(),
        group in select(vec!["", "apps", "batch"]),
        path in select(vec!["pods", "pods/log", "secrets/log"]),
        name in select(vec!["", "a", "c"]),
    ) {
        let request = get(group, path, name);
        let allowed = |rules: &[Rule]| rules.iter().any(|rule| rule.allows(&request));
        if covers(&owned, &needed).is_ok() && allowed(&needed) {
            prop_assert!(allowed(&owned));
        }
    }
}
