//! The checks of the instance on this machine: its data, its process, its files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use polity_store::{Options, Store};

use super::processes::{self, Process};
use crate::health::Finding;
use crate::local::{Local, RunState, quoted, store_hint};

const DATA: &str = "data directory";
const PROCESS: &str = "process";
const STORE: &str = "store";
const ORPHANS: &str = "local processes";
const KUBECONFIG: &str = "kubeconfig";
/// Less free space than this is a problem.
const MIN_FREE_MIB: u64 = 200;

/// The findings about the instance, and its state if it runs.
pub(super) fn findings(local: &Local) -> (Vec<Finding>, Option<RunState>) {
    let mut findings = vec![data_directory(local)];
    let run = process(local, &mut findings);
    findings.push(store(local, run.as_ref()));
    findings.push(orphans(local, run.as_ref()));
    if let Some(run) = &run {
        findings.push(kubeconfig_file(local, &run.kubeconfig));
        findings.push(kubeconfig_variable(&run.kubeconfig));
    }
    (findings, run)
}

/// The same checks, for a cluster that does not run on this machine.
pub(super) fn not_applicable() -> Vec<Finding> {
    let checks = [DATA, PROCESS, STORE, ORPHANS, KUBECONFIG];
    checks
        .map(|check| Finding::not_applicable(check, "only for the local instance"))
        .into()
}

fn data_directory(local: &Local) -> Finding {
    let dir = local.dir();
    if !dir.exists() {
        return Finding::note(DATA, format!("{} does not exist yet", dir.display()))
            .fix(format!("{} creates it", local.command("up")));
    }
    if let Err(error) = tempfile::NamedTempFile::new_in(dir) {
        return Finding::problem(DATA, format!("is not writable: {error}"))
            .about(dir.display().to_string())
            .fix("choose another with --data-dir, or change its permissions");
    }
    let Ok(disk) = rustix::fs::statvfs(dir) else {
        return Finding::ok(DATA, dir.display().to_string());
    };
    let free_mib = disk.f_bavail * disk.f_frsize / (1024 * 1024);
    if free_mib < MIN_FREE_MIB {
        return Finding::problem(DATA, format!("only {free_mib} MiB are free"))
            .about(dir.display().to_string())
            .fix("free some disk space: writes are refused when the disk is full");
    }
    Finding::ok(DATA, format!("{}, {free_mib} MiB free", dir.display()))
}

fn process(local: &Local, findings: &mut Vec<Finding>) -> Option<RunState> {
    let restart = || restart(local);
    let finding = match (local.is_held(), local.last_run()) {
        (Err(error), _) => Finding::problem(PROCESS, format!("{error:#}"))
            .fix("change the permissions of the data directory"),
        (Ok(true), Ok(Some(run))) => {
            let message = format!("runs as pid {} since {}", run.pid, run.started);
            findings.push(Finding::ok(PROCESS, message));
            let this = env!("CARGO_PKG_VERSION");
            if run.version != this {
                let message = format!("{} runs, this program is {this}", run.version);
                findings.push(Finding::note("version", message).fix(restart()));
            }
            return Some(run);
        }
        (Ok(true), Ok(None)) => {
            Finding::note(PROCESS, "is starting").fix("check again in a few seconds")
        }
        (Ok(true), Err(error)) => Finding::problem(PROCESS, format!("{error:#}")).fix(restart()),
        (Ok(false), Ok(None)) => Finding::note(PROCESS, "not running").fix(local.command("up")),
        (Ok(false), _) => {
            let fix = format!(
                "{} continues with the same data; the log of a detached instance is {}",
                local.command("up"),
                local.log().display()
            );
            Finding::problem(PROCESS, "the last run ended unexpectedly").fix(fix)
        }
    };
    findings.push(finding);
    None
}

/// Opens the stores of an instance that does not run; one that runs has read its stores already.
fn store(local: &Local, run: Option<&RunState>) -> Finding {
    if run.is_some() {
        return Finding::ok(STORE, "in use by the running instance, which has read it");
    }
    // Held meanwhile, so that no instance starts on a store that is being read.
    let stores = stores(local.dir());
    if stores.is_empty() {
        return Finding::not_applicable(STORE, "there is no data yet");
    }
    let held = match local.hold() {
        Ok(Some(held)) => held,
        Ok(None) => return Finding::note(STORE, "in use by an instance that is starting"),
        Err(error) => return Finding::problem(STORE, format!("{error:#}")),
    };
    let damaged = stores.into_iter().find_map(|directory| {
        let options = Options::directory(&directory);
        let error = Store::<()>::open(&options).err()?;
        Some((directory, error))
    });
    drop(held);
    match damaged {
        None => Finding::ok(STORE, "can be read"),
        Some((directory, error)) => {
            let fix = store_hint(cluster_of(&directory), &error, local);
            Finding::problem(STORE, crate::exit::in_words(&error.into()))
                .about(directory.display().to_string())
                .fix(fix.unwrap_or_default())
        }
    }
}

/// The cluster whose store is `clusters/NAME/store`.
fn cluster_of(store: &Path) -> &str {
    let cluster = store.parent().and_then(Path::file_name);
    cluster.and_then(|name| name.to_str()).unwrap_or_default()
}

/// The directories of the clusters in a data directory that hold a store.
fn stores(data_dir: &Path) -> Vec<PathBuf> {
    let clusters = std::fs::read_dir(data_dir.join("clusters"));
    let mut stores: Vec<PathBuf> = clusters
        .into_iter()
        .flatten()
        .filter_map(|cluster| Some(cluster.ok()?.path().join("store")))
        .filter(|store| store.is_dir())
        .collect();
    stores.sort();
    stores
}

fn orphans(local: &Local, run: Option<&RunState>) -> Finding {
    let Some(all) = processes::all() else {
        return Finding::not_applicable(ORPHANS, "this system does not list processes in /proc");
    };
    if run.is_none() && local.is_held().unwrap_or(false) {
        return Finding::note(
            ORPHANS,
            "an instance is starting; they cannot be told apart yet",
        );
    }
    let orphans = processes::orphans(&all, local.dir(), run.map(|run| run.pid));
    if orphans.is_empty() {
        return Finding::ok(ORPHANS, "none is left of an earlier run");
    }
    let pids: Vec<String> = orphans
        .iter()
        .map(|Process { pid, .. }| pid.to_string())
        .collect();
    Finding::problem(
        ORPHANS,
        format!("left of an earlier run: pid {}", pids.join(", ")),
    )
    .fix(format!("kill {}", pids.join(" ")))
}

fn restart(local: &Local) -> String {
    format!("{}, then {}", local.command("down"), local.command("up"))
}

fn kubeconfig_file(local: &Local, path: &Path) -> Finding {
    let object = path.display().to_string();
    match std::fs::metadata(path) {
        Err(error) => Finding::problem(KUBECONFIG, error.to_string())
            .about(object)
            .fix(format!("{} writes it again", restart(local))),
        Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => {
            let fix = format!("chmod 600 {object}");
            Finding::problem(KUBECONFIG, "other users can read it")
                .about(object)
                .fix(fix)
        }
        Ok(_) => Finding::ok(KUBECONFIG, object),
    }
}

fn kubeconfig_variable(path: &Path) -> Finding {
    const CHECK: &str = "KUBECONFIG";
    let value = polity_runtime::env::read(polity_runtime::env::KUBECONFIG);
    let named = value
        .iter()
        .flat_map(std::env::split_paths)
        .any(|named: PathBuf| named == path);
    if named {
        Finding::ok(CHECK, "names the local instance")
    } else {
        let message = "does not name the local instance, so kubectl talks to another cluster";
        Finding::note(CHECK, message).fix(format!("export KUBECONFIG={}", quoted(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Severity;

    #[test]
    fn a_kubeconfig_that_others_can_read_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let local = Local::new(folder.path());
        let path = local.kubeconfig();
        assert!(kubeconfig_file(&local, &path).is_problem());
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(kubeconfig_file(&local, &path).is_problem());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(kubeconfig_file(&local, &path).severity, Severity::Ok);
    }

    #[test]
    fn a_run_that_ended_unexpectedly_differs_from_none() {
        let folder = tempfile::tempdir().unwrap();
        let local = Local::new(folder.path());
        let mut findings = Vec::new();
        assert!(process(&local, &mut findings).is_none());
        let stopped = findings.pop().unwrap();
        assert_eq!(stopped.severity, Severity::Note);
        let up = format!("polity up --data-dir {}", folder.path().display());
        assert_eq!(stopped.fix, up);
        std::fs::write(folder.path().join("run.json"), "{}").unwrap();
        assert!(process(&local, &mut findings).is_none());
        assert!(findings.pop().unwrap().is_problem());
    }

    #[test]
    fn a_damaged_store_is_a_problem_with_a_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let local = Local::new(folder.path());
        assert_eq!(store(&local, None).severity, Severity::NotApplicable);
        let directory = folder.path().join("clusters/hub/store");
        let options = Options::directory(&directory);
        drop(Store::<()>::open(&options).unwrap());
        assert_eq!(store(&local, None).severity, Severity::Ok);

        for file in std::fs::read_dir(&directory).unwrap() {
            let path = file.unwrap().path();
            let length = std::fs::metadata(&path).unwrap().len();
            std::fs::write(&path, vec![0x5a; usize::try_from(length).unwrap()]).unwrap();
        }
        let finding = store(&local, None);
        assert!(finding.is_problem(), "{finding:?}");
        let dir = folder.path().display();
        let restore = format!("`polity restore FILE --force --data-dir {dir}`");
        let reset = format!("`polity reset --data-dir {dir}`");
        for part in [&restore, "\"hub\"", &reset] {
            assert!(finding.fix.contains(part), "{finding:?}");
        }
    }
}
