//! Replicas on one volume: section 19.9 from the outside (acceptance 9, 29, 36).

use std::path::{Path, PathBuf};
use std::time::Duration;

use polity_admission::CacheOptions;
use polity_pki::{Authority, Issued};
use polity_runtime::Clock;
use polity_testing::eventually;

use super::world::{Replica, World};

const READY: &str = "Scheduled=True/PolicyScheduled Initialized=True/PolicyInitialized";
const YEAR: Duration = Duration::from_hours(365 * 24);

/// The controller's authority, and the Secret it has made for the server.
struct Signing {
    authority: Authority,
    secret: PathBuf,
}

impl Signing {
    fn new(folder: &Path) -> Self {
        let now = Clock::system().now();
        let signing = Self {
            authority: Authority::create("ca", 10 * YEAR, now).unwrap(),
            secret: folder.join("cache-signing"),
        };
        std::fs::create_dir(&signing.secret).unwrap();
        let issued = signing.issue();
        signing.write("tls.key", &issued.key.to_pem());
        signing.write("ca.crt", &signing.authority.certificate().to_pem());
        signing.write("tls.crt", &issued.certificate.to_pem());
        signing
    }

    fn issue(&self) -> Issued {
        let uri = "kubewarden://kubewarden/policy-server/default/cache";
        let now = Clock::system().now();
        self.authority
            .issue_code_signer("cache", uri, YEAR, now)
            .unwrap()
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.secret.join(file), text).unwrap();
    }
}

impl World {
    async fn sharing(&self, ordinal: i32, signing: &Signing) -> Replica {
        let mut options = self.options(ordinal, self.client.clone());
        options.cache = Some(CacheOptions {
            directory: self.folder.path().join("cache"),
            signing: signing.secret.clone(),
        });
        Replica::start(options).await
    }

    /// Every file of the cache.
    fn cached(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().join("cache")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(path);
                }
            }
        }
        found
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_need_no_registry_once_it_is_cached() {
    let world = World::start().await;
    let signing = Signing::new(world.folder.path());
    let first = world.sharing(0, &signing).await;
    let revision = world.add("p", 1, &world.guest("yes.wasm", true)).await;
    world
        .until_told(&revision, &format!("{READY} Ready[0]=True/PolicyReady"))
        .await;
    world.serve(&revision).await;
    assert_eq!(world.cached().len(), 4, "two files with their signatures");
    std::fs::remove_file(world.folder.path().join("yes.wasm")).unwrap();

    let second = world.sharing(1, &signing).await;
    world.until_ready(&second).await;
    assert_eq!(world.ask(&second, "clusterwide-p").await, (200, Some(true)));
    let hits = world
        .metric(&second, "polity_module_cache_total{result=\"hit\"}")
        .await;
    assert_eq!(hits, Some(1.0));
    let compiled = "polity_revision_phase_seconds_count{phase=\"compile\"}";
    assert_eq!(world.metric(&second, compiled).await, None);
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_tampered_with_is_never_loaded_and_always_healed() {
    let world = World::start().await;
    let signing = Signing::new(world.folder.path());
    let first = world.sharing(0, &signing).await;
    let revision = world.add("p", 1, &world.guest("yes.wasm", true)).await;
    world
        .until_told(&revision, &format!("{READY} Ready[0]=True/PolicyReady"))
        .await;
    world.serve(&revision).await;
    first.stop().await;

    let is_code = |path: &PathBuf| path.to_string_lossy().contains("optimized");
    let flip = |path: &PathBuf| {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    for (what, is_flipped) in [("its code", true), ("everything", false)] {
        let files = world.cached();
        files
            .iter()
            .filter(|path| !is_flipped || is_code(path))
            .for_each(flip);
        let replica = world.sharing(0, &signing).await;
        world.until_ready(&replica).await;
        assert_eq!(
            world.ask(&replica, "clusterwide-p").await,
            (200, Some(true)),
            "{what}"
        );
        replica.stop().await;
        let healed = world.sharing(0, &signing).await;
        world.until_ready(&healed).await;
        let compiled = "polity_revision_phase_seconds_count{phase=\"compile\"}";
        assert_eq!(world.metric(&healed, compiled).await, None, "{what}");
        healed.stop().await;
    }

    // Nothing to heal it from: said, and not served.
    world.cached().iter().for_each(flip);
    std::fs::remove_file(world.folder.path().join("yes.wasm")).unwrap();
    let hopeless = world.sharing(0, &signing).await;
    hopeless.ends().await.unwrap_err();
    assert_eq!(
        world.told(&revision).await,
        format!("{READY} Ready[0]=False/SignatureInvalid")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_a_renewal_what_is_good_is_signed_anew() {
    let world = World::start().await;
    let signing = Signing::new(world.folder.path());
    let first = world.sharing(0, &signing).await;
    let revision = world.add("p", 1, &world.guest("yes.wasm", true)).await;
    world
        .until_told(&revision, &format!("{READY} Ready[0]=True/PolicyReady"))
        .await;
    let signatures = || -> Vec<Vec<u8>> {
        let mut files = world.cached();
        files.retain(|path| path.to_string_lossy().ends_with(".sig"));
        files.sort();
        files
            .iter()
            .map(|path| std::fs::read(path).unwrap())
            .collect()
    };
    let before = signatures();
    let previous = std::fs::read_to_string(signing.secret.join("tls.crt")).unwrap();
    let issued = signing.issue();
    signing.write("previous.crt", &previous);
    signing.write("tls.key", &issued.key.to_pem());
    signing.write("tls.crt", &issued.certificate.to_pem());
    eventually("all files have new signatures", || async {
        let after = signatures();
        before.iter().all(|signature| !after.contains(signature))
    })
    .await;

    // 29: the old certificate counts no more, the registry is gone.
    std::fs::remove_file(signing.secret.join("previous.crt")).unwrap();
    std::fs::remove_file(world.folder.path().join("yes.wasm")).unwrap();
    let second = world.sharing(1, &signing).await;
    world
        .until_answer(&second, "clusterwide-p/1", (200, Some(true)))
        .await;
    first.stop().await;
    second.stop().await;
}
