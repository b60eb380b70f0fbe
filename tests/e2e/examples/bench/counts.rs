//! What the API server counts: its own metrics, before and after.

use std::collections::BTreeMap;

use http::Request;
use kube::Client;

const METRIC: &str = "apiserver_request_total{";
/// Verbs that change objects.
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
/// What is created and never kept: questions in the form of objects.
const QUESTIONS: [&str; 3] = [
    "tokenreviews",
    "subjectaccessreviews",
    "selfsubjectaccessreviews",
];

/// Requests by what they were, Leases left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts(BTreeMap<Kind, u64>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    resource: String,
    verb: String,
    code: String,
}

impl Counts {
    /// All requests about objects so far.
    pub(crate) async fn now(client: &Client) -> Self {
        let request = Request::get("/metrics").body(Vec::new());
        let text = client
            .request_text(request.expect("a request"))
            .await
            .expect("the API server tells what it counts");
        let mut all = Self::default();
        for line in text.lines() {
            if let Some((kind, n)) = parse(line) {
                *all.0.entry(kind).or_default() += n;
            }
        }
        all
    }

    /// What came since then.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let grown = self.0.iter().filter_map(|(kind, n)| {
            let more = n - before.0.get(kind).copied().unwrap_or(0);
            (more > 0).then(|| (kind.clone(), more))
        });
        Self(grown.collect())
    }

    /// Requests of every verb.
    pub(crate) fn requests(&self) -> u64 {
        self.0.values().sum()
    }

    /// Writes that succeeded.
    pub(crate) fn writes(&self) -> u64 {
        self.written().map(|(_, n)| n).sum()
    }

    /// Requests that came too late for the object they were about, and were sent again.
    pub(crate) fn conflicts(&self) -> u64 {
        let is_conflict = |kind: &Kind| kind.code == "409";
        let all = self.0.iter().filter(|(kind, _)| is_conflict(kind));
        all.map(|(_, n)| n).sum()
    }

    /// Each kind of write that succeeded, for whoever looks for one too many.
    pub(crate) fn shown(&self) -> String {
        let each = |(kind, n): (&Kind, u64)| format!("{} {} × {n}", kind.verb, kind.resource);
        self.written().map(each).collect::<Vec<_>>().join(", ")
    }

    fn written(&self) -> impl Iterator<Item = (&Kind, u64)> {
        let is_write = |kind: &Kind| {
            WRITES.contains(&kind.verb.as_str())
                && kind.code.starts_with('2')
                && !QUESTIONS.contains(&kind.resource.as_str())
                && kind.resource != "serviceaccounts/token"
        };
        self.0
            .iter()
            .filter(move |(kind, _)| is_write(kind))
            .map(|(kind, n)| (kind, *n))
    }
}

/// One line of the metrics; `None` for another metric, for what is no object, and for Leases.
fn parse(line: &str) -> Option<(Kind, u64)> {
    let (labels, value) = line.strip_prefix(METRIC)?.rsplit_once("} ")?;
    let labels: BTreeMap<&str, &str> = labels
        .split("\",")
        .filter_map(|label| label.split_once("=\""))
        .map(|(name, value)| (name, value.trim_end_matches('"')))
        .collect();
    let label = |name: &str| labels.get(name).copied().unwrap_or_default();
    let resource = match (label("resource"), label("subresource")) {
        ("" | "leases", _) => return None,
        (resource, "") => resource.to_owned(),
        (resource, part) => format!("{resource}/{part}"),
    };
    let kind = Kind {
        resource,
        verb: label("verb").to_owned(),
        code: label("code").to_owned(),
    };
    Some((kind, value.trim().parse::<f64>().ok()? as u64))
}
