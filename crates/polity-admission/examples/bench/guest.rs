//! The guest alone: a fresh instance for each request, on as many threads as there are cores.

use std::time::Duration;

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
    (0..100).for_each(|_| run());
    let (before, until) = (usage::own(), now() + each);
    let mut n = 0;
    while now() < until {
        run();
        n += 1;
    }
    usage::own().saturating_sub(before) / n
}
