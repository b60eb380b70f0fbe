//! The guest alone: a fresh instance for each request, on as many threads as there are cores.

use std::thread;
use std::time::{Duration, Instant};

use polity_eval::{Deadline, Engine, EngineOptions};
use polity_wasm::{NoHost, Operation};

use crate::{load, now, usage};

/// CPU time of one evaluation.
pub(crate) fn bare(wasm: &[u8], each: Duration) -> Duration {
    let engine = Engine::new(&EngineOptions::default()).expect("an engine");
    let module = engine.compile(wasm, None).expect("a policy");
    let payload = load::payload();
    let run = || {
        let deadline = Deadline::after(Duration::from_secs(2));
        let answer = module.run(
            Operation::Validate,
            payload.clone(),
            deadline,
            Box::new(NoHost),
        );
        assert!(!answer.expect("an answer").is_empty());
    };
    let run_until = |until: Instant| {
        let mut n = 0;
        while now() < until {
            run();
            n += 1;
        }
        n
    };
    run_until(now() + each / 4);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (before, until) = (usage::own(), now() + each);
    let n: u32 = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores)
            .map(|_| scope.spawn(|| run_until(until)))
            .collect();
        let counts = threads
            .into_iter()
            .map(|thread| thread.join().expect("a guest that ran"));
        counts.sum()
    });
    usage::own().saturating_sub(before) / n
}
