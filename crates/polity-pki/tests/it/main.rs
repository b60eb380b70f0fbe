//! Our certificates with real TLS peers, and the results of the checks.

#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

mod blobs;
mod checks;
mod handshake;
mod keys;
mod orders;

use std::time::Duration;

use jiff::Timestamp;
use polity_pki::{Authority, ServerNames};

const DAY: Duration = Duration::from_hours(24);

fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn authority() -> Authority {
    Authority::create("polity-test", 100 * DAY, now()).unwrap()
}

fn localhost() -> ServerNames {
    ServerNames::new("polity")
        .dns("localhost")
        .ip([127, 0, 0, 1])
        .ip([0, 0, 0, 0, 0, 0, 0, 1])
}
