//! Why a file of the cache counts as absent. This is not an error: the file is created again, and the reason is
//! counted.

use polity_pki::BlobRefusal;

/// The result of a read from the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup<T> {
    /// The content, checked after it was read.
    Found(T),
    /// There is no usable file.
    Absent(AbsentReason),
}

impl<T> Lookup<T> {
    /// The content, if there is a usable file.
    pub fn found(self) -> Option<T> {
        match self {
            Self::Found(found) => Some(found),
            Self::Absent(_) => None,
        }
    }
}

/// Why there is no usable file. All reasons except the first are logged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AbsentReason {
    /// There is no file.
    #[error("there is no file")]
    NotThere,
    /// There is a file without a signature.
    #[error("the file has no signature")]
    Unsigned,
    /// A symbolic link, a directory or a device is in the file's place.
    #[error("the path is not a regular file")]
    NotAFile,
    /// The file belongs to another user and cannot be read.
    #[error("the file may not be read")]
    Unreadable,
    /// The file is larger than any file of the cache.
    #[error("the file is too large")]
    TooLarge,
    /// The file has another size than the signed one. It was not read.
    #[error("the file does not have the size that was signed")]
    OtherSize,
    /// The signature is not ours, or the file was changed.
    #[error("{0}")]
    Refused(#[from] BlobRefusal),
    /// It was signed for another module, or as another form of this one.
    #[error("the file was signed for another module")]
    OtherModule,
    /// It was created by another version of the server, or for another machine.
    #[error("the file was made by another build")]
    OtherBuild,
    /// The module was accepted under another verification config than the present one.
    #[error("the module was accepted under another verification config")]
    OtherVerification,
}

impl AbsentReason {
    /// The value of a metric label, from a small set.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NotThere => "not_there",
            Self::Unsigned => "unsigned",
            Self::NotAFile => "not_a_file",
            Self::Unreadable => "unreadable",
            Self::TooLarge => "too_large",
            Self::OtherSize => "content",
            Self::Refused(refusal) => match refusal {
                BlobRefusal::Envelope | BlobRefusal::Statement => "malformed",
                BlobRefusal::NotAccepted
                | BlobRefusal::NotValid(_)
                | BlobRefusal::UnknownAuthority
                | BlobRefusal::Purpose
                | BlobRefusal::Name => "certificate",
                BlobRefusal::Signature => "signature",
                BlobRefusal::FileName | BlobRefusal::Content => "content",
            },
            Self::OtherModule => "other_module",
            Self::OtherBuild => "other_build",
            Self::OtherVerification => "other_verification",
        }
    }

    /// Whether a running write, or a network file system that shows it late, can cause this: then a retry for a few
    /// seconds is worthwhile.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::NotThere | Self::Unsigned | Self::OtherSize | Self::Refused(BlobRefusal::Content)
        )
    }
}
