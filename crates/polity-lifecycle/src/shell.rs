//! What the reconcilers of this crate share.

mod event;

pub(crate) use event::{ObjectEvent, publish};

/// Whether the API server would refuse the same request again.
pub(crate) fn is_refusal(code: u16) -> bool {
    matches!(code, 400 | 403 | 413 | 422)
}
