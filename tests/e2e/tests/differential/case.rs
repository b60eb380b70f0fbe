//! Cases as data: named lists of requests.
//!
//! Paths, headers and bodies may contain `{variables}`: `{ns}` is the namespace of the case, `{group}` its API group,
//! `{hook}` the base URL of the webhook server and `{ca}` its CA. All other variables were [saved](Step::save) by
//! earlier steps, separately for each server.

use serde_json::Value;

/// A sequence of requests that is sent to both servers.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// `area: behaviour`.
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<Step>,
}

pub(crate) fn case(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Case {
    Case {
        name,
        steps: steps.into_iter().collect(),
    }
}

/// The credentials of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    Admin,
    /// No credentials.
    Anonymous,
}

/// The condition that a step waits for. Real servers apply new CRDs, roles and webhooks with a short delay.
#[derive(Debug, Clone)]
pub(crate) enum Until {
    Code(u16),
    /// The member at this JSON pointer has this value.
    Field(&'static str, Value),
    /// The object has a condition of this type and status.
    Condition(&'static str, &'static str),
}

/// One request, and how its response is used.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Option<String>,
    pub(crate) identity: Identity,
    /// Variable names and JSON pointers.
    pub(crate) saves: Vec<(&'static str, &'static str)>,
    pub(crate) until: Option<Until>,
    /// Whether the responses are compared. Otherwise the request only has to succeed.
    pub(crate) compared: bool,
}

impl Step {
    fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: Vec::new(),
            body: None,
            identity: Identity::Admin,
            saves: Vec::new(),
            until: None,
            compared: true,
        }
    }

    fn with_body(mut self, content_type: &str, body: impl Into<String>) -> Self {
        self.headers.push(("content-type", content_type.to_owned()));
        self.body = Some(body.into());
        self
    }

    /// Adds a header.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Sets the `Accept` header.
    pub(crate) fn accept(self, value: &str) -> Self {
        self.header("accept", value)
    }

    /// Impersonates a user.
    pub(crate) fn impersonating(self, user: &str) -> Self {
        self.header("impersonate-user", user)
    }

    /// Sends the request without credentials.
    pub(crate) fn as_anonymous(mut self) -> Self {
        self.identity = Identity::Anonymous;
        self
    }

    /// Saves a member of the response for later steps.
    pub(crate) fn save(mut self, variable: &'static str, pointer: &'static str) -> Self {
        self.saves.push((variable, pointer));
        self
    }

    /// Repeats the request until the condition is fulfilled.
    pub(crate) fn until(mut self, until: Until) -> Self {
        self.until = Some(until);
        self
    }

    /// Marks a step that must succeed but is not compared.
    pub(crate) fn setup(mut self) -> Self {
        self.compared = false;
        self
    }
}

pub(crate) fn get(path: impl Into<String>) -> Step {
    Step::new("GET", path)
}

pub(crate) fn post(path: impl Into<String>, body: impl Into<Value>) -> Step {
    Step::new("POST", path).with_body("application/json", body.into().to_string())
}

pub(crate) fn put(path: impl Into<String>, body: impl Into<Value>) -> Step {
    Step::new("PUT", path).with_body("application/json", body.into().to_string())
}

pub(crate) fn delete(path: impl Into<String>) -> Step {
    Step::new("DELETE", path)
}

pub(crate) fn delete_with(path: impl Into<String>, options: impl Into<Value>) -> Step {
    Step::new("DELETE", path).with_body("application/json", options.into().to_string())
}

pub(crate) fn merge(path: impl Into<String>, body: impl Into<Value>) -> Step {
    Step::new("PATCH", path).with_body("application/merge-patch+json", body.into().to_string())
}

pub(crate) fn strategic(path: impl Into<String>, body: impl Into<Value>) -> Step {
    Step::new("PATCH", path).with_body(
        "application/strategic-merge-patch+json",
        body.into().to_string(),
    )
}

pub(crate) fn json_patch(path: impl Into<String>, body: impl Into<Value>) -> Step {
    Step::new("PATCH", path).with_body("application/json-patch+json", body.into().to_string())
}

/// Server-side apply by this manager. `path` may have a query.
pub(crate) fn apply(path: impl Into<String>, manager: &str, body: impl Into<Value>) -> Step {
    let path = path.into();
    let joint = if path.contains('?') { '&' } else { '?' };
    Step::new("PATCH", format!("{path}{joint}fieldManager={manager}"))
        .with_body("application/apply-patch+yaml", body.into().to_string())
}

/// A request with exactly this body.
pub(crate) fn raw(
    method: &'static str,
    path: impl Into<String>,
    content_type: &str,
    body: impl Into<String>,
) -> Step {
    Step::new(method, path).with_body(content_type, body)
}

/// A request without body and content type.
pub(crate) fn bare(method: &'static str, path: impl Into<String>) -> Step {
    Step::new(method, path)
}
