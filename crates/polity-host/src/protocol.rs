//! Which protocol a module speaks, in its own words: what goes into its metadata when it is annotated.

use std::time::Duration;

use polity_wasm::{Deadline, Module, NoHost, Operation, RunError};

/// Saying one word takes no time.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a module's protocol is not known.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// It could not be asked.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Its answer is not a text.
    #[error("the answer is not a text: {0}")]
    Answer(#[from] serde_json::Error),
}

/// Asks a waPC module which protocol it speaks. Blocks.
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
