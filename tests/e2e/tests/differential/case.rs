//! Cases as data: named lists of requests.
//!
//! Paths, headers and bodies may hold `{variables}`: `{ns}` is the case's own namespace, `{group}` an API group of
//! its own, `{hook}` the base URL of the webhook server and `{ca}` its CA; the rest is what earlier steps have
//! [saved](Step::save), for each server its own.

use serde_json::Value;

/// A story told to both servers.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// `area: what happens`.
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<Step>,
}

/// A case of these steps.
pub(crate) fn case(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Case {
    Case {
        name,
        steps: steps.into_iter().collect(),
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    Admin,
    /// Someone without credentials.
    Nobody,
}

/// What a step waits for: real servers learn of new CRDs, roles and webhooks a little later.
#[derive(Debug, Clone)]
pub(crate) enum Until {
    Code(u16),
    /// The member at this JSON pointer has this value.
    Field(&'static str, Value),
    /// The object has a condition of this type and status.
    Condition(&'static str, &'static str),
}

/// One request, and what to do with its answer.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Option<String>,
    pub(crate) asker: Asker,
    /// Variable and JSON pointer.
    pub(crate) saves: Vec<(&'static str, &'static str)>,
    pub(crate) until: Option<Until>,
    /// Whether the answers are compared, or only have to be successes.
    pub(crate) compared: bool,
}

impl Step {
    fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: Vec::new(),
            body: None,
            asker: Asker::Admin,
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

    /// With this header.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// With this `Accept`.
    pub(crate) fn accept(self, value: &str) -> Self {
        self.header("accept", value)
    }

    /// As another user, by impersonation.
    pub(crate) fn impersonating(self, user: &str) -> Self {
        self.header("impersonate-user", user)
    }

    /// Without credentials.
    pub(crate) fn as_nobody(mut self) -> Self {
        self.asker = Asker::Nobody;
        self
    }

    /// Keeps a member of the answer for later steps.
    pub(crate) fn save(mut self, variable: &'static str, pointer: &'static str) -> Self {
        self.saves.push((variable, pointer));
        self
    }

    /// Repeats the request until it answers so.
    pub(crate) fn until(mut self, until: Until) -> Self {
        self.until = Some(until);
        self
    }

    /// Only to get somewhere: must succeed, is not compared.
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

/// Server-side apply by this manager; `path` may have a query of its own.
pub(crate) fn apply(path: impl Into<String>, manager: &str, body: impl Into<Value>) -> Step {
    let path = path.into();
    let joint = if path.contains('?') { '&' } else { '?' };
    Step::new("PATCH", format!("{path}{joint}fieldManager={manager}"))
        .with_body("application/apply-patch+yaml", body.into().to_string())
}

/// A request whose body is exactly this text.
pub(crate) fn raw(
    method: &'static str,
    path: impl Into<String>,
    content_type: &str,
    body: impl Into<String>,
) -> Step {
    Step::new(method, path).with_body(content_type, body)
}

/// A request without body or content type.
pub(crate) fn bare(method: &'static str, path: impl Into<String>) -> Step {
    Step::new(method, path)
}
