//! The command line of a Pod's process.

use k8s_openapi::api::core::v1::Container;

use super::{Owner, Refusal, SERVER_COMMAND};

/// Names the program may be called by. It is another program by other names: see `arguments` of the binary.
const PROGRAM: &str = "polity";
const SERVER_PROGRAM: &str = "policy-server";

/// A policy server has no arguments: everything comes from its environment and its files. Others have one of their
/// subcommands first; paths in the rest are checked when they are resolved.
pub(super) fn check(container: &Container, owner: &Owner<'_>) -> Result<(), Refusal> {
    let words = words(container);
    let (is_fine, expected) = match owner {
        Owner::PolicyServer(_) => (
            words.as_deref() == Some(&[SERVER_COMMAND]),
            format!("`{PROGRAM} {SERVER_COMMAND}` alone"),
        ),
        Owner::Installed(workload) => {
            let first = words.as_ref().and_then(|words| words.first());
            let commands: Vec<_> = workload.commands.iter().map(String::as_str).collect();
            (
                first.is_some_and(|word| workload.commands.contains(*word)),
                format!("one of {}", commands.join(", ")),
            )
        }
    };
    match is_fine {
        true => Ok(()),
        false => Err(Refusal::Command { expected }),
    }
}

/// The words that the program is given; `None` if it is called by a name that makes it another program.
fn words(container: &Container) -> Option<Vec<&str>> {
    let mut command = container.command.iter().flatten().map(String::as_str);
    let implied = match command.next() {
        None | Some(PROGRAM) => None,
        Some(SERVER_PROGRAM) => Some(SERVER_COMMAND),
        Some(_) => return None,
    };
    let args = container.args.iter().flatten().map(String::as_str);
    Some(implied.into_iter().chain(command).chain(args).collect())
}
