//! Reads files, and directories recursively, in a stable order.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Origin, Problem};

/// What a manifest is called in a directory; a file that is named itself may be called anything.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Nothing a person writes is larger, and what a program wrote can be split.
const MAX_BYTES: u64 = 64 << 20;

/// Where to read manifests from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A file, or a directory with files below it.
    Path(PathBuf),
    /// Bytes that were read elsewhere, such as standard input.
    Bytes {
        /// How to name them in messages.
        name: String,
        bytes: Vec<u8>,
    },
}

impl Input {
    /// Reads everything that a reader has, up to the size limit of a manifest file.
    pub fn from_reader(name: &str, reader: impl std::io::Read) -> std::io::Result<Self> {
        Ok(Self::Bytes {
            name: name.to_owned(),
            bytes: limited(reader)?,
        })
    }
}

impl<P: AsRef<Path>> From<P> for Input {
    fn from(path: P) -> Self {
        Self::Path(path.as_ref().to_owned())
    }
}

/// Why manifests could not be loaded at all.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read {}", path.display())]
    Path {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} contains no manifests", path.display())]
    NoManifests { path: PathBuf },
}

impl LoadError {
    /// What to do about it, if that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Path { .. } => None,
            Self::NoManifests { .. } => Some(
                "files that end in .yaml, .yml or .json are read, including those in subdirectories",
            ),
        }
    }
}

/// The content of a file.
pub(super) struct Text {
    pub(super) name: String,
    pub(super) content: String,
}

/// Reads the inputs. A file that cannot be read is a problem; a path that does not exist, or a directory without
/// any manifest, is an error.
pub(super) fn read(
    inputs: impl Iterator<Item = Input>,
) -> Result<Vec<Result<Text, Problem>>, LoadError> {
    let mut texts = Vec::new();
    for input in inputs {
        let path = match input {
            Input::Path(path) => path,
            Input::Bytes { name, bytes } => {
                texts.push(text(name, bytes));
                continue;
            }
        };
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(source) => return Err(LoadError::Path { path, source }),
        };
        if !metadata.is_dir() {
            texts.push(from_file(&path));
            continue;
        }
        let mut files = Vec::new();
        let mut problems = Vec::new();
        walk(&path, &mut BTreeSet::new(), &mut files, &mut problems);
        if files.is_empty() && problems.is_empty() {
            return Err(LoadError::NoManifests { path });
        }
        texts.extend(problems.into_iter().map(Err));
        texts.extend(files.iter().map(|file| from_file(file)));
    }
    Ok(texts)
}

/// Collects the manifests below a directory. Hidden entries are left alone: they are the editor's, git's
/// or, in a mounted ConfigMap, the same files again.
fn walk(
    directory: &Path,
    seen: &mut BTreeSet<PathBuf>,
    files: &mut Vec<PathBuf>,
    problems: &mut Vec<Problem>,
) {
    let entries = fs::canonicalize(directory).and_then(|canonical| {
        // A link that leads back would lead round for ever.
        if !seen.insert(canonical) {
            return Ok(Vec::new());
        }
        let mut entries = fs::read_dir(directory)?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<Vec<PathBuf>>>()?;
        entries.sort();
        Ok(entries)
    });
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => {
            problems.push(problem(&directory.display().to_string(), &error));
            return;
        }
    };
    for entry in entries {
        let hidden = entry
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden {
            continue;
        }
        if entry.is_dir() {
            walk(&entry, seen, files, problems);
        } else if entry
            .extension()
            .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
        {
            files.push(entry);
        }
    }
}

fn from_file(path: &Path) -> Result<Text, Problem> {
    let name = path.display().to_string();
    let read = fs::File::open(path).and_then(limited);
    match read {
        Ok(bytes) => text(name, bytes),
        Err(error) => Err(problem(&name, &error)),
    }
}

fn limited(source: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(std::io::Error::other(format!(
            "larger than {} MiB",
            MAX_BYTES >> 20
        )));
    }
    Ok(bytes)
}

fn text(name: String, bytes: Vec<u8>) -> Result<Text, Problem> {
    match String::from_utf8(bytes) {
        Ok(content) => Ok(Text { name, content }),
        Err(error) => {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = before.split(|byte| *byte == b'\n').count();
            Err(Problem {
                origin: Origin {
                    file: Arc::from(name),
                    line,
                },
                message: "not UTF-8 text".to_owned(),
            })
        }
    }
}

fn problem(name: &str, error: &std::io::Error) -> Problem {
    Problem {
        origin: Origin {
            file: Arc::from(name),
            line: 1,
        },
        message: format!("cannot be read: {error}"),
    }
}
