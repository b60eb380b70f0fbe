//! Figures of servers that are measured in turn. Ratios are computed within one turn.

use std::time::Duration;

use crate::guest::Bare;
use crate::load::Outcome;
use crate::servers::{self, Fixture, Kind, Running};
use crate::{LOGGED, TURNS, drive};

/// The servers for one fixture. All are ready at the same time; those that are not being measured are idle.
pub(crate) struct Servers {
    echo: Running,
    ours: Running,
    peer: Option<Running>,
}

/// The figures of all turns.
pub(crate) struct Turns(Vec<Turn>);

struct Turn {
    guest: Duration,
    echo: Outcome,
    ours: Outcome,
    peer: Option<Outcome>,
}

impl Servers {
    pub(crate) fn start(fixture: &Fixture) -> Self {
        Self {
            echo: Running::start(fixture, Kind::Echo),
            ours: Running::start(fixture, Kind::Ours(LOGGED)),
            peer: servers::peer().map(|binary| Running::start(fixture, Kind::Peer(binary))),
        }
    }

    pub(crate) fn take_turns(
        &mut self,
        guest: &Bare,
        fixture: &Fixture,
        connections: usize,
        each: Duration,
    ) -> Turns {
        let turn = |_| Turn {
            guest: guest.measure(each),
            echo: drive(&mut self.echo, fixture, connections, each),
            ours: drive(&mut self.ours, fixture, connections, each),
            peer: self
                .peer
                .as_mut()
                .map(|peer| drive(peer, fixture, connections, each)),
        };
        Turns((0..TURNS).map(turn).collect())
    }
}

impl Turn {
    /// The throughput of our server relative to the combined limit of the echo server and the guest.
    fn share(&self) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let limit = cores / (self.echo.cpu_us() / 1e6 + self.guest.as_secs_f64());
        100.0 * self.ours.rate() / limit
    }
}

impl Turns {
    /// The median of a figure over all turns.
    fn of(&self, figure: impl Fn(&Turn) -> f64) -> f64 {
        median(self.0.iter().map(figure))
    }

    /// The cells of a table row.
    pub(crate) fn row(&self) -> String {
        let shares = || self.0.iter().map(Turn::share);
        let peer = |figure: fn(&Outcome) -> f64| {
            let figures: Vec<f64> = self
                .0
                .iter()
                .filter_map(|turn| turn.peer.as_ref().map(figure))
                .collect();
            (!figures.is_empty()).then(|| median(figures))
        };
        format!(
            "{:.0} µs | {:.0} | {:.0} | {:.0} % | {:.0} to {:.0} % | {:.0} µs | {:.2} ms | {:.2} ms | {} | {}",
            self.of(|turn| turn.guest.as_secs_f64() * 1e6),
            self.of(|turn| turn.echo.rate()),
            self.of(|turn| turn.ours.rate()),
            self.of(Turn::share),
            shares().fold(f64::INFINITY, f64::min),
            shares().fold(0.0, f64::max),
            self.of(|turn| turn.ours.server_us()),
            self.of(|turn| turn.ours.p50_ms()),
            self.of(|turn| turn.ours.p99_ms()),
            peer(Outcome::rate).map_or_else(String::new, |rate| format!("{rate:.0}")),
            peer(Outcome::p99_ms).map_or_else(String::new, |ms| format!("{ms:.2} ms")),
        )
    }

    /// One line for tuning, with the CPU time of both sides.
    pub(crate) fn line(&self) -> String {
        format!(
            "guest {:.0} µs, echo {:.0}/s {:.0} µs, ours {:.0}/s ({:.0} µs server, {:.0} µs client), p99 {:.1} ms, {:.0} % of the limit",
            self.of(|turn| turn.guest.as_secs_f64() * 1e6),
            self.of(|turn| turn.echo.rate()),
            self.of(|turn| turn.echo.cpu_us()),
            self.of(|turn| turn.ours.rate()),
            self.of(|turn| turn.ours.server_us()),
            self.of(|turn| turn.ours.client_us()),
            self.of(|turn| turn.ours.p99_ms()),
            self.of(Turn::share),
        )
    }
}

pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
