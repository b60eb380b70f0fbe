//! Runs the steps of a page and stops at the first difference.

use std::fs;

use peers::Tool;

use crate::page::{self, Action, Command, Ends, Step};
use crate::shell::Shell;
use crate::{compare, limits, repository};

/// Runs a page.
///
/// # Panics
/// At the first step that differs from the page, with the line, the command and the difference.
pub(crate) fn check(path: &str) {
    let text = fs::read_to_string(repository().join(path)).unwrap();
    let steps = page::steps(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (Some(kubectl), Some(_)) = (Tool::Kubectl.or_skip(), Tool::Policies.or_skip()) else {
        return;
    };
    let commands: Vec<&str> = steps.iter().filter_map(executed).collect();
    let _held = limits::wait_for(&commands);
    let mut shell = Shell::start(repository(), &kubectl);
    for step in &steps {
        if let Err(reason) = run(&mut shell, path, step) {
            panic!("{path}:{}: {reason}", step.line);
        }
    }
}

/// The text that a step executes.
fn executed(step: &Step) -> Option<&str> {
    match &step.action {
        Action::Run(command) => Some(&command.text),
        Action::Setup(script) => Some(script),
        Action::Write { .. } | Action::Skip(_) => None,
    }
}

fn run(shell: &mut Shell, path: &str, step: &Step) -> Result<(), String> {
    match &step.action {
        Action::Write { path, text } => shell.write(path, text),
        Action::Skip(command) => {
            eprintln!("not run: {path}:{}: {}", step.line, command.text);
            Ok(())
        }
        Action::Setup(script) => {
            let ended = shell.run(&format!("set -e\n{script}\nset +e"))?;
            match ended.code {
                0 => Ok(()),
                code => Err(format!("the setup ended with {code}:\n{}", ended.output)),
            }
        }
        Action::Run(command) => {
            compared(shell, command).map_err(|reason| format!("$ {}\n{reason}", command.text))
        }
    }
}

fn compared(shell: &mut Shell, command: &Command) -> Result<(), String> {
    let ended = shell.run(&command.text)?;
    let is_right = match command.ends {
        Ends::Success => ended.code == 0,
        Ends::Failure => ended.code != 0,
        Ends::Either => true,
    };
    if !is_right {
        let (code, output) = (ended.code, ended.output);
        return Err(format!(
            "unexpected exit code {code}; it printed:\n{output}"
        ));
    }
    match compare::difference(&command.expected, &ended.output) {
        None => Ok(()),
        Some(difference) => Err(difference),
    }
}
