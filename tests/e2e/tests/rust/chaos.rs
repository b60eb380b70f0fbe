//! The crash test kills the server again and again while writers and watchers are connected. No acknowledged write is
//! lost, no deleted object comes back, versions only grow, and watchers see each change once and in order.

use crate::host::Host;
use crate::test_namespace::block_on;
use crate::workload::Workload;

/// A short run. `POLITY_SERVER_CRASHES=300`, which `cargo xtask chaos` sets, makes it a long run.
#[expect(
    clippy::disallowed_methods,
    reason = "a tool of tests, not a service with flags"
)]
fn n_crashes() -> u64 {
    std::env::var("POLITY_SERVER_CRASHES").map_or(15, |number| number.parse().unwrap())
}

#[test]
fn nothing_is_lost_when_the_server_is_killed() {
    block_on(async {
        let mut host = Host::start();
        let mut workload = Workload::start(&host).await;
        for crash in 0..n_crashes() {
            // 1 to 160 writes after the start.
            workload.written(1 + crash * 37 % 160).await;
            host.kill();
            host.start_again();
        }
        workload.written(100).await;
        let summary = workload.finish().await;
        eprintln!("{} crashes, {summary}", n_crashes());
    });
}
