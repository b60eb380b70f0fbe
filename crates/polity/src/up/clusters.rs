//! The number of clusters that `polity up` runs besides the hub.

use kube::config::Kubeconfig;
use polity_apiserver::kubeconfig::context_name;
use polity_cli::local::Local;

use super::HUB;

/// The clusters of a start: cluster1 to clusterN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClusterCount {
    n_clusters: u16,
    /// Whether the number comes from the last run, and not from `--clusters`.
    is_remembered: bool,
    /// The number that starts every cluster that has data, if it is higher.
    n_with_data: Option<u16>,
}

impl ClusterCount {
    /// The given number, else that of the last run on the data directory.
    pub(crate) fn choose(given: Option<u16>, local: &Local) -> Self {
        let with_data = with_data(local);
        let n_clusters = given.unwrap_or_else(|| last_run(local).unwrap_or(with_data));
        Self {
            n_clusters,
            is_remembered: given.is_none(),
            n_with_data: (with_data > n_clusters).then_some(with_data),
        }
    }

    pub(super) fn names(&self) -> Vec<String> {
        (1..=self.n_clusters).map(name).collect()
    }

    /// Prints which clusters start, and which do not although they have data.
    pub(crate) fn print(&self) {
        for line in self.lines() {
            eprintln!("{line}");
        }
    }

    fn lines(&self) -> Vec<String> {
        let clusters = match self.n_clusters {
            1 => "1 cluster".to_owned(),
            n => format!("{n} clusters"),
        };
        let mut lines = Vec::new();
        match (self.n_clusters, self.is_remembered) {
            (0, _) => {}
            (_, true) => lines.push(format!(
                "starting the hub and {clusters}, as in the last run; --clusters N changes the number"
            )),
            (_, false) => lines.push(format!("starting the hub and {clusters}")),
        }
        if let Some(n_with_data) = self.n_with_data {
            let names = match self.n_clusters + 1 {
                first if first == n_with_data => format!("{} has", name(first)),
                first => format!("{} to {} have", name(first), name(n_with_data)),
            };
            lines.push(format!(
                "note: {names} data but will not run; --clusters {n_with_data} runs all"
            ));
        }
        lines
    }
}

fn name(number: u16) -> String {
    format!("cluster{number}")
}

/// The highest number among names such as `cluster3`.
fn highest(names: impl Iterator<Item = String>) -> u16 {
    names
        .filter_map(|name| name.strip_prefix("cluster")?.parse().ok())
        .max()
        .unwrap_or(0)
}

/// The number of clusters in the kubeconfig, which every run writes. A backup does not contain the file.
fn last_run(local: &Local) -> Option<u16> {
    let kubeconfig = Kubeconfig::read_from(local.kubeconfig()).ok()?;
    let prefix = context_name("", HUB);
    let names = kubeconfig
        .clusters
        .into_iter()
        .filter_map(|cluster| cluster.name.strip_prefix(&prefix).map(str::to_owned));
    Some(highest(names))
}

/// The number of clusters with a folder in the data directory.
fn with_data(local: &Local) -> u16 {
    let Ok(entries) = std::fs::read_dir(local.dir().join("clusters")) else {
        return 0;
    };
    highest(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data directory with the clusters of its last run, and with those that have data.
    fn data_dir(last_run: Option<u16>, with_data: u16) -> (tempfile::TempDir, Local) {
        let folder = tempfile::tempdir().unwrap();
        let local = Local::new(folder.path());
        for cluster in (1..=with_data).map(name).chain([HUB.to_owned()]) {
            std::fs::create_dir_all(folder.path().join("clusters").join(cluster)).unwrap();
        }
        if let Some(n_clusters) = last_run {
            let names = (1..=n_clusters).map(name).chain([HUB.to_owned()]);
            let entries = names.map(|name| {
                let context = context_name(&name, HUB);
                format!("- name: {context}\n  cluster: {{server: https://127.0.0.1:1/{name}}}\n")
            });
            let entries: String = entries.collect();
            let text = format!("apiVersion: v1\nkind: Config\nclusters:\n{entries}");
            std::fs::write(local.kubeconfig(), text).unwrap();
        }
        (folder, local)
    }

    fn check(given: Option<u16>, last_run: Option<u16>, with_data: u16, expected: &[&str]) {
        let (_folder, local) = data_dir(last_run, with_data);
        let chosen = ClusterCount::choose(given, &local);
        let mut lines = vec![chosen.names().join(" ")];
        lines.extend(chosen.lines());
        assert_eq!(lines, expected, "{given:?} {last_run:?} {with_data}");
    }

    #[test]
    fn a_start_without_the_flag_keeps_the_clusters_of_the_last_run() {
        check(None, None, 0, &[""]);
        check(None, Some(0), 0, &[""]);
        check(
            None,
            Some(2),
            2,
            &[
                "cluster1 cluster2",
                "starting the hub and 2 clusters, as in the last run; --clusters N changes the number",
            ],
        );
        // A restored backup has no kubeconfig.
        check(
            None,
            None,
            1,
            &[
                "cluster1",
                "starting the hub and 1 cluster, as in the last run; --clusters N changes the number",
            ],
        );
    }

    #[test]
    fn the_flag_changes_the_number_and_a_cluster_that_stays_down_is_named() {
        check(
            Some(3),
            Some(2),
            2,
            &[
                "cluster1 cluster2 cluster3",
                "starting the hub and 3 clusters",
            ],
        );
        check(
            Some(1),
            Some(2),
            2,
            &[
                "cluster1",
                "starting the hub and 1 cluster",
                "note: cluster2 has data but will not run; --clusters 2 runs all",
            ],
        );
        check(
            Some(0),
            Some(3),
            3,
            &[
                "",
                "note: cluster1 to cluster3 have data but will not run; --clusters 3 runs all",
            ],
        );
    }
}
