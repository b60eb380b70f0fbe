//! Measures the policy server on this machine: `cargo xtask bench admission [SECONDS]`.
//!
//! One run measures:
//! - our server
//! - a server that echoes the same bodies, which shows the limit of HTTP and TLS
//! - the same guest in a loop without a server, which shows the limit of the guest
//! - another compatible server, if `POLITY_BENCH_PEER` names its binary
//!
//! Servers are separate processes. The clients run in this process and use a part of the machine's CPU time. Tables in
//! Markdown go to standard output.
//!
//! For tuning, instead of SECONDS: `quick [GUEST…]` prints one line per guest, `lines` measures the cost of a log
//! line, and `builds PROGRAM…` compares this build with other builds of this program.

#![expect(clippy::print_stdout, reason = "the figures are this program's output")]

mod guest;
mod load;
mod roles;
mod servers;
mod turns;
mod usage;

use std::iter;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use guest::Bare;
use load::{Load, Outcome};
use servers::{Fixture, Kind, Running};
use turns::{Servers, median};

/// The measured policies: a small guest that reads one field, and one that reads every container.
const GUESTS: [(&str, &str); 2] = [
    ("trivial", "default-namespace"),
    ("pod-privileged", "pod-privileged"),
];
const CONNECTIONS: [usize; 3] = [1, 8, 32];
/// The log levels with and without a line per request.
const LOGGED: &str = "info";
const QUIET: &str = "error";
/// How often compared servers are measured in turn, because the speed of the machine varies from second to second.
const TURNS: usize = 7;
/// More turns for small differences.
const FINE_TURNS: usize = 21;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", fixture, level] => roles::serve(&PathBuf::from(fixture), level),
        ["echo", fixture] => roles::echo(&PathBuf::from(fixture)),
        ["lines"] => lines(Duration::from_secs(2)),
        ["builds", ref others @ ..] => builds(others, Duration::from_millis(500)),
        ["quick", ref only @ ..] => quick(Duration::from_secs(1), only),
        [seconds] => measure(Duration::from_secs_f64(seconds.parse().expect("seconds"))),
        _ => measure(Duration::from_secs(1)),
    }
}

/// Prints one line with the most important figures per guest, for tuning. `only` selects guests.
fn quick(each: Duration, only: &[&str]) {
    let wanted = |name| only.is_empty() || only.contains(&name);
    for (name, module) in GUESTS.into_iter().filter(|(name, _)| wanted(*name)) {
        let guest = Bare::new(&servers::module(module));
        let fixture = Fixture::new(module, 1, true);
        let mut servers = Servers::start(&fixture);
        let turns = servers.take_turns(&guest, &fixture, 8, each);
        println!("{name}: {}", turns.line());
    }
}

/// Compares this build of the server with others, each given by its bench program.
fn builds(others: &[&str], each: Duration) {
    let fixture = Fixture::new(GUESTS[1].1, 1, true);
    let start = |kind| Running::start(&fixture, kind);
    let others = others.iter().map(|path| Kind::Build(PathBuf::from(path)));
    let mut servers: Vec<Running> = iter::once(Kind::Ours(LOGGED))
        .chain(others)
        .map(start)
        .collect();
    let turn = |_| {
        let drive = |server| drive(server, &fixture, 8, each);
        servers.iter_mut().map(drive).collect::<Vec<Outcome>>()
    };
    let turns: Vec<Vec<Outcome>> = (0..2 * FINE_TURNS).map(turn).collect();
    for n in 0..turns[0].len() {
        let of = |figure: fn(&Outcome) -> f64| median(turns.iter().map(|turn| figure(&turn[n])));
        let ratio = median(turns.iter().map(|turn| turn[n].rate() / turn[0].rate()));
        println!(
            "build {n}: {:.0}/s ({:.0} µs server, {:.0} µs client), {:.1} % of build 0",
            of(Outcome::rate),
            of(Outcome::server_us),
            of(Outcome::client_us),
            100.0 * ratio,
        );
    }
}

fn measure(each: Duration) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "{cores} cores, {each:?} each, a review of {} bytes\n",
        load::review().len()
    );
    for (name, module) in GUESTS {
        table(name, module, each);
    }
    lines(each);
    sizes(each);
}

/// Measures the cost of one log line per request.
fn lines(each: Duration) {
    let fixture = Fixture::new(GUESTS[0].1, 1, true);
    let mut servers = [LOGGED, QUIET].map(|level| Running::start(&fixture, Kind::Ours(level)));
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..FINE_TURNS {
        for (server, runs) in servers.iter_mut().zip(&mut runs) {
            runs.push(drive(server, &fixture, 8, each));
        }
    }
    let [logged, quiet] = runs;
    // Compare measurements that were taken directly one after the other, under the same conditions.
    let cost = median(
        logged
            .iter()
            .zip(&quiet)
            .map(|(logged, quiet)| 100.0 * (1.0 - logged.rate() / quiet.rate())),
    );
    println!(
        "### A log line for each request, {}, HTTPS, 8 connections, median of {FINE_TURNS}\n\n| log lines | requests/s | CPU each |\n|---|---|---|",
        GUESTS[0].0
    );
    for (name, runs) in [("yes", logged), ("no", quiet)] {
        println!(
            "| {name} | {:.0} | {:.0} µs |",
            median(runs.iter().map(Outcome::rate)),
            median(runs.iter().map(Outcome::server_us)),
        );
    }
    println!("\nA line costs {cost:.1} % of the throughput.\n");
}

/// Requests per second by number of connections, with and without TLS.
fn table(name: &str, module: &str, each: Duration) {
    let guest = Bare::new(&servers::module(module));
    println!(
        "### {name}, median of {TURNS}\n\n| | connections | guest | echo/s | ours/s | of the limit | least to most | CPU each | p50 | p99 | peer/s | peer p99 |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for is_tls in [false, true] {
        let fixture = Fixture::new(module, 1, is_tls);
        let mut servers = Servers::start(&fixture);
        for n in CONNECTIONS {
            let turns = servers.take_turns(&guest, &fixture, n, each);
            let wire = if is_tls { "HTTPS" } else { "HTTP" };
            println!("| {wire} | {n} | {} |", turns.row());
        }
    }
    println!();
}

/// Time until ready and memory by number of policies, each with a separate module.
fn sizes(each: Duration) {
    println!(
        "### Start and memory, pod-privileged, HTTPS, 8 connections\n\n| policies | server | cold | warm | memory at start | under load | requests/s |\n|---|---|---|---|---|---|---|"
    );
    for n in [1, 20, 100] {
        let fixture = Fixture::new("pod-privileged", n, true);
        start_and_memory(&fixture, "ours", Kind::Ours(LOGGED), each);
        if let Some(binary) = servers::peer() {
            start_and_memory(&fixture, "peer", Kind::Peer(binary), each);
        }
    }
}

fn start_and_memory(fixture: &Fixture, name: &str, kind: Kind, each: Duration) {
    fixture.delete_store();
    let cold = Running::start(fixture, kind.clone()).took;
    let mut running = Running::start(fixture, kind);
    let (warm, idle) = (running.took, running.resident_mb());
    let outcome = drive(&mut running, fixture, 8, each);
    println!(
        "| {} | {name} | {:.0} ms | {:.0} ms | {idle:.0} MB | {:.0} MB | {:.0} |",
        fixture.n_policies,
        cold.as_secs_f64() * 1e3,
        warm.as_secs_f64() * 1e3,
        running.resident_mb(),
        outcome.rate(),
    );
}

fn drive(running: &mut Running, fixture: &Fixture, connections: usize, each: Duration) -> Outcome {
    // Warm up slots, connections and caches before the measurement.
    Load::new(running, fixture, connections).run(each / 4);
    Load::new(running, fixture, connections).run(each)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
