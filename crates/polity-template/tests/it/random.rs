//! Random templates: the same through Go and through us, and never a panic.

use polity_template::{Limits, Rules, Side, Template};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use crate::differential::{data, ours};
use crate::host::TestHost;
use crate::oracle;

fn operand() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(".text".to_owned()),
        Just(".number".to_owned()),
        Just(".float".to_owned()),
        Just(".list".to_owned()),
        Just(".map".to_owned()),
        Just(".users".to_owned()),
        Just(".nothing".to_owned()),
        Just(".missing".to_owned()),
        Just(".empty".to_owned()),
        Just(".mixed".to_owned()),
        Just("$".to_owned()),
        Just(".".to_owned()),
        Just("nil".to_owned()),
        Just("true".to_owned()),
        (-20i32..20).prop_map(|number| number.to_string()),
        (-20i32..20).prop_map(|number| format!("{}", f64::from(number) / 4.0)),
        "[a-c ,%{}é]{0,4}".prop_map(|text| format!("{text:?}")),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let functions = prop::sample::select(vec![
            "upper",
            "len",
            "quote",
            "toJson",
            "list",
            "first",
            "join \",\"",
            "default 1",
            "print",
            "not",
            "eq 1",
            "add 1",
            "index .list",
            "printf \"%v|%5d|%q\"",
            "dict",
            "kindOf",
            "typeOf",
            "int",
            "float64",
            "toString",
            "reverse",
            "sortAlpha",
            "trunc 3",
            "splitList \",\"",
            "and",
            "or",
            "lt 3",
            "ge 2",
            "ne",
            "coalesce",
            "ternary 1 2",
            "squote",
            "cat",
            "hasKey .map",
            "get .map",
            "uniq",
            "compact",
            "max 1",
            "mul 2",
            "empty",
            "toRawJson",
            "concat",
            "until",
            "slice",
            "println",
            "html",
            "urlquery",
            "repeat 2",
            "substr 0 2",
            "replace \"a\" \"b\"",
            "title",
        ]);
        (functions, prop::collection::vec(inner, 0..3))
            .prop_map(|(function, arguments)| format!("({function} {})", arguments.join(" ")))
    })
}

fn piece() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        Just("a".to_owned()),
        Just(" ".to_owned()),
        Just("\n".to_owned())
    ];
    let action = (operand(), any::<bool>(), any::<bool>()).prop_map(|(operand, left, right)| {
        let (left, right) = (if left { "- " } else { "" }, if right { " -" } else { "" });
        format!("{{{{{left}{operand}{right}}}}}")
    });
    let leaf = prop_oneof![1 => text, 3 => action];
    leaf.prop_recursive(3, 16, 3, |inner| {
        let body = prop::collection::vec(inner, 0..3).prop_map(|pieces| pieces.concat());
        prop_oneof![
            (operand(), body.clone(), body.clone()).prop_map(|(condition, yes, no)| {
                format!("{{{{if {condition}}}}}{yes}{{{{else}}}}{no}{{{{end}}}}")
            }),
            (operand(), body.clone())
                .prop_map(|(value, body)| { format!("{{{{with {value}}}}}{body}{{{{end}}}}") }),
            (operand(), body.clone(), any::<bool>()).prop_map(|(value, body, breaks)| {
                let end = if breaks { "{{break}}" } else { "" };
                format!(
                    "{{{{range $k, $v := {value}}}}}{{{{$k}}}}={{{{$v}}}}{body}{end}{{{{end}}}}"
                )
            }),
        ]
    })
}

/// Messages that differ by design, see the accepted differences in docs/design/templates.md.
fn is_accepted(theirs: &str, ours: &str) -> bool {
    // Go distinguishes a nil interface from no value, and both have no length.
    theirs.ends_with("error calling len: len of nil pointer")
        && ours.ends_with("error calling len: reflect: call of reflect.Value.Type on zero Value")
}

#[test]
fn random_templates_are_as_in_go() {
    let Some(program) = oracle::find() else {
        return;
    };
    let mut runner = TestRunner::deterministic();
    let strategy = prop::collection::vec(piece(), 1..4).prop_map(|pieces| pieces.concat());
    let texts: Vec<String> = (0..4000)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect();
    let data = data();
    let cases: Vec<_> = texts
        .iter()
        .map(|text| oracle::template(text, &data))
        .collect();
    let answers = oracle::ask(program, &cases).unwrap();
    let mut different = Vec::new();
    let mut n_accepted = 0;
    for (text, answer) in texts.iter().zip(answers) {
        let (theirs, ours) = (answer.result(), ours(text, &data));
        if theirs != ours {
            match (&theirs, &ours) {
                (Err(theirs), Err(ours)) if is_accepted(theirs, ours) => n_accepted += 1,
                _ => different.push(format!("{text:?}\n  Go:   {theirs:?}\n  ours: {ours:?}")),
            }
        }
    }
    let n_cases = texts.len();
    let n_same = n_cases - n_accepted - different.len();
    eprintln!(
        "{n_cases} cases, {n_same} same, {n_accepted} accepted differences, {} different",
        different.len()
    );
    let shown: Vec<_> = different.iter().take(20).cloned().collect();
    assert!(different.is_empty(), "\n{}", shown.join("\n"));
}

proptest! {
    #[test]
    fn nothing_that_is_written_makes_us_panic(text in "(\\{\\{|\\}\\}|[ -~\n]|é|\\PC){0,60}") {
        let rules = Rules::of(Side::Managed);
        if let Ok(template) = Template::parse("tmpl", &text, &rules) {
            let _ = template.execute((&data()).into(), &TestHost::default(), &rules, Limits::default());
        }
    }
}
