//! How fast the policy server is on this machine: `cargo xtask bench admission [SECONDS]`.
//!
//! In one run: our server, an echo of the same bodies (the limit of the wire), the same guest in a bare
//! loop (the limit of the guest) and, if `POLITY_BENCH_PEER` names the binary of a compatible server,
//! that one. Servers are processes of their own; the clients, which take their share of the machine,
//! are this one. Tables in Markdown go to standard output.
//!
//! For whoever tunes, instead of SECONDS: `quick [GUEST…]` for a line each, `lines` for the cost of a log line, and
//! `builds PROGRAM…` for this build against other builds of this program.

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
use servers::{Kind, Running, Scene};
use turns::{Servers, median};

/// What a policy costs: a small guest that looks at one field, and one that reads every container.
const GUESTS: [(&str, &str); 2] = [
    ("trivial", "default-namespace"),
    ("pod-privileged", "pod-privileged"),
];
const CONNECTIONS: [usize; 3] = [1, 8, 32];
/// The level with one line for each request, and the one without.
const LOGGED: &str = "info";
const QUIET: &str = "error";
/// How often things that are compared are measured in turn: the machine's mood changes from second to second.
const TURNS: usize = 7;
/// What makes little difference takes more turns to see.
const FINE_TURNS: usize = 21;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", scene, level] => roles::serve(&PathBuf::from(scene), level),
        ["echo", scene] => roles::echo(&PathBuf::from(scene)),
        ["lines"] => lines(Duration::from_secs(2)),
        ["builds", ref others @ ..] => builds(others, Duration::from_millis(500)),
        ["quick", ref only @ ..] => quick(Duration::from_secs(1), only),
        [seconds] => measure(Duration::from_secs_f64(seconds.parse().expect("seconds"))),
        _ => measure(Duration::from_secs(1)),
    }
}

/// One line for each thing that matters most, for whoever tunes; of some guests only, if they are named.
fn quick(each: Duration, only: &[&str]) {
    let wanted = |name| only.is_empty() || only.contains(&name);
    for (name, module) in GUESTS.into_iter().filter(|(name, _)| wanted(*name)) {
        let guest = Bare::new(&servers::module(module));
        let scene = Scene::new(module, 1, true);
        let mut servers = Servers::start(&scene);
        let turns = servers.take_turns(&guest, &scene, 8, each);
        println!("{name}: {}", turns.line());
    }
}

/// This build of the server against others, each given by its bench program: what one change after the other brought.
fn builds(others: &[&str], each: Duration) {
    let scene = Scene::new(GUESTS[1].1, 1, true);
    let start = |kind| Running::start(&scene, kind);
    let others = others.iter().map(|path| Kind::Build(PathBuf::from(path)));
    let mut servers: Vec<Running> = iter::once(Kind::Ours(LOGGED))
        .chain(others)
        .map(start)
        .collect();
    let turn = |_| {
        let drive = |server| drive(server, &scene, 8, each);
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

/// What one log line for each request costs.
fn lines(each: Duration) {
    let scene = Scene::new(GUESTS[0].1, 1, true);
    let mut servers = [LOGGED, QUIET].map(|level| Running::start(&scene, Kind::Ours(level)));
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..FINE_TURNS {
        for (server, runs) in servers.iter_mut().zip(&mut runs) {
            runs.push(drive(server, &scene, 8, each));
        }
    }
    let [logged, quiet] = runs;
    // Of neighbours: what both were measured in was the same weather.
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

/// Requests per second over connections, with and without TLS.
fn table(name: &str, module: &str, each: Duration) {
    let guest = Bare::new(&servers::module(module));
    println!(
        "### {name}, median of {TURNS}\n\n| | connections | guest | echo/s | ours/s | of the limit | least to most | CPU each | p50 | p99 | peer/s | peer p99 |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for is_tls in [false, true] {
        let scene = Scene::new(module, 1, is_tls);
        let mut servers = Servers::start(&scene);
        for n in CONNECTIONS {
            let turns = servers.take_turns(&guest, &scene, n, each);
            let wire = if is_tls { "HTTPS" } else { "HTTP" };
            println!("| {wire} | {n} | {} |", turns.row());
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

fn drive(running: &mut Running, scene: &Scene, connections: usize, each: Duration) -> Outcome {
    // Slots, connections and caches are warm when it counts.
    Load::new(running, scene, connections).run(each / 4);
    Load::new(running, scene, connections).run(each)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
