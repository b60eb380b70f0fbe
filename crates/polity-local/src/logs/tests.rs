//! What Pods say comes back as it was asked for, over files, runs and followers.

use futures::StreamExt as _;
use jiff::Timestamp;
use std::time::Duration;

use super::*;

struct LogFolder {
    folder: tempfile::TempDir,
    logs: Logs,
    clock: Clock,
}

fn folder(limits: Limits) -> LogFolder {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::manual("2026-11-16T12:00:00Z".parse::<Timestamp>().unwrap());
    let logs = Logs::new(folder.path().to_owned(), limits, clock.clone());
    LogFolder {
        folder,
        logs,
        clock,
    }
}

impl LogFolder {
    fn say(&self, run: i32, text: &str) {
        let writer = self.logs.begin("team", "web-0", "u", run).unwrap();
        writer.drain(text.as_bytes());
    }

    async fn read(&self, query: LogQuery) -> Option<String> {
        let stream = self.logs.open("team", "web-0", query)?;
        Some(collect(stream).await)
    }
}

async fn collect(stream: LogStream) -> String {
    let chunks: Vec<_> = stream.collect().await;
    let bytes: Vec<u8> = chunks.into_iter().flat_map(Result::unwrap).collect();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn lines_come_back_as_they_were_asked_for() {
    let folder = folder(Limits::default());
    assert_eq!(folder.read(LogQuery::default()).await, None);
    folder.say(0, "one\ntwo\n\nlast without an end");
    let check = async |query: LogQuery, expected: &str| {
        assert_eq!(
            folder.read(query.clone()).await.as_deref(),
            Some(expected),
            "{query:?}"
        );
    };
    let whole = "one\ntwo\n\nlast without an end\n";
    check(LogQuery::default(), whole).await;
    let follow = LogQuery {
        follow: true,
        ..LogQuery::default()
    };
    check(follow, whole).await;
    let tail = |lines| LogQuery {
        tail_lines: Some(lines),
        ..LogQuery::default()
    };
    check(tail(0), "").await;
    check(tail(1), "last without an end\n").await;
    check(tail(99), whole).await;
    let limit = LogQuery {
        limit_bytes: Some(5),
        ..LogQuery::default()
    };
    check(limit, "one\nt").await;
    let timed = LogQuery {
        timestamps: true,
        tail_lines: Some(1),
        ..LogQuery::default()
    };
    check(
        timed,
        "2026-11-16T12:00:00.000000000Z last without an end\n",
    )
    .await;
    let since = |seconds| LogQuery {
        since_seconds: Some(seconds),
        ..LogQuery::default()
    };
    folder.clock.advance(Duration::from_mins(1));
    check(since(60), whole).await;
    check(since(59), "").await;
}

#[tokio::test]
async fn the_run_before_is_kept_and_no_other() {
    let folder = folder(Limits::default());
    let previous = LogQuery {
        previous: true,
        ..LogQuery::default()
    };
    folder.say(0, "zero\n");
    assert_eq!(folder.read(previous.clone()).await, None);
    folder.say(1, "one\n");
    assert_eq!(
        folder.read(previous.clone()).await.as_deref(),
        Some("zero\n")
    );
    folder.say(2, "two\n");
    assert_eq!(folder.read(previous).await.as_deref(), Some("one\n"));
    let kept = std::fs::read_dir(folder.folder.path().join("team_web-0_u")).unwrap();
    assert_eq!(kept.count(), 2);
    folder.logs.remove("team", "web-0", "u");
    assert_eq!(folder.read(LogQuery::default()).await, None);
    assert_eq!(std::fs::read_dir(folder.folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn old_files_go_when_there_are_too_many() {
    let limits = Limits {
        file_bytes: 100,
        files: 2,
    };
    let folder = folder(limits);
    let lines: Vec<String> = (0..20).map(|n| format!("line {n:02}\n")).collect();
    let text = lines.concat();
    folder.say(0, &text);
    let read = folder.read(LogQuery::default()).await.unwrap();
    // A kept line has 39 bytes, so a file has two.
    assert_eq!(read, "line 16\nline 17\nline 18\nline 19\n");
}

#[tokio::test]
async fn a_follower_sees_everything_over_all_files_and_ends_with_the_run() {
    let limits = Limits {
        file_bytes: 100,
        files: 1000,
    };
    let folder = folder(limits);
    let writer = folder.logs.begin("team", "web-0", "u", 0).unwrap();
    let follow = LogQuery {
        follow: true,
        ..LogQuery::default()
    };
    let stream = folder.logs.open("team", "web-0", follow).unwrap();
    let reader = tokio::spawn(collect(stream));
    let lines: Vec<String> = (0..300).map(|n| format!("line {n}\n")).collect();
    let text = lines.concat();
    let said = text.clone();
    let (source, mut sink) = std::io::pipe().unwrap();
    let draining = tokio::task::spawn_blocking(move || writer.drain(source));
    tokio::task::spawn_blocking(move || {
        for line in said.split_inclusive('\n') {
            std::io::Write::write_all(&mut sink, line.as_bytes()).unwrap();
        }
    })
    .await
    .unwrap();
    draining.await.unwrap();
    assert_eq!(reader.await.unwrap(), text);
}

#[tokio::test]
async fn a_line_without_end_is_kept_in_pieces() {
    let folder = folder(Limits::default());
    folder.say(0, &"x".repeat(40_000));
    let read = folder.read(LogQuery::default()).await.unwrap();
    let lengths: Vec<usize> = read.lines().map(str::len).collect();
    assert_eq!(lengths, [16_384, 16_384, 40_000 - 2 * 16_384]);
}
