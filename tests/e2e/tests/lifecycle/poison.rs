//! Modules that end the process (19.11 "Poison", item 28): tried three times at most, then given up with a reason, and
//! everything else is served throughout.
//!
//! We know of no module that does so. The scenarios strike whoever compiles or loads one, in the middle of it, for as
//! long as it is tried; the module is large, so that there is a middle.

use std::fs;
use std::path::PathBuf;

use e2e::door::is_cut_off;
use e2e::stage::NAMESPACE;
use e2e::{eventually, module};
use http::Request;
use serde_json::{Value, json};

use crate::scene::{Scene, scenarios};
use crate::trials::{self, Trials};

scenarios![embedded: killed_while_compiling, killed_while_loading];

const WORDS: &str = "container trial is privileged";
/// Seconds of compilation.
const LARGE: usize = 4_000_000;
/// As often as it is tried.
const DEATHS: usize = 3;

/// The poison, beside a policy of this scene that serves on a server of its own.
struct Poison<'a> {
    scene: &'a Scene,
    name: String,
}

impl<'a> Poison<'a> {
    /// A server with these fields, and a policy that serves there.
    fn beside_a_good_policy(scene: &'a Scene, server: Value) -> Self {
        let n_replicas = server["replicas"].as_u64().unwrap();
        scene.server_with(&scene.name, server);
        scene.replicas_are_ready(&scene.name, n_replicas);
        let mut good = scene.policy("pod-privileged");
        good["spec"]["policyServer"] = json!(scene.name);
        scene.apply(&good);
        scene.stage.until_phase(&scene.path(), "Active", 1);
        scene.soon_enforces(WORDS);
        Self {
            scene,
            name: format!("{}-poison", scene.name),
        }
    }

    fn path(&self) -> String {
        format!("clusteradmissionpolicies/{}", self.name)
    }

    fn administer(&self) {
        let file = self.scene.stage.folder().join(&self.name);
        fs::write(&file, module::enlarged(&module::policy(), LARGE)).unwrap();
        let mut policy = self.scene.policy("pod-privileged");
        policy["metadata"]["name"] = json!(self.name);
        policy["spec"]["policyServer"] = json!(self.scene.name);
        policy["spec"]["module"] = json!(format!("file://{}", file.display()));
        self.scene.apply(&policy);
    }

    fn revision(&self) -> Option<Value> {
        self.scene.revisions_of(&self.name).pop()
    }

    /// Waits until it has failed in these words; the condition that says so.
    fn has_failed(&self, words: &str) -> Value {
        let failure = |policy: &Value| {
            let conditions = policy["status"]["conditions"].as_array()?.iter();
            let is_it = |one: &&Value| {
                one["message"]
                    .as_str()
                    .is_some_and(|said| said.contains(words))
            };
            conditions
                .filter(|one| one["status"] == "False")
                .find(is_it)
                .cloned()
        };
        let what = format!("failed: {words}");
        let policy = self.scene.stage.until(&what, &self.path(), |policy| {
            policy["status"]["phase"] == "Failed" && failure(policy).is_some()
        });
        failure(&policy).unwrap()
    }

    /// Which replicas were started again, and how often.
    fn restarts(&self) -> Vec<u64> {
        let pods = self.scene.stage.pods(&self.scene.name).into_values();
        let restarts = |pod: Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        pods.filter_map(restarts).collect()
    }
}

/// Every request was answered by the policy, but for those that somebody held in hands when they were killed.
fn served_throughout(trials: &Trials) {
    let Trials { n_asked, odd } = trials;
    assert!(*n_asked > 50, "{n_asked} requests");
    let is_excused = odd.iter().all(|said| is_cut_off(said)) && odd.len() <= DEATHS;
    assert!(is_excused, "{odd:#?} of {n_asked}");
}

/// Leaders die, and it does not walk through the replicas.
fn killed_while_compiling(scene: &Scene) {
    let (stage, server) = (scene.stage, &scene.name);
    let poison = Poison::beside_a_good_policy(scene, json!({"replicas": 3}));
    let ((), trials) = trials::during(
        1,
        WORDS,
        |is_guilty| scene.try_pod(is_guilty),
        || {
            poison.administer();
            for attempt in 1..=DEATHS {
                eventually(&format!("attempt {attempt}"), || {
                    let attempts = &poison.revision()?["status"]["initializer"]["attempts"];
                    (*attempts == json!(attempt)).then_some(())
                });
                let leader = scene.leading_pod(server);
                stage.kill_replica(&leader);
                hand_on_the_lease(scene, &leader);
            }
            let failure = poison.has_failed("ended 3 times while it compiled");
            assert_eq!(
                (&failure["type"], &failure["reason"]),
                (&json!("Initialized"), &json!("ModuleInvalid")),
            );
        },
    );
    scene.replicas_are_ready(server, 3);
    assert_eq!(poison.restarts(), [1, 1, 1], "each led once");
    served_throughout(&trials);
}

/// Nobody waits until the lease of the dead has run out: the next replica has it.
fn hand_on_the_lease(scene: &Scene, dead: &str) {
    let pods = scene.stage.pods(&scene.name);
    let mut others = pods
        .iter()
        .chain(&pods)
        .skip_while(|(name, _)| *name != dead);
    let (name, next) = others.nth(1).unwrap();
    let holder = format!("{name}_{}", next["metadata"]["uid"].as_str().unwrap());
    let patch = json!({"spec": {"holderIdentity": holder}}).to_string();
    let path = format!(
        "/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/policy-server-{}",
        scene.name
    );
    // Quicker than the dead are back, who would go on leading.
    let request = Request::patch(path).header("Content-Type", "application/merge-patch+json");
    let request = request.body(patch.into_bytes()).unwrap();
    scene.stage.send(request).unwrap();
}

/// A replica that keeps its own modules, and does not lead, compiles what it loads. The third death would cost another
/// half minute of pauses: it is written into the note of the second.
fn killed_while_loading(scene: &Scene) {
    let (stage, server) = (scene.stage, &scene.name);
    let spec = json!({"replicas": 2, "cache": {"ephemeral": true}});
    let poison = Poison::beside_a_good_policy(scene, spec);
    let victim = 1 - scene.leader(server);
    let victim = format!("policy-server-{server}-{victim}");
    let has_failed = |times: &str| {
        let failure = poison.has_failed(&format!("ended {times} while it loaded"));
        assert_eq!(
            (&failure["type"], &failure["reason"]),
            (&json!("Ready"), &json!("LoadError")),
        );
    };
    let kill_at = |n_deaths: &str| {
        eventually("it is being loaded", || {
            let note = fs::read_to_string(note(&poison, &victim)?).ok()?;
            (note.lines().next() == Some(n_deaths)).then_some(())
        });
        stage.kill_replica(&victim);
    };
    let ((), trials) = trials::during(
        1,
        WORDS,
        |is_guilty| scene.try_pod(is_guilty),
        || {
            poison.administer();
            kill_at("1");
            has_failed("once");
            // Ready again, it tries once more.
            kill_at("2");
            fs::write(note(&poison, &victim).unwrap(), DEATHS.to_string()).unwrap();
            has_failed("3 times");
        },
    );
    scene.replicas_are_ready(server, 2);
    assert_eq!(poison.restarts().into_iter().sum::<u64>(), 2);
    served_throughout(&trials);
}

/// Where a replica notes that it is loading the poison. The first line is the number of crashes if it crashes now.
fn note(poison: &Poison<'_>, pod: &str) -> Option<PathBuf> {
    let stage = poison.scene.stage;
    let pods = stage.pods(&poison.scene.name);
    let notes = stage
        .folder_of(pods.get(pod)?)
        .join("volumes/policy-store/polity-loading");
    let revision = poison.revision()?;
    Some(notes.join(revision["metadata"]["uid"].as_str()?))
}
