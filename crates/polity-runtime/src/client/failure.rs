//! Failed requests to a Kubernetes API in one line, with a hint.

use std::error::Error;
use std::io;

use kube::core::Status;

use super::address::Unreachable;

/// A failed request, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which server failed, and why.
    pub message: String,
    /// What the user can do, if there is anything.
    pub hint: Option<&'static str>,
}

/// Describes a failed request in one line. The caller adds what was attempted.
pub fn describe(error: &kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) => describe_status(status),
        kube::Error::Service(error) => match error.downcast_ref::<Unreachable>() {
            Some(unreachable) => connection(unreachable),
            None => without_response(error.as_ref()),
        },
        kube::Error::HyperError(error) => without_response(error),
        kube::Error::ReadEvents(error) => without_response(error),
        kube::Error::Auth(error) => Failure {
            message: format!(
                "cannot get credentials for the cluster: {}",
                innermost(error)
            ),
            hint: Some("check the user of the context in the kubeconfig"),
        },
        kube::Error::SerdeError(error) => Failure {
            message: one_line(&format!(
                "the server sent an object that cannot be read: {error}"
            )),
            hint: None,
        },
        other => Failure {
            message: chain(other),
            hint: None,
        },
    }
}

/// Why no response arrived, without the address of the server. For requests to processes that are not API servers.
pub fn connection_reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Service(error) => match error.downcast_ref::<Unreachable>() {
            Some(unreachable) => Cause::of(unreachable.error.as_ref()).reason,
            None => Cause::of(error.as_ref()).reason,
        },
        kube::Error::HyperError(error) => Cause::of(error).reason,
        other => describe(other).message,
    }
}

/// A refusal of an API server in one line.
pub fn describe_status(status: &Status) -> Failure {
    let server = status
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.self_link.as_deref());
    let server = match server {
        Some(server) => format!("the server at {server}"),
        None => "the server".to_owned(),
    };
    let (verb, hint) = refusal(status);
    let message = match one_line(&status.message) {
        message if message.is_empty() => format!("{server} {verb} (HTTP {})", status.code),
        message => format!("{server} {verb}: {message}"),
    };
    Failure { message, hint }
}

fn refusal(status: &Status) -> (&'static str, Option<&'static str>) {
    // An object that is missing has details; a path that nothing serves has none.
    let names_object = status
        .details
        .as_ref()
        .is_some_and(|details| !details.name.is_empty());
    match status.code {
        401 => (
            "does not accept the credentials",
            Some(
                "check the user of the context in the kubeconfig, or choose another with --context",
            ),
        ),
        403 => (
            "refused the request",
            Some("ask for the right that the message names, or act as another user with --as"),
        ),
        404 if names_object => ("does not have it", Some("check the name and the namespace")),
        404 => (
            "does not serve it",
            Some(
                "install Polity there with `polity install`, or choose another cluster with --context",
            ),
        ),
        409 if status.reason == "AlreadyExists" => (
            "has an object of this name already",
            Some("choose another name, or change or delete the object that exists"),
        ),
        409 => (
            "reported a conflict",
            Some("another client changed the object at the same time; run the command again"),
        ),
        408 | 504 => (
            "did not answer in time",
            Some("run the command again; if that does not help, look at the log of the server"),
        ),
        429 | 503 => ("is overloaded", Some("run the command again in a moment")),
        400..=499 => ("rejected the request", None),
        _ => ("failed", Some("look at the log of the server")),
    }
}

fn connection(unreachable: &Unreachable) -> Failure {
    let Unreachable { server, error } = unreachable;
    let cause = Cause::of(error.as_ref());
    let message = format!(
        "cannot reach the Kubernetes API at {server}: {}",
        cause.reason
    );
    Failure {
        message,
        hint: Some(cause.hint),
    }
}

fn without_response(error: &(dyn Error + 'static)) -> Failure {
    let cause = Cause::of(error);
    Failure {
        message: format!("cannot reach the Kubernetes API: {}", cause.reason),
        hint: Some(cause.hint),
    }
}

/// Why a connection failed.
struct Cause {
    reason: String,
    hint: &'static str,
}

impl Cause {
    fn of(error: &(dyn Error + 'static)) -> Self {
        for cause in causes(error) {
            if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
                return Self {
                    reason: one_line(&format!("TLS failed: {tls}")),
                    hint: "the kubeconfig may be older than the cluster; get a current one, or check its certificate-authority-data",
                };
            }
            let io = cause.downcast_ref::<io::Error>();
            if let Some(reason) = io.and_then(|io| common(io.kind())) {
                return Self {
                    reason: reason.to_owned(),
                    hint: IS_IT_RUNNING,
                };
            }
        }
        Self {
            reason: innermost(error),
            hint: IS_IT_RUNNING,
        }
    }
}

const IS_IT_RUNNING: &str = "check that the cluster runs (`polity status` for the local instance), or choose another with --kubeconfig or --context";

/// Short texts for common failures. The text of the system ends in an error number, which does not help users.
fn common(kind: io::ErrorKind) -> Option<&'static str> {
    Some(match kind {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset => "connection reset",
        io::ErrorKind::ConnectionAborted | io::ErrorKind::UnexpectedEof => "connection closed",
        io::ErrorKind::TimedOut => "no answer in time",
        io::ErrorKind::HostUnreachable => "host unreachable",
        io::ErrorKind::NetworkUnreachable => "network unreachable",
        _ => return None,
    })
}

/// An error and its causes, those inside of I/O errors too.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // The source of an I/O error is the source of the error inside it, which would be skipped.
        let inside = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        match inside {
            Some(inside) => Some(inside as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    let last = causes(error).last().unwrap_or(error);
    one_line(&last.to_string())
}

/// An error with its causes. A cause that its error has already written is not repeated.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in causes(error).skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    one_line(&text)
}

/// Text that others wrote, in one line: nothing in it may break a line, or move the cursor or set colours on a terminal.
pub fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control() || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests;
