//! `polity policy bench`: how long a policy takes for a request.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use polity_runtime::Clock;
use serde::Serialize;

use super::judge::{Judge, JudgeArgs, Ready};
use crate::exit::Exit;
use crate::output::{OutputArgs, columns};

/// Measure the time of a policy for a request
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity policy bench ./policy.wasm -r request.json --settings-json '{}'
  polity policy bench policies.yml -r request.json --num-samples 10000 -o json

One evaluation after the other, on one thread, each in a fresh instance, as a
server does it. Host calls are answered from caches after the first; play a
recording back to leave them out.")]
pub(super) struct BenchArgs {
    /// How long to run before counting
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    warm_up_time: f64,
    /// How long to count
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    measurement_time: f64,
    /// How many evaluations to count at least
    #[arg(long, value_name = "N", default_value_t = 100)]
    num_samples: usize,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    judge: JudgeArgs,
}

/// What was measured of one policy; times are in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    policy: String,
    accepted: bool,
    evaluations: usize,
    per_second: f64,
    mean: f64,
    min: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

/// When to stop.
#[derive(Debug, Clone, Copy)]
struct Plan {
    warm_up: Duration,
    measurement: Duration,
    at_least: usize,
}

impl BenchArgs {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            judge,
            warm_up_time,
            measurement_time,
            num_samples,
            output,
        } = self;
        let plan = Plan {
            warm_up: seconds("--warm-up-time", warm_up_time)?,
            measurement: seconds("--measurement-time", measurement_time)?,
            at_least: num_samples.max(1),
        };
        let judge = Arc::new(judge.prepare().await?);
        let measured = tokio::task::spawn_blocking(move || {
            let all = judge.policies.iter();
            let measured = all
                .map(|ready| measure(&judge, ready, plan))
                .collect::<anyhow::Result<Vec<_>>>()?;
            judge.finish()?;
            anyhow::Ok(measured)
        });
        output.print(&measured.await??, |measured| table(measured))?;
        Ok(Exit::Fine)
    }
}

fn seconds(flag: &str, seconds: f64) -> anyhow::Result<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration <= Duration::from_hours(1) => Ok(duration),
        _ => bail!("{flag} {seconds}: a number of seconds up to an hour is meant"),
    }
}

fn measure(judge: &Judge, ready: &Ready, plan: Plan) -> anyhow::Result<Measured> {
    let clock = Clock::system();
    let start = clock.moment();
    loop {
        judge.ask(ready)?;
        if clock.moment().since(start) >= plan.warm_up {
            break;
        }
    }
    let mut times = Vec::new();
    let start = clock.moment();
    let mut accepted = true;
    loop {
        let before = clock.moment();
        let evaluation = judge.ask(ready)?;
        let after = clock.moment();
        accepted &= evaluation.response.allowed;
        times.push(after.since(before));
        if times.len() >= plan.at_least && after.since(start) >= plan.measurement {
            break;
        }
    }
    Ok(Measured::of(&ready.name, accepted, times))
}

impl Measured {
    fn of(policy: &str, accepted: bool, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let micros = |time: Duration| (time.as_secs_f64() * 1e7).round() / 10.0;
        let at = |share: f64| {
            let last = times.len().saturating_sub(1);
            let index = ((times.len() as f64 * share).ceil() as usize).saturating_sub(1);
            micros(times.get(index.min(last)).copied().unwrap_or_default())
        };
        let total: Duration = times.iter().sum();
        let mean = total / u32::try_from(times.len().max(1)).unwrap_or(u32::MAX);
        let per_second = 1.0 / mean.as_secs_f64().max(1e-9);
        Self {
            policy: policy.to_owned(),
            accepted,
            evaluations: times.len(),
            per_second: per_second.round(),
            mean: micros(mean),
            min: at(0.0),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

fn table(measured: &[Measured]) -> String {
    let head = [
        "POLICY", "VERDICT", "RUNS", "RUNS/S", "MEAN", "MIN", "P50", "P90", "P99", "MAX",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for row in measured {
        let time = |micros: f64| {
            if micros >= 10_000.0 {
                format!("{:.1} ms", micros / 1000.0)
            } else {
                format!("{micros:.1} µs")
            }
        };
        rows.push(vec![
            row.policy.clone(),
            if row.accepted { "accepted" } else { "refused" }.to_owned(),
            row.evaluations.to_string(),
            row.per_second.to_string(),
            time(row.mean),
            time(row.min),
            time(row.p50),
            time(row.p90),
            time(row.p99),
            time(row.max),
        ]);
    }
    columns(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_known_times() {
        let times = (1..=100).map(Duration::from_micros).collect();
        let measured = Measured::of("p", true, times);
        assert_eq!(
            (
                measured.min,
                measured.p50,
                measured.p90,
                measured.p99,
                measured.max
            ),
            (1.0, 50.0, 90.0, 99.0, 100.0)
        );
        assert_eq!(
            (measured.mean, measured.per_second, measured.evaluations),
            (50.5, 19802.0, 100)
        );
        let one = Measured::of("p", true, vec![Duration::from_micros(7)]);
        assert_eq!((one.min, one.p99, one.max), (7.0, 7.0, 7.0));
    }

    #[test]
    fn times_that_are_none_are_refused() {
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(seconds("--x", wrong).is_err(), "{wrong}");
        }
        assert_eq!(seconds("--x", 0.5).unwrap(), Duration::from_millis(500));
    }
}
