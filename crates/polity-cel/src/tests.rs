//! Results of expressions, rejected expressions, and the limits of evaluation.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::*;

fn object() -> Value {
    json!({
        "apiVersion": "v1",
        "metadata": {"name": "web", "labels": {"app": "web", "tier": "front"}},
        "spec": {
            "replicas": 3,
            "ratio": 0.5,
            "paused": false,
            "containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}],
            "nothing": null,
        },
    })
}

fn evaluate(text: &str) -> Result<Value, String> {
    let environment = Environment::new().variable("object").variable("n");
    let expression =
        Expression::compile(text, &environment, Output::Any).map_err(|error| error.to_string())?;
    let bindings = Bindings::new()
        .json("object", &object())
        .json("n", &json!(100));
    let mut budget = Budget::of(Budget::PER_EXPRESSION);
    expression
        .evaluate_json(&bindings, &mut budget)
        .map_err(|error| error.to_string())
}

#[test]
fn expressions_evaluate_as_in_kubernetes() {
    let truths = [
        // Fields, presence and maps.
        "object.spec.replicas == 3",
        "object.spec.replicas == 3.0",
        "has(object.spec.replicas) && !has(object.spec.absent)",
        "object.metadata.labels['app'] == 'web'",
        "'app' in object.metadata.labels && !('x' in object.metadata.labels)",
        "object.metadata.labels.exists(k, k == 'tier')",
        "object.spec.nothing == null",
        "size(object.spec.containers) == 2 && object.spec.containers.size() == 2",
        "object.spec.containers[1].name == 'b'",
        "{'a': 1, 'b': 2}.map(k, k) == ['a', 'b']",
        // Errors that do not matter.
        "true || object.absent.x",
        "object.absent.x || true",
        "!(false && object.absent.x)",
        "!(object.absent.x && false)",
        "[1, 0].exists(x, 10 / x == 10)",
        "![0, 1].all(x, 10 / x == 0)",
        "true ? true : object.absent.x",
        // Arithmetic and comparison.
        "7 / 2 == 3 && -7 / 2 == -3 && 7 % 3 == 1 && 7.0 / 2.0 == 3.5",
        "1 < 2.5 && 2u > 1 && 'a' < 'b' && b'a' < b'b' && !(1 > 2)",
        "1 + 2 * 3 == 7 && 'a' + 'b' == 'ab' && [1] + [2] == [1, 2]",
        "timestamp('2024-01-02T03:04:05Z') - timestamp('2024-01-01T03:04:05Z') == duration('24h')",
        "timestamp('2024-01-02T03:04:05+01:00').getHours() == 2",
        "duration('90m') > duration('1h') && string(duration('90m')) == '5400s'",
        "timestamp(0) + duration('1s') == timestamp('1970-01-01T00:00:01Z')",
        "string(timestamp('2024-01-02T03:04:05Z')) == '2024-01-02T03:04:05Z'",
        // Macros.
        "object.spec.containers.all(c, c.name.size() == 1)",
        "object.spec.containers.exists_one(c, c.name == 'a')",
        "object.spec.containers.map(c, c.name) == ['a', 'b']",
        "object.spec.containers.map(c, c.name == 'a', c.image) == ['x:1']",
        "object.spec.containers.filter(c, c.name == 'b')[0].image == 'y:2'",
        "[1, 2].all(x, [3, 4].all(y, x < y))",
        "[1, 2].map(x, [x].map(x, x + 1)[0] + x) == [3, 5]",
        "[10, 20].all(i, v, v == (i + 1) * 10)",
        "{'a': 1}.exists(k, v, k == 'a' && v == 1)",
        "[5, 6].transformList(i, v, i > 0, v) == [6]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "['x', 'y'].transformMapEntry(i, v, {v: i}) == {'x': 0, 'y': 1}",
        "[3, 1, 2].sortBy(x, -x) == [3, 2, 1]",
        // Optionals.
        "object.?spec.?absent.orValue(7) == 7",
        "object.?spec.replicas.orValue(7) == 3",
        "object.spec.containers[?9].hasValue() == false",
        "optional.of(2).optMap(x, x * 2).value() == 4",
        "optional.none().or(optional.of(1)).value() == 1",
        "[?optional.none(), ?optional.of(1)] == [1]",
        "{?'a': optional.none()} == {}",
        // Types.
        "type(object.spec.replicas) == int && type('') == string && type(1.5) == double",
        "type(timestamp(0)) == google.protobuf.Timestamp",
        "int('3') == 3 && double('0.5') == 0.5 && string(3) == '3' && bool('true') && string(true) == 'true'",
        "int(2.9) == 2 && uint(3) == 3u && dyn(1) == dyn(1.0)",
        // Libraries.
        "'hello'.matches('^h.*o$') && !'hello'.matches('^x')",
        "'abc 123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
        "'A,b'.lowerAscii().split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b'",
        "'hello'.substring(1, 3) == 'el' && 'hello'.indexOf('l') == 2 && 'x'.replace('x', 'y') == 'y'",
        "'%s is %d'.format(['x', 3]) == 'x is 3' && strings.quote('a') == '\"a\"'",
        "[1, 2, 3].sum() == 6 && [3, 1].min() == 1 && [1, 2].isSorted() && [1, 2].indexOf(2) == 1",
        "[[1], [2]].flatten() == [1, 2]",
        "lists.range(3) == [0, 1, 2] && [1, 1].distinct() == [1] && [1, 2].first().value() == 1",
        "sets.contains([1, 2], [1]) && sets.intersects([1], [1, 3]) && !sets.equivalent([1], [2])",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && isQuantity('10m') && !isQuantity('x')",
        "quantity('1').add(quantity('500m')).compareTo(quantity('1.5')) == 0",
        "url('https://h:80/p').getHost() == 'h:80' && isURL('https://x') && !isURL('::')",
        "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.2.3') && isIP('::1')",
        "string(ip('10.0.0.1')) == '10.0.0.1' && cidr('10.0.0.0/8').prefixLength() == 8",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('v1.2', true).major() == 1",
        "!format.dns1123Label().validate('ok').hasValue() && format.dns1123Label().validate('NO').hasValue()",
        "format.named('uuid').hasValue()",
    ];
    for text in truths {
        assert_eq!(evaluate(text), Ok(json!(true)), "{text}");
    }
}

#[test]
fn run_time_errors_read_as_in_kubernetes() {
    let cases = [
        ("object.absent", "no such key: absent"),
        ("object.spec['absent']", "no such key: absent"),
        (
            "object.spec.containers[5].name == 'x'",
            "index out of bounds: 5",
        ),
        ("object.spec.replicas + 'x' == ''", "no such overload"),
        (
            "object.spec.replicas == 3 && object.spec.paused + 1 == 1",
            "no such overload",
        ),
        ("object.spec.replicas / 0 == 1", "division by zero"),
        ("object.spec.replicas % 0 == 1", "modulus by zero"),
        (
            "object.spec.replicas + 9223372036854775807 == 1",
            "integer overflow",
        ),
        (
            "-(object.spec.replicas - 9223372036854775807 - 4) == 1",
            "integer overflow",
        ),
        (
            "optional.none().value() == 1",
            "optional.none() dereference",
        ),
        ("{'a': 1, 'a': 2} == {}", "Failed with repeated key"),
        (
            "int('x') == 1",
            "type conversion error from 'string' to 'int'",
        ),
        (
            "object.metadata.name.matches(object.metadata.name + '(')",
            "error parsing regexp: \"web(\"",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(evaluate(text), Err(expected.to_owned()), "{text}");
    }
}

fn refusal(text: &str, environment: &Environment, output: Output) -> String {
    match Expression::compile(text, environment, output) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn match_conditions_must_compile_to_a_bool() {
    let environment = Environment::match_conditions();
    let cases = [
        ("object.spec.x == 1", "accepted"),
        ("object.spec.enabled", "must evaluate to bool but got dyn"),
        (
            "true ? object.spec.enabled : true",
            "must evaluate to bool but got dyn",
        ),
        ("optional.none().orValue(true)", "accepted"),
        ("request.userInfo.groups.exists(g, g == 'x')", "accepted"),
        (
            "authorizer.group('').resource('pods').namespace('x').check('create').allowed()",
            "accepted",
        ),
        (
            "authorizer.requestResource.check('get').allowed()",
            "accepted",
        ),
        ("1 + 1", "must evaluate to bool but got int"),
        ("request.name", "must evaluate to bool but got string"),
        (
            "duration('5x') > duration('1s')",
            "compilation failed: ERROR: <input>:1:9: invalid duration argument\n | duration('5x') > duration('1s')\n | ........^",
        ),
        (
            "optional.of(1).orValue('x') == 1",
            "compilation failed: ERROR: <input>:1:23: found no matching overload for 'orValue' applied to 'optional_type(int).(string)'\n | optional.of(1).orValue('x') == 1\n | ......................^",
        ),
        ("[true]", "must evaluate to bool but got list(bool)"),
        (
            "params.x == 1",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^",
        ),
        (
            "has(object.x) && missing(object)",
            "compilation failed: ERROR: <input>:1:25: undeclared reference to 'missing' (in container '')\n | has(object.x) && missing(object)\n | ........................^",
        ),
        (
            "request.nam == 'x'",
            "compilation failed: ERROR: <input>:1:8: undefined field 'nam'\n | request.nam == 'x'\n | .......^",
        ),
        (
            "request.name == 1",
            "compilation failed: ERROR: <input>:1:14: found no matching overload for '_==_' applied to '(string, int)'\n | request.name == 1\n | .............^",
        ),
        (
            "request.name.startsWith(1)",
            "compilation failed: ERROR: <input>:1:24: found no matching overload for 'startsWith' applied to 'string.(int)'\n | request.name.startsWith(1)\n | .......................^",
        ),
        (
            "request.name.all(x, true)",
            "compilation failed: ERROR: <input>:1:1: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)\n | request.name.all(x, true)\n | ^",
        ),
        (
            "[1, 'a'] == []",
            "compilation failed: ERROR: <input>:1:1: expected type 'int' but found 'string'\n | [1, 'a'] == []\n | ^",
        ),
        (
            "'a'.matches('(')",
            "compilation failed: ERROR: <input>:1:12: invalid matches argument\n | 'a'.matches('(')\n | ...........^",
        ),
        (
            "request.name && true",
            "compilation failed: ERROR: <input>:1:1: expected type 'bool' but found 'string'\n | request.name && true\n | ^",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(
            refusal(text, &environment, Output::Bool),
            expected,
            "{text}"
        );
    }
    for text in [
        "",
        "1 +",
        "object.",
        "object[",
        "a b",
        "'",
        "{",
        "has(object)",
        "x.all(1, true)",
        "T{a: 1}",
    ] {
        let error = refusal(text, &environment, Output::Bool);
        assert!(
            error.starts_with("compilation failed: ERROR: <input>:"),
            "{text:?}: {error}"
        );
    }
}

#[test]
fn expressions_know_the_variables_they_use() {
    let environment = Environment::match_conditions();
    let expression = Expression::compile(
        "object.x == [1].map(request, request)[0]",
        &environment,
        Output::Bool,
    )
    .unwrap();
    assert!(expression.uses("object"));
    assert!(!expression.uses("request") && !expression.uses("oldObject"));
}

struct OnlyPods;

impl Authorizer for OnlyPods {
    fn authorize(&self, query: &AccessQuery) -> AccessDecision {
        let allowed = match &query.target {
            AccessTarget::Path(path) => path == "/healthz" && query.verb == "get",
            AccessTarget::Resource {
                group,
                resource,
                namespace,
                ..
            } => {
                let is_account = query
                    .service_account
                    .as_ref()
                    .is_none_or(|account| account.name == "robot");
                group.is_empty()
                    && resource == "pods"
                    && namespace == "x"
                    && query.verb == "create"
                    && is_account
            }
        };
        AccessDecision {
            allowed,
            reason: "because".into(),
            error: None,
        }
    }
}

#[test]
fn expressions_may_ask_the_authorizer() {
    let authorizer: Arc<dyn Authorizer> = Arc::new(OnlyPods);
    let request = AccessTarget::Resource {
        group: String::new(),
        resource: "pods".into(),
        subresource: String::new(),
        namespace: "x".into(),
        name: "p".into(),
        field_selector: String::new(),
        label_selector: String::new(),
    };
    let bindings = Bindings::new().authorizer(&authorizer, request);
    let cases = [
        (
            "authorizer.group('').resource('pods').namespace('x').check('create').allowed()",
            true,
        ),
        (
            "authorizer.group('').resource('pods').namespace('y').check('create').allowed()",
            false,
        ),
        (
            "authorizer.group('apps').resource('pods').namespace('x').check('create').allowed()",
            false,
        ),
        ("authorizer.path('/healthz').check('get').allowed()", true),
        ("authorizer.path('/metrics').check('get').allowed()", false),
        (
            "authorizer.serviceAccount('ns', 'robot').group('').resource('pods').namespace('x').check('create').allowed()",
            true,
        ),
        (
            "authorizer.serviceAccount('ns', 'other').group('').resource('pods').namespace('x').check('create').allowed()",
            false,
        ),
        ("authorizer.requestResource.check('create').allowed()", true),
        (
            "authorizer.requestResource.subresource('log').check('create').reason() == 'because'",
            true,
        ),
        (
            "authorizer.requestResource.check('create').errored()",
            false,
        ),
    ];
    for (text, expected) in cases {
        let expression =
            Expression::compile(text, &Environment::match_conditions(), Output::Bool).unwrap();
        let result = expression.evaluate_bool(&bindings, &mut Budget::of(Budget::PER_MATCH));
        assert_eq!(result, Ok(expected), "{text}");
    }
}

#[test]
fn hostile_expressions_run_out_of_budget() {
    let long = "x".repeat(100_000);
    let list: Vec<i64> = (0..5_000).collect();
    let bindings = Bindings::new().json(
        "self",
        &json!({"text": long, "list": list, "bomb": "1e999999999"}),
    );
    let environment = Environment::new().variable("self");
    let hostile = [
        "self.list.all(a, self.list.all(b, self.list.all(c, a + b + c >= 0)))",
        "self.list.map(a, self.list.map(b, self.list)).size() > 0",
        "self.list.map(a, self.text + self.text).size() > 0",
        "self.text.replace('x', self.text) == ''",
        "self.text.replace('', self.text) == ''",
        "self.list.map(x, self.text).join(self.text) == ''",
        "self.list.map(x, 'a').join(self.text) == ''",
        "lists.range(1000000000000).size() > 0",
        "self.list.distinct().size() > 0",
        "sets.contains(self.list, self.list)",
        "self.list.all(x, self.list in [self.list])",
        "'%.999999999f'.format([1.0]) == ''",
        "'%.99999999999999999999f'.format([1.0]) == ''",
        "!self.list.exists(x, self.text.matches('(' + string(x) + '|y){900}'))",
        "self.list.all(x, self.text.indexOf('xxxxxxxxxxxxxxxxxxxxxy' + string(x)) < 0)",
        "!self.list.exists(x, self.text.contains('y'))",
        "self.list.map(x, self.text).sum() == ''",
        "self.list.all(x, self.text == self.text)",
        "self.list.sortBy(x, self.text).size() > 0",
        "self.list.map(x, {'a': self.list}).map(m, m.transformMap(k, v, self.list.map(y, y))).size() > 0",
    ];
    for text in hostile {
        let expression = match Expression::compile(text, &environment, Output::Bool) {
            Ok(expression) => expression,
            Err(error) => panic!("{text}: {error}"),
        };
        let mut budget = Budget::of(Budget::PER_OBJECT);
        let result = expression.evaluate_bool(&bindings, &mut budget);
        assert!(
            matches!(
                result,
                Err(EvalError::BudgetSpent | EvalError::NoSuchOverload)
            ),
            "{text}: {result:?}"
        );
        assert!(
            budget.left() >= Budget::PER_OBJECT - Budget::PER_EXPRESSION,
            "{text}"
        );
    }
}

#[test]
fn odd_numbers_do_not_break_the_libraries() {
    let cases = [
        "quantity('1e999999999').isInteger()",
        "quantity('1E-999999999').sign() == 0",
        "isQuantity('99999999999999999999999999999999999999')",
        "duration('9999999999h').getHours() > 0",
        "timestamp('9999-12-31T23:59:59Z') + duration('1h') == timestamp(0)",
        "timestamp(9223372036854775807) == timestamp(0)",
        "'abc'.substring(9223372036854775807) == ''",
        "'abc'.charAt(9223372036854775807) == ''",
        "[1].slice(-1, 9223372036854775807) == []",
        "'abc'.indexOf('b', -9223372036854775808) == 1",
        "'a,b'.split(',', -9223372036854775808) == []",
        "[1].flatten(9223372036854775807) == [1]",
        "lists.range(-1) == []",
        "int(1e300) == 0",
        "uint(-1) == 0u",
        "semver('99999999999999999999.0.0').major() == 1",
        "cidr('10.0.0.0/99').prefixLength() == 1",
        "url('http://[::1').getHost() == ''",
        "'x'.replace('x', 'y', -9223372036854775808) == 'y'",
        "'%d'.format(['x']) == ''",
        "'%'.format([]) == ''",
        "(-9223372036854775808) / -1 == 0",
        "(-9223372036854775808) % -1 == 0",
    ];
    for text in cases {
        // No panic. Whether it is an error depends on the library.
        let _ = evaluate(text);
    }
}

#[test]
fn long_and_deep_texts_are_refused_not_followed() {
    let environment = Environment::new().variable("x");
    let deep = [
        format!("{}true{}", "(".repeat(5_000), ")".repeat(5_000)),
        format!("x{} == 1", ".a".repeat(20_000)),
        format!("1{} == 1", " + 1".repeat(20_000)),
        format!("{}x{} == x", "[".repeat(500), "]".repeat(500)),
        format!("x{} == 1", "[0]".repeat(5_000)),
        format!("true{}", " ? true : false".repeat(1_000)),
    ];
    for text in &deep {
        let error = refusal(text, &environment, Output::Bool);
        assert!(
            error.starts_with("compilation failed"),
            "{text:.40}: {error:.200}"
        );
    }
    let wide = format!("true{}", " || x".repeat(500));
    assert_eq!(refusal(&wide, &environment, Output::Bool), "accepted");
    let long = format!("'{}' == ''", "a".repeat(100_001));
    assert!(refusal(&long, &environment, Output::Bool).contains("code point size exceeds limit"));
}

#[test]
fn the_deepest_accepted_expressions_need_little_stack() {
    let environment = Environment::new().variable("x");
    let deepest = |make: &dyn Fn(usize) -> String| {
        let accepted =
            |depth: &usize| Expression::compile(&make(*depth), &environment, Output::Any).is_ok();
        let depth = (1..=300).rev().find(accepted).unwrap();
        Expression::compile(&make(depth), &environment, Output::Any).unwrap()
    };
    let expressions = [
        deepest(&|depth| format!("1{}", " + 1".repeat(depth))),
        deepest(&|depth| format!("x{}", "[0]".repeat(depth))),
        deepest(&|depth| format!("{}[1]{}", "[1].map(y, ".repeat(depth), ")".repeat(depth))),
        deepest(&|depth| {
            format!(
                "{}true{}",
                "(true ? ".repeat(depth),
                " : false)".repeat(depth)
            )
        }),
    ];
    let run = move || {
        let bindings = Bindings::new().json("x", &json!([[1]]));
        for expression in &expressions {
            let _ = expression.evaluate_json(&bindings, &mut Budget::of(Budget::PER_EXPRESSION));
        }
    };
    std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_compiler_panic(text in "[a-z0-9.()\\[\\]{}'\"+*/?:&|!<>=, ]{0,60}") {
        let environment = Environment::new().variable("x");
        if let Ok(expression) = Expression::compile(&text, &environment, Output::Any) {
            let bindings = Bindings::new().json("x", &json!({"a": [1, "b"]}));
            let _ = expression.evaluate_json(&bindings, &mut Budget::of(10_000));
        }
    }

    #[test]
    fn evaluation_never_spends_more_than_it_is_given(units in 0_u64..3_000) {
        let environment = Environment::new().variable("x");
        let expression = Expression::compile("x.all(a, x.exists(b, a != b))", &environment, Output::Bool).unwrap();
        let bindings = Bindings::new().json("x", &json!((0..40).collect::<Vec<_>>()));
        let mut budget = Budget::of(units);
        let result = expression.evaluate_bool(&bindings, &mut budget);
        prop_assert!(budget.left() <= units);
        prop_assert!(matches!(result, Ok(true) | Err(EvalError::BudgetSpent)));
    }
}

#[test]
fn predicates_over_clusters() {
    let cluster = json!({
        "metadata": {"name": "c1", "labels": {"env": "dev"}, "annotations": {"x": "{\"a\": [1, 2]}"}},
        "status": {"version": {"kubernetes": "v1.31.0"}},
    });
    let scores = json!({"usage": [{"name": "cpu", "value": 40}]});
    let holds = |text: &str| {
        let environment = Environment::cluster_predicates();
        let expression = Expression::compile(text, &environment, Output::Any);
        let expression = expression.map_err(|error| error.to_string())?;
        let bindings = Bindings::new().cluster(&cluster, &scores);
        let mut budget = Budget::of(Budget::PER_EXPRESSION);
        let value = expression.evaluate_bool(&bindings, &mut budget);
        value.map_err(|error| error.to_string())
    };
    for truth in [
        "managedCluster.metadata.labels['env'] == 'dev'",
        "managedCluster.scores('usage').exists(s, s.name == 'cpu' && s.value > 30)",
        "managedCluster.scores('absent').size() == 0",
        "managedCluster.metadata.annotations['x'].parseJSON().a[1] == 2",
        "semver(managedCluster.status.version.kubernetes, true).isGreaterThan(semver('1.30.0'))",
    ] {
        assert_eq!(holds(truth), Ok(true), "{truth}");
    }
    assert!(
        holds("'{'.parseJSON().a")
            .unwrap_err()
            .contains("failed to parse JSON")
    );
    assert_eq!(
        holds("managedCluster.metadata.name").unwrap_err(),
        "expression evaluated to string, not bool"
    );
    // These functions are not declared in other environments.
    for text in ["object.scores('usage')", "'{}'.parseJSON()"] {
        assert!(
            evaluate(text).unwrap_err().contains("undeclared reference"),
            "{text}"
        );
    }
}
