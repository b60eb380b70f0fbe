//! Measures a policy without HTTP: one request in a loop, with a new instance each time.
//!
//! `cargo run --release -p polity-eval --example bare -- MODULE.wasm REVIEW.json [SECONDS]`

use std::{sync::Arc, time::Duration};

use polity_eval::{
    AdmissionReview, Deadline, Engine, EngineOptions, Environment, NoServices, Origin, Policy,
    parse_policies,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(module), Some(review)) = (arguments.next(), arguments.next()) else {
        return Err("usage: bare MODULE.wasm REVIEW.json [SECONDS]".into());
    };
    let seconds: u64 = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let body = std::fs::read(review)?;
    let module = Engine::new(&EngineOptions::default())?.compile(&std::fs::read(module)?, None)?;
    let environment = Environment::new(Arc::new(NoServices));
    let config = parse_policies("bare: {module: bare, hostCapabilities: []}")?;
    let policy = Policy::prepare("bare", &config["bare"], &environment, |_, _| {
        Ok(module.clone())
    })?;

    let end = Deadline::after(Duration::from_secs(seconds));
    let mut n_requests: u32 = 0;
    while !end.is_past() {
        let review = AdmissionReview::parse(&body)?;
        let evaluation = policy.evaluate(
            &environment,
            &review.request,
            Origin::Audit,
            Deadline::NEVER,
        );
        std::hint::black_box(evaluation.response.to_review());
        n_requests += 1;
    }
    eprintln!(
        "{n_requests} requests, {:?} each",
        Duration::from_secs(seconds) / n_requests.max(1)
    );
    Ok(())
}
