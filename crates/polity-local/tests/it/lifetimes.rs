//! Children end with their parent, however it ends.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use polity_testing::eventually;

use crate::cluster::{is_alive, program};

#[tokio::test]
async fn a_killed_runtime_leaves_no_process_behind() {
    let mut runtime = Command::new(program())
        .args(["runtime", "family"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(runtime.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let pids: Vec<i32> = line
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert_eq!(pids.len(), 2, "{line}");
    assert!(pids.iter().all(|pid| is_alive(*pid)));

    runtime.kill().unwrap();
    runtime.wait().unwrap();
    eventually("child and grandchild are gone", || async {
        !pids.iter().any(|pid| is_alive(*pid))
    })
    .await;
}
