//! Objects with templates in their strings. See docs/spec/governance.md#5-8 and docs/spec/governance.md#12.

use std::collections::BTreeMap;

use polity_template::encryption::{Key, Keys, PREFIX};
use polity_template::{
    Context, ExecuteError, Limits, LookupScope, PolicyMetadata, ResolveError, Resolver, Rules, Side,
};
use serde_json::{Value, json};

use crate::host::TestHost;

fn host() -> TestHost {
    TestHost::with(vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "policies"},
            "data": {"replicas": "3", "on": "true", "list": "[1, 2]", "text": "one\ntwo"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "elsewhere"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": "policies"},
            "data": {"password": "aHVudGVyMg==", "user": "YW5u"}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim",
            "metadata": {"name": "region"}, "spec": {"value": "north"}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": "c1", "labels": {"zone": "a"}}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels":
            {"node-role.kubernetes.io/infra": "", "node-role.kubernetes.io/worker": ""}}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2", "labels":
            {"node-role.kubernetes.io/infra": "", "node-role.kubernetes.io/storage": ""}}}),
    ])
}

fn keys() -> Keys {
    Keys {
        key: Key::new(&[b'P'; 32]).expect("32 bytes"),
        previous: None,
        vector: [b'V'; 16],
    }
}

fn resolve(rules: &Rules, context: &Context, definition: &Value) -> Result<Value, ResolveError> {
    let host = host();
    let resolver = Resolver {
        host: &host,
        rules,
        limits: Limits::default(),
    };
    resolver
        .resolve(definition, context)
        .map(|resolved| resolved.value)
}

fn managed(template: &str) -> Result<Value, String> {
    let context = Context::Managed {
        namespace: Some("apps".to_owned()),
        name: Some("web".to_owned()),
        object: Some(json!({"spec": {"replicas": 2}})),
    };
    let rules = Rules::of(Side::Managed);
    let resolved = resolve(&rules, &context, &json!({ "v": template }));
    resolved
        .map(|value| value["v"].clone())
        .map_err(|error| error.to_string())
}

fn hub_rules() -> Rules {
    Rules {
        scope: Some(LookupScope {
            namespace: "policies".to_owned(),
            cluster_name: "c1".to_owned(),
        }),
        ..Rules::of(Side::Hub)
    }
}

fn hub(template: &str) -> Result<Value, String> {
    let context = Context::Hub {
        cluster_name: "c1".to_owned(),
        cluster_labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
        policy: PolicyMetadata {
            name: "p".to_owned(),
            namespace: "policies".to_owned(),
            labels: BTreeMap::from([("l".to_owned(), "v".to_owned())]),
            annotations: BTreeMap::new(),
        },
    };
    resolve(&hub_rules(), &context, &json!({ "v": template }))
        .map(|value| value["v"].clone())
        .map_err(|error| error.to_string())
}

fn fails(outcome: Result<Value, String>, ending: &str) {
    let error = outcome.expect_err("it should fail");
    assert!(
        error.ends_with(ending),
        "{error}\nshould end with\n{ending}"
    );
}

/// The functions of policies.
#[test]
fn lookups_read_existing_objects() {
    assert_eq!(
        managed("{{ fromConfigMap \"policies\" \"settings\" \"replicas\" }}"),
        Ok(json!("3"))
    );
    assert_eq!(
        managed("{{ fromConfigMap \"policies\" \"settings\" \"none\" }}"),
        Ok(json!(""))
    );
    assert_eq!(
        managed("{{ fromSecret \"policies\" \"login\" \"password\" }}"),
        Ok(json!("aHVudGVyMg=="))
    );
    assert_eq!(
        managed("{{ fromSecret \"policies\" \"login\" \"password\" | base64dec }}"),
        Ok(json!("hunter2"))
    );
    assert_eq!(
        managed("{{ fromSecret \"policies\" \"login\" \"none\" }}"),
        Ok(json!(""))
    );
    assert_eq!(
        managed("{{ fromClusterClaim \"region\" }}"),
        Ok(json!("north"))
    );
    assert_eq!(
        managed("{{ lookupClusterClaim \"none\" }}x"),
        Ok(json!("x"))
    );
    assert_eq!(
        managed("{{ (lookup \"v1\" \"ConfigMap\" \"policies\" \"settings\").data.replicas }}"),
        Ok(json!("3"))
    );
    assert_eq!(
        managed("{{ (lookup \"v1\" \"ConfigMap\" \"policies\" \"none\").data }}"),
        Ok(json!("<no value>"))
    );
    assert_eq!(
        managed("{{ len (lookup \"v1\" \"ConfigMap\" \"\" \"\").items }}"),
        Ok(json!("2"))
    );
    assert_eq!(
        managed(
            "{{ range (lookup \"v1\" \"Node\" \"\" \"\" \"node-role.kubernetes.io/storage\").items }}{{ .metadata.name }}{{ end }}"
        ),
        Ok(json!("n2"))
    );
    assert_eq!(
        managed(
            "{{ range (getNodesWithExactRoles \"infra\").items }}{{ .metadata.name }}{{ end }}"
        ),
        Ok(json!("n1"))
    );
    assert_eq!(
        managed("{{ hasNodesWithExactRoles \"storage\" }}"),
        Ok(json!("false"))
    );
    fails(
        managed("{{ fromSecret \"policies\" \"none\" \"k\" }}"),
        "error calling fromSecret: failed to get the secret none from policies: secrets \"none\" not found",
    );
    fails(
        managed("{{ fromConfigMap \"policies\" \"none\" \"k\" }}"),
        "error calling fromConfigMap: failed getting the ConfigMap none from policies: configmaps \"none\" not found",
    );
    fails(
        managed("{{ fromClusterClaim \"none\" }}"),
        "failed to retrieve the cluster claim none: clusterclaims.cluster.open-cluster-management.io \"none\" not found",
    );
    fails(
        managed("{{ lookup \"example.com/v1\" \"Thing\" \"\" \"x\" }}"),
        "error calling lookup: one or more API resources are not installed on the API server",
    );
}

/// The rule that removes quotes.
#[test]
fn conversions_lose_their_quotes() {
    assert_eq!(
        managed("{{ fromConfigMap \"policies\" \"settings\" \"replicas\" | toInt }}"),
        Ok(json!(3))
    );
    assert_eq!(
        managed("{{ fromConfigMap \"policies\" \"settings\" \"on\" | toBool }}"),
        Ok(json!(true))
    );
    assert_eq!(
        managed("{{ fromConfigMap \"policies\" \"settings\" \"list\" | toLiteral }}"),
        Ok(json!([1, 2]))
    );
    assert_eq!(managed("{{ \"12\" | toInt }}\n"), Ok(json!(12)));
    assert_eq!(managed("{{- \"12\" | toInt -}}"), Ok(json!(12)));
    assert_eq!(managed("{{ \"12\" }}"), Ok(json!("12")));
    assert_eq!(
        managed("{{ copyConfigMapData \"policies\" \"settings\" }}"),
        Ok(json!({"replicas": "3", "on": "true", "list": "[1, 2]", "text": "one\ntwo"}))
    );
    assert_eq!(
        managed("{{ copySecretData \"policies\" \"login\" }}"),
        Ok(json!({"password": "aHVudGVyMg==", "user": "YW5u"}))
    );
    assert_eq!(managed("{{ \"nope\" | toInt }}"), Ok(json!(0)));
    fails(
        managed("{{ \"a\\nb\" | toLiteral }}"),
        "error calling toLiteral: new lines are not allowed in the string passed to the toLiteral function",
    );
}

#[test]
fn autoindent_keeps_the_following_text_in_place() {
    let rules = Rules::of(Side::Managed);
    let definition =
        json!({"spec": {"config": "top:\n  inner: |\n    {{ \"a\\nb\" | autoindent }}\n"}});
    let resolved = resolve(&rules, &Context::Nothing, &definition).unwrap();
    assert_eq!(
        resolved["spec"]["config"],
        "top:\n  inner: |\n    a\n    b\n"
    );
    assert_eq!(managed("{{ `{{ x }}` }}"), Ok(json!("{{ x }}")));
    // On the hub `indent N` pads by eight more, and autoindent makes up for it.
    let definition =
        json!({"spec": {"config": "top:\n  inner: |\n    {{hub \"a\\nb\" | autoindent hub}}\n"}});
    let resolved = resolve(&hub_rules(), &Context::Nothing, &definition).unwrap();
    assert_eq!(
        resolved["spec"]["config"],
        "top:\n  inner: |\n    a\n    b\n"
    );
}

/// The context of templates on the managed cluster and on the hub.
#[test]
fn contexts_provide_only_their_variables() {
    assert_eq!(
        managed("{{ .ObjectNamespace }}/{{ .ObjectName }} {{ .Object.spec.replicas }}"),
        Ok(json!("apps/web 2"))
    );
    fails(
        managed("{{ .ManagedClusterName }}"),
        "at <.ManagedClusterName>: can't evaluate field ManagedClusterName in type context",
    );
    let rules = Rules::of(Side::Managed);
    let nothing = resolve(
        &rules,
        &Context::Nothing,
        &json!({"v": "{{ .ObjectName }}"}),
    );
    assert!(
        nothing
            .unwrap_err()
            .to_string()
            .contains("can't evaluate field ObjectName")
    );
    assert_eq!(
        hub(
            "{{hub .ManagedClusterName hub}} {{hub .ManagedClusterLabels.zone hub}} {{hub .PolicyMetadata.name hub}} {{hub .PolicyMetadata.labels.l hub}}"
        ),
        Ok(json!("c1 a p v"))
    );
    assert_eq!(
        hub("{{ .ObjectName }} {{hub .ManagedClusterName hub}}"),
        Ok(json!("{{ .ObjectName }} c1"))
    );
}

/// The objects that a hub template without a service account may read.
#[test]
fn hub_lookups_stay_in_their_namespace() {
    assert_eq!(
        hub("{{hub fromConfigMap \"\" \"settings\" \"replicas\" hub}}"),
        Ok(json!("3"))
    );
    assert_eq!(
        hub("{{hub len (lookup \"v1\" \"ConfigMap\" \"\" \"\").items hub}}"),
        Ok(json!("1"))
    );
    assert_eq!(
        hub(
            "{{hub (lookup \"cluster.open-cluster-management.io/v1\" \"ManagedCluster\" \"\" \"c1\").metadata.labels.zone hub}}"
        ),
        Ok(json!("a"))
    );
    fails(
        hub("{{hub fromConfigMap \"elsewhere\" \"other\" \"k\" hub}}"),
        "the namespace argument is restricted to policies",
    );
    fails(
        hub("{{hub lookup \"v1\" \"Node\" \"\" \"n1\" hub}}"),
        "lookup of cluster-scoped resource 'Node/n1' is not allowed",
    );
    fails(
        hub(
            "{{hub lookup \"cluster.open-cluster-management.io/v1\" \"ManagedCluster\" \"\" \"c2\" hub}}",
        ),
        "lookup of cluster-scoped resource 'ManagedCluster/c2' is not allowed",
    );
    fails(
        hub("{{hub fromClusterClaim \"region\" hub}}"),
        "lookup of cluster-scoped resource 'ClusterClaim/region' is not allowed",
    );
}

#[test]
fn refused_functions_return_the_reason() {
    const RISK: &str =
        "use of denylisted template function: function 'env' is considered a security risk";
    fails(managed("{{ env \"HOME\" }}"), RISK);
    fails(hub("{{hub env \"HOME\" hub}}"), RISK);
    assert_eq!(managed("{{ getHostByName \"h\" }}"), Ok(json!("192.0.2.1")));
    fails(
        hub("{{hub getHostByName \"h\" hub}}"),
        "function 'getHostByName' is considered a security risk",
    );
    fails(
        hub("{{hub skipObject hub}}"),
        "function \"skipObject\" not defined",
    );
    fails(
        managed("{{ protect \"x\" }}"),
        "the protect template function is not enabled in this mode",
    );
    let rules = Rules {
        denied_functions: vec!["now".to_owned()],
        ..Rules::of(Side::Managed)
    };
    let error = resolve(&rules, &Context::Nothing, &json!({"v": "{{ now }}"})).unwrap_err();
    assert!(
        error.to_string().ends_with("function 'now' is not allowed"),
        "{error}"
    );
}

/// A secret value is encrypted when it leaves the hub, regardless of how it is used.
#[test]
fn secret_values_are_encrypted_and_decrypted() {
    let encrypting = Rules {
        encryption: Some(keys()),
        ..hub_rules()
    };
    let decrypting = Rules {
        decryption: Some(keys()),
        ..Rules::of(Side::Managed)
    };
    for (template, plain) in [
        (
            "{{hub fromSecret \"\" \"login\" \"password\" hub}}",
            json!("aHVudGVyMg=="),
        ),
        (
            "{{hub printf \"%s\" (fromSecret \"\" \"login\" \"password\") hub}}",
            json!("aHVudGVyMg=="),
        ),
        ("{{hub \"plain\" | protect hub}}", json!("plain")),
        (
            "{{hub \"two\\nlines\" | protect hub}}",
            json!("two\\nlines"),
        ),
        (
            "{{hub copySecretData \"\" \"login\" hub}}",
            json!({"password": "aHVudGVyMg==", "user": "YW5u"}),
        ),
        ("{{ \"{{hub \"12\" | protect hub}}\" | toInt }}", json!(12)),
    ] {
        let definition = json!({ "v": template });
        let host = host();
        let resolver = Resolver {
            host: &host,
            rules: &encrypting,
            limits: Limits::default(),
        };
        assert!(resolver.uses_encryption(&definition), "{template}");
        let sent = resolve(&encrypting, &Context::Nothing, &definition).unwrap();
        let text = sent.to_string();
        assert!(
            text.contains(PREFIX) && !text.contains("aHVudGVyMg"),
            "{template}: {text}"
        );
        let received = resolve(&decrypting, &Context::Nothing, &sent).unwrap();
        assert_eq!(received["v"], plain, "{template}");
    }
    let host = host();
    let resolver = Resolver {
        host: &host,
        rules: &encrypting,
        limits: Limits::default(),
    };
    assert!(!resolver.uses_encryption(&json!({"v": "{{hub \"fromSecret\" hub}}"})));
    let spoiled = json!({ "v": format!("{PREFIX}AAAA") });
    let error = resolve(&decrypting, &Context::Nothing, &spoiled).unwrap_err();
    assert!(matches!(error, ResolveError::Decrypt(_)), "{error}");
}

/// Errors about secret data show the action and the place, never the data.
#[test]
fn errors_do_not_show_secret_data() {
    for template in [
        "{{ fail (fromSecret \"policies\" \"login\" \"password\" | base64dec) }}",
        "{{ (fromSecret \"policies\" \"login\" \"password\" | base64dec) | atoi | index .Object }}",
        "{{ index .Object.spec (lookup \"v1\" \"Secret\" \"policies\" \"login\").data }}",
    ] {
        let error = managed(template).unwrap_err();
        assert!(error.contains("the template read secret data"), "{error}");
        assert!(
            !error.contains("hunter2") && !error.contains("aHVudGVyMg"),
            "{error}"
        );
    }
    let decrypting = Rules {
        decryption: Some(keys()),
        ..Rules::of(Side::Managed)
    };
    let sent = json!({ "v": format!("{{{{ fail \"{}\" }}}}", keys().protect("hunter2")) });
    let error = resolve(&decrypting, &Context::Nothing, &sent)
        .unwrap_err()
        .to_string();
    assert!(
        !error.contains("hunter2") && error.contains("tmpl:1:"),
        "{error}"
    );
}

#[test]
fn observations_are_returned() {
    let host = host();
    let rules = Rules::of(Side::Managed);
    let resolver = Resolver {
        host: &host,
        rules: &rules,
        limits: Limits::default(),
    };
    let noticed = |template: &str| {
        let definition = json!({ "v": template });
        resolver
            .resolve(&definition, &Context::Nothing)
            .unwrap()
            .noticed
    };
    assert!(noticed("{{ fromSecret \"policies\" \"login\" \"user\" }}").sensitive);
    assert_eq!(
        noticed("{{ (lookup \"v1\" \"Secret\" \"policies\" \"login\").kind }}").plain_secrets,
        ["policies/login"]
    );
    assert!(!noticed("{{ fromConfigMap \"policies\" \"settings\" \"on\" }}").sensitive);
    assert!(noticed("{{ skipObject }}").skip_object);
    assert!(noticed("{{ skipObject true }}").skip_object);
    assert!(!noticed("{{ skipObject false }}").skip_object);
    for volatile in [
        "now",
        "uuidv4",
        "randAlpha 3",
        "htpasswd \"a\" \"b\"",
        "genPrivateKey \"rsa\"",
    ] {
        assert!(
            noticed(&format!("{{{{ {volatile} }}}}")).volatile,
            "{volatile}"
        );
    }
    assert!(!noticed("{{ \"x\" | upper }}").volatile);
    let refusing = Rules {
        deny_secret_lookup: true,
        ..Rules::of(Side::Managed)
    };
    let template = json!({"v": "{{ lookup \"v1\" \"Secret\" \"policies\" \"login\" }}"});
    assert!(resolve(&refusing, &Context::Nothing, &template).is_err());
}

#[test]
fn errors_show_whether_a_retry_may_succeed() {
    let retryable = |template: &str| {
        let rules = Rules::of(Side::Managed);
        let error = resolve(&rules, &Context::Nothing, &json!({ "v": template })).unwrap_err();
        error.is_retryable()
    };
    assert!(retryable(
        "{{ lookup \"example.com/v1\" \"Thing\" \"\" \"x\" }}"
    ));
    assert!(retryable("{{ lookup \"v1\" \"Forbidden\" \"\" \"x\" }}"));
    assert!(!retryable("{{ fromSecret \"policies\" \"none\" \"k\" }}"));
    assert!(!retryable("{{ fail \"x\" }}"));
    assert!(!retryable("{{ unknown }}"));
    let rules = Rules::of(Side::Managed);
    let endless = json!({"v": "{{ range 100000000 }}{{ end }}"});
    let error = resolve(&rules, &Context::Nothing, &endless).unwrap_err();
    assert!(matches!(
        error,
        ResolveError::Execute {
            cause: ExecuteError::Limit(_),
            ..
        }
    ));
}

#[test]
fn raw_text_is_yaml_when_it_is_resolved() {
    let host = host();
    let rules = Rules::of(Side::Managed);
    let resolver = Resolver {
        host: &host,
        rules: &rules,
        limits: Limits::default(),
    };
    let text = "{{- range $name := list \"a\" \"b\" }}\n- complianceType: musthave\n  objectDefinition:\n    metadata:\n      name: {{ $name }}\n{{- end }}\n";
    let resolved = resolver.resolve_text(text, &Context::Nothing).unwrap();
    assert_eq!(
        resolved.value[1]["objectDefinition"]["metadata"]["name"],
        "b"
    );
    let error = resolver
        .resolve_text("a: {{ \"[\" }}", &Context::Nothing)
        .unwrap_err();
    assert!(matches!(error, ResolveError::NotYaml(_)), "{error}");
}

/// An object without templates is unchanged, even if YAML would parse it differently.
#[test]
fn objects_without_templates_stay_as_they_are() {
    let rules = Rules::of(Side::Managed);
    let definition = json!({"a": "yes", "b": 1.0, "c": {"d": [null]}});
    assert_eq!(
        resolve(&rules, &Context::Nothing, &definition).unwrap(),
        definition
    );
    let definition = json!({"a": "yes", "b": "0644", "c": "1e3", "d": "{{ 1 }}", "e": "multi\nline", "f": "x: y"});
    let resolved = resolve(&rules, &Context::Nothing, &definition).unwrap();
    assert_eq!(
        resolved,
        json!({"a": "yes", "b": "0644", "c": "1e3", "d": "1", "e": "multi\nline", "f": "x: y"})
    );
}
