//! Calls a module for its protocol version, which is added to its metadata when it is annotated.

use std::time::Duration;

use polity_wasm::{Deadline, Module, NoHost, Operation, RunError};

/// The time limit of the call, which returns a constant.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why the protocol version of a module is unknown.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// The call failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The result is not valid UTF-8.
    #[error("the response is not a text: {0}")]
    Answer(#[from] serde_json::Error),
}

/// Calls `protocol_version` of a waPC module. Blocks.
pub fn protocol_version(module: &Module) -> Result<String, ProtocolError> {
    let deadline = Deadline::after(PATIENCE);
    let answer = module.run(
        Operation::ProtocolVersion,
        Vec::new(),
        deadline,
        Box::new(NoHost),
    )?;
    Ok(serde_json::from_slice(&answer)?)
}
