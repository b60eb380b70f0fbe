//! The differential suite: the same requests go to a real kube-apiserver and to the embedded one, and every difference
//! must be explained.
//!
//! A [`case::Case`] is data: a list of named steps with one request each. Both servers get the same steps. Responses are
//! normalised ([`normal`]) and compared member by member ([`compare`]). [`accepted`] lists the differences that may
//! occur, each with its reason. An entry that no longer matches anything is a failure too. `DIFFERENTIAL=text` runs only
//! the cases whose name contains the text.

mod accepted;
mod case;
mod cases;
mod compare;
mod hooks;
mod normal;
mod report;
mod run;
mod servers;

use futures::StreamExt as _;
use peers::Tool;

use crate::report::Report;

/// Cases at the same time: both servers share two cores with this process.
const AT_ONCE: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn both_servers_answer_alike() {
    if Tool::Kubernetes.or_skip().is_none() {
        return;
    }
    let servers = servers::start().await.expect("both servers start");
    let filter = filter();
    let chosen = cases::all()
        .into_iter()
        .filter(|case| filter.as_ref().is_none_or(|text| case.name.contains(text)));
    let outcomes: Vec<_> = futures::stream::iter(chosen)
        .map(|case| run::run(case, &servers))
        .buffered(AT_ONCE)
        .collect()
        .await;
    let report = Report::new(&outcomes, filter.is_none());
    eprintln!("{report}");
    servers.stop().await;
    assert!(report.is_clean(), "{}", report.summary());
}

#[expect(clippy::disallowed_methods, reason = "a test has no flags of its own")]
fn filter() -> Option<String> {
    std::env::var("DIFFERENTIAL").ok()
}
