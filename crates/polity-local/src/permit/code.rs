//! The directories from which a policy server loads compiled code.
//!
//! Compiled code runs outside the sandbox of the guests. Policy servers sign it, but an editor of the deployment
//! namespace can read and replace the Secret of the signing key. So the directories must be ones that only policy
//! servers write: an `emptyDir` or a claim, never files whose content comes from an object.

use k8s_openapi::api::core::v1::{Container, Pod, Volume, VolumeMount};
use polity_runtime::env;

use super::Refusal;

/// The variables that name such directories, or directories that others are created in.
const VARIABLES: [&str; 4] = [
    env::CACHE_DIR,
    env::POLICIES_DOWNLOAD_DIR,
    env::SIGSTORE_CACHE_DIR,
    "TMPDIR",
];

pub(super) fn check(pod: &Pod, container: &Container) -> Result<(), Refusal> {
    let variables = container.env.iter().flatten();
    for variable in variables.filter(|variable| VARIABLES.contains(&variable.name.as_str())) {
        let path = variable.value.as_deref().unwrap_or_default();
        let is_own = variable.value_from.is_none() && is_written_by_servers(path, pod, container);
        if !is_own {
            return Err(Refusal::Directory {
                variable: variable.name.clone(),
            });
        }
    }
    Ok(())
}

fn is_written_by_servers(path: &str, pod: &Pod, container: &Container) -> bool {
    // A `$` may stand for another variable, which may be any path.
    if path.contains('$') || path.split('/').any(|part| part.starts_with("..")) {
        return false;
    }
    let mounts = container.volume_mounts.iter().flatten();
    let nearest = mounts
        .filter(|mount| is_below(path, mount))
        .max_by_key(|mount| mount.mount_path.len());
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes).flatten();
    let is_mounted = |volume: &&Volume| nearest.is_some_and(|nearest| nearest.name == volume.name);
    let mut mounted = volumes.filter(is_mounted).peekable();
    mounted.peek().is_some()
        && mounted
            .all(|volume| volume.empty_dir.is_some() || volume.persistent_volume_claim.is_some())
}

fn is_below(path: &str, mount: &VolumeMount) -> bool {
    let mount = mount.mount_path.trim_end_matches('/');
    path.strip_prefix(mount)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
