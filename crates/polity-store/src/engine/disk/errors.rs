//! Converts errors of the storage engine and the operating system into errors that callers can match on.

use std::{
    io::{self, ErrorKind},
    path::Path,
};

use super::backend::ReadPosition;
use crate::{OpenError, engine::Failure};

fn is_full(error: &io::Error) -> bool {
    use ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    // For a writer, a quota or a limit on the size of files is a full disk.
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied
    )
}

pub(super) fn io_open_error(source: io::Error, directory: &Path) -> OpenError {
    let directory = directory.to_owned();
    if is_full(&source) {
        OpenError::Full { directory, source }
    } else if is_read_only(&source) {
        OpenError::ReadOnly { directory, source }
    } else {
        OpenError::Io { directory, source }
    }
}

pub(super) fn open_error(
    error: redb::Error,
    directory: &Path,
    file: &Path,
    position: &ReadPosition,
) -> OpenError {
    let damaged = |reason: String| OpenError::Damaged {
        file: file.to_owned(),
        position: position.get(),
        reason,
    };
    match error {
        redb::Error::Io(error) => match error.kind() {
            ErrorKind::InvalidData => OpenError::Foreign {
                file: file.to_owned(),
            },
            ErrorKind::UnexpectedEof => damaged("it is cut short".to_owned()),
            _ => io_open_error(error, directory),
        },
        redb::Error::DatabaseAlreadyOpen => OpenError::InUse {
            directory: directory.to_owned(),
        },
        redb::Error::Corrupted(reason) => damaged(reason),
        error => damaged(error.to_string()),
    }
}

pub(super) fn failure(
    error: redb::Error,
    directory: &Path,
    file: &Path,
    position: &ReadPosition,
) -> Failure {
    let directory = directory.to_owned();
    match error {
        redb::Error::Io(error) if is_full(&error) => Failure::Full { directory },
        redb::Error::Io(error) if is_read_only(&error) => Failure::ReadOnly { directory },
        redb::Error::Corrupted(reason) => Failure::Damaged {
            file: file.to_owned(),
            position: position.get(),
            reason,
        },
        error => Failure::Io {
            directory,
            reason: error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_become_variants_that_callers_can_branch_on() {
        let cases = [
            (ErrorKind::StorageFull, "full"),
            (ErrorKind::QuotaExceeded, "full"),
            (ErrorKind::FileTooLarge, "full"),
            (ErrorKind::ReadOnlyFilesystem, "read-only"),
            (ErrorKind::PermissionDenied, "read-only"),
            (ErrorKind::NotADirectory, "other"),
        ];
        for (kind, expected) in cases {
            let (directory, file) = (Path::new("/data"), Path::new("/data/store.redb"));
            let opening = match io_open_error(kind.into(), directory) {
                OpenError::Full { .. } => "full",
                OpenError::ReadOnly { .. } => "read-only",
                _ => "other",
            };
            let error = redb::Error::Io(kind.into());
            let writing = match failure(error, directory, file, &ReadPosition::default()) {
                Failure::Full { .. } => "full",
                Failure::ReadOnly { .. } => "read-only",
                Failure::Io { .. } => "other",
                Failure::Damaged { .. } => "damaged",
            };
            assert_eq!((opening, writing), (expected, expected), "{kind:?}");
        }
    }
}
