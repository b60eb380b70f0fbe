//! Measures many replicas that load many policies at the same time. Each replica writes its status for each policy
//! into shared objects.

use e2e::module::Supply;

use crate::counts::Counts;
use crate::hub::Hub;
use crate::{Extent, SETTLED_AFTER, named, shown};

/// The figures for which there is a goal.
pub(crate) struct Swarm {
    /// Status entries that are missing.
    pub(crate) n_missing: usize,
    pub(crate) idle_writes: u64,
}

pub(crate) async fn measure(hub: &Hub, extent: &Extent, small: &mut Supply) -> Swarm {
    let (n_replicas, n_policies) = extent.swarm;
    hub.scale(n_replicas).await;
    // All policies use one module, which is compiled once, so that they become active as fast as possible.
    let module = small.fresh(1).remove(0);
    hub.create("first", &module).await;
    hub.clock.sleep(SETTLED_AFTER).await;
    let before = Counts::now(&hub.client).await;
    let began = hub.clock.moment();
    hub.create_all(named("swarm", vec![module; n_policies]))
        .await;
    let took = hub.clock.moment().since(began);
    hub.clock.sleep(SETTLED_AFTER).await;
    let at_rest = Counts::now(&hub.client).await;
    let counted = at_rest.since(&before);
    let n_missing = missing(&hub.entries().await, n_replicas, n_policies + 1);
    hub.clock.sleep(extent.idle).await;
    let idle = Counts::now(&hub.client).await.since(&at_rest);
    println!(
        "### Many replicas, many policies\n\n| replicas | policies at once | every entry is there after | entries missing \
         | requests | successful writes | conflicts | then, in {:?}, writes |\n|---|---|---|---|---|---|---|---|",
        extent.idle
    );
    println!(
        "| {n_replicas} | {n_policies} | {} | {n_missing} | {} | {} | {} | {} |\n\nOf these writes: {}.\n",
        shown(took),
        counted.requests(),
        counted.writes(),
        counted.conflicts(),
        idle.writes(),
        counted.shown(),
    );
    if idle.writes() > 0 {
        eprintln!("  written at rest: {}", idle.shown());
    }
    hub.delete_all().await;
    Swarm {
        n_missing,
        idle_writes: idle.writes(),
    }
}

/// Counts the missing entries: one is expected for each replica in each revision.
fn missing(entries: &[Vec<u64>], n_replicas: usize, n_revisions: usize) -> usize {
    let found = |ready: &Vec<u64>| {
        let is_there = |replica: &u64| ready.contains(replica);
        (0..n_replicas as u64).filter(is_there).count()
    };
    let n_found: usize = entries.iter().map(found).sum();
    (n_replicas * n_revisions).saturating_sub(n_found)
}
