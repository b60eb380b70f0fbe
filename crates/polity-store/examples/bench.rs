//! Measures the store on this machine: `cargo run --release -p polity-store --example bench [DIRECTORY]`.
//!
//! Each line is a name, a number and a unit, separated by tabs. The directory should be on the disk to measure; the
//! default is the directory for temporary files. The benchmark removes its files at the end.

#![expect(clippy::print_stdout, reason = "the figures are this program's output")]

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use polity_store::{Change, Expect, Key, Options, Payload, Revision, Store, Write};

const MEASURE: Duration = Duration::from_secs(2);
const OBJECT_BYTES: usize = 2048;

fn main() {
    let directory = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let scratch = tempfile::tempdir_in(directory).expect("a directory to write to");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        measure_empty_stores(scratch.path()).await;
        for n_writers in [1, 4, 16, 64] {
            let options = Options::directory(scratch.path().join(format!("writers{n_writers}")));
            measure_writes("durable", &options, n_writers).await;
        }
        measure_writes("in-memory", &Options::memory(), 16).await;
        measure_fan_out(&scratch.path().join("fan-out"), 1000).await;
        measure_history(&scratch.path().join("history")).await;
    });
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

fn report(name: &str, value: f64, unit: &str) {
    println!("{name}\t{value:.0}\t{unit}");
}

fn write(name: &str) -> Write {
    let payload = Payload {
        before: vec![b'x'; OBJECT_BYTES / 2],
        after: vec![b'y'; OBJECT_BYTES / 2],
    };
    let key = Key::new("objects", "namespace", name);
    Write {
        key,
        expect: Expect::Anything,
        change: Change::Put(payload),
    }
}

/// A process may contain many clusters, so an empty store should need almost no memory.
async fn measure_empty_stores(scratch: &Path) {
    const N_STORES: usize = 21;
    let before = resident_kilobytes();
    let start = now();
    let stores: Vec<Store<()>> = (0..N_STORES)
        .map(|number| {
            let options = Options::directory(scratch.join(format!("empty{number}")));
            Store::open(&options).expect("a new store")
        })
        .collect();
    report(
        "open a new store",
        start.elapsed().as_micros() as f64 / N_STORES as f64,
        "µs",
    );
    let grown = resident_kilobytes().saturating_sub(before);
    report(
        "memory of an empty store",
        grown as f64 / N_STORES as f64,
        "kB",
    );
    for store in stores {
        store.close().await;
    }
}

async fn measure_writes(place: &str, options: &Options, n_writers: usize) {
    let store: Store<()> = Store::open(options).expect("a new store");
    let n_done = Arc::new(AtomicU64::new(0));
    let start = now();
    let writers: Vec<_> = (0..n_writers)
        .map(|writer| {
            let (store, n_done) = (store.clone(), Arc::clone(&n_done));
            tokio::spawn(async move {
                for number in 0.. {
                    if start.elapsed() > MEASURE {
                        return;
                    }
                    let name = format!("{writer}-{}", number % 100);
                    store.commit(write(&name)).await.expect("a write");
                    n_done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer");
    }
    let per_second = n_done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    report(
        &format!("{place} writes, {n_writers} writers"),
        per_second,
        "1/s",
    );
    store.close().await;
}

/// The events of one writer are sent to many watchers.
async fn measure_fan_out(directory: &Path, n_watchers: usize) {
    const N_WRITES: u64 = 2000;
    let store: Store<()> = Store::open(&Options::directory(directory)).expect("a new store");
    let start = now();
    let watchers: Vec<_> = (0..n_watchers)
        .map(|_| {
            let mut watch = store
                .watch("objects", Revision::FIRST)
                .expect("the beginning");
            tokio::spawn(async move {
                let mut n_seen = 0;
                while n_seen < N_WRITES {
                    n_seen += watch.next_page().await.expect("an event").len() as u64;
                }
            })
        })
        .collect();
    let writers: Vec<_> = (0..16)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..N_WRITES / 16 {
                    store
                        .commit(write(&writer.to_string()))
                        .await
                        .expect("a write");
                }
            })
        })
        .collect();
    for task in writers.into_iter().chain(watchers) {
        task.await.expect("a task");
    }
    let n_events = N_WRITES as f64 * n_watchers as f64;
    let per_second = n_events / start.elapsed().as_secs_f64();
    report(
        &format!("events to {n_watchers} watchers"),
        per_second,
        "1/s",
    );
    store.close().await;
}

/// Measures access to an old snapshot, and a restart.
async fn measure_history(directory: &Path) {
    const N_OBJECTS: u64 = 20_000;
    let options = Options::directory(directory);
    let store: Store<()> = Store::open(&options).expect("a new store");
    let writers: Vec<_> = (0..64)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in (writer..N_OBJECTS).step_by(64) {
                    store
                        .commit(write(&number.to_string()))
                        .await
                        .expect("a write");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer");
    }
    let newest = store.current().revision();
    let start = now();
    let snapshot = store
        .at(Revision(newest.0 - 1000))
        .expect("a recent revision");
    report(
        "snapshot of 1000 writes ago",
        start.elapsed().as_micros() as f64,
        "µs",
    );
    let start = now();
    let n_objects = snapshot.range("objects", None, None).count();
    let per_object = start.elapsed().as_nanos() as f64 / n_objects as f64;
    report("walk a snapshot, for each object", per_object, "ns");
    store.close().await;
    let start = now();
    let store: Store<()> = Store::open(&options).expect("the same store");
    report(
        "open with 20000 objects",
        start.elapsed().as_millis() as f64,
        "ms",
    );
    store.close().await;
}

/// The memory of this process, or 0 if the system does not report it.
fn resident_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
