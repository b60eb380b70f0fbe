//! Measures the policy lifecycle on this machine: `cargo xtask bench lifecycle [quick]`.
//!
//! It runs the real `polity up`, with replicas as separate processes, and measures:
//! - the time from `apply` to `Active`
//! - the API requests that a change causes, and those of a minute without changes
//! - the time until a restarted replica is ready
//! - the memory of a loaded policy
//! - many policies on many replicas
//! - lost and wrong responses while policies change under load
//!
//! It prints Markdown tables to standard output.

#![expect(clippy::print_stdout, reason = "the figures are this program's output")]

mod counts;
mod goals;
mod hub;
mod replica;
mod stream;
mod swarm;

use std::time::Duration;

use counts::Counts;
use e2e::module::{self, Supply};
use goals::Goals;
use hub::Hub;

/// Size of a policy module that contains a complete SDK.
const LARGE: usize = 3_500_000;
/// The drain time of `polity up`, plus time for the cleanup after it.
const SETTLED_AFTER: Duration = Duration::from_secs(15);

/// The size of each measurement.
struct Extent {
    /// Policies that are created one after the other.
    singles: usize,
    /// Policies that are created at the same time.
    crowd: usize,
    /// Policies that a restarted replica loads.
    loaded: usize,
    changes: usize,
    idle: Duration,
    /// Number of replicas, and of policies that they load at the same time.
    swarm: (usize, usize),
    /// Requests per second, and policy changes during the stream.
    stream: (u32, usize),
}

const FULL: Extent = Extent {
    singles: 9,
    crowd: 200,
    loaded: 100,
    changes: 5,
    idle: Duration::from_mins(1),
    swarm: (20, 100),
    stream: (1000, 20),
};
const QUICK: Extent = Extent {
    singles: 3,
    crowd: 12,
    loaded: 12,
    changes: 2,
    idle: Duration::from_secs(20),
    swarm: (5, 12),
    stream: (200, 5),
};

#[tokio::main]
async fn main() {
    let extent = match std::env::args().nth(1).as_deref() {
        Some("quick") => QUICK,
        _ => FULL,
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let hub = Hub::start().await;
    let code = module::policy();
    let mut small = Supply::new(&hub.folder().join("small"), code.clone());
    let large = module::enlarged(&code, LARGE);
    let mut large = Supply::new(&hub.folder().join("large"), large);
    println!(
        "{cores} cores; a small module has {} kB, a large one {} kB\n",
        small.size() / 1000,
        large.size() / 1000
    );
    let mut goals = Goals::default();
    arrivals(&hub, &extent, &mut small, &mut large, &mut goals).await;
    changes(&hub, &extent, &mut small, &mut goals).await;
    starts(&hub, &extent, &mut small, &mut goals).await;
    hub.delete_all().await;
    goals.swarm = Some(swarm::measure(&hub, &extent, &mut small).await);
    goals.stream = Some(stream::measure(&hub, extent.stream).await);
    goals.print();
}

/// Measures the time from `apply` to `Active`: first with modules that are not in the cache, then with the same
/// modules, which are compiled but not loaded.
async fn arrivals(
    hub: &Hub,
    extent: &Extent,
    small: &mut Supply,
    large: &mut Supply,
    goals: &mut Goals,
) {
    println!(
        "### From apply to Active\n\n| module | | replicas | policies | p50 | max |\n|---|---|---|---|---|---|"
    );
    for replicas in [1, 3] {
        hub.scale(replicas).await;
        for (size, supply) in [("small", &mut *small), ("large", &mut *large)] {
            let named = named("single", supply.fresh(extent.singles));
            for what in ["new", "cached"] {
                let mut took = Vec::new();
                for (name, module) in &named {
                    took.push(hub.create(name, module).await);
                }
                let p50 = row(size, what, replicas, "1", took);
                if (size, what, replicas) == ("large", "cached", 3) {
                    goals.cached_large_on_three = Some(p50);
                }
                hub.delete(named.iter().map(|(name, _)| name.clone()).collect())
                    .await;
            }
        }
        let named = named("crowd", small.fresh(extent.crowd));
        for what in ["new", "cached"] {
            let took = hub.create_all(named.clone()).await;
            let policies = format!("{} at once", extent.crowd);
            row("small", what, replicas, &policies, took);
            if what == "cached" {
                let one = large.fresh(1).remove(0);
                let took = hub.create("beside", &one).await;
                let beside = format!("1 beside {}", extent.crowd);
                row("large", "new", replicas, &beside, vec![took]);
                hub.delete(vec!["beside".to_owned()]).await;
                let took = hub.create("beside", &one).await;
                row("large", "cached", replicas, &beside, vec![took]);
            }
            hub.delete_all().await;
        }
    }
    println!();
}

/// Measures the API requests that a change causes, and those without a change.
async fn changes(hub: &Hub, extent: &Extent, small: &mut Supply, goals: &mut Goals) {
    println!(
        "### What a change of a policy costs\n\n| replicas | requests | successful writes | of these |\n|---|---|---|---|"
    );
    for replicas in [1, 3] {
        hub.scale(replicas).await;
        let named = named("changing", small.fresh(extent.changes));
        let others = small.fresh(extent.changes);
        hub.create_all(named.clone()).await;
        hub.clock.sleep(SETTLED_AFTER).await;
        let before = Counts::now(&hub.client).await;
        for ((name, _), other) in named.iter().zip(&others) {
            hub.change(name, other).await;
        }
        hub.clock.sleep(SETTLED_AFTER).await;
        let counted = Counts::now(&hub.client).await.since(&before);
        let each = |n: u64| n as f64 / extent.changes as f64;
        println!(
            "| {replicas} | {:.1} | {:.1} | {} in {} changes |",
            each(counted.requests()),
            each(counted.writes()),
            counted.shown(),
            extent.changes,
        );
        goals
            .writes_of_change
            .push((replicas, each(counted.writes())));
        if replicas == 1 {
            hub.delete_all().await;
        }
    }
    let before = Counts::now(&hub.client).await;
    hub.clock.sleep(extent.idle).await;
    let counted = Counts::now(&hub.client).await.since(&before);
    println!(
        "\nIdle for {:?} with 3 replicas: {} requests, {} writes besides renewals of Leases. {}\n",
        extent.idle,
        counted.requests(),
        counted.writes(),
        counted.shown()
    );
    goals.idle_writes = counted.writes();
    hub.delete_all().await;
}

/// Measures the restart of a replica, and its memory.
async fn starts(hub: &Hub, extent: &Extent, small: &mut Supply, goals: &mut Goals) {
    hub.scale(1).await;
    let (empty, took_empty) = hub.restart().await;
    let empty_mb = empty.resident_mb();
    hub.create_all(named("loaded", small.fresh(extent.loaded)))
        .await;
    hub.clock.sleep(SETTLED_AFTER).await;
    let (warm, took_warm) = hub.restart().await;
    let warm_mb = warm.resident_mb();
    hub.forget_compiled();
    let (cold, took_cold) = hub.restart().await;
    let cold_mb = cold.resident_mb();
    println!(
        "### A replica that starts\n\n| policies | | ready after | memory | for each policy |\n|---|---|---|---|---|"
    );
    println!("| 0 | | {} | {empty_mb:.0} MB | |", shown(took_empty));
    for (what, took, memory) in [
        ("cached", took_warm, warm_mb),
        ("compiled", took_cold, cold_mb),
    ] {
        println!(
            "| {} | {what} | {} | {memory:.0} MB | {:.2} MB |",
            extent.loaded,
            shown(took),
            (memory - empty_mb) / extent.loaded as f64
        );
    }
    println!();
    goals.warm = took_warm;
    goals.cold = took_cold;
}

/// Prints a table row about new policies, and returns the median.
fn row(
    size: &str,
    what: &str,
    replicas: usize,
    policies: &str,
    mut took: Vec<Duration>,
) -> Duration {
    took.sort();
    let p50 = took[took.len() / 2];
    let max = took[took.len() - 1];
    println!(
        "| {size} | {what} | {replicas} | {policies} | {} | {} |",
        shown(p50),
        shown(max)
    );
    p50
}

fn named(prefix: &str, modules: Vec<String>) -> Vec<(String, String)> {
    let name = |(n, module)| (format!("{prefix}-{n}"), module);
    modules.into_iter().enumerate().map(name).collect()
}

fn shown(took: Duration) -> String {
    match took.as_millis() {
        millis @ 0..10_000 => format!("{millis} ms"),
        _ => format!("{:.1} s", took.as_secs_f64()),
    }
}
