//! Counts API requests by reading the metrics of the API server before and after a measurement.

use std::collections::BTreeMap;

use http::Request;
use kube::Client;

const METRIC: &str = "apiserver_request_total{";
/// Verbs that change objects.
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
/// Review resources: they are created but never stored.
const QUESTIONS: [&str; 3] = [
    "tokenreviews",
    "subjectaccessreviews",
    "selfsubjectaccessreviews",
];

/// Number of requests by verb, resource and status code. Leases are not counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts(BTreeMap<Kind, u64>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    resource: String,
    verb: String,
    code: String,
}

impl Counts {
    /// Reads the number of all resource requests so far.
    pub(crate) async fn now(client: &Client) -> Self {
        let request = Request::get("/metrics").body(Vec::new());
        let text = client
            .request_text(request.expect("a request"))
            .await
            .expect("the API server serves its metrics");
        let mut all = Self::default();
        for line in text.lines() {
            if let Some((kind, n)) = parse(line) {
                *all.0.entry(kind).or_default() += n;
            }
        }
        all
    }

    /// The requests since an earlier reading.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let grown = self.0.iter().filter_map(|(kind, n)| {
            let more = n - before.0.get(kind).copied().unwrap_or(0);
            (more > 0).then(|| (kind.clone(), more))
        });
        Self(grown.collect())
    }

    /// Number of requests of every verb.
    pub(crate) fn requests(&self) -> u64 {
        self.0.values().sum()
    }

    /// Number of successful writes.
    pub(crate) fn writes(&self) -> u64 {
        self.written().map(|(_, n)| n).sum()
    }

    /// Number of requests that failed with a conflict and were retried.
    pub(crate) fn conflicts(&self) -> u64 {
        let is_conflict = |kind: &Kind| kind.code == "409";
        let all = self.0.iter().filter(|(kind, _)| is_conflict(kind));
        all.map(|(_, n)| n).sum()
    }

    /// Lists the successful writes by kind, to find unnecessary ones.
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

/// Parses one line of the metrics. Returns `None` for other metrics, for requests without a resource, and for Leases.
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
