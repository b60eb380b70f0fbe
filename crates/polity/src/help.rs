//! `--help`: commands in groups as kubectl shows them, in the words of the name that the program was called by.

use clap::{Arg, Command};

/// The groups of commands. A command that is missing here is shown in the last group.
const GROUPS: [(&str, &[&str]); 8] = [
    (
        "Run it on this machine",
        &[
            "up", "down", "status", "doctor", "logs", "reset", "backup", "restore",
        ],
    ),
    ("Run it in a cluster", &["install", "uninstall"]),
    ("Admission policies", &["policy"]),
    (
        "Which policies act on what",
        &[
            "explain",
            "effective",
            "affects",
            "impact",
            "graph",
            "get",
            "describe",
            "analyze",
        ],
    ),
    (
        "Policies over many clusters",
        &["dryrun", "template", "placement", "rollout"],
    ),
    ("Reports and checks", &["report", "lint"]),
    ("Server commands", &["controller", "server", "apiserver"]),
    ("Other", &["version", "completion"]),
];

/// The widest help. Footers are narrower still: clap does not wrap them.
const MAX_WIDTH: usize = 100;
#[cfg(test)]
const FOOTER_WIDTH: usize = 80;

/// A name that the program is called by, with the command that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledAs {
    Polity,
    /// A plugin of kubectl: the same commands.
    KubectlPlugin,
    /// `polity policy`.
    Kwctl,
    /// `polity server`.
    PolicyServer,
}

impl CalledAs {
    /// By the file name of the program.
    pub(crate) fn of(program: Option<&str>) -> Self {
        match program {
            Some("kubectl-polity") => Self::KubectlPlugin,
            Some("kwctl") => Self::Kwctl,
            Some("policy-server") => Self::PolicyServer,
            _ => Self::Polity,
        }
    }

    /// What a user types for this program.
    fn typed(self) -> &'static str {
        match self {
            Self::Polity => "polity",
            Self::KubectlPlugin => "kubectl polity",
            Self::Kwctl => "kwctl",
            Self::PolicyServer => "policy-server",
        }
    }

    /// Whether there is a command that shows the common options, so that the help of others need not.
    fn has_options_command(self) -> bool {
        match self {
            Self::Polity | Self::KubectlPlugin => true,
            Self::Kwctl | Self::PolicyServer => false,
        }
    }

    /// What help texts say instead.
    fn written(self) -> &'static str {
        match self {
            Self::Polity | Self::KubectlPlugin => "polity",
            Self::Kwctl => "polity policy",
            Self::PolicyServer => "polity server",
        }
    }
}

/// A command whose help is in the words of the name it was called by. `root` is the command that the name stands for.
pub(crate) fn dressed(root: Command, called: CalledAs) -> Command {
    let globals: Vec<String> = root
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .map(|arg| arg.get_id().to_string())
        .collect();
    let mut root = root.bin_name(called.typed()).max_term_width(MAX_WIDTH);
    let has_options_command = called.has_options_command();
    for global in globals {
        root = root.mut_arg(global, |arg| {
            arg.hide(has_options_command).hide_short_help(true)
        });
    }
    if has_options_command {
        let template = template(&root, called.typed());
        root = root.help_template(template);
    }
    let names: Vec<String> = root
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();
    worded(root, called, &names, true)
}

/// The texts of a command and those below it, with the name that was called and a pointer to the common options.
fn worded(command: Command, called: CalledAs, names: &[String], is_root: bool) -> Command {
    let text = |text: String| renamed(&text, called, names);
    let about = command.get_about().map(|about| text(about.to_string()));
    let long = command
        .get_long_about()
        .map(|about| text(about.to_string()));
    let after = command
        .get_after_help()
        .map(|after| text(after.to_string()));
    let after = if called.has_options_command() && !is_root {
        let footer = format!("Options of all commands: {} options", called.typed());
        let after = after.map(|after| format!("{after}\n\n"));
        Some(format!("{}{footer}", after.unwrap_or_default()))
    } else {
        after
    };
    let mut command = command;
    if let Some(about) = about {
        command = command.about(about);
    }
    if let Some(long) = long {
        command = command.long_about(long);
    }
    if let Some(after) = after {
        command = command.after_help(after);
    }
    command
        // The name of a variable is help. Its value may be a secret.
        .mut_args(|arg| arg.hide_env_values(true))
        .mut_subcommands(|below| worded(below, called, names, false))
}

/// A text with the typed name for the written one. `polity` alone is replaced before a command only: elsewhere it is the
/// product.
fn renamed(text: &str, called: CalledAs, names: &[String]) -> String {
    let (from, to) = (called.written(), called.typed());
    if from == to {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let (before, after) = (&rest[..at], &rest[at + from.len()..]);
        let starts_word = before
            .chars()
            .next_back()
            .is_none_or(|c| c.is_whitespace() || c == '`' || c == '(');
        let next = after.strip_prefix(' ').map(|after| {
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '-');
            &after[..end.unwrap_or(after.len())]
        });
        let is_command = match called {
            CalledAs::KubectlPlugin => next.is_some_and(|next| names.iter().any(|it| it == next)),
            CalledAs::Polity | CalledAs::Kwctl | CalledAs::PolicyServer => true,
        };
        out.push_str(before);
        out.push_str(if starts_word && is_command { to } else { from });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The help of the root: its groups in the place of one long list.
fn template(root: &Command, typed: &str) -> String {
    let width = shown(root).map(|command| command.get_name().len()).max();
    let line = |command: &Command| {
        let about = command.get_about().map(ToString::to_string);
        format!(
            "  {:width$}  {}\n",
            command.get_name(),
            about.unwrap_or_default(),
            width = width.unwrap_or_default()
        )
    };
    let mut groups = String::new();
    for (index, (title, names)) in GROUPS.iter().enumerate() {
        let is_last = index + 1 == GROUPS.len();
        let named = names.iter().filter_map(|name| {
            let mut all = shown(root);
            all.find(|command| command.get_name() == *name)
        });
        let others =
            shown(root).filter(|command| is_last && group_of(command.get_name()).is_none());
        let lines: String = named.chain(others).map(line).collect();
        if !lines.is_empty() {
            groups.push_str(&format!("{title}:\n{lines}\n"));
        }
    }
    format!(
        "{{about-with-newline}}\n{groups}Usage: {typed} COMMAND [OPTIONS]{{after-help}}\n\n\
         `{typed} COMMAND --help` shows the options and examples of a command,\n\
         `{typed} options` the options that all commands take.\n"
    )
}

fn shown(root: &Command) -> impl Iterator<Item = &Command> {
    root.get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn group_of(name: &str) -> Option<&'static str> {
    let group = GROUPS.iter().find(|(_, names)| names.contains(&name));
    group.map(|(title, _)| *title)
}

/// The options that every command takes, as help shows them.
pub(crate) fn common_options(root: &Command) -> String {
    let globals: Vec<Arg> = root
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .map(|arg| arg.clone().hide_env_values(true))
        .collect();
    let mut page = Command::new("polity")
        .args(globals)
        .disable_help_flag(true)
        .max_term_width(MAX_WIDTH)
        .help_template("All commands take these options:\n\n{all-args}\n");
    page.render_help().to_string()
}

#[cfg(test)]
mod tests;
