//! Sets of Pods through scaling and updates; killed after any write, they come to the same.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A cluster of one set: carries out what is planned, and plays a kubelet that is as quick as it is asked to be.
#[derive(Clone)]
struct SetFixture {
    set: StatefulSet,
    pods: BTreeMap<String, Pod>,
    revisions: BTreeMap<String, ControllerRevision>,
    claims: BTreeMap<String, PersistentVolumeClaim>,
    n_made: u32,
    /// What happened to Pods: `+web-0`, `-web-0`.
    log: Vec<String>,
}

impl SetFixture {
    fn new(spec: Value) -> Self {
        let mut whole = json!({
            "replicas": 3, "serviceName": "peers", "selector": {"matchLabels": {"app": "web"}},
            "template": template("one"),
        });
        merge(&mut whole, spec);
        let set = json!({"metadata": {"name": "web", "namespace": "team", "uid": "set-uid", "generation": 1}, "spec": whole});
        Self {
            set: serde_json::from_value(set).unwrap(),
            pods: BTreeMap::new(),
            revisions: BTreeMap::new(),
            claims: BTreeMap::new(),
            n_made: 0,
            log: Vec::new(),
        }
    }

    fn edit(&mut self, spec: Value) {
        let mut whole = json!(self.set);
        merge(&mut whole["spec"], spec);
        self.set = serde_json::from_value(whole).unwrap();
        *self.set.metadata.generation.as_mut().unwrap() += 1;
    }

    fn plan(&self) -> Plan {
        let pods: Vec<&Pod> = self.pods.values().collect();
        let revisions: Vec<&ControllerRevision> = self.revisions.values().collect();
        let claims: Vec<&PersistentVolumeClaim> = self.claims.values().collect();
        let seen = Seen {
            set: &self.set,
            pods: &pods,
            revisions: &revisions,
            claims: &claims,
            node: "here",
        };
        plan(&seen, now())
    }

    /// One look, with at most so many of its writes done before the controller dies.
    fn look(&mut self, most: usize) -> usize {
        let Plan { steps, status, .. } = self.plan();
        let n_steps = steps.len();
        for step in steps.into_iter().take(most) {
            self.write(step);
        }
        if most > n_steps {
            self.set.status = Some(status);
        }
        n_steps
    }

    fn write(&mut self, step: Step) {
        self.n_made += 1;
        let uid = Some(format!("uid-{}", self.n_made));
        match step {
            Step::CreateRevision(mut revision) => {
                revision.metadata.uid = uid;
                let name = revision.metadata.name.clone().unwrap();
                assert!(self.revisions.insert(name, *revision).is_none());
            }
            Step::RenumberRevision { name, revision } => {
                self.revisions.get_mut(&name).unwrap().revision = Some(revision);
            }
            Step::DeleteRevision { name, .. } => {
                self.revisions.remove(&name).unwrap();
            }
            Step::CreateClaim(claim) => {
                let name = claim.metadata.name.clone().unwrap();
                assert!(self.claims.insert(name, *claim).is_none());
            }
            Step::CreatePod(mut pod) => {
                pod.metadata.uid = uid;
                let name = pod.metadata.name.clone().unwrap();
                self.log.push(format!("+{name}"));
                assert!(self.pods.insert(name, *pod).is_none());
            }
            Step::DeletePod { name, uid } => {
                let pod = self.pods.get_mut(&name).unwrap();
                assert_eq!(pod.metadata.uid.as_ref(), Some(&uid));
                self.log.push(format!("-{name}"));
                let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now());
                pod.metadata.deletion_timestamp = Some(time);
            }
        }
    }

    /// The kubelet: what terminates is gone, and what runs is ready, but for images called `broken`.
    fn run(&mut self) {
        self.pods
            .retain(|_, pod| pod.metadata.deletion_timestamp.is_none());
        for pod in self.pods.values_mut() {
            let ready = if image(pod) == "broken" {
                "False"
            } else {
                "True"
            };
            pod.status = serde_json::from_value(json!({
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": now()}],
            }))
            .unwrap();
        }
    }

    /// Looks and runs until nothing changes any more.
    fn settle(&mut self) -> &mut Self {
        for _ in 0..100 {
            let before = (self.pods.clone(), self.set.status.clone());
            let n_steps = self.look(usize::MAX);
            self.run();
            if n_steps == 0 && before == (self.pods.clone(), self.set.status.clone()) {
                return self;
            }
        }
        panic!("it does not settle: {:?}", self.plan().steps);
    }

    fn take_log(&mut self) -> String {
        std::mem::take(&mut self.log).join(" ")
    }

    /// The Pods with their images.
    fn images(&self) -> String {
        let pods = self.pods.iter();
        let pods = pods.map(|(name, pod)| format!("{name}={}", image(pod)));
        pods.collect::<Vec<_>>().join(" ")
    }

    fn status(&self) -> &StatefulSetStatus {
        self.set.status.as_ref().unwrap()
    }
}

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn image(pod: &Pod) -> &str {
    let container = crate::pod::container(pod).unwrap();
    container.image.as_deref().unwrap()
}

fn merge(into: &mut Value, other: Value) {
    for (key, value) in other.as_object().unwrap() {
        into[key] = value.clone();
    }
}

#[test]
fn a_new_pod_has_the_identity_of_its_ordinal() {
    let mut fixture = SetFixture::new(
        json!({"replicas": 1, "ordinals": {"start": 5}, "volumeClaimTemplates": [
            {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}},
        ]}),
    );
    fixture.settle();
    let pod = &fixture.pods["web-5"];
    let labels = pod.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-5");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "5");
    let revision = &labels["controller-revision-hash"];
    assert!(revision.starts_with("web-") && fixture.revisions.contains_key(revision));
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("web-5"));
    assert_eq!(spec.subdomain.as_deref(), Some("peers"));
    assert_eq!(spec.node_name.as_deref(), Some("here"));
    assert_eq!(spec.service_account_name.as_deref(), Some("default"));
    let volume = &spec.volumes.as_ref().unwrap()[0];
    let claim = volume.persistent_volume_claim.as_ref().unwrap();
    assert_eq!(
        (volume.name.as_str(), claim.claim_name.as_str()),
        ("data", "data-web-5")
    );
    assert!(fixture.claims.contains_key("data-web-5"));
    let owner = &pod.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.uid.as_str(), owner.controller),
        ("set-uid", Some(true))
    );
}

#[test]
fn pods_come_and_go_in_order_or_all_at_once() {
    let check = |policy: &str, first_look: &str, whole: &str| {
        let mut fixture = SetFixture::new(json!({"podManagementPolicy": policy}));
        fixture.look(usize::MAX);
        assert_eq!(fixture.take_log(), first_look, "{policy}");
        fixture.settle();
        fixture.edit(json!({"replicas": 1}));
        fixture.settle();
        assert_eq!(fixture.take_log(), whole, "{policy}");
        assert_eq!(fixture.images(), "web-0=one");
    };
    check("OrderedReady", "+web-0", "+web-1 +web-2 -web-2 -web-1");
    check("Parallel", "+web-0 +web-1 +web-2", "-web-2 -web-1");
}

#[test]
fn one_that_is_not_ready_holds_back_only_an_ordered_set() {
    for (policy, expected) in [
        ("OrderedReady", "web-0=broken"),
        ("Parallel", "web-0=broken web-1=broken web-2=broken"),
    ] {
        let spec = json!({"podManagementPolicy": policy, "template": template("broken")});
        let mut fixture = SetFixture::new(spec);
        fixture.settle();
        assert_eq!(fixture.images(), expected);
        assert_eq!(fixture.status().ready_replicas, Some(0));
    }
}

#[test]
fn an_update_goes_from_the_highest_ordinal_down() {
    for policy in ["OrderedReady", "Parallel"] {
        let mut fixture = SetFixture::new(json!({"podManagementPolicy": policy}));
        fixture.settle().take_log();
        fixture.edit(json!({"template": template("two")}));
        fixture.settle();
        assert_eq!(
            fixture.take_log(),
            "-web-2 +web-2 -web-1 +web-1 -web-0 +web-0"
        );
        assert_eq!(fixture.images(), "web-0=two web-1=two web-2=two");
        let status = fixture.status();
        assert_eq!(status.current_revision, status.update_revision);
        assert_eq!(
            (status.updated_replicas, status.observed_generation),
            (Some(3), Some(2))
        );
    }
}

#[test]
fn a_partition_keeps_the_lower_ordinals_as_they_were() {
    let strategy = |partition| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
    let mut fixture = SetFixture::new(strategy(2));
    fixture.settle();
    fixture.edit(json!({"template": template("two")}));
    fixture.settle();
    assert_eq!(fixture.images(), "web-0=one web-1=one web-2=two");
    // Also one that is made anew.
    fixture.pods.remove("web-1");
    fixture.settle();
    assert_eq!(fixture.images(), "web-0=one web-1=one web-2=two");
    assert_ne!(
        fixture.status().current_revision,
        fixture.status().update_revision
    );
    fixture.edit(strategy(0));
    fixture.settle();
    assert_eq!(fixture.images(), "web-0=two web-1=two web-2=two");
}

#[test]
fn a_broken_update_stops_at_the_top_and_is_taken_back() {
    let mut fixture = SetFixture::new(json!({"podManagementPolicy": "Parallel"}));
    fixture.settle();
    fixture.edit(json!({"template": template("broken")}));
    fixture.settle();
    assert_eq!(fixture.images(), "web-0=one web-1=one web-2=broken");
    // One that dies meanwhile comes back as it was.
    fixture.pods.remove("web-0");
    fixture.settle();
    assert_eq!(fixture.images(), "web-0=one web-1=one web-2=broken");
    fixture.edit(json!({"template": template("one")}));
    fixture.settle();
    assert_eq!(fixture.images(), "web-0=one web-1=one web-2=one");
    let numbers: Vec<_> = fixture
        .revisions
        .values()
        .map(|known| known.revision)
        .collect();
    assert!(
        numbers.contains(&Some(3)),
        "the old revision is the newest: {numbers:?}"
    );
}

#[test]
fn an_update_mends_what_is_broken_further_down() {
    let mut fixture = SetFixture::new(json!({"podManagementPolicy": "Parallel"}));
    fixture.settle();
    // The lowest fails by itself, and only the new image would help.
    let status = fixture
        .pods
        .get_mut("web-0")
        .unwrap()
        .status
        .as_mut()
        .unwrap();
    status.conditions = None;
    fixture.edit(json!({"template": template("two")}));
    fixture.look(usize::MAX);
    assert_eq!(fixture.log.last().map(String::as_str), Some("-web-2"));
    fixture.settle();
    assert_eq!(fixture.images(), "web-0=two web-1=two web-2=two");
}

#[test]
fn on_delete_replaces_only_what_somebody_deletes() {
    let mut fixture = SetFixture::new(json!({"updateStrategy": {"type": "OnDelete"}}));
    fixture.settle();
    fixture.edit(json!({"template": template("two")}));
    fixture.settle();
    assert_eq!(fixture.images(), "web-0=one web-1=one web-2=one");
    fixture.pods.remove("web-1");
    fixture.settle();
    assert_eq!(fixture.images(), "web-0=one web-1=two web-2=one");
}

#[test]
fn max_unavailable_is_how_many_go_at_once() {
    for (most, expected) in [
        (json!(2), "-web-2 -web-1"),
        (json!("67%"), "-web-2 -web-1"),
        (json!("10%"), "-web-2"),
        (json!(0), "-web-2"),
    ] {
        let mut fixture = SetFixture::new(json!({
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": most}},
        }));
        fixture.settle().take_log();
        fixture.edit(json!({"template": template("two")}));
        fixture.look(usize::MAX);
        assert_eq!(fixture.take_log(), expected, "{most}");
        assert!(fixture.settle().images().starts_with("web-0=two"));
    }
}

#[test]
fn old_revisions_are_kept_up_to_the_limit() {
    let mut fixture = SetFixture::new(json!({"revisionHistoryLimit": 2}));
    for image in ["a", "b", "c", "d", "e"] {
        fixture.edit(json!({"template": template(image)}));
        fixture.settle();
    }
    assert_eq!(fixture.revisions.len(), 3);
}

#[test]
fn a_pod_counts_once_it_was_ready_long_enough() {
    let mut fixture = SetFixture::new(json!({"replicas": 1, "minReadySeconds": 30}));
    fixture.settle();
    let plan = fixture.plan();
    assert_eq!(
        (plan.status.ready_replicas, plan.status.available_replicas),
        (Some(1), Some(0))
    );
    assert_eq!(
        plan.look_again_at,
        Some("2026-11-16T12:00:30Z".parse().unwrap())
    );
}

#[test]
fn strangers_and_sets_that_go_are_left_alone() {
    let mut fixture = SetFixture::new(json!({}));
    fixture.settle();
    fixture.set.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    fixture.pods.remove("web-1");
    assert_eq!(fixture.plan().steps, []);

    let set = &fixture.set;
    for (name, expected) in [
        ("web-0", Some(0)),
        ("web-10", Some(10)),
        ("web-01", None),
        ("web-+1", None),
        ("web-", None),
        ("web-x", None),
        ("other-1", None),
        ("web-99999999999", None),
    ] {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        assert_eq!(pods::ordinal(set, &pod), expected, "{name}");
    }
}

/// What somebody does to a set.
#[derive(Debug, Clone)]
enum Deed {
    Scale(i32),
    Update(&'static str),
    Kill(usize),
    Run,
    /// A look that dies after so many writes.
    Look(usize),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        (0..5i32).prop_map(Deed::Scale),
        prop_oneof![Just("one"), Just("two"), Just("three"), Just("broken")].prop_map(Deed::Update),
        (0..5usize).prop_map(Deed::Kill),
        Just(Deed::Run),
        (0..4usize).prop_map(Deed::Look),
    ];
    proptest::collection::vec(deed, 0..40)
}

proptest! {
    #[test]
    fn whatever_happens_it_comes_to_what_the_spec_says(
        deeds in deeds(), parallel in any::<bool>(), partition in 0..3i32, replicas in 0..5i32,
    ) {
        let policy = if parallel { "Parallel" } else { "OrderedReady" };
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        let mut fixture = SetFixture::new(json!({"podManagementPolicy": policy, "updateStrategy": rolling.clone()}));
        for deed in deeds {
            match deed {
                Deed::Scale(replicas) => fixture.edit(json!({"replicas": replicas})),
                Deed::Update(image) => fixture.edit(json!({"template": template(image)})),
                Deed::Kill(nth) => {
                    if let Some(name) = fixture.pods.keys().nth(nth).cloned() {
                        fixture.pods.remove(&name);
                    }
                }
                Deed::Run => fixture.run(),
                Deed::Look(most) => { fixture.look(most); }
            }
        }
        // An ordered set that broke needs its broken Pods deleted by hand, as everywhere.
        fixture.pods.retain(|_, pod| image(pod) != "broken");
        fixture.edit(json!({"template": template("last"), "replicas": replicas,
            "updateStrategy": {"type": "RollingUpdate"}}));
        fixture.set.status = None;
        fixture.settle();
        let expected: Vec<String> = (0..replicas).map(|n| format!("web-{n}=last")).collect();
        prop_assert_eq!(fixture.images(), expected.join(" "));
        let status = fixture.status();
        prop_assert_eq!(&status.current_revision, &status.update_revision);
        prop_assert_eq!((status.replicas, status.ready_replicas), (replicas, Some(replicas)));
        prop_assert_eq!(fixture.plan().steps, vec![]);
    }

    #[test]
    fn dying_after_any_write_changes_nothing_in_the_end(cut in 0..20usize, most in 0..3usize, parallel in any::<bool>()) {
        let policy = if parallel { "Parallel" } else { "OrderedReady" };
        let mut fixture = SetFixture::new(json!({"podManagementPolicy": policy}));
        fixture.settle();
        fixture.edit(json!({"template": template("two"), "replicas": 4}));
        let mut undisturbed = fixture.clone();
        undisturbed.settle();
        for round in 0..20 {
            fixture.look(if round == cut { most } else { usize::MAX });
            if round % 2 == 1 {
                fixture.run();
            }
        }
        fixture.settle();
        prop_assert_eq!(fixture.images(), undisturbed.images());
        prop_assert_eq!(fixture.status(), undisturbed.status());
    }

    #[test]
    fn an_update_never_takes_more_than_one_at_a_time(parallel in any::<bool>(), runs in proptest::collection::vec(any::<bool>(), 60)) {
        let policy = if parallel { "Parallel" } else { "OrderedReady" };
        let mut fixture = SetFixture::new(json!({"podManagementPolicy": policy}));
        fixture.settle();
        fixture.edit(json!({"template": template("two")}));
        for run in runs {
            fixture.look(usize::MAX);
            let n_well = fixture.pods.values().filter(|pod| pods::is_ready(pod) && !pods::is_terminating(pod)).count();
            prop_assert!(n_well >= 2, "{}", fixture.log.join(" "));
            if run {
                fixture.run();
            }
        }
    }
}
