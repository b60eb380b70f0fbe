//! What `polity up` says when it is up.

use polity_cli::local::RunState;
use polity_cli::output::Paint;

use crate::samples;

/// The sample that refuses the Pod to try.
const TRIED: &str = "pod-privileged";

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
    out.push_str("  kubectl get policyservers,pods -A             what judges requests\n");
    out.push_str("  polity logs -f                                what it says\n");
    out.push_str(&samples(samples::names().collect::<Vec<_>>().as_slice()));
    if let Some(member) = run.clusters.get(1) {
        out.push_str(&format!(
            "  kubectl --context {} get ns      another cluster\n",
            member.context
        ));
    }
    out.push_str("  polity status | polity doctor                 what runs, what is wrong\n");
    out
}

/// What there is to do with the sample policies, and how to get some.
fn samples(names: &[&str]) -> String {
    if !names.contains(&TRIED) {
        return "  kubectl apply -f POLICY.yaml                  a policy of yours; this build has no samples, cargo xtask up has\n".into();
    }
    format!(
        "  kubectl get clusteradmissionpolicies          the samples, which only watch: {}\n\
         \x20 kubectl run trial --image=busybox:latest --privileged --dry-run=server   let through, and noted in the logs\n\
         \x20 kubectl patch clusteradmissionpolicy {TRIED} --type=merge -p '{{\"spec\":{{\"mode\":\"protect\"}}}}'   and then it is refused\n",
        names.join(", ")
    )
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
        assert!(text.lines().count() < 25, "{text}");
    }

    #[test]
    fn samples_are_named_with_what_to_do_about_them() {
        let text = super::samples(&["other", "pod-privileged"]);
        assert!(text.contains("other, pod-privileged"), "{text}");
        assert!(text.contains(r#"patch clusteradmissionpolicy pod-privileged --type=merge -p '{"spec":{"mode":"protect"}}'"#), "{text}");
        assert!(super::samples(&[]).contains("cargo xtask up"));
    }
}
