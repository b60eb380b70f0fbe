//! Measures the guest alone: a new instance for each request, on one thread per core.

use std::thread;
use std::time::{Duration, Instant};

use polity_eval::{Deadline, Engine, EngineOptions, Module};
use polity_wasm::{NoHost, Operation};

use crate::{load, now, usage};

/// A guest that is called in a loop without a server.
pub(crate) struct Bare {
    module: Module,
    payload: Vec<u8>,
}

impl Bare {
    pub(crate) fn new(wasm: &[u8]) -> Self {
        let engine = Engine::new(&EngineOptions::default()).expect("an engine");
        Self {
            module: engine.compile(wasm, None).expect("a policy"),
            payload: load::payload(),
        }
    }

    /// CPU time of one evaluation.
    pub(crate) fn measure(&self, each: Duration) -> Duration {
        self.run_until(now() + each / 4);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let (before, until) = (usage::own(), now() + each);
        let n: u32 = thread::scope(|scope| {
            let threads: Vec<_> = (0..cores)
                .map(|_| scope.spawn(|| self.run_until(until)))
                .collect();
            let counts = threads
                .into_iter()
                .map(|thread| thread.join().expect("a guest that ran"));
            counts.sum()
        });
        usage::own().saturating_sub(before) / n
    }

    fn run_until(&self, until: Instant) -> u32 {
        let mut n = 0;
        while now() < until {
            let answer = self.module.run(
                Operation::Validate,
                self.payload.clone(),
                Deadline::after(Duration::from_secs(2)),
                Box::new(NoHost),
            );
            assert!(!answer.expect("an answer").is_empty());
            n += 1;
        }
        n
    }
}
