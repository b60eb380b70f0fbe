//! The command line of a Pod's process.

use k8s_openapi::api::core::v1::Container;

use super::{Refusal, SERVER_COMMAND};

/// The names that the program may be called by. By other names it is another program.
const PROGRAM: &str = "polity";
const SERVER_PROGRAM: &str = "policy-server";

/// A policy server has no other arguments: all configuration comes from its environment and its files.
pub(super) fn check(container: &Container) -> Result<(), Refusal> {
    match arguments(container).as_deref() == Some(&[SERVER_COMMAND]) {
        true => Ok(()),
        false => Err(Refusal::Command {
            expected: format!("`{PROGRAM} {SERVER_COMMAND}` alone"),
        }),
    }
}

/// The arguments of the program; `None` if it is called by a name that makes it another program.
fn arguments(container: &Container) -> Option<Vec<&str>> {
    let mut command = container.command.iter().flatten().map(String::as_str);
    let implied = match command.next() {
        None | Some(PROGRAM) => None,
        Some(SERVER_PROGRAM) => Some(SERVER_COMMAND),
        Some(_) => return None,
    };
    let args = container.args.iter().flatten().map(String::as_str);
    Some(implied.into_iter().chain(command).chain(args).collect())
}
