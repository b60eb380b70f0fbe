//! Errors about wrong command lines: what clap reports, in words that help.

use std::ffi::OsString;
use std::num::ParseIntError;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};

/// The largest distance between a typed word and a suggested command, in single-character edits.
const MAX_EDITS: usize = 2;

/// Commands that other programs have, with what to type here instead. The first word is the command above.
const ELSEWHERE: &[(&str, &[&str], &str)] = &[
    (
        "polity",
        &["start", "run", "serve"],
        "`polity up -d` starts a local instance",
    ),
    (
        "polity",
        &["stop", "kill"],
        "`polity down` stops the local instance",
    ),
    (
        "polity",
        &["restart"],
        "`polity down` and `polity up -d` restart the local instance",
    ),
    (
        "polity",
        &["delete", "destroy"],
        "`polity reset` deletes the data of the local instance",
    ),
    (
        "polity",
        &["ps", "ls", "list"],
        "`polity status` shows what runs, `polity get policies -A` the policies",
    ),
    (
        "polity",
        &["apply", "create"],
        "policies are created with `kubectl apply -f FILE`",
    ),
    (
        "polity",
        &["policies"],
        "`polity get policies -A` lists the policies of a cluster",
    ),
    (
        "policy",
        &["list", "ls", "get"],
        "`polity get policies -A` lists the policies of a cluster, `polity policy status NAME` shows one, and\n       \
         `polity policy modules` lists the modules that were fetched",
    ),
    (
        "policy",
        &["delete", "apply", "create"],
        "policies are changed with kubectl",
    ),
    (
        "policy",
        &["describe", "show", "explain"],
        "`polity policy status NAME` shows a policy of a cluster, `polity policy inspect MODULE` a module",
    ),
    (
        "policy",
        &["undo"],
        "`polity policy rollback NAME` returns to an earlier generation",
    ),
];

/// A command whose numbers may be written with a minus sign, so that the error for one names the range and not an
/// unknown option.
pub(crate) fn numbers_may_be_negative(command: Command) -> Command {
    command
        .mut_args(|arg| match is_number(&arg) {
            true => arg.allow_negative_numbers(true),
            false => arg,
        })
        .mut_subcommands(numbers_may_be_negative)
}

fn is_number(arg: &Arg) -> bool {
    use std::any::TypeId;
    let parsed = arg.get_value_parser().type_id();
    [
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<i32>(),
        TypeId::of::<i64>(),
    ]
    .into_iter()
    .any(|number| parsed == number)
}

/// The error in other words where those of clap mislead.
pub(crate) fn rephrase(error: Error, command: &Command, arguments: &[OsString]) -> Error {
    let error = without_environment(error, command, arguments);
    match error.kind() {
        ErrorKind::InvalidSubcommand => with_tip(without_wild_suggestions(error), arguments),
        ErrorKind::ValueValidation => with_plain_number(error),
        _ => error,
    }
}

/// The same error of a command that reads no variables. The usage line of clap shows options that are set by a variable
/// as if they were required.
fn without_environment(error: Error, command: &Command, arguments: &[OsString]) -> Error {
    let again = reads_no_variables(command.clone()).try_get_matches_from(arguments);
    match again {
        Err(again) if again.kind() == error.kind() => again,
        _ => error,
    }
}

fn reads_no_variables(command: Command) -> Command {
    command
        .mut_args(|arg| arg.env(Resettable::Reset))
        .mut_subcommands(reads_no_variables)
}

/// A number that is none, without the words of Rust's parser.
fn with_plain_number(error: Error) -> Error {
    use std::error::Error as _;
    let reason = match error.source() {
        Some(source) if source.is::<ParseIntError>() => Some("expected a whole number".to_owned()),
        Some(source) => range(&source.to_string()),
        None => None,
    };
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let Some(reason) = reason else {
        return error;
    };
    let message = format!(
        "invalid value '{}' for '{}': {reason}\n\nFor more information, try '--help'.\n",
        text(ContextKind::InvalidValue),
        text(ContextKind::InvalidArg),
    );
    Error::raw(error.kind(), message)
}

/// `501 is not in 0..=500`, as people write it.
fn range(reason: &str) -> Option<String> {
    let (_, range) = reason.split_once(" is not in ")?;
    let (from, to) = range.split_once("..")?;
    let to = to.trim_start_matches('=');
    Some(match to.parse::<i64>() {
        Ok(to) if to < i64::MAX => format!("expected a number from {from} to {to}"),
        _ => format!("expected a number of at least {from}"),
    })
}

/// With the command to type instead, where another program has a command of this name.
fn with_tip(mut error: Error, arguments: &[OsString]) -> Error {
    let typed = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(typed)) => typed.clone(),
        _ => return error,
    };
    let is_policy_command = arguments
        .iter()
        .take_while(|argument| **argument != *typed)
        .any(|argument| argument == "policy" || argument == crate::AS_KWCTL);
    let above = if is_policy_command {
        "policy"
    } else {
        "polity"
    };
    let tip = ELSEWHERE
        .iter()
        .find(|(command, names, _)| *command == above && names.contains(&typed.as_str()));
    if let Some((_, _, tip)) = tip {
        error.remove(ContextKind::SuggestedSubcommand);
        let tip = vec![clap::builder::StyledStr::from(*tip)];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tip));
    }
    error
}

/// The largest distance of a typed word from a command that is suggested for it. A command that replaces or deletes data
/// is only suggested for a plain typing error.
fn allowed_edits(command: &str) -> usize {
    match command {
        "reset" | "restore" | "uninstall" => 1,
        _ => MAX_EDITS,
    }
}

/// Without a suggestion that is too far from what was typed: `restart` is not a misspelled `reset`.
fn without_wild_suggestions(mut error: Error) -> Error {
    let typed = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(typed)) => typed.clone(),
        _ => return error,
    };
    let suggested = match error.remove(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(suggested)) => suggested,
        Some(ContextValue::String(suggested)) => vec![suggested],
        _ => return error,
    };
    let near: Vec<String> = suggested
        .into_iter()
        .filter(|suggested| polity_cli::edits(&typed, suggested) <= allowed_edits(suggested))
        .collect();
    if !near.is_empty() {
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(near),
        );
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::{Arg, CommandFactory as _};

    use super::*;
    use crate::Cli;

    /// The error of a command line, as it is printed.
    fn printed(line: &str) -> String {
        printed_by(Cli::command(), line)
    }

    fn printed_by(command: Command, line: &str) -> String {
        let command = numbers_may_be_negative(command);
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = command
            .clone()
            .try_get_matches_from(&arguments)
            .unwrap_err();
        rephrase(error, &command, &arguments).render().to_string()
    }

    #[test]
    fn only_near_misses_are_suggested() {
        let restore = printed("polity resetore");
        assert!(!restore.contains("'reset'"), "{restore}");
        let doctro = printed("polity doctro");
        assert!(doctro.contains("'doctor'"), "{doctro}");
    }

    #[test]
    fn commands_of_other_programs_lead_to_ours() {
        for (line, tip) in [
            ("polity start", "`polity up -d`"),
            ("polity stop", "`polity down`"),
            ("polity --log-level debug stop", "`polity down`"),
            ("polity restart", "`polity down` and `polity up -d`"),
            ("polity policy list", "`polity get policies -A`"),
            ("polity policy ls", "`polity policy status NAME`"),
            ("polity policy get", "`polity policy modules`"),
        ] {
            let error = printed(line);
            assert!(error.contains("tip: "), "{error}");
            assert!(error.contains(tip), "{error}");
            assert!(!error.contains("similar"), "{error}");
            assert!(error.lines().all(|line| line.len() <= 110), "{error}");
        }
    }

    #[test]
    fn tips_name_commands_that_exist() {
        let root = Cli::command();
        for (_, _, tip) in ELSEWHERE {
            for line in tip.split('`').skip(1).step_by(2) {
                let Some(line) = line.strip_prefix("polity ") else {
                    continue;
                };
                let mut command = &root;
                for word in line
                    .split(' ')
                    .take_while(|word| word.chars().all(char::is_lowercase) && *word != "policies")
                {
                    let found = command.find_subcommand(word);
                    command = found.unwrap_or_else(|| panic!("{word} in {tip}"));
                }
            }
        }
    }

    #[test]
    fn a_wrong_number_names_the_range() {
        for (line, expected) in [
            (
                "polity up --clusters two",
                "invalid value 'two' for '--clusters <N>': expected a whole number",
            ),
            (
                "polity up --clusters -1",
                "invalid value '-1' for '--clusters <N>': expected a number from 0 to 500",
            ),
            (
                "polity up --clusters 501",
                "expected a number from 0 to 500",
            ),
            (
                "polity policy rollback x --to 0",
                "expected a number of at least 1",
            ),
            (
                "polity server --max-waiting many",
                "expected a whole number",
            ),
            (
                "polity server --port -1",
                "expected a number from 0 to 65535",
            ),
        ] {
            let error = printed(line);
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("digit"), "{error}");
        }
    }

    #[test]
    fn options_that_a_variable_sets_are_not_in_the_usage() {
        // A variable that every test process has.
        let command = Command::new("polity")
            .arg(Arg::new("home").long("home").env("PATH"))
            .arg(Arg::new("kind").required(true));
        let plain = command.clone().try_get_matches_from(["polity"]);
        assert!(plain.unwrap_err().to_string().contains("--home <home>"));
        let error = printed_by(command, "polity");
        assert!(
            error.contains("<kind>") && !error.contains("--home"),
            "{error}"
        );
    }
}
