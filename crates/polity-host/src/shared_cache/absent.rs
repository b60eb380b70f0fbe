//! Why a file of the cache is as good as absent. Never an error: it is made again, and counted.

use polity_pki::BlobRefusal;

/// What a look into the cache gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup<T> {
    /// The content, checked after it was read.
    Found(T),
    /// There is nothing to use.
    Absent(AbsentReason),
}

impl<T> Lookup<T> {
    /// What was found.
    pub fn found(self) -> Option<T> {
        match self {
            Self::Found(found) => Some(found),
            Self::Absent(_) => None,
        }
    }
}

/// Why there is nothing to use. All but the first want a line in the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AbsentReason {
    /// There is no file.
    #[error("there is no file")]
    NotThere,
    /// There is a file without a signature.
    #[error("the file has no signature")]
    Unsigned,
    /// A symbolic link, a directory or a device is in the file's place.
    #[error("what is there is not a file")]
    NotAFile,
    /// Somebody else's file, which we may not read.
    #[error("the file may not be read")]
    Unreadable,
    /// The file is larger than any that we write.
    #[error("the file is too large")]
    TooLarge,
    /// The file has another size than the signed one. It was not read.
    #[error("the file does not have the size that was signed")]
    OtherSize,
    /// The file or its signature is not ours, or not what it was.
    #[error("{0}")]
    Refused(#[from] BlobRefusal),
    /// It was signed for another module, or as another form of this one.
    #[error("the file was signed for another module")]
    OtherModule,
    /// It was made by another version of the server, or for another machine.
    #[error("the file was made by another build")]
    OtherBuild,
    /// The module was accepted under another verification config than the present one.
    #[error("the module was accepted under another verification config")]
    OtherVerification,
}

impl AbsentReason {
    /// One word of a small set, for metrics.
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

    /// Whether a write that is under way, or shown late by a network file system, looks like this: worth another look
    /// for a few seconds.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::NotThere | Self::Unsigned | Self::OtherSize | Self::Refused(BlobRefusal::Content)
        )
    }
}
