//! Runs a case on both servers, step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http::Request;
use serde_json::{Value, json};

use crate::case::{Case, Step, Until};
use crate::compare::{Difference, differences};
use crate::normal;
use crate::servers::{Response, Servers, Target};

/// Delay before a step is repeated.
const PAUSE: Duration = Duration::from_millis(50);
/// Thirty seconds in total.
const LOOKS: u32 = 600;

/// The result of a case.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) case: &'static str,
    /// The compared requests with their differences.
    pub(crate) steps: Vec<StepOutcome>,
    /// Why the case could not be completed.
    pub(crate) broken: Option<String>,
}

/// The differences of a compared request.
#[derive(Debug)]
pub(crate) struct StepOutcome {
    pub(crate) number: usize,
    pub(crate) request: String,
    pub(crate) differences: Vec<Difference>,
}

type Variables = BTreeMap<String, String>;

/// Runs `case` on both servers concurrently.
pub(crate) async fn run(case: Case, servers: &Servers) -> Outcome {
    let mut outcome = Outcome {
        case: case.name,
        steps: Vec::new(),
        broken: None,
    };
    let mut sides = [
        Side::new(&case, &servers.ours, servers),
        Side::new(&case, &servers.real, servers),
    ];
    let [ours, real] = &mut sides;
    if let Err(error) = tokio::try_join!(ours.prepare(), real.prepare()) {
        outcome.broken = Some(format!("{error:#}"));
        return outcome;
    }
    for (index, step) in case.steps.iter().enumerate() {
        let (mine, theirs) = match tokio::try_join!(ours.step(step), real.step(step)) {
            Ok(responses) => responses,
            Err(error) => {
                outcome.broken = Some(format!("step {}: {error:#}", index + 1));
                return outcome;
            }
        };
        if step.compared {
            outcome.steps.push(StepOutcome {
                number: index + 1,
                request: format!("{} {}", step.method, step.path),
                differences: differences(&mine, &theirs),
            });
        }
    }
    outcome
}

/// The execution of a case on one server.
struct Side<'a> {
    target: &'a Target,
    variables: Variables,
}

impl<'a> Side<'a> {
    fn new(case: &Case, target: &'a Target, servers: &Servers) -> Self {
        let slug: String = case
            .name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_lowercase()
                } else {
                    '-'
                }
            })
            .collect();
        let slug = slug.replace("--", "-");
        let slug = slug.get(..40).unwrap_or(&slug).trim_matches('-').to_owned();
        let variables = BTreeMap::from([
            ("group".to_owned(), format!("{slug}.example.com")),
            ("hook".to_owned(), servers.hooks.url()),
            ("ca".to_owned(), servers.hooks.ca_bundle().to_owned()),
            ("ns".to_owned(), slug),
        ]);
        Self { target, variables }
    }

    async fn prepare(&self) -> Result<()> {
        let body = json!({"metadata": {"name": self.variables["ns"]}}).to_string();
        let request = Request::post("/api/v1/namespaces")
            .header("content-type", "application/json")
            .body(body.into_bytes())?;
        let response = self
            .target
            .send(crate::case::Identity::Admin, request)
            .await?;
        if !response.code.is_success() {
            bail!(
                "creating the namespace on {}: {}",
                self.target.name,
                String::from_utf8_lossy(&response.body)
            );
        }
        Ok(())
    }

    /// Sends the request of a step and returns the normalised response.
    async fn step(&mut self, step: &Step) -> Result<Value> {
        let mut response = self.ask(step).await?;
        if let Some(until) = &step.until {
            let mut looks = 0;
            while !is_reached(until, &response) {
                looks += 1;
                if looks > LOOKS {
                    bail!(
                        "{} never answered {until:?} to {} {}; last: {} {}",
                        self.target.name,
                        step.method,
                        step.path,
                        response.code,
                        String::from_utf8_lossy(&response.body)
                    );
                }
                tokio::time::sleep(PAUSE).await; // tidy: between two looks
                response = self.ask(step).await?;
            }
        }
        if !step.compared && !response.code.is_success() {
            bail!(
                "{} refused {} {}: {}",
                self.target.name,
                step.method,
                step.path,
                String::from_utf8_lossy(&response.body)
            );
        }
        let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        for (variable, pointer) in &step.saves {
            let value = body
                .pointer(pointer)
                .with_context(|| format!("{}: no {pointer} in {body}", self.target.name))?;
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            self.variables.insert((*variable).to_owned(), text);
        }
        Ok(normal::normalise(
            &response,
            step.path.contains("watch="),
            &self.variables,
        ))
    }

    async fn ask(&self, step: &Step) -> Result<Response> {
        let mut builder = Request::builder()
            .method(step.method)
            .uri(self.filled(&step.path));
        if !step.headers.iter().any(|(name, _)| *name == "user-agent") {
            builder = builder.header("user-agent", "differential/1");
        }
        for (name, value) in &step.headers {
            builder = builder.header(*name, self.filled(value));
        }
        let body = step
            .body
            .as_deref()
            .map(|body| self.filled(body))
            .unwrap_or_default();
        self.target
            .send(step.identity, builder.body(body.into_bytes())?)
            .await
    }

    /// Replaces the variables in a text.
    fn filled(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (variable, value) in &self.variables {
            filled = filled.replace(&format!("{{{variable}}}"), value);
        }
        filled
    }
}

fn is_reached(until: &Until, response: &Response) -> bool {
    let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    match until {
        Until::Code(code) => response.code.as_u16() == *code,
        Until::Field(pointer, wanted) => body.pointer(pointer) == Some(wanted),
        Until::Condition(kind, status) => {
            let conditions = body.pointer("/status/conditions").and_then(Value::as_array);
            conditions
                .into_iter()
                .flatten()
                .any(|condition| condition["type"] == *kind && condition["status"] == *status)
        }
    }
}
