//! How fast the policy server is on this machine: `cargo xtask bench admission [SECONDS]`.
//!
//! In one run: our server, an echo of the same bodies (the limit of the wire), the same guest in a bare
//! loop (the limit of the guest) and, if `POLITY_BENCH_PEER` names the binary of a compatible server,
//! that one. Servers are processes of their own; the clients, which take their share of the machine,
//! are this one. Tables in Markdown go to standard output.

#![expect(clippy::print_stdout, reason = "the figures are this program's output")]

mod guest;
mod load;
mod roles;
mod servers;
mod usage;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use load::{Load, Outcome};
use servers::{Kind, Running, Scene};

/// What a policy costs: a small guest that looks at one field, and one that reads every container.
const GUESTS: [(&str, &str); 2] = [
    ("trivial", "default-namespace"),
    ("pod-privileged", "pod-privileged"),
];
const CONNECTIONS: [usize; 3] = [1, 8, 32];
/// The level with one line for each request, and the one without.
const LOGGED: &str = "info";
const QUIET: &str = "error";
/// How often the two are measured in turn: the machine's mood changes from second to second.
const TURNS: usize = 7;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", scene, level] => roles::serve(&PathBuf::from(scene), level),
        ["echo", scene] => roles::echo(&PathBuf::from(scene)),
        ["lines"] => lines(Duration::from_secs(2)),
        ["quick"] => quick(Duration::from_secs(3)),
        [seconds] => measure(Duration::from_secs_f64(seconds.parse().expect("seconds"))),
        _ => measure(Duration::from_secs(2)),
    }
}

/// One line for each thing that matters most, for whoever tunes.
fn quick(each: Duration) {
    for (name, module) in GUESTS {
        let guest = guest::bare(&servers::module(module), each);
        let scene = Scene::new(module, 1, true);
        let echo = run(&scene, Kind::Echo, 8, each);
        let ours = run(&scene, Kind::Ours(LOGGED), 8, each);
        let limit = limit(&echo, guest);
        println!(
            "{name}: guest {:.0} µs, echo {:.0}/s {:.0} µs, ours {:.0}/s ({:.0} µs server, {:.0} µs client), p99 {:.1} ms, {:.0}% of {limit:.0}",
            guest.as_secs_f64() * 1e6,
            echo.rate(),
            echo.cpu_us(),
            ours.rate(),
            ours.server_us(),
            ours.client_us(),
            ours.p99_ms(),
            100.0 * ours.rate() / limit,
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

/// What one log line for each request costs.
fn lines(each: Duration) {
    let scene = Scene::new(GUESTS[0].1, 1, true);
    let mut servers = [LOGGED, QUIET].map(|level| Running::start(&scene, Kind::Ours(level)));
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (server, runs) in servers.iter_mut().zip(&mut runs) {
            runs.push(drive(server, &scene, 8, each));
        }
    }
    let [logged, quiet] = runs.map(|runs| {
        (
            median(&runs, Outcome::rate),
            median(&runs, Outcome::server_us),
        )
    });
    println!(
        "### A log line for each request, {}, HTTPS, 8 connections, median of {TURNS}\n\n| log lines | requests/s | CPU each |\n|---|---|---|\n| yes | {:.0} | {:.0} µs |\n| no | {:.0} | {:.0} µs |\n",
        GUESTS[0].0, logged.0, logged.1, quiet.0, quiet.1,
    );
}

fn median(runs: &[Outcome], of: fn(&Outcome) -> f64) -> f64 {
    let mut figures: Vec<f64> = runs.iter().map(of).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Requests per second over connections, with and without TLS.
fn table(name: &str, module: &str, each: Duration) {
    let guest = guest::bare(&servers::module(module), each);
    println!(
        "### {name}: bare guest {:.0} µs\n\n| | connections | echo/s | ours/s | of the limit | CPU each | p50 | p99 | peer/s | peer p99 |\n|---|---|---|---|---|---|---|---|---|---|",
        guest.as_secs_f64() * 1e6
    );
    for is_tls in [false, true] {
        let scene = Scene::new(module, 1, is_tls);
        let mut echo = Running::start(&scene, Kind::Echo);
        let mut ours = Running::start(&scene, Kind::Ours(LOGGED));
        let mut peer = servers::peer().map(|binary| Running::start(&scene, Kind::Peer(binary)));
        for n in CONNECTIONS {
            let echoed = drive(&mut echo, &scene, n, each);
            let judged = drive(&mut ours, &scene, n, each);
            let theirs = peer.as_mut().map(|peer| drive(peer, &scene, n, each));
            println!(
                "| {} | {n} | {:.0} | {:.0} | {:.0}% | {:.0} µs | {:.2} ms | {:.2} ms | {} | {} |",
                if is_tls { "HTTPS" } else { "HTTP" },
                echoed.rate(),
                judged.rate(),
                100.0 * judged.rate() / limit(&echoed, guest),
                judged.server_us(),
                judged.p50_ms(),
                judged.p99_ms(),
                theirs
                    .as_ref()
                    .map_or_else(String::new, |run| format!("{:.0}", run.rate())),
                theirs
                    .as_ref()
                    .map_or_else(String::new, |run| format!("{:.2} ms", run.p99_ms())),
            );
        }
    }
    println!();
}

/// Time to ready and memory over numbers of policies, each a module of its own.
fn sizes(each: Duration) {
    println!(
        "### Start and memory, pod-privileged, HTTPS, 8 connections\n\n| policies | server | cold | warm | memory at start | under load | requests/s |\n|---|---|---|---|---|---|---|"
    );
    for n in [1, 20, 100] {
        let scene = Scene::new("pod-privileged", n, true);
        start_and_memory(&scene, "ours", Kind::Ours(LOGGED), each);
        if let Some(binary) = servers::peer() {
            start_and_memory(&scene, "peer", Kind::Peer(binary), each);
        }
    }
}

fn start_and_memory(scene: &Scene, name: &str, kind: Kind, each: Duration) {
    scene.forget_store();
    let cold = Running::start(scene, kind.clone()).took;
    let mut running = Running::start(scene, kind);
    let (warm, idle) = (running.took, running.resident_mb());
    let outcome = drive(&mut running, scene, 8, each);
    println!(
        "| {} | {name} | {:.0} ms | {:.0} ms | {idle:.0} MB | {:.0} MB | {:.0} |",
        scene.n_policies,
        cold.as_secs_f64() * 1e3,
        warm.as_secs_f64() * 1e3,
        running.resident_mb(),
        outcome.rate(),
    );
}

fn run(scene: &Scene, kind: Kind, connections: usize, each: Duration) -> Outcome {
    drive(&mut Running::start(scene, kind), scene, connections, each)
}

fn drive(running: &mut Running, scene: &Scene, connections: usize, each: Duration) -> Outcome {
    // Slots, connections and caches are warm when it counts.
    Load::new(running, scene, connections).run(each / 4);
    Load::new(running, scene, connections).run(each)
}

/// What the wire and the guest allow together.
fn limit(echo: &Outcome, guest: Duration) -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    cores / (echo.cpu_us() / 1e6 + guest.as_secs_f64())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
