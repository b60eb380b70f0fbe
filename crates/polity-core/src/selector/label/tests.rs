//! The grammar of label selectors, and what they match.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn parse(text: &str) -> LabelSelector {
    text.parse()
        .unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn written_selectors_print_canonically() {
    for (text, canonical) in [
        ("", ""),
        ("  \t", ""),
        ("a", "a"),
        ("!a", "!a"),
        (" ! a ", "!a"),
        ("a=b", "a=b"),
        ("a==b", "a=b"),
        ("a = b", "a=b"),
        ("a!=b", "a!=b"),
        ("a=", "a="),
        ("a=,b=", "a=,b="),
        ("a in (y,x,y)", "a in (x,y)"),
        ("a in(x)", "a in (x)"),
        ("a notin ()", "a notin ()"),
        ("a in (,x)", "a in (,x)"),
        ("a in (x,,y)", "a in (,x,y)"),
        ("a in (x,)", "a in (,x)"),
        ("a>5,b<7", "a>5,b<7"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("in", "in"),
        ("notin=in", "notin=in"),
        ("b,a", "a,b"),
        ("example.com/x=1", "example.com/x=1"),
    ] {
        assert_eq!(parse(text).to_string(), canonical, "{text:?}");
    }
}

#[test]
fn syntax_errors_read_as_those_of_kubernetes() {
    let key = |key: &str| {
        format!(
            "unable to parse requirement: <nil>: Invalid value: {key:?}: name part must consist of alphanumeric \
             characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or \
             'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        )
    };
    let value = "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must be an empty string \
                 or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                 character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    for (text, expected) in [
        (
            ",",
            "found ',', expected: !, identifier, or 'end of string'",
        ),
        (
            "=a",
            "found '=', expected: !, identifier, or 'end of string'",
        ),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        (
            "!",
            "unable to parse requirement: found '', expected: identifier",
        ),
        (
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (
            "a!b",
            "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (
            "a===b",
            "unable to parse requirement: found '=', expected: identifier",
        ),
        (
            "a in b",
            "unable to parse requirement: found 'b' expected: '('",
        ),
        (
            "a in (",
            "unable to parse requirement: found '', expected: ',', ')' or identifier",
        ),
        (
            "a in (x",
            "unable to parse requirement: found '', expected: ',' or ')'",
        ),
        (
            "a in (x,",
            "unable to parse requirement: found '', expected: ',', or identifier",
        ),
        (
            "a in (x=",
            "unable to parse requirement: found '=', expected: ',' or ')'",
        ),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be \
             an integer",
        ),
        ("a=-", value),
        ("a-", &key("a-")),
        ("a\0b", &key("a\0b").replace("\\0", "\\u0000")),
    ] {
        let error = text.parse::<LabelSelector>().unwrap_err();
        assert_eq!(error.to_string(), expected, "{text:?}");
    }
}

#[test]
fn requirements_select_by_key_and_value() {
    let labels = BTreeMap::from([
        ("a".to_owned(), "b".to_owned()),
        ("n".to_owned(), "7".to_owned()),
    ]);
    for (text, expected) in [
        ("", true),
        ("a=b", true),
        ("a=c", false),
        ("a!=b", false),
        ("x!=b", true),
        ("x=", false),
        ("a in (b,c)", true),
        ("a notin (b)", false),
        ("x notin (b)", true),
        ("a", true),
        ("!a", false),
        ("!x", true),
        ("n>5,n<8", true),
        ("n>7", false),
        ("a>1", false),
        ("x<1", false),
        ("a=b,x", false),
    ] {
        assert_eq!(parse(text).matches(&labels), expected, "{text:?}");
        assert_eq!(
            parse(text).matches(&json!(labels)),
            expected,
            "{text:?} over JSON"
        );
    }
    assert!(!LabelSelector::Nothing.matches(&labels));
    assert!(parse("!a").matches(&None::<&Value>));
}

#[test]
fn the_json_form_means_what_it_says() {
    let path = FieldPath::of("spec").child("selector");
    for (selector, expected) in [
        (json!({}), ""),
        (json!({"matchLabels": null, "matchExpressions": []}), ""),
        (json!({"matchLabels": {"b": "", "a": "x"}}), "a=x,b="),
        (
            json!({"matchExpressions": [
                {"key": "c", "operator": "In", "values": ["y", "x"]},
                {"key": "d", "operator": "NotIn", "values": ["z"]},
                {"key": "a", "operator": "Exists"},
                {"key": "b", "operator": "DoesNotExist", "values": []},
            ]}),
            "a,!b,c in (x,y),d notin (z)",
        ),
    ] {
        assert_eq!(
            LabelSelector::from_json(&selector, &path)
                .unwrap()
                .to_string(),
            expected
        );
    }
    assert_eq!(
        LabelSelector::from_json(&Value::Null, &path),
        Ok(LabelSelector::Nothing)
    );
}

#[test]
fn mistakes_in_the_json_form_name_their_field() {
    let path = FieldPath::of("spec").child("selector");
    for (selector, expected) in [
        (
            json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
            "spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or \
             'DoesNotExist'",
        ),
        (
            json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
            "spec.selector.matchExpressions[0].operator: Invalid value: \"Gt\": not a valid selector operator",
        ),
        (
            json!({"matchLabels": {"a": "-"}}),
            "spec.selector.matchLabels: Invalid value: \"-\": a valid label must be",
        ),
        (
            json!({"matchLabels": {"-": "a"}}),
            "spec.selector.matchLabels: Invalid value: \"-\": name part must consist",
        ),
        (
            json!({"matchLabels": {"a": 1}}),
            "spec.selector.matchLabels[a]: Invalid value: \"number\": must be of type string",
        ),
        (
            json!([]),
            "spec.selector: Invalid value: \"array\": must be of type object",
        ),
        (
            json!({"matchExpressions": {}}),
            "spec.selector.matchExpressions: Invalid value: \"object\": must be of type array",
        ),
        (
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]}),
            "spec.selector.matchExpressions[0].values[0]: Invalid value: \"-\": a valid label must be",
        ),
    ] {
        let errors = LabelSelector::from_json(&selector, &path).unwrap_err();
        let text = crate::field::join(&errors);
        assert!(text.starts_with(expected), "{selector}: {text}");
    }
}

fn requirement() -> impl Strategy<Value = LabelRequirement> {
    let key = "([a-z]{1,4}/)?[a-zA-Z0-9]([-_.a-zA-Z0-9]{0,5}[a-zA-Z0-9])?";
    let value = "([a-zA-Z0-9]([-_.a-zA-Z0-9]{0,5}[a-zA-Z0-9])?)?";
    let operator = prop_oneof![
        Just(LabelOperator::Equals),
        Just(LabelOperator::NotEquals),
        Just(LabelOperator::In),
        Just(LabelOperator::NotIn),
        Just(LabelOperator::Exists),
        Just(LabelOperator::DoesNotExist),
        Just(LabelOperator::GreaterThan),
        Just(LabelOperator::LessThan),
    ];
    (
        key,
        operator,
        value,
        proptest::collection::vec(value, 1..4),
        0..1000_u32,
    )
        .prop_map(|(key, operator, value, values, number)| {
            let values = match operator {
                LabelOperator::Equals | LabelOperator::NotEquals => vec![value],
                LabelOperator::In | LabelOperator::NotIn => values,
                LabelOperator::Exists | LabelOperator::DoesNotExist => vec![],
                LabelOperator::GreaterThan | LabelOperator::LessThan => vec![number.to_string()],
            };
            LabelRequirement::new(key, operator, values).unwrap()
        })
}

proptest! {
    #[test]
    fn what_is_printed_parses_back(requirements in proptest::collection::vec(requirement(), 0..5)) {
        let selector = LabelSelector::of(requirements);
        prop_assert_eq!(parse(&selector.to_string()), selector);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}|[-a-z!=<>(), \\x00é]{0,40}") {
        if let Ok(selector) = text.parse::<LabelSelector>() {
            prop_assert_eq!(parse(&selector.to_string()), selector);
        }
    }
}

#[test]
fn a_selector_with_very_many_mistakes_has_a_bounded_number_of_errors() {
    let keys: Vec<String> = (0..5000).map(|number| format!("-{number}")).collect();
    let labels: Map<String, Value> = keys.iter().map(|key| (key.clone(), json!("v"))).collect();
    let expression = |key: &String| json!({"key": key, "operator": "Exists"});
    let expressions: Vec<Value> = keys.iter().map(expression).collect();
    for selector in [
        json!({"matchLabels": labels}),
        json!({"matchExpressions": expressions}),
        json!({"matchExpressions": [{"key": "k", "operator": "In", "values": keys}]}),
        json!({"matchExpressions": [{"key": "k", "operator": "In", "values": vec![0; 5000]}]}),
    ] {
        let errors = LabelSelector::from_json(&selector, &FieldPath::of("selector")).unwrap_err();
        assert_eq!(errors.len(), crate::field::MAX_ERRORS);
    }
}
