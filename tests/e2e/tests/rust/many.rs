//! Ten thousand writes by four writers: no watcher misses an event or sees one twice, across a stop and a crash of the
//! server.

use crate::host::Host;
use crate::test_namespace::block_on;
use crate::workload::Workload;

const WRITES: u64 = 10_000;

#[test]
fn no_event_is_missed_or_doubled_in_ten_thousand_writes() {
    block_on(async {
        let mut host = Host::start();
        let mut workload = Workload::start(&host).await;
        workload.written(WRITES / 3).await;
        host.terminate();
        host.start_again();
        workload.written(WRITES / 3).await;
        host.kill();
        host.start_again();
        workload.written(WRITES / 3 + 1).await;
        let summary = workload.finish().await;
        eprintln!("{summary}");
        assert!(summary.n_writes as u64 >= WRITES, "{summary}");
    });
}
