//! How commands end: 0 fine, 1 findings, 2 error, 3 incomplete, 64 wrong usage.

use std::io::{self, Write as _};
use std::process::ExitCode;

use kube::runtime::watcher;
use polity_runtime::client::{ConnectError, Failure, describe, describe_status};
use polity_source::attachment::NameError;
use polity_source::cluster::FillError;
use polity_source::manifests::LoadError;
use polity_source::reports::ReportReadError;

/// The most kinds that a hint lists: those of a few files, not those of a cluster.
const KINDS_SHOWN: usize = 8;
/// What a shell makes of a program that a closed pipe ended.
const UNREAD: u8 = 141;

/// The end of a command that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Fine,
    /// It ran, and what it looked for is not as it should be.
    Findings,
    /// A code of its own, for a command whose users know others.
    Code(u8),
    /// It ran and found nothing, but could not see everything.
    Incomplete,
}

/// What went wrong, in one line, with what to do about it in another.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Hinted {
    pub message: String,
    pub hint: String,
}

impl Hinted {
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Fine => Self::SUCCESS,
            Exit::Findings => Self::from(1),
            Exit::Code(code) => Self::from(code),
            Exit::Incomplete => Self::from(3),
        }
    }
}

/// An error with its causes, in one line. A cause that is in the line already is not repeated.
///
/// Every error of a command is printed through this function: a failed request to an API server is described by
/// [`polity_runtime::client::describe`], never by the `Display` of the client library.
pub fn in_words(error: &anyhow::Error) -> String {
    let mut words: Vec<String> = Vec::new();
    for cause in error.chain() {
        let (text, is_last) = match Cause::of(cause) {
            Cause::Failure(failure) => (failure.message, true),
            Cause::Wrapper => continue,
            Cause::Other => (without_number(&cause.to_string()), false),
        };
        if !words.last().is_some_and(|last| last.ends_with(&text)) {
            words.push(text);
        }
        if is_last {
            break;
        }
    }
    words.join(": ")
}

/// An error of the operating system without its number.
fn without_number(text: &str) -> String {
    let Some((before, after)) = text.split_once(" (os error ") else {
        return text.to_owned();
    };
    let rest = after.split_once(')').map_or("", |(_, rest)| rest);
    let before = before.replace("No such file or directory", "no such file or directory");
    format!("{before}{rest}")
}

/// What the user can do about an error, if that is known.
pub(crate) fn hint_of(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        if let Some(hinted) = cause.downcast_ref::<Hinted>() {
            return Some(hinted.hint.clone());
        }
        if let Some(connect) = cause.downcast_ref::<ConnectError>() {
            return Some(connect.hint());
        }
        if let Some(load) = cause.downcast_ref::<LoadError>() {
            return load.hint().map(str::to_owned);
        }
        if let Some(fill) = cause.downcast_ref::<FillError>() {
            return fill.hint().map(str::to_owned);
        }
        if let Some(name) = cause.downcast_ref::<NameError>() {
            return Some(name_hint(name));
        }
        if let Some(ReportReadError::NotServed) = cause.downcast_ref::<ReportReadError>() {
            let hint = "install Polity there, or read files: polity report view -m DIR";
            return Some(hint.to_owned());
        }
        match Cause::of(cause) {
            Cause::Failure(failure) => failure.hint.map(str::to_owned),
            Cause::Wrapper | Cause::Other => None,
        }
    })
}

/// How to name an object or a kind so that it is found.
fn name_hint(error: &NameError) -> String {
    match error {
        NameError::UnknownKind { similar, known, .. } if similar.is_empty() => {
            let here = match known.len() {
                n if n <= KINDS_SHOWN => format!("the kinds here are {}; ", known.join(", ")),
                _ => String::new(),
            };
            format!("{here}`kubectl api-resources` lists all kinds of a cluster")
        }
        NameError::UnknownKind { similar, .. } => format!("did you mean {}?", similar.join(", ")),
        NameError::AmbiguousKind { .. } => "name the group too: KIND.group/NAME".to_owned(),
        NameError::NoName(_) => "write KIND/NAME".to_owned(),
        NameError::NotFound(object) if object.namespace.is_none() => {
            format!(
                "`kubectl get {}` lists those that exist",
                object.kind.to_lowercase()
            )
        }
        NameError::NotFound(_) => {
            "name another namespace with -n, or another source with -m".to_owned()
        }
    }
}

/// One error in a chain.
enum Cause {
    /// A failed request, which its own causes are a part of.
    Failure(Failure),
    /// An error that only repeats its cause.
    Wrapper,
    Other,
}

impl Cause {
    fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        if let Some(error) = error.downcast_ref::<kube::Error>() {
            return Self::Failure(describe(error));
        }
        if let Some(error) = error.downcast_ref::<Box<kube::Error>>() {
            return Self::Failure(describe(error));
        }
        match error.downcast_ref::<watcher::Error>() {
            Some(watcher::Error::WatchError(status)) => Self::Failure(describe_status(status)),
            Some(watcher::Error::NoResourceVersion) | None => Self::Other,
            Some(
                watcher::Error::InitialListFailed(_)
                | watcher::Error::WatchStartFailed(_)
                | watcher::Error::WatchFailed(_),
            ) => Self::Wrapper,
        }
    }
}

/// Prints an error with its causes and its hint to stderr; the code is 2.
///
/// A closed pipe is not reported: `polity … | head` ends as other programs do.
pub fn report(error: &anyhow::Error) -> ExitCode {
    // Only our own writes to stdout fail without another error around them.
    let io = error.downcast_ref::<io::Error>();
    if io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::from(UNREAD);
    }
    let mut line = format!("error: {}", in_words(error));
    if let Some(hint) = hint_of(error) {
        line.push_str("\nhint: ");
        line.push_str(&hint);
    }
    // With stderr closed there is nowhere to report to.
    writeln!(io::stderr(), "{line}").ok();
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;
    use kube::core::Status;

    use super::*;

    fn forbidden() -> kube::Error {
        let status = Status::failure("pods is forbidden", "Forbidden").with_code(403);
        kube::Error::Api(status.boxed())
    }

    #[test]
    fn a_refused_request_is_described_wherever_it_is_in_the_chain() {
        let expected = "listing Pods: the server refused the request: pods is forbidden";
        let plain = Err::<(), _>(forbidden()).context("listing Pods");
        let watched = watcher::Error::InitialListFailed(forbidden());
        let watched = Err::<(), _>(watched).context("listing Pods");
        for error in [plain.unwrap_err(), watched.unwrap_err()] {
            assert_eq!(in_words(&error), expected);
            assert!(hint_of(&error).is_some_and(|hint| hint.contains("--as")));
        }
        let status = Status::failure("too old", "Expired").with_code(410);
        let gone = watcher::Error::WatchError(status.boxed());
        assert_eq!(
            in_words(&gone.into()),
            "the server rejected the request: too old"
        );
    }

    #[test]
    fn an_unknown_kind_leads_to_the_kinds_that_exist() {
        let known: Vec<String> = (0..30).map(|n| format!("Kind{n:02}")).collect();
        let unknown = |similar: &[&str], known: &[String]| NameError::UnknownKind {
            text: "pods".to_owned(),
            similar: similar.iter().map(|it| (*it).to_owned()).collect(),
            known: known.to_vec(),
        };
        assert_eq!(
            name_hint(&unknown(&[], &known[..2])),
            "the kinds here are Kind00, Kind01; `kubectl api-resources` lists all kinds of a cluster"
        );
        let many = name_hint(&unknown(&[], &known));
        assert_eq!(many, "`kubectl api-resources` lists all kinds of a cluster");
        assert_eq!(name_hint(&unknown(&["PodX"], &known)), "did you mean PodX?");
    }

    #[test]
    fn an_error_of_the_operating_system_has_no_number() {
        let missing = std::fs::read_to_string("/no/such/file");
        let error = missing.context("reading /no/such/file").unwrap_err();
        assert_eq!(
            in_words(&error),
            "reading /no/such/file: no such file or directory"
        );
    }

    #[test]
    fn a_hint_of_our_own_comes_before_that_of_the_failure() {
        let hinted = Hinted::new("there is no policy", "kubectl get cap");
        let error = anyhow::Error::new(hinted).context("looking");
        assert_eq!(in_words(&error), "looking: there is no policy");
        assert_eq!(hint_of(&error).as_deref(), Some("kubectl get cap"));
    }
}
