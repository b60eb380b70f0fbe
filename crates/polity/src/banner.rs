//! What `polity up` says when it is up.

use polity_cli::local::RunState;
use polity_cli::output::Paint;

/// A short text: what runs where, and what to try next.
pub(crate) fn text(run: &RunState, paint: Paint) -> String {
    let mut out = format!(
        "\n{} {} is up (pid {})\n\n",
        paint.bold("polity"),
        run.version,
        run.pid
    );
    let width = run
        .clusters
        .iter()
        .map(|cluster| cluster.name.len())
        .max()
        .unwrap_or(0);
    const SHOWN: usize = 6;
    for (index, cluster) in run.clusters.iter().enumerate() {
        if index == SHOWN && run.clusters.len() > SHOWN + 1 {
            out.push_str(&format!(
                "  … and {} more: polity status\n",
                run.clusters.len() - SHOWN
            ));
            break;
        }
        out.push_str(&format!(
            "  {:width$}   {}   --context {}\n",
            cluster.name, cluster.server, cluster.context
        ));
    }
    out.push_str(&format!(
        "\n  {}\n\nTry:\n",
        paint.bold(&format!("export KUBECONFIG={}", run.kubeconfig.display()))
    ));
    out.push_str("  kubectl get namespaces                        the cluster answers\n");
    out.push_str("  kubectl api-resources --api-group policies.kubewarden.io   our kinds\n");
    if let Some(member) = run.clusters.get(1) {
        out.push_str(&format!(
            "  kubectl --context {} get ns      another cluster\n",
            member.context
        ));
    }
    out.push_str("  polity status | polity doctor                 what runs, what is wrong\n");
    out
}

#[cfg(test)]
mod tests {
    use polity_cli::local::ClusterState;

    use super::*;

    #[test]
    fn many_clusters_do_not_flood_the_terminal() {
        let clusters = (0..21)
            .map(|n| ClusterState {
                name: format!("c{n}"),
                server: format!("https://x/{n}"),
                context: format!("polity-c{n}"),
            })
            .collect();
        let run = RunState {
            pid: 1,
            version: "0".into(),
            started: "2026-01-01T00:00:00Z".parse().unwrap(),
            kubeconfig: "/k".into(),
            clusters,
        };
        let text = text(&run, Paint::plain());
        assert!(text.contains("and 15 more"), "{text}");
        assert!(text.contains("export KUBECONFIG=/k"), "{text}");
        assert!(text.lines().count() < 20, "{text}");
    }
}
