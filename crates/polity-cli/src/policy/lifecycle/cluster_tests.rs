//! The commands on a cluster: the API server in this process, with a test in the controller's place.

mod rollbacks;
mod watching;

use std::time::Duration;

use clap::Parser;
use k8s_openapi::api::core::v1::{Event, Namespace};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use polity_api::policies::{GROUP, api_resource};
use polity_testing::{TestServer, eventually, objects};
use serde_json::{Value, json};

use super::events::{self, Events};
use super::find::{Found, NamedPolicy};
use super::kind::PolicyKind;
use crate::exit::Hinted;

/// Far beyond what any test waits for.
const LONG: Duration = Duration::from_mins(1);

#[derive(Debug, Parser)]
struct Flags {
    #[command(flatten)]
    policy: NamedPolicy,
}

/// A cluster with the kinds, two namespaces, and an owner of policies in one of them.
struct Setup {
    server: TestServer,
    admin: Client,
}

impl Setup {
    async fn start() -> Self {
        let server = TestServer::start().await;
        let admin = server.client().await;
        let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
        let ours = polity_api::crd::crds().into_iter();
        for definition in ours.filter(|definition| definition.spec.group == GROUP) {
            let created = definitions
                .create(&PostParams::default(), &definition)
                .await;
            created.unwrap();
        }
        let namespaces: Api<Namespace> = Api::all(admin.clone());
        for name in ["shop", "other"] {
            let created = namespaces
                .create(&PostParams::default(), &objects::namespace(name))
                .await;
            created.unwrap();
        }
        let setup = Self { server, admin };
        for kind in PolicyKind::ALL {
            let api = setup.api(kind, "shop");
            eventually("the kind is served", || async {
                api.list(&ListParams::default()).await
            })
            .await;
        }
        setup
    }

    fn api(&self, kind: PolicyKind, namespace: &str) -> Api<DynamicObject> {
        if kind.is_namespaced() {
            Api::namespaced_with(self.admin.clone(), namespace, &api_resource(kind))
        } else {
            Api::all_with(self.admin.clone(), &api_resource(kind))
        }
    }

    async fn create(&self, kind: PolicyKind, namespace: &str, name: &str) -> DynamicObject {
        let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]);
        let module = "registry://r.example/team-label:v1";
        let spec = match kind {
            PolicyKind::AdmissionPolicy | PolicyKind::ClusterAdmissionPolicy => {
                json!({"module": module, "mutating": false, "rules": rules})
            }
            PolicyKind::AdmissionPolicyGroup | PolicyKind::ClusterAdmissionPolicyGroup => {
                json!({"expression": "a()", "message": "no", "rules": rules, "policies": {"a": {"module": module}}})
            }
        };
        let resource = api_resource(kind);
        let object = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec});
        let object = serde_json::from_value(object).unwrap();
        let api = self.api(kind, namespace);
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    /// Finds as somebody.
    async fn find_as(&self, client: Client, words: &[&str]) -> anyhow::Result<Found> {
        let flags = Flags::try_parse_from([&["x"], words].concat()).unwrap();
        flags.policy.find_with(client).await
    }

    async fn find(&self, words: &[&str]) -> Found {
        self.find_as(self.admin.clone(), words).await.unwrap()
    }

    /// The words of an error and its hint.
    async fn not_found(&self, client: Client, words: &[&str]) -> (String, String) {
        let error = self.find_as(client, words).await.err().unwrap();
        let hinted: Hinted = error.downcast().unwrap();
        (hinted.message, hinted.hint)
    }

    async fn status(&self, name: &str, status: Value) {
        let api = self.api(PolicyKind::AdmissionPolicy, "shop");
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn patch(&self, name: &str, patch: Value) -> DynamicObject {
        let api = self.api(PolicyKind::AdmissionPolicy, "shop");
        let patched = api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.unwrap()
    }

    /// An account with a role in a namespace and no other rights.
    async fn account(&self, user: &str, rules: Value) -> Client {
        let role = json!({"metadata": {"name": user}, "rules": rules});
        let binding = json!({"metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
        let role: Role = serde_json::from_value(role).unwrap();
        let binding: RoleBinding = serde_json::from_value(binding).unwrap();
        let post = PostParams::default();
        let roles = Api::namespaced(self.admin.clone(), "shop");
        roles.create(&post, &role).await.unwrap();
        let bindings = Api::namespaced(self.admin.clone(), "shop");
        bindings.create(&post, &binding).await.unwrap();
        self.server.client_as(user, &[]).await
    }

    async fn tell(&self, name: &str, about: &DynamicObject, reason: &str) {
        let event = json!({
            "metadata": {"name": name, "namespace": "shop"}, "reason": reason, "message": format!("{reason}, told."),
            "type": "Warning", "action": "Reconcile", "eventTime": "2026-11-16T10:00:00.000000Z",
            "reportingComponent": "controller", "reportingInstance": "controller",
            "involvedObject": {"apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy", "namespace": "shop",
                               "name": about.name_any(), "uid": about.uid()}});
        let event: Event = serde_json::from_value(event).unwrap();
        let api: Api<Event> = Api::namespaced(self.admin.clone(), "shop");
        api.create(&PostParams::default(), &event).await.unwrap();
    }
}

fn owner_of_policies() -> Value {
    json!({"apiGroups": [GROUP], "resources": ["admissionpolicies", "admissionpolicygroups"],
           "verbs": ["get", "list", "watch", "patch"]})
}

fn active(generation: i64) -> Value {
    json!({"policyStatus": "active", "phase": "Active", "observedGeneration": generation,
           "servingGeneration": generation, "message": format!("Generation {generation} is enforced.")})
}

fn failed(generation: i64, serving: i64) -> Value {
    json!({"policyStatus": "active", "phase": "Failed", "observedGeneration": generation, "servingGeneration": serving,
           "message": format!("Generation {generation} cannot be served (PullError: no such tag); generation {serving} is enforced."),
           "history": [{"generation": serving, "module": "registry://r.example/team-label:v1", "result": "Active"}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_not_there_is_told_with_where_it_was_looked_for() {
    let setup = Setup::start().await;
    setup
        .create(PolicyKind::AdmissionPolicy, "shop", "team-label")
        .await;
    setup
        .create(PolicyKind::ClusterAdmissionPolicy, "", "privileged-pods")
        .await;
    let admin = || setup.admin.clone();
    for (words, message, hint) in [
        (
            &["team-labl", "-n", "shop"][..],
            "there is no policy \"team-labl\" (looked at AdmissionPolicy, AdmissionPolicyGroup in namespace shop)",
            "did you mean AdmissionPolicy team-label?",
        ),
        (
            &["privileged-pod"],
            "there is no policy \"privileged-pod\" (looked at AdmissionPolicy, AdmissionPolicyGroup in namespace \
             default; ClusterAdmissionPolicy, ClusterAdmissionPolicyGroup)",
            "did you mean ClusterAdmissionPolicy privileged-pods?",
        ),
        (
            &["team-label", "-n", "other", "--kind", "AdmissionPolicy"],
            "there is no policy \"team-label\" (looked at AdmissionPolicy in namespace other)",
            "there is an AdmissionPolicy in namespace shop: -n shop",
        ),
        (
            &["team-label"],
            "there is no policy \"team-label\" (looked at AdmissionPolicy, AdmissionPolicyGroup in namespace default; \
             ClusterAdmissionPolicy, ClusterAdmissionPolicyGroup)",
            "there is an AdmissionPolicy in namespace shop: -n shop",
        ),
        (
            &["privileged-pods", "-n", "shop"],
            "there is no policy \"privileged-pods\" (looked at AdmissionPolicy, AdmissionPolicyGroup in namespace shop)",
            "privileged-pods is cluster-wide (ClusterAdmissionPolicy): leave out -n and --kind",
        ),
        (
            &["pods/privileged-pods"],
            "\"pods\" is no kind of admission policy",
            "the kinds are ap, apg, cap, capg",
        ),
        (
            &["cap/privileged-pods", "--kind", "ap"],
            "two kinds are given: ClusterAdmissionPolicy and AdmissionPolicy",
            "leave out --kind",
        ),
        (
            &["unlike", "--kind", "CAP"],
            "there is no policy \"unlike\" (looked at ClusterAdmissionPolicy)",
            "kubectl get cap -A lists them",
        ),
    ] {
        let told = setup.not_found(admin(), words).await;
        assert_eq!(told, (message.to_owned(), hint.to_owned()), "{words:?}");
    }

    for words in [
        &["clusteradmissionpolicy/privileged-pods"][..],
        &["cap/privileged-pods"],
        &[
            "ClusterAdmissionPolicies.policies.kubewarden.io",
            "privileged-pods",
        ],
        &["ap/team-label", "-n", "shop"],
    ] {
        setup.find(words).await;
    }

    // An owner in one namespace may not read the policies of the cluster, and finds their own all the same.
    let rules = json!([owner_of_policies()]);
    let owner = setup.account("ann", rules).await;
    let (message, _) = setup
        .not_found(owner.clone(), &["team-labl", "-n", "shop"])
        .await;
    assert!(message.ends_with("in namespace shop)"), "{message}");
    let mut config = setup.server.config().await;
    config.auth_info.impersonate = Some("ann".to_owned());
    config.default_namespace = "shop".to_owned();
    let owner = Client::try_from(config).unwrap();
    let (message, hint) = setup.not_found(owner.clone(), &["team-labl"]).await;
    assert!(message.ends_with("; reading ClusterAdmissionPolicy is not allowed; reading ClusterAdmissionPolicyGroup is not allowed"), "{message}");
    assert_eq!(hint, "did you mean AdmissionPolicy team-label?");
    let found = setup.find_as(owner.clone(), &["team-label"]).await.unwrap();
    assert_eq!(found.policy.to_string(), "AdmissionPolicy shop/team-label");
    let (message, _) = setup.not_found(owner, &["team-label", "-n", "other"]).await;
    assert!(
        message.starts_with("team-label cannot be read: "),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_the_kinds_is_told_as_such() {
    let server = TestServer::start().await;
    let flags = Flags::try_parse_from(["x", "team-label"]).unwrap();
    let error = flags
        .policy
        .find_with(server.client().await)
        .await
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "the cluster serves no kind of admission policy"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_and_a_group_of_one_name_must_be_told_apart() {
    let setup = Setup::start().await;
    for kind in PolicyKind::ALL {
        setup.create(kind, "shop", "team-label").await;
    }
    let (message, hint) = setup
        .not_found(setup.admin.clone(), &["team-label", "-n", "shop"])
        .await;
    assert_eq!(
        message,
        "\"team-label\" may mean AdmissionPolicy shop/team-label or AdmissionPolicyGroup shop/team-label"
    );
    assert_eq!(hint, "say which: --kind ap or --kind apg");
    for (kind, expected) in [
        ("ap", "AdmissionPolicy shop/team-label"),
        (
            "AdmissionPolicyGroup",
            "AdmissionPolicyGroup shop/team-label",
        ),
        ("cap", "ClusterAdmissionPolicy team-label"),
        (
            "clusteradmissionpolicygroups",
            "ClusterAdmissionPolicyGroup team-label",
        ),
    ] {
        let found = setup
            .find(&["team-label", "-n", "shop", "--kind", kind])
            .await;
        assert_eq!(found.policy.to_string(), expected);
    }
}

/// Acceptance 17: with rights on policies and Events of one namespace, by either name of Events, or without.
#[tokio::test(flavor = "multi_thread")]
async fn events_are_read_with_the_rights_of_the_owner() {
    let setup = Setup::start().await;
    let policy = setup
        .create(PolicyKind::AdmissionPolicy, "shop", "team-label")
        .await;
    let other = setup
        .create(PolicyKind::AdmissionPolicy, "shop", "other")
        .await;
    setup.tell("first", &policy, "PolicyPending").await;
    setup
        .tell("second", &policy, "PolicyInitializationFailed")
        .await;
    setup.tell("third", &other, "PolicyActive").await;
    let events_of =
        |group: &str| json!({"apiGroups": [group], "resources": ["events"], "verbs": ["list"]});
    for (user, rules) in [
        ("old", json!([owner_of_policies(), events_of("")])),
        (
            "new",
            json!([owner_of_policies(), events_of("events.k8s.io")]),
        ),
    ] {
        let client = setup.account(user, rules).await;
        let found = setup
            .find_as(client, &["team-label", "-n", "shop"])
            .await
            .unwrap();
        let events = events::about(&found.client, &found.policy).await;
        let told: Vec<_> = events
            .told()
            .iter()
            .map(|told| (told.reason.as_str(), told.note.as_str(), told.count))
            .collect();
        let expected = [
            ("PolicyPending", "PolicyPending, told.", 1),
            (
                "PolicyInitializationFailed",
                "PolicyInitializationFailed, told.",
                1,
            ),
        ];
        assert_eq!(told, expected, "{user}");
    }
    let client = setup.account("without", json!([owner_of_policies()])).await;
    let found = setup
        .find_as(client, &["team-label", "-n", "shop"])
        .await
        .unwrap();
    let events = events::about(&found.client, &found.policy).await;
    assert!(matches!(events, Events::Unreadable(why) if why.contains("events is forbidden")));
}
