//! What `polity up` prints when it is up.

mod facts;

use polity_cli::local::{RunState, command_in, quoted};
use polity_cli::output::Paint;

pub(crate) use facts::Facts;

use facts::Server;

/// The sample that rejects the Pod to try.
const TRIED: &str = "pod-privileged";
/// How many clusters are listed.
const SHOWN: usize = 6;
/// Where the second column begins.
const COLUMN: usize = 40;
/// The width of a line, except for paths that are longer.
const WIDTH: usize = 80;

/// A short text: what runs where, and what to try next.
pub(crate) fn text(run: &RunState, facts: &Facts, paint: Paint) -> String {
    let mut out = format!(
        "\n{} {} is up (pid {})\n\n",
        paint.bold("polity"),
        run.version,
        run.pid
    );
    out.push_str(&clusters(run));
    let kubeconfig = quoted(&run.kubeconfig);
    let export = paint.bold(&format!("export KUBECONFIG={kubeconfig}"));
    out.push_str(&format!("\n  {export}\n"));
    if let Some(log) = &facts.log {
        out.push_str(&format!("  log: {}\n", log.display()));
    }
    out.push_str("\nTry:\n");
    for (command, what) in commands(run, facts) {
        let fits = command.len() <= COLUMN && COLUMN + what.len() + 4 <= WIDTH;
        match fits {
            true => out.push_str(&format!("  {command:COLUMN$}  {what}\n")),
            false => out.push_str(&format!("  # {what}\n  {command}\n")),
        }
    }
    for note in notes(facts) {
        out.push_str(&format!("\nnote: {note}\n"));
    }
    out
}

fn clusters(run: &RunState) -> String {
    let names = run.clusters.iter().map(|cluster| cluster.name.len());
    let width = names.max().unwrap_or(0);
    let n_shown = match run.clusters.len() {
        // One more line is no shorter than the line that says so.
        n if n == SHOWN + 1 => n,
        n => n.min(SHOWN),
    };
    let mut out = String::new();
    for cluster in &run.clusters[..n_shown] {
        out.push_str(&format!(
            "  {:width$}   {}   --context {}\n",
            cluster.name, cluster.server, cluster.context
        ));
    }
    let n_more = run.clusters.len() - n_shown;
    if n_more > 0 {
        out.push_str(&format!("  … and {n_more} more: polity status\n"));
    }
    out
}

/// Commands to try, with what they show, as far as they fit this instance.
fn commands(run: &RunState, facts: &Facts) -> Vec<(String, String)> {
    let polity = |command: &str| command_in(facts.data_dir.as_deref(), command);
    let line = |command: &str, what: &str| (command.to_owned(), what.to_owned());
    let mut all = vec![line("kubectl get namespaces", "the cluster answers")];
    if facts.server != Server::Absent {
        all.push(line(
            "kubectl get policyservers,pods -A",
            "the policy server and its Pods",
        ));
        all.push((polity("logs -f"), "its logs".to_owned()));
        all.extend(policies(facts));
    }
    if let Some(member) = run.clusters.get(1) {
        let command = format!("kubectl --context {} get namespaces", member.context);
        all.push((command, "another cluster".to_owned()));
    }
    all.push((polity("status"), "what runs".to_owned()));
    all.push((polity("doctor"), "what is wrong".to_owned()));
    all
}

fn policies(facts: &Facts) -> Vec<(String, String)> {
    let line = |command: &str, what: String| (command.to_owned(), what);
    if facts.samples.is_empty() {
        return vec![line(
            "kubectl apply -f POLICY.yaml",
            "a policy of yours".to_owned(),
        )];
    }
    let list = facts.samples.iter().map(|sample| {
        let mode = if sample.protects {
            "protect"
        } else {
            "monitor"
        };
        format!("{} ({mode})", sample.name)
    });
    let list = list.collect::<Vec<_>>().join(", ");
    let mut all = vec![line(
        "kubectl get clusteradmissionpolicies",
        format!("the samples: {list}"),
    )];
    let tried = facts.samples.iter().find(|sample| sample.name == TRIED);
    let run = "kubectl run trial --image=busybox --privileged --dry-run=server";
    match tried {
        Some(sample) if sample.protects => {
            all.push(line(run, format!("rejected by {TRIED}")));
        }
        Some(_) => {
            let logged = format!("accepted: {TRIED} only monitors; polity logs shows its verdict");
            all.push(line(run, logged));
            let patch = format!(
                "kubectl patch clusteradmissionpolicy {TRIED} --type=merge \\\n      -p '{{\"spec\":{{\"mode\":\"protect\"}}}}'"
            );
            all.push(line(&patch, "from then on the Pod is rejected".to_owned()));
        }
        None => {}
    }
    all
}

fn notes(facts: &Facts) -> Vec<String> {
    let mut notes = Vec::new();
    match facts.server {
        Server::Absent => notes.push(
            "there is no policy server \"default\";\n      polity up without --no-policy-server creates it".to_owned(),
        ),
        Server::Restored => notes.push(
            "the policy server \"default\" was missing and has been created again;\n      --no-policy-server leaves it out"
                .to_owned(),
        ),
        Server::Present => {}
    }
    if !facts.brings_samples {
        notes
            .push("this build brings no sample policies; cargo xtask up builds them in".to_owned());
    }
    if facts.is_exposed {
        notes.push("the API is reachable from other machines;\n      everyone with the kubeconfig is its administrator".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use polity_cli::local::ClusterState;

    use super::facts::Sample;
    use super::*;

    fn run(n_clusters: usize) -> RunState {
        let clusters = (0..n_clusters).map(|n| ClusterState {
            name: format!("c{n}"),
            server: format!("https://x/{n}"),
            context: format!("polity-c{n}"),
        });
        RunState {
            pid: 1,
            version: "0".into(),
            started: "2026-01-01T00:00:00Z".parse().unwrap(),
            kubeconfig: "/k".into(),
            clusters: clusters.collect(),
        }
    }

    fn facts(samples: &[(&str, bool)]) -> Facts {
        let sample = |(name, protects): &(&str, bool)| Sample {
            name: (*name).to_owned(),
            protects: *protects,
        };
        Facts {
            data_dir: None,
            server: Server::Present,
            samples: samples.iter().map(sample).collect(),
            brings_samples: true,
            log: None,
            is_exposed: false,
        }
    }

    fn shown(facts: &Facts) -> String {
        text(&run(1), facts, Paint::plain())
    }

    #[test]
    fn many_clusters_do_not_flood_the_terminal() {
        let text = text(&run(21), &facts(&[]), Paint::plain());
        assert!(text.contains("and 15 more"), "{text}");
        assert!(text.contains("export KUBECONFIG=/k"), "{text}");
        assert!(text.lines().count() < 25, "{text}");
    }

    #[test]
    fn samples_are_named_with_their_modes() {
        let text = shown(&facts(&[("other", true), (TRIED, false)]));
        assert!(
            text.contains("other (protect), pod-privileged (monitor)"),
            "{text}"
        );
        assert!(text.contains("only monitors"), "{text}");
        let patch = "patch clusteradmissionpolicy pod-privileged --type=merge \\\n      \
                     -p '{\"spec\":{\"mode\":\"protect\"}}'";
        assert!(text.contains(patch), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        let text = shown(&facts(&[(TRIED, true)]));
        assert!(
            text.contains("rejected by pod-privileged") && !text.contains("patch"),
            "{text}"
        );
        let text = shown(&facts(&[("other", false)]));
        assert!(
            !text.contains("kubectl run") && !text.contains("patch"),
            "{text}"
        );
        let text = shown(&facts(&[]));
        assert!(
            text.contains("kubectl apply -f POLICY.yaml") && !text.contains("samples"),
            "{text}"
        );
    }

    #[test]
    fn hints_fit_the_instance() {
        let elsewhere = Facts {
            data_dir: Some("/my data".into()),
            ..facts(&[])
        };
        let text = shown(&elsewhere);
        for command in ["logs -f", "status", "doctor"] {
            assert!(
                text.contains(&format!("polity {command} --data-dir '/my data'")),
                "{text}"
            );
        }
        let bare = Facts {
            server: Server::Absent,
            brings_samples: false,
            is_exposed: true,
            ..facts(&[(TRIED, false)])
        };
        let text = shown(&bare);
        assert!(
            !text.contains("policyservers,pods") && !text.contains("kubectl run"),
            "{text}"
        );
        assert!(
            text.contains("--no-policy-server") && text.contains("cargo xtask up"),
            "{text}"
        );
        assert!(text.contains("other machines"), "{text}");
        let restored = Facts {
            server: Server::Restored,
            ..facts(&[])
        };
        assert!(shown(&restored).contains("created again"));
    }
}
