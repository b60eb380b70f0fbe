//! The volumes of a Pod, and where it mounts them.
//!
//! Their names become directories of this machine, and their mount paths are replaced in texts by those directories.

use k8s_openapi::api::core::v1::{Container, Pod, Volume};

use super::Refusal;

/// The longest name of a volume, as of every DNS label.
const NAME_MAX: usize = 63;

pub(super) fn check(pod: &Pod, container: &Container) -> Result<(), Refusal> {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    for volume in volumes {
        if !is_label(&volume.name) {
            return Err(wrong("name of a volume", &volume.name));
        }
        if !is_inside(volume) {
            return Err(Refusal::VolumeKind {
                name: volume.name.clone(),
            });
        }
    }
    for mount in container.volume_mounts.iter().flatten() {
        let is_clean = mount.mount_path.starts_with('/') && !climbs(&mount.mount_path);
        if !is_clean {
            return Err(wrong("mount path", &mount.mount_path));
        }
        if let Some(path) = mount
            .sub_path
            .as_ref()
            .filter(|path| climbs(path) || path.starts_with('/'))
        {
            return Err(wrong("path inside a volume", path));
        }
        if let Some(path) = &mount.sub_path_expr {
            return Err(wrong("subPath (subPathExpr is not known here)", path));
        }
    }
    Ok(())
}

/// Kinds whose files are copied from objects of the namespace, or that are directories of the runtime's own.
fn is_inside(volume: &Volume) -> bool {
    let Volume {
        config_map,
        downward_api,
        empty_dir,
        persistent_volume_claim,
        projected,
        secret,
        ..
    } = volume;
    let n_known = [
        config_map.is_some(),
        downward_api.is_some(),
        empty_dir.is_some(),
        persistent_volume_claim.is_some(),
        projected.is_some(),
        secret.is_some(),
    ]
    .into_iter()
    .filter(|is_there| *is_there)
    .count();
    n_known == 1 && volume.host_path.is_none()
}

fn is_label(name: &str) -> bool {
    let is_letter = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '-');
    (1..=NAME_MAX).contains(&name.len()) && name.chars().all(is_letter)
}

fn climbs(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

fn wrong(what: &'static str, path: &str) -> Refusal {
    Refusal::Path {
        what,
        path: path.to_owned(),
    }
}
