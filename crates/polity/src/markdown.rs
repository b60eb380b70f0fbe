//! The command reference as Markdown, written from the same definitions as `--help`.

use clap::{Arg, Command};

/// The page `docs/reference/commands.md`.
pub(crate) fn page(mut root: Command) -> String {
    root.build();
    let mut out = String::from(
        "# Commands\n\nWritten by `cargo xtask generate` from the program itself; do not edit.\n",
    );
    section(&root, &mut Vec::new(), &mut out);
    out
}

/// The page of one command alone.
pub(crate) fn page_of(mut root: Command, name: &str) -> String {
    root.build();
    let mut out = String::new();
    if let Some(command) = root.find_subcommand(name) {
        section(command, &mut vec![root.get_name()], &mut out);
    }
    out.trim_start().to_owned()
}

fn section<'a>(command: &'a Command, path: &mut Vec<&'a str>, out: &mut String) {
    path.push(command.get_name());
    out.push_str(&format!("\n## `{}`\n", path.join(" ")));
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        out.push_str(&format!("\n{}\n", text(&about.to_string())));
    }
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && !is_common(arg, path.len()))
        .collect();
    if !arguments.is_empty() {
        out.push_str("\n| argument | variable | meaning |\n|---|---|---|\n");
        for argument in arguments {
            out.push_str(&row(argument));
        }
    }
    if let Some(after) = command.get_after_help() {
        out.push_str(&format!(
            "\n```text\n{}\n```\n",
            after.to_string().trim_end()
        ));
    }
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        section(below, path, out);
    }
    path.pop();
}

/// Help, version and logging are the same everywhere: they stand at the root only.
fn is_common(argument: &Arg, depth: usize) -> bool {
    depth > 1
        && (matches!(argument.get_id().as_str(), "help" | "version") || argument.is_global_set())
}

fn row(argument: &Arg) -> String {
    let names = [
        argument.get_short().map(|short| format!("-{short}")),
        argument.get_long().map(|long| format!("--{long}")),
    ];
    let mut name = names.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let values: Vec<String> = argument
        .get_value_names()
        .into_iter()
        .flatten()
        .map(ToString::to_string)
        .collect();
    let takes_value = argument.get_action().takes_values();
    if name.is_empty() {
        name = values.join(" ");
    } else if takes_value {
        name = format!("{name} {}", values.join(" "));
    }
    let variable = argument
        .get_env()
        .map(|name| format!("`{}`", name.to_string_lossy()))
        .unwrap_or_default();
    let mut meaning = argument
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    if takes_value && !defaults.is_empty() && !defaults.iter().all(String::is_empty) {
        meaning.push_str(&format!(" (default `{}`)", defaults.join(" ")));
    }
    let choices: Vec<String> = argument
        .get_possible_values()
        .iter()
        .map(|value| value.get_name().to_owned())
        .collect();
    if takes_value && !choices.is_empty() {
        meaning.push_str(&format!("; one of {}", choices.join(", ")));
    }
    format!("| `{name}` | {variable} | {} |\n", text(&meaning))
}

fn text(raw: &str) -> String {
    raw.replace('|', "\\|").replace('\n', " ")
}
