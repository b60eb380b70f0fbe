//! What the volumes of a Pod hold, as values; [`mod@write`] puts it on disk.

pub mod write;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, ServiceAccountTokenProjection,
    Volume, VolumeProjection,
};

use crate::container::{Sources, field};
use crate::pod::Unready;

/// The mode of files that say nothing else.
const MODE: i32 = 0o644;

/// A file in a volume.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    pub bytes: Vec<u8>,
    pub mode: u32,
}

impl std::fmt::Debug for File {
    /// Without the bytes: they may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes, mode {:o}", self.bytes.len(), self.mode)
    }
}

/// The files of a volume by relative path.
pub type Files = BTreeMap<String, File>;

/// What a volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Files that follow other objects.
    Files(Files),
    /// A directory of the Pod's own, gone with it.
    Empty,
    /// The directory of a claim.
    Claim(String),
}

/// Tokens that were requested for a Pod.
pub trait Tokens {
    /// The token for an audience with at least this life, in seconds; `None`: not there yet.
    fn token(&self, request: &ServiceAccountTokenProjection) -> Option<String>;
}

/// What a volume of a Pod holds now.
pub fn content(
    pod: &Pod,
    volume: &Volume,
    sources: &dyn Sources,
    tokens: &dyn Tokens,
) -> Result<Content, Unready> {
    if let Some(secret) = &volume.secret {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        let found = sources.secret(name).map(secret_bytes);
        let wanted = Wanted {
            what: "secret",
            name,
            items: secret.items.as_deref(),
            is_optional: secret.optional == Some(true),
            mode: secret.default_mode.unwrap_or(MODE),
        };
        return wanted.pick(found).map(Content::Files);
    }
    if let Some(map) = &volume.config_map {
        let found = sources.config_map(&map.name).map(map_bytes);
        let wanted = Wanted {
            what: "configmap",
            name: &map.name,
            items: map.items.as_deref(),
            is_optional: map.optional == Some(true),
            mode: map.default_mode.unwrap_or(MODE),
        };
        return wanted.pick(found).map(Content::Files);
    }
    if let Some(downward) = &volume.downward_api {
        let mode = downward.default_mode.unwrap_or(MODE);
        let items = downward.items.as_deref().unwrap_or_default();
        return about_pod(pod, items, mode).map(Content::Files);
    }
    if let Some(projected) = &volume.projected {
        let mode = projected.default_mode.unwrap_or(MODE);
        let mut files = Files::new();
        for source in projected.sources.iter().flatten() {
            files.extend(projection(pod, source, mode, sources, tokens)?);
        }
        return Ok(Content::Files(files));
    }
    if let Some(claim) = &volume.persistent_volume_claim {
        return Ok(Content::Claim(claim.claim_name.clone()));
    }
    if volume.empty_dir.is_some() {
        return Ok(Content::Empty);
    }
    Err(mount_error(format!(
        "volume {:?} is of a kind that is not known here",
        volume.name
    )))
}

fn projection(
    pod: &Pod,
    source: &VolumeProjection,
    mode: i32,
    sources: &dyn Sources,
    tokens: &dyn Tokens,
) -> Result<Files, Unready> {
    if let Some(secret) = &source.secret {
        let wanted = Wanted {
            what: "secret",
            name: &secret.name,
            items: secret.items.as_deref(),
            is_optional: secret.optional == Some(true),
            mode,
        };
        return wanted.pick(sources.secret(&secret.name).map(secret_bytes));
    }
    if let Some(map) = &source.config_map {
        let wanted = Wanted {
            what: "configmap",
            name: &map.name,
            items: map.items.as_deref(),
            is_optional: map.optional == Some(true),
            mode,
        };
        return wanted.pick(sources.config_map(&map.name).map(map_bytes));
    }
    if let Some(downward) = &source.downward_api {
        return about_pod(pod, downward.items.as_deref().unwrap_or_default(), mode);
    }
    if let Some(request) = &source.service_account_token {
        let Some(token) = tokens.token(request) else {
            return Err(mount_error(
                "the service account token is not there yet".into(),
            ));
        };
        let file = file(token.into_bytes(), mode);
        return Ok(Files::from([(inside(&request.path)?, file)]));
    }
    Err(mount_error(
        "a projected source of a kind that is not known here".into(),
    ))
}

/// What is wanted of an object.
struct Wanted<'a> {
    what: &'a str,
    name: &'a str,
    items: Option<&'a [KeyToPath]>,
    is_optional: bool,
    mode: i32,
}

impl Wanted<'_> {
    fn pick(&self, found: Option<BTreeMap<String, Vec<u8>>>) -> Result<Files, Unready> {
        let Some(mut found) = found else {
            return match self.is_optional {
                true => Ok(Files::new()),
                false => Err(mount_error(format!(
                    "{} {:?} not found",
                    self.what, self.name
                ))),
            };
        };
        let Some(items) = self.items.filter(|items| !items.is_empty()) else {
            return found
                .into_iter()
                .map(|(key, bytes)| Ok((inside(&key)?, file(bytes, self.mode))))
                .collect();
        };
        let mut files = Files::new();
        for item in items {
            match found.remove(&item.key) {
                Some(bytes) => {
                    let mode = item.mode.unwrap_or(self.mode);
                    files.insert(inside(&item.path)?, file(bytes, mode));
                }
                None if self.is_optional => {}
                None => {
                    return Err(mount_error(format!(
                        "{} {:?} has no key {:?}",
                        self.what, self.name, item.key
                    )));
                }
            }
        }
        Ok(files)
    }
}

fn about_pod(pod: &Pod, items: &[DownwardAPIVolumeFile], mode: i32) -> Result<Files, Unready> {
    items
        .iter()
        .map(|item| {
            let Some(reference) = &item.field_ref else {
                return Err(mount_error("only fieldRef is known here".into()));
            };
            let text = field(pod, &reference.field_path)?;
            let file = file(text.into_bytes(), item.mode.unwrap_or(mode));
            Ok((inside(&item.path)?, file))
        })
        .collect()
}

fn file(bytes: Vec<u8>, mode: i32) -> File {
    File {
        bytes,
        // Never executable: a file of a volume is data, and the Pod's process must find no program in it.
        mode: mode.unsigned_abs() & 0o666,
    }
}

/// A path that stays inside its volume. The API server checks it too, but these become paths on this machine.
pub(crate) fn inside(path: &str) -> Result<String, Unready> {
    let is_inside = !path.is_empty()
        && path
            .split('/')
            .all(|part| !part.is_empty() && part != "." && !part.starts_with(".."));
    match is_inside {
        true => Ok(path.to_owned()),
        false => Err(mount_error(format!("{path:?} is no path inside a volume"))),
    }
}

fn map_bytes(map: ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let texts = map.data.unwrap_or_default().into_iter();
    let texts = texts.map(|(key, text)| (key, text.into_bytes()));
    let bytes = map.binary_data.unwrap_or_default().into_iter();
    texts
        .chain(bytes.map(|(key, bytes)| (key, bytes.0)))
        .collect()
}

fn secret_bytes(secret: Secret) -> BTreeMap<String, Vec<u8>> {
    let data = secret.data.unwrap_or_default().into_iter();
    data.map(|(key, bytes)| (key, bytes.0)).collect()
}

pub(crate) fn mount_error(message: String) -> Unready {
    Unready {
        reason: "FailedMount",
        message,
    }
}

#[cfg(test)]
mod tests;
