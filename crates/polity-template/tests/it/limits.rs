//! Templates that want too much get an error, quickly, and never more than their share.

use polity_template::{ExecuteError, Limits, Rules, Side, Template};

use crate::host::TestHost;

fn run(text: &str) -> Result<String, ExecuteError> {
    run_within(text, Limits::default())
}

fn run_within(text: &str, limits: Limits) -> Result<String, ExecuteError> {
    let rules = Rules::of(Side::Managed);
    let template = Template::parse("tmpl", text, &rules).expect("a template");
    template
        .execute(
            (&serde_json::json!({})).into(),
            &TestHost::default(),
            &rules,
            limits,
        )
        .map(|execution| execution.text)
}

fn check(text: &str, limit: &str) {
    match run(text) {
        Err(ExecuteError::Limit(message)) => {
            let wanted = format!("template exceeded its limit of {limit}");
            assert!(message.contains(&wanted), "{text}: {message}");
        }
        other => panic!("{text}: {:?}", other.map(|text| text.len())),
    }
}

/// Output, steps and nested calls are limited.
#[test]
fn a_template_cannot_exceed_its_limits() {
    const OUTPUT: &str = "1 MiB of output";
    const STEPS: &str = "1000000 evaluation steps";
    check("{{repeat 1048577 \"x\"}}", OUTPUT);
    check("{{range until 200}}{{repeat 10000 \"x\"}}{{end}}", OUTPUT);
    check("{{repeat 1000000000000 \"x\"}}", OUTPUT);
    check("{{indent 2000000 \"x\"}}", OUTPUT);
    check("{{nindent 1000000 \"x\\nx\"}}", OUTPUT);
    check(
        "{{replace \"\" (repeat 100000 \"x\") (repeat 1000 \"y\")}}",
        OUTPUT,
    );
    check(
        "{{regexReplaceAll \"\" (repeat 100000 \"x\") (repeat 1000 \"y\")}}",
        OUTPUT,
    );
    check(
        "{{$x := \"x\"}}{{range until 64}}{{$x = printf \"%s%s\" $x $x}}{{end}}",
        OUTPUT,
    );
    check(
        "{{$x := \"x\"}}{{range until 64}}{{$x = cat $x $x}}{{end}}",
        OUTPUT,
    );
    check(
        "{{printf \"%1000000d\" 1}}{{printf \"%1000000d\" 1}}",
        OUTPUT,
    );
    check(
        "{{$l := list (repeat 100000 \"x\")}}{{range until 8}}{{$l = concat $l $l}}{{end}}{{join \",\" $l}}",
        OUTPUT,
    );
    check("{{randAlpha 2000000}}", OUTPUT);
    check(
        "{{wrapWith 1 (repeat 100000 \"y\") (repeat 1000 \"x\")}}",
        OUTPUT,
    );
    check("{{range 10000000}}{{end}}", STEPS);
    check("{{until 100000000}}", STEPS);
    check("{{seq 100000000}}", STEPS);
    check("{{untilStep 0 9223372036854775807 1}}", STEPS);
    check(
        "{{range until 1000}}{{range until 1000}}{{end}}{{end}}",
        STEPS,
    );
    check(
        "{{$l := list 1}}{{range until 64}}{{$l = concat $l $l}}{{end}}",
        STEPS,
    );
    check("{{range until 100}}{{genPrivateKey \"rsa\"}}{{end}}", STEPS);
    check(
        "{{range $i := until 10000}}{{$x := regexMatch (printf \"a{%d}\" $i) \"a\"}}{{end}}",
        STEPS,
    );
    check(
        "{{$x := repeat 1000000 \"x\"}}{{range until 1000}}{{$y := regexMatch \"y\" $x}}{{end}}",
        STEPS,
    );
    check(
        "{{$d := dict}}{{range $i := until 1000}}{{$_ := set $d (printf \"%d\" $i) (repeat 1000000 \"x\")}}{{end}}",
        STEPS,
    );
    check(
        "{{define \"r\"}}{{template \"r\"}}{{end}}{{template \"r\"}}",
        "100 nested calls",
    );
    check(
        "{{define \"r\"}}{{if true}}{{if true}}{{if true}}{{if true}}{{if true}}{{template \"r\"}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{template \"r\"}}",
        "400 nested blocks",
    );
    check(
        "{{$d := dict}}{{range until 1000}}{{$d = dict \"a\" $d}}{{end}}{{$d}}",
        "200 nested values",
    );
    check(
        "{{$d := dict}}{{range until 1000}}{{$d = dict \"a\" $d}}{{end}}{{toJson $d}}",
        "200 nested values",
    );
    check(
        "{{$l := list}}{{range until 1000}}{{$l = list $l}}{{end}}{{deepEqual $l $l}}",
        "200 nested values",
    );
}

#[test]
fn deep_values_are_dropped_without_a_deep_stack() {
    let text = "{{$l := list}}{{range until 100000}}{{$l = list $l}}{{end}}done";
    assert_eq!(run(text).unwrap(), "done");
    let text = "{{$d := dict}}{{$e := $d}}{{range until 50000}}{{$f := dict}}{{$_ := set $e \"x\" $f}}{{$e = $f}}{{end}}done";
    assert_eq!(run(text).unwrap(), "done");
}

#[test]
fn a_map_cannot_come_to_hold_itself() {
    let error = run("{{$d := dict}}{{$_ := set $d \"d\" (list $d)}}").unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("error calling set: a map cannot hold itself, or is nested too deeply"),
        "{error}"
    );
    assert_eq!(
        run("{{$d := dict \"a\" 1}}{{$_ := merge $d (dict \"d\" $d)}}{{len $d}}").unwrap(),
        "1"
    );
}

#[test]
fn nesting_is_bounded_where_it_is_read() {
    let rules = Rules::of(Side::Managed);
    for text in [
        format!("{{{{{}1{}}}}}", "(".repeat(5000), ")".repeat(5000)),
        format!("{}{}", "{{if true}}".repeat(5000), "{{end}}".repeat(5000)),
        format!("{{{{if 1}}}}{}{{{{end}}}}", "{{else if 1}}".repeat(5000)),
    ] {
        let error = Template::parse("tmpl", &text, &rules).unwrap_err();
        assert!(
            error
                .0
                .ends_with("template exceeded its limit of 300 nested blocks"),
            "{error}"
        );
    }
    let text = format!("{{{{{}1{}}}}}", "(".repeat(250), ")".repeat(250));
    assert_eq!(run(&text).unwrap(), "1");
}

/// A template cannot keep a hub busy with functions that are slow by design.
#[test]
fn hard_work_costs_many_steps() {
    let limits = Limits {
        steps: 250_000,
        ..Limits::default()
    };
    for text in [
        "{{range until 10}}{{htpasswd \"a\" \"b\"}}{{end}}",
        "{{range until 10}}{{derivePassword 1 \"pin\" \"p\" \"u\" \"s\"}}{{end}}",
        "{{range until 10}}{{genPrivateKey \"rsa\"}}{{end}}",
        "{{range until 10}}{{genCA \"ca\" 1}}{{end}}",
    ] {
        let outcome = run_within(text, limits);
        assert!(
            matches!(outcome, Err(ExecuteError::Limit(_))),
            "{text}: {outcome:?}"
        );
    }
}
