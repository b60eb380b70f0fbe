//! The crash test: the server is killed again and again under writers and watchers. Nothing acknowledged is lost, nothing
//! deleted comes back, versions only grow, and watchers see each change once and in order.

use crate::crew::Crew;
use crate::host::Host;
use crate::world::block_on;

/// A short cut; `POLITY_SERVER_CRASHES=300`, which `cargo xtask chaos` sets, makes it a long run.
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
        let mut crew = Crew::start(&host).await;
        for crash in 0..n_crashes() {
            // Between the first write after a start and a hundred and sixty later.
            crew.written(1 + crash * 37 % 160).await;
            host.kill();
            host.start_again();
        }
        crew.written(100).await;
        let summary = crew.finish().await;
        eprintln!("{} crashes, {summary}", n_crashes());
    });
}
