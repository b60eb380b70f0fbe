//! Ten thousand writes by four writers: no watcher misses an event or sees one twice, across a stop and a crash of the
//! server (section 22).

use crate::crew::Crew;
use crate::host::Host;
use crate::world::block_on;

const WRITES: u64 = 10_000;

#[test]
fn no_event_is_missed_or_doubled_in_ten_thousand_writes() {
    block_on(async {
        let mut host = Host::start();
        let mut crew = Crew::start(&host).await;
        crew.written(WRITES / 3).await;
        host.terminate();
        host.start_again();
        crew.written(WRITES / 3).await;
        host.kill();
        host.start_again();
        crew.written(WRITES / 3 + 1).await;
        let summary = crew.finish().await;
        eprintln!("{summary}");
        assert!(summary.n_writes as u64 >= WRITES, "{summary}");
    });
}
