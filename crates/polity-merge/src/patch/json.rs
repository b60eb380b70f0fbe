//! JSON patch (RFC 6902) and merge patch (RFC 7386).

use json_patch::jsonptr::Pointer;
use json_patch::{PatchErrorKind, PatchOperation};
use serde_json::Value;

/// A JSON patch with more operations is refused.
pub const MAX_OPERATIONS: usize = 10_000;

/// The maximum total size of `copy` operations. A patch that doubles its content twenty times must not exhaust the
/// memory.
const MAX_COPIED_BYTES: usize = 3 << 20;

/// How many list elements the operations of a patch may shift. An insertion at the start of a list
/// shifts all its elements, and a patch may have ten thousand of them.
const MAX_SHIFTED_ELEMENTS: usize = 100_000_000;

/// Why a JSON patch was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPatchError {
    /// The patch is not a list of operations: the request is malformed.
    #[error("cannot decode JSON patch: {0}")]
    Malformed(String),
    /// The patch is larger than allowed.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// The copies of the patch are larger than allowed.
    #[error("the accumulated size of copied values exceeds the limit of {MAX_COPIED_BYTES} bytes")]
    CopiesTooLarge,
    /// The operations shift more list elements than allowed.
    #[error("the operations shift more than {MAX_SHIFTED_ELEMENTS} list elements")]
    TooManyShifts,
    /// A `test` found another value.
    #[error("operation {operation} at {path:?}: testing value failed: test failed")]
    TestFailed { operation: usize, path: String },
    /// An operation points at nothing.
    #[error("operation {operation} at {path:?}: {reason}")]
    Inapplicable {
        operation: usize,
        path: String,
        reason: String,
    },
}

/// Applies a JSON patch. After an error `document` is of no use.
pub fn json_patch(document: &mut Value, patch: &Value) -> Result<(), JsonPatchError> {
    let Value::Array(operations) = patch else {
        return Err(JsonPatchError::Malformed(
            "a JSON patch is a list of operations".to_owned(),
        ));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(JsonPatchError::TooManyOperations(operations.len()));
    }
    let operations: Vec<PatchOperation> = serde::Deserialize::deserialize(patch)
        .map_err(|error: serde_json::Error| JsonPatchError::Malformed(error.to_string()))?;
    let (mut copied, mut shifted) = (0, 0);
    for (index, operation) in operations.iter().enumerate() {
        if let PatchOperation::Copy(copy) = operation {
            copied += copy
                .from
                .resolve(document)
                .map_or(0, |value| value.to_string().len());
            if copied > MAX_COPIED_BYTES {
                return Err(JsonPatchError::CopiesTooLarge);
            }
        }
        shifted += shifted_by(operation, document);
        if shifted > MAX_SHIFTED_ELEMENTS {
            return Err(JsonPatchError::TooManyShifts);
        }
        if tests_for_absence(operation, document) {
            continue;
        }
        json_patch::patch_unsafe(document, std::slice::from_ref(operation)).map_err(|error| {
            let path = operation.path().to_string();
            match error.kind {
                PatchErrorKind::TestFailed => JsonPatchError::TestFailed {
                    operation: index,
                    path,
                },
                other => JsonPatchError::Inapplicable {
                    operation: index,
                    path,
                    reason: other.to_string(),
                },
            }
        })?;
    }
    Ok(())
}

/// How many elements an operation moves to another place in their list, at most.
fn shifted_by(operation: &PatchOperation, document: &Value) -> usize {
    let behind = |place: &Pointer| {
        let Some((parent, index)) = place.split_back() else {
            return 0;
        };
        let list = parent.resolve(document).ok().and_then(Value::as_array);
        let length = list.map_or(0, Vec::len);
        let index = index.decoded().parse().unwrap_or(length);
        length.saturating_sub(index)
    };
    match operation {
        PatchOperation::Add(add) => behind(&add.path),
        PatchOperation::Copy(copy) => behind(&copy.path),
        PatchOperation::Remove(remove) => behind(&remove.path),
        PatchOperation::Move(moved) => behind(&moved.from) + behind(&moved.path),
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    }
}

/// A missing member passes a test for null. The RFC does not define this, but real servers do it, and clients depend
/// on it to add the first finalizer.
fn tests_for_absence(operation: &PatchOperation, document: &Value) -> bool {
    let PatchOperation::Test(test) = operation else {
        return false;
    };
    let Some((parent, member)) = test.path.split_back() else {
        return false;
    };
    let members = parent.resolve(document).ok().and_then(Value::as_object);
    test.value.is_null() && members.is_some_and(|members| !members.contains_key(&*member.decoded()))
}

pub fn merge_patch(document: &mut Value, patch: &Value) {
    json_patch::merge(document, patch);
}
