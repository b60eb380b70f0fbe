//! Which revisions the start of a replica waits for (docs/spec/admission.md#19-7).

use polity_testing::eventually;

use super::world::World;

const READY: &str = "Scheduled=True/PolicyScheduled Initialized=True/PolicyInitialized";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restart_serves_again_what_served() {
    let world = World::start().await;
    let revision = world.add("p", 1, &world.guest("yes.wasm", true)).await;
    let before = world.replica(0).await;
    world
        .until_told(&revision, &format!("{READY} Ready[0]=True/PolicyReady"))
        .await;
    world.serve(&revision).await;
    before.stop().await;

    let after = world.replica(0).await;
    world.until_ready(&after).await;
    assert_eq!(
        world.ask(&after, "clusterwide-p").await,
        (200, Some(true)),
        "ready means that it serves"
    );
    world
        .until_told(&revision, &format!("{READY} Ready[0]=True/PolicyReady"))
        .await;
    after.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_serves_and_cannot_be_loaded_ends_the_start() {
    let world = World::start().await;
    let good = world.add("good", 1, &world.guest("good.wasm", true)).await;
    let lost = world.add("lost", 1, &world.guest("lost.wasm", false)).await;
    let before = world.replica(0).await;
    for revision in [&good, &lost] {
        world
            .until_told(revision, &format!("{READY} Ready[0]=True/PolicyReady"))
            .await;
    }
    world.serve(&good).await;
    before.stop().await;
    std::fs::remove_file(world.folder.path().join("lost.wasm")).unwrap();
    world.forget_replica(0);

    // Not serving: it says so, and serves the rest.
    let after = world.replica(0).await;
    world.until_ready(&after).await;
    world
        .until_told(&lost, &format!("{READY} Ready[0]=False/PullError"))
        .await;
    assert_eq!(
        world.ask(&after, "clusterwide-good").await,
        (200, Some(true))
    );

    // The revision serves after all.
    world.serve(&lost).await;
    eventually("it is not ready any more", || async {
        world.readiness(&after).await == 503
    })
    .await;
    assert_eq!(
        world.ask(&after, "clusterwide-good").await,
        (200, Some(true)),
        "everything else stays"
    );
    after.stop().await;

    // Serving: there is no start without it.
    world.forget_replica(0);
    let hopeless = world.replica(0).await;
    assert_ne!(world.readiness(&hopeless).await, 200);
    let end = hopeless.ends().await.unwrap_err();
    let cause = std::error::Error::source(&end).unwrap().to_string();
    assert!(cause.contains("clusterwide-lost: cannot read"), "{cause}");
    assert_eq!(
        world.told(&lost).await,
        format!("{READY} Ready[0]=False/PullError")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_ended_the_process_before_waits_until_the_rest_serves() {
    let world = World::start().await;
    let poison = world
        .add("poison", 1, &world.guest("poison.wasm", true))
        .await;
    let before = world.replica(0).await;
    world
        .until_told(&poison, &format!("{READY} Ready[0]=True/PolicyReady"))
        .await;
    before.stop().await;
    let loading = world.replica_folder(0).join("polity-loading");
    assert_eq!(
        std::fs::read_dir(&loading).unwrap().count(),
        0,
        "an orderly end leaves nothing"
    );

    let uid = world.revisions().get(&poison).await.unwrap().metadata.uid;
    std::fs::write(loading.join(uid.unwrap()), "3").unwrap();
    let after = world.replica(0).await;
    world.until_ready(&after).await;
    world
        .until_told(&poison, &format!("{READY} Ready[0]=False/LoadError"))
        .await;
    let status = world.status(&poison).await;
    let said = &status.conditions.last().unwrap().message;
    assert_eq!(
        said,
        "The policy server ended 3 times while it loaded the policy. The next attempt is made 1 minute after the \
         replica is ready."
    );
    let next = world.add("poison", 2, &world.guest("yes.wasm", true)).await;
    world
        .until_told(&next, &format!("{READY} Ready[0]=True/PolicyReady"))
        .await;
    after.stop().await;
}
