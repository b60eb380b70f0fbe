//! Our own policies, as the modules that `cargo xtask policies` builds.

use std::{collections::BTreeMap, sync::Mutex};

use peers::Tool;
use polity_eval::{
    Environment, Evaluation, InitError, Module, Origin, Policy, PolicyConfig, Replay,
    parse_policies,
};

use crate::support::{ENGINE, environment, evaluate, review, shown, validate_raw, with_services};

/// The modules by name.
struct Modules(std::path::PathBuf);

impl Modules {
    fn find() -> Option<Self> {
        Tool::Policies.or_skip().map(Self)
    }

    /// Compiled once for all tests.
    fn load(&self, name: &str) -> Module {
        static LOADED: Mutex<BTreeMap<String, Module>> = Mutex::new(BTreeMap::new());
        let mut loaded = LOADED.lock().unwrap();
        loaded
            .entry(name.to_owned())
            .or_insert_with(|| self.compile(name))
            .clone()
    }

    fn compile(&self, name: &str) -> Module {
        let wasm = std::fs::read(self.0.join(name).with_extension("wasm")).unwrap();
        ENGINE.compile(&wasm, None).unwrap()
    }

    fn policy(&self, name: &str, fields: &str) -> Policy {
        self.try_policy(name, fields).unwrap()
    }

    fn try_policy(&self, name: &str, fields: &str) -> Result<Policy, InitError> {
        let text = format!("p: {{module: m, {fields}}}");
        let config = parse_policies(&text).unwrap().remove("p").unwrap();
        Policy::prepare("p", &config, &environment(), |_, _| Ok(self.load(name)))
    }
}

fn pod(container: &str) -> String {
    let object = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"}},"spec":{{"containers":[{{"name":"a",{container}}}]}}}}"#
    );
    review("Pod", &object)
}

fn judge(policy: &Policy, body: &str) -> Evaluation {
    evaluate(policy, &environment(), body, Origin::Validate)
}

fn message(policy: &Policy, body: &str) -> String {
    judge(policy, body)
        .response
        .message()
        .unwrap_or("(allowed)")
        .to_owned()
}

/// Built where there is a Node, and committed: the module beside its source must be the one that was tested.
#[test]
fn the_committed_assembly_script_module_is_current() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../policies/default-namespace/"
    );
    let read = |name: &str| std::fs::read(format!("{folder}{name}")).unwrap();
    let module = ENGINE
        .compile(&read("default-namespace.wasm"), None)
        .unwrap();
    let noted = String::from_utf8(read("default-namespace.wasm.sha256")).unwrap();
    assert_eq!(noted.split(' ').next(), Some(module.digest()));

    let policy = |fields: &str| crate::support::try_policy(&module, fields);
    let body = pod(r#""image":"i \u00e9 \\ \" } ]""#);
    let refused = "namespace default is not to be used";
    assert_eq!(message(&policy("").unwrap(), &body), refused);
    assert_eq!(
        message(&policy("settings: {denied: [a, default]}").unwrap(), &body),
        refused
    );
    assert_eq!(
        message(&policy("settings: {denied: []}").unwrap(), &body),
        "(allowed)"
    );
    let elsewhere = body.replace("\"default\"", "\"d\\u0065v\"");
    assert_eq!(message(&policy("").unwrap(), &elsewhere), "(allowed)");
    let dev = policy("settings: {more: {nested: [1, {}]}, denied: [dev]}").unwrap();
    assert_eq!(message(&dev, &elsewhere), "namespace dev is not to be used");
    let error = policy("settings: {denied: nobody}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "Policy settings are invalid: denied must be a list of namespaces"
    );
}

#[test]
fn each_policy_allows_and_denies() {
    let Some(modules) = Modules::find() else {
        return;
    };
    for (name, fields, good, bad, why) in [
        (
            "pod-privileged",
            "",
            r#""image":"nginx""#,
            r#""securityContext":{"privileged":true}"#,
            "container a is privileged",
        ),
        (
            "capabilities",
            "settings: {allowed_capabilities: [KILL]}",
            r#""securityContext":{"capabilities":{"add":["KILL"]}}"#,
            r#""securityContext":{"capabilities":{"add":["NET_ADMIN"]}}"#,
            "container a must not add capability NET_ADMIN",
        ),
        (
            "host-namespaces",
            "",
            r#""ports":[{"containerPort":80}]"#,
            r#""ports":[{"hostPort":80}]"#,
            "container a must not use host port 80",
        ),
        (
            "trusted-registries",
            "settings: {allowed: [docker.io/library], rejected_tags: [latest]}",
            r#""image":"nginx:1""#,
            r#""image":"evil.example/nginx:1""#,
            "container a: image evil.example/nginx:1 is not from a trusted registry",
        ),
        (
            "resource-limits",
            "settings: {cpu: {max: 2}}",
            r#""resources":{"limits":{"cpu":"1500m"}}"#,
            r#""resources":{"limits":{"cpu":"3"}}"#,
            "container a has a cpu limit of 3, more than 2",
        ),
        (
            "probes",
            "settings: {readiness: false}",
            r#""livenessProbe":{"httpGet":{"port":80}}"#,
            r#""image":"nginx""#,
            "container a has no livenessProbe",
        ),
        (
            "image-tags",
            "settings: {refused: [latest]}",
            r#""image":"nginx@sha256:0""#,
            r#""image":"nginx""#,
            "the tag of nginx is not allowed",
        ),
    ] {
        let policy = modules.policy(name, fields);
        assert_eq!(message(&policy, &pod(good)), "(allowed)", "{name}");
        assert_eq!(message(&policy, &pod(bad)), why, "{name}");
    }
}

/// They are linked with a small stack, which is quicker to clear: it still holds all that their JSON reader takes.
#[test]
fn deep_objects_fit_into_their_stacks() {
    let Some(modules) = Modules::find() else {
        return;
    };
    let deep = |pairs: usize| {
        let (open, close) = (r#"{"a":["#.repeat(pairs), "]}".repeat(pairs));
        let probe = r#""livenessProbe":{"httpGet":{"port":80}}"#;
        pod(&format!(
            r#""image":"nginx:1",{probe},"deep":{open}{close}"#
        ))
    };
    for (name, fields) in [
        ("pod-privileged", ""),
        (
            "capabilities",
            "allowedToMutate: true, settings: {required_drop_capabilities: [KILL]}",
        ),
        ("host-namespaces", ""),
        (
            "trusted-registries",
            "settings: {allowed: [docker.io/library]}",
        ),
        (
            "required-metadata",
            "allowedToMutate: true, settings: {labels: {defaults: {tier: back}}}",
        ),
        (
            "resource-limits",
            "allowedToMutate: true, settings: {cpu: {default_limit: 1, default_request: 1}}",
        ),
        ("probes", "settings: {readiness: false}"),
        ("image-tags", ""),
    ] {
        let policy = modules.policy(name, fields);
        // Together with the enclosing values, just below the limit of 128 levels.
        let judged = judge(&policy, &deep(60));
        assert!(judged.response.allowed, "{name}: {}", shown(&judged));
        let told = message(&policy, &deep(5000));
        assert!(
            told == "(allowed)" || told.contains("recursion limit exceeded"),
            "{name}: {told}"
        );
    }
}

#[test]
fn each_refuses_settings_it_does_not_know() {
    let Some(modules) = Modules::find() else {
        return;
    };
    for name in [
        "pod-privileged",
        "capabilities",
        "host-namespaces",
        "trusted-registries",
        "required-metadata",
        "probes",
        "unique-ingress-hosts",
        "raw-access",
        "image-tags",
    ] {
        let error = modules
            .try_policy(name, "settings: {nonsense: 1}")
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("Policy settings are invalid: unknown field `nonsense`"),
            "{name}: {error}"
        );
    }
}

#[test]
fn labels_are_filled_in() {
    let Some(modules) = Modules::find() else {
        return;
    };
    let fields =
        "allowedToMutate: true, settings: {labels: {required: [team], defaults: {tier: back}}}";
    let policy = modules.policy("required-metadata", fields);
    assert_eq!(
        message(&policy, &pod(r#""image":"i""#)),
        "label team is required"
    );
    let object = r#"{"metadata":{"name":"p","labels":{"team":"a"}}}"#;
    let response = judge(&policy, &review("ConfigMap", object)).response;
    assert!(
        response.allowed && response.patch_type == Some("JSONPatch"),
        "{response:?}"
    );
}

#[test]
fn the_context_aware_one_reads_the_cluster() {
    let Some(modules) = Modules::find() else {
        return;
    };
    let fields = "contextAwareResources: [{apiVersion: networking.k8s.io/v1, kind: Ingress}]";
    let policy = modules.policy("unique-ingress-hosts", fields);
    let recording = r#"
- type: Exchange
  request: |
    !KubernetesListResourceAll
    api_version: networking.k8s.io/v1
    kind: Ingress
    field_masks: [metadata.name, metadata.namespace, spec.rules.host]
  response:
    type: Success
    payload: '{"apiVersion":"networking.k8s.io/v1","kind":"IngressList","metadata":{},"items":[{"metadata":{"name":"shop","namespace":"a"},"spec":{"rules":[{"host":"shop.example"}]}}]}'
"#;
    let environment = with_services(Replay::parse(recording).unwrap());
    let ask = |environment: &Environment, host: &str| {
        let object =
            format!(r#"{{"metadata":{{"name":"new"}},"spec":{{"rules":[{{"host":"{host}"}}]}}}}"#);
        let evaluation = evaluate(
            &policy,
            environment,
            &review("Ingress", &object),
            Origin::Validate,
        );
        evaluation
            .response
            .message()
            .unwrap_or("(allowed)")
            .to_owned()
    };
    assert_eq!(
        ask(&environment, "shop.example"),
        "host shop.example belongs to Ingress a/shop"
    );
    assert_eq!(ask(&environment, "other.example"), "(allowed)");
    let without = crate::support::environment();
    assert!(
        ask(&without, "shop.example")
            .contains("kubernetes/list_resources_all is not available here")
    );
    let ungranted = modules.policy("unique-ingress-hosts", "");
    let body = review(
        "Ingress",
        r#"{"metadata":{"name":"new"},"spec":{"rules":[{"host":"h"}]}}"#,
    );
    assert!(
        message(&ungranted, &body)
            .contains("has not been granted access to Kubernetes networking.k8s.io/v1/Ingress")
    );
}

#[test]
fn the_raw_policy_evaluates_requests_from_outside_kubernetes() {
    let Some(modules) = Modules::find() else {
        return;
    };
    let rules =
        "settings: {rules: [{name: readers, users: ['*'], actions: [read], resources: [docs]}]}";
    let policy = modules.policy("raw-access", &format!("allowedToMutate: true, {rules}"));
    let allowed = validate_raw(
        &policy,
        r#"{"uid":"1","user":"ann","action":"read","resource":"docs"}"#,
    );
    assert!(
        allowed.response.allowed && allowed.mutated,
        "{}",
        shown(&allowed)
    );
    assert_eq!(allowed.response.uid, "1");
    let refused = validate_raw(
        &policy,
        r#"{"user":"ann","action":"delete","resource":"docs"}"#,
    );
    assert_eq!(
        shown(&refused),
        r#"{"allowed":false,"status":{"code":403,"message":"ann may not delete docs"},"uid":""}"#
    );
}

#[test]
fn the_command_asks_the_host_and_reads_the_answer() {
    let Some(modules) = Modules::find() else {
        return;
    };
    let policy = modules.policy("image-tags", "settings: {tell_digests: true}");
    let recording = "
- type: Exchange
  request: |
    !OciManifestDigest
    image: nginx
  response:
    type: Success
    payload: '{\"digest\":\"sha256:1\"}'
";
    let environment = with_services(Replay::parse(recording).unwrap());
    let known = evaluate(
        &policy,
        &environment,
        &pod(r#""image":"nginx""#),
        Origin::Validate,
    );
    assert_eq!(
        known.response.warnings,
        Some(vec!["nginx is sha256:1 at the moment".to_owned()])
    );
    let unknown = evaluate(
        &policy,
        &environment,
        &pod(r#""image":"redis""#),
        Origin::Validate,
    );
    assert_eq!(unknown.error_code, Some(500));
    assert!(
        unknown
            .response
            .message()
            .unwrap()
            .contains("the recording has no answer to OciManifestDigest")
    );
}

#[test]
fn the_sample_file_serves_all_of_them() {
    let Some(modules) = Modules::find() else {
        return;
    };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/policies.yml");
    let file: BTreeMap<String, PolicyConfig> =
        parse_policies(&std::fs::read_to_string(path).unwrap()).unwrap();
    let environment = environment();
    let mut policies = BTreeMap::new();
    for (id, config) in &file {
        let policy = Policy::prepare(id, config, &environment, |_, guest| {
            let name = guest.module.rsplit('/').next().unwrap();
            Ok(modules.load(name.trim_end_matches(".wasm")))
        });
        policies.insert(id.as_str(), policy.expect(id));
    }
    let group = &policies["production-ready"];
    let refused = judge(group, &pod(r#""image":"nginx""#));
    let causes = refused.response.status.unwrap().details.unwrap().causes;
    let fields: Vec<_> = causes
        .iter()
        .map(|cause| cause.field.as_deref().unwrap())
        .collect();
    assert_eq!(fields, ["spec.policies.probes", "spec.policies.trusted"]);
    assert!(
        judge(group, &pod(r#""image":"registry.example.com/web:1""#))
            .response
            .allowed
    );
}
