//! A process that writes is killed again and again; the next one must find every write that was
//! acknowledged, no object that was deleted, and no gap in the history.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use polity_store::{Expect, HistoryLimits, Key, Options, Revision};

use crate::support::{TestStore, delete, env, open, put, show_event, text};

const WRITERS: usize = 4;
const KEYS_PER_WRITER: usize = 3;

/// Small, so that events leave the history while the writer is killed.
fn options(directory: &Path) -> Options {
    let history = HistoryLimits {
        per_bucket: 500,
        at_least: 400,
        ..HistoryLimits::default()
    };
    Options {
        history,
        ..Options::directory(directory)
    }
}

fn key(name: &str) -> Key {
    Key::new("b", "ns", name)
}

/// Writes until it is killed. It prints each attempt before the write, and each acknowledgement after it.
///
/// It is a test so that the test binary can be started as this process. Without the variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(directory) = env("POLITY_STORE_CRASH_DIRECTORY") else {
        return;
    };
    let store = open(&options(Path::new(&directory)));
    // Ends the line that the test harness has begun.
    say("\n");
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write_for_ever(store.clone(), writer)))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

async fn write_for_ever(store: TestStore, writer: usize) {
    for number in 0u64.. {
        let name = format!("{writer}-{}", number % KEYS_PER_WRITER as u64);
        let key = key(&name);
        let exists = store.current().get(&key).is_some();
        // Half of the changes to existing objects are deletions.
        let content = format!("{number}{}", "x".repeat(number as usize % 3000));
        let (sign, write) = if exists && number % 2 == 0 {
            ("-", delete(&key, Expect::Anything, &content))
        } else {
            ("+", put(&key, Expect::Anything, &content))
        };
        say(&format!("try {name} {sign} {content}\n"));
        let object = store.commit(write).await.unwrap();
        say(&format!("ack {name} {}\n", object.revision));
    }
}

/// One write call for each line, so that a kill leaves whole lines and at most one without an end.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).unwrap();
    out.flush().unwrap();
}

/// The parent's knowledge of a key: the last acknowledged write, and the attempts since then.
#[derive(Default)]
struct Known {
    /// The content and its revision; none if the last acknowledged write was a deletion.
    acknowledged: Option<(String, Revision)>,
    tried: Option<Attempt>,
}

struct Attempt {
    deletes: bool,
    content: String,
}

#[derive(Default)]
struct Witness {
    keys: BTreeMap<String, Known>,
    /// The newest revision that was acknowledged.
    newest: Revision,
    n_acknowledged: usize,
}

impl Witness {
    fn hear(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["try", name, sign, content] => {
                let attempt = Attempt {
                    deletes: sign == "-",
                    content: content.to_owned(),
                };
                self.keys.entry(name.to_owned()).or_default().tried = Some(attempt);
            }
            ["ack", name, revision] => {
                let revision = revision.parse().unwrap();
                let known = self.keys.get_mut(name).expect("a try comes before its ack");
                let attempt = known.tried.take().expect("one ack for each try");
                known.acknowledged = (!attempt.deletes).then_some((attempt.content, revision));
                self.newest = self.newest.max(revision);
                self.n_acknowledged += 1;
            }
            // Output of the test harness.
            _ => {}
        }
    }

    /// Compares the stored objects with the acknowledged writes, and adopts the result of attempts without an
    /// acknowledgement.
    fn check(&mut self, store: &TestStore) {
        let snapshot = store.current();
        assert!(
            snapshot.revision() >= self.newest,
            "an acknowledged revision is gone"
        );
        assert_eq!(
            snapshot
                .range("b", None, None)
                .filter(|object| !self.keys.contains_key(&*object.key.name))
                .count(),
            0,
            "objects that were never written"
        );
        for (name, known) in &mut self.keys {
            let found = snapshot.get(&key(name));
            let found = found.map(|object| {
                let text = text(object);
                let (content, spliced) = text.rsplit_once('@').unwrap();
                assert_eq!(spliced, object.revision.to_string());
                (content.to_owned(), object.revision)
            });
            let as_tried = known.tried.take().is_some_and(|attempt| match &found {
                None => attempt.deletes,
                Some((content, _)) => !attempt.deletes && *content == attempt.content,
            });
            assert!(
                found == known.acknowledged || as_tried,
                "{name} is {found:?}, acknowledged was {:?}",
                known.acknowledged
            );
            known.acknowledged = found;
        }
        self.newest = snapshot.revision();
    }
}

/// Lets a child acknowledge this many writes, kills it, and reads the rest of its output.
fn write_and_kill(directory: &Path, n_writes: usize, delay: Duration, witness: &mut Witness) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--nocapture", "--quiet"])
        .env("POLITY_STORE_CRASH_DIRECTORY", directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let enough = witness.n_acknowledged + n_writes;
    let mut line = String::new();
    while lines.read_line(&mut line).unwrap() > 0 {
        if let Some(whole) = line.strip_suffix('\n') {
            witness.hear(whole);
        }
        line.clear();
        if witness.n_acknowledged == enough {
            std::thread::sleep(delay); // tidy: not to wait for something, but to hit another phase of a transaction
            // SIGKILL. Earlier output is still in the pipe.
            child.kill().unwrap();
        }
    }
    assert!(
        !child.wait().unwrap().success(),
        "the child ends only by being killed"
    );
    assert!(
        witness.n_acknowledged >= enough,
        "the child stopped by itself"
    );
}

/// A short run. `POLITY_STORE_CRASHES=500` makes it a long run.
#[tokio::test]
async fn killed_at_any_moment_nothing_acknowledged_is_lost() {
    let n_crashes = env("POLITY_STORE_CRASHES").map_or(25, |number| number.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut witness = Witness::default();
    let mut seen = Revision::FIRST;
    let mut replayed: BTreeMap<String, String> = BTreeMap::new();
    for crash in 0..n_crashes {
        let delay = Duration::from_micros(crash * 137 % 2500);
        write_and_kill(&data, 1 + (crash as usize * 17) % 80, delay, &mut witness);

        let store = open(&options(&data));
        witness.check(&store);
        // A watcher that resumes where it was sees each change once and in order: all writes are in
        // one bucket.
        let mut watch = store.watch("b", seen).unwrap();
        while let Some(event) = watch.try_next().unwrap() {
            assert_eq!(event.revision, seen.next(), "{}", show_event(&event));
            seen = event.revision;
            let name = event.object.key.name.to_string();
            if event.deleted {
                assert!(replayed.remove(&name).is_some());
            } else {
                replayed.insert(name, text(&event.object));
            }
        }
        let current = store.current();
        assert_eq!(seen, current.revision());
        let objects = current.range("b", None, None);
        let objects: BTreeMap<_, _> = objects
            .map(|object| (object.key.name.to_string(), text(object)))
            .collect();
        assert_eq!(replayed, objects, "the events lead to the objects");
        store.close().await;
    }
}
