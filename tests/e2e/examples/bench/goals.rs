//! Compares the figures with their goals at the end of a run.

use std::time::Duration;

use crate::shown;
use crate::stream::Stream;
use crate::swarm::Swarm;

/// The figures for which there is a goal.
#[derive(Default)]
pub(crate) struct Goals {
    pub(crate) cached_large_on_three: Option<Duration>,
    pub(crate) warm: Duration,
    pub(crate) cold: Duration,
    pub(crate) writes_of_change: Vec<(usize, f64)>,
    pub(crate) idle_writes: u64,
    pub(crate) swarm: Option<Swarm>,
    pub(crate) stream: Option<Stream>,
}

impl Goals {
    pub(crate) fn print(&self) {
        let Self {
            cached_large_on_three,
            warm,
            cold,
            writes_of_change,
            idle_writes,
            swarm,
            stream,
        } = self;
        println!("### Goals\n\n| goal | measured | |\n|---|---|---|");
        let p50 = cached_large_on_three.unwrap_or_default();
        line(
            "apply to Active, p50, large cached module, 3 replicas: under 1 s",
            &shown(p50),
            p50 < Duration::from_secs(1),
        );
        let ratio = cold.as_secs_f64() / warm.as_secs_f64();
        line(
            "a warm start is at least 20 times as fast as a cold one",
            &format!("{ratio:.0} times"),
            ratio >= 20.0,
        );
        for (replicas, writes) in writes_of_change {
            let most = 20 + 3 * replicas;
            line(
                &format!("a change with replicas: {replicas} costs at most {most} writes"),
                &format!("{writes:.1}"),
                *writes <= most as f64,
            );
        }
        line(
            "no writes when idle",
            &idle_writes.to_string(),
            *idle_writes == 0,
        );
        if let Some(swarm) = swarm {
            line(
                "every entry of every replica is there, and then nothing is written",
                &format!("{} missing, {} writes", swarm.n_missing, swarm.idle_writes),
                swarm.n_missing == 0 && swarm.idle_writes == 0,
            );
        }
        if let Some(stream) = stream {
            line(
                &format!("{} requests each second are sent", stream.pace),
                &format!("{:.0}", stream.rate()),
                stream.rate() >= 0.99 * f64::from(stream.pace),
            );
            line(
                "no request is lost or judged wrongly while policies change",
                &format!("{} of {}", stream.n_wrong(), stream.n_answered()),
                stream.n_wrong() == 0,
            );
        }
    }
}

fn line(goal: &str, measured: &str, is_reached: bool) {
    let word = if is_reached { "reached" } else { "missed" };
    println!("| {goal} | {measured} | {word} |");
}
