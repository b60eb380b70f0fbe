//! The texts of help, as people read them.

use clap::CommandFactory as _;

use super::*;
use crate::{Cli, Kwctl, PolicyServer};

fn dressed_root() -> Command {
    // As wide as help gets, whatever the terminal of the test is.
    dressed(Cli::command(), CalledAs::Polity).term_width(MAX_WIDTH)
}

/// The long help of a command by its words, as it is printed.
fn help(root: Command, words: &[&str]) -> String {
    let words = words.iter().copied().chain(["--help"]);
    let error = root.try_get_matches_from(words).unwrap_err();
    error.render().to_string()
}

#[test]
fn every_command_is_in_exactly_one_group() {
    let root = Cli::command();
    for command in shown(&root) {
        let name = command.get_name();
        let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name));
        assert_eq!(groups.count(), 1, "{name}");
    }
}

#[test]
fn the_commands_are_shown_in_groups() {
    let text = help(dressed_root(), &["polity"]);
    let mut rest = text.as_str();
    for (title, first) in [
        ("Run it on this machine", "up"),
        ("Run it in a cluster", "install"),
        ("Admission policies", "policy"),
        ("Which policies act on what", "explain"),
        ("Policies over many clusters", "dryrun"),
        ("Reports and checks", "report"),
        ("Server commands", "controller"),
        ("Other", "version"),
    ] {
        let start = format!("\n{title}:\n  {first} ");
        let Some((_, after)) = rest.split_once(&start) else {
            panic!("{title} comes next: {text}");
        };
        rest = after;
    }
    assert!(
        rest.contains("\nUsage: polity COMMAND [OPTIONS]\n"),
        "{text}"
    );
    assert!(rest.contains("\nStart here:\n  polity up "), "{text}");
    assert!(!text.contains("\n\n\n"), "{text}");
}

#[test]
fn every_line_of_the_groups_fits_on_a_terminal() {
    let root = Cli::command();
    for line in template(&root, "kubectl polity").lines() {
        assert!(line.chars().count() <= 90, "{line}");
    }
}

#[test]
fn the_help_of_a_command_holds_its_own_options() {
    let text = help(dressed_root(), &["polity", "doctor"]);
    assert!(!text.contains("--log-level"), "{text}");
    assert!(text.contains("polity options"), "{text}");
    let place = |part: &str| {
        text.find(part)
            .unwrap_or_else(|| panic!("{part} in {text}"))
    };
    assert!(place("Usage: polity doctor [OPTIONS]") < place("--output <FORMAT>"));
    assert!(place("--output <FORMAT>") < place("Cluster:"), "{text}");
    assert!(place("Cluster:") < place("--context <NAME>"), "{text}");
    let common = common_options(&Cli::command());
    assert!(common.contains("--log-level <LEVEL>"), "{common}");
}

fn each(command: &Command, path: &str, look: &mut impl FnMut(&str, &Command)) {
    let path = format!("{path} {}", command.get_name());
    look(&path, command);
    for below in command.get_subcommands() {
        each(below, &path, look);
    }
}

#[test]
fn no_line_of_a_footer_is_too_long_for_a_terminal() {
    let mut too_long = Vec::new();
    each(&Cli::command(), "", &mut |path, command| {
        let after = command.get_after_help().map(ToString::to_string);
        let after = after.unwrap_or_default();
        let lines = after.lines();
        too_long.extend(
            lines
                .filter(|line| line.chars().count() > FOOTER_WIDTH)
                .map(|line| format!("{path}: {line}")),
        );
    });
    assert!(too_long.is_empty(), "{}", too_long.join("\n"));
}

#[test]
fn a_context_is_the_same_flag_everywhere() {
    each(&Cli::command(), "", &mut |path, command| {
        let mut args = command.get_arguments();
        assert!(
            !args.any(|arg| arg.get_long() == Some("kube-context")),
            "{path}"
        );
        let context = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some("context"));
        if let Some(context) = context {
            let help = context.get_help().map(ToString::to_string);
            assert!(help.unwrap_or_default().contains("kubeconfig"), "{path}");
        }
    });
}

#[test]
fn the_group_of_cluster_options_has_no_others() {
    each(&Cli::command(), "", &mut |path, command| {
        for arg in command.get_arguments() {
            let is_client =
                ["kubeconfig", "context", "as_user", "as_group"].contains(&arg.get_id().as_str());
            let is_grouped = arg.get_help_heading() == Some("Cluster");
            assert!(is_client || !is_grouped, "{path} {}", arg.get_id());
        }
    });
}

#[test]
fn other_names_have_help_of_their_own() {
    let kwctl = help(dressed(Kwctl::command(), CalledAs::Kwctl), &["kwctl"]);
    assert!(kwctl.contains("Usage: kwctl "), "{kwctl}");
    assert!(kwctl.contains("\n  kwctl run "), "{kwctl}");
    assert!(!kwctl.contains("polity policy"), "{kwctl}");
    let run = help(
        dressed(Kwctl::command(), CalledAs::Kwctl),
        &["kwctl", "run"],
    );
    assert!(run.contains("Usage: kwctl run "), "{run}");
    assert!(!run.contains("polity policy"), "{run}");

    let server = dressed(PolicyServer::command(), CalledAs::PolicyServer);
    let server = help(server, &["policy-server"]);
    assert!(server.contains("Usage: policy-server "), "{server}");
    assert!(!server.contains("polity server"), "{server}");

    let plugin = dressed(Cli::command(), CalledAs::KubectlPlugin);
    let plugin = help(plugin, &["kubectl-polity", "doctor"]);
    assert!(plugin.contains("Usage: kubectl polity doctor"), "{plugin}");
    assert!(
        plugin.contains("\n  kubectl polity doctor -o json"),
        "{plugin}"
    );
}

#[test]
fn names_are_replaced_where_they_are_typed() {
    let names = ["up".to_owned()];
    let plugin = |text: &str| renamed(text, CalledAs::KubectlPlugin, &names);
    assert_eq!(plugin("  polity up -d"), "  kubectl polity up -d");
    assert_eq!(plugin("run `polity up`"), "run `kubectl polity up`");
    assert_eq!(plugin("polity runs here"), "polity runs here");
    assert_eq!(plugin("kubectl-polity up"), "kubectl-polity up");
}
