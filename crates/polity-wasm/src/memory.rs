//! Checked access to the memory of a guest from host functions. No address is trusted.

use wasmtime::Caller;

use crate::guest::{Guest, Stop};

/// The memory and the state of the guest that called `function`, both at once.
pub(crate) fn split<'a>(
    caller: &'a mut Caller<'_, Guest>,
    function: &'static str,
) -> Result<(&'a mut [u8], &'a mut Guest), Stop> {
    let memory = match caller.data().memory {
        Some(memory) => memory,
        // Called by the module's start function, before the instance was handed to us.
        None => caller
            .get_export("memory")
            .and_then(wasmtime::Extern::into_memory)
            .ok_or(Stop::BadPointer(function))?,
    };
    Ok(memory.data_and_store_mut(caller))
}

/// Numbers of guests are unsigned 32-bit addresses.
fn range(ptr: i32, len: i32) -> std::ops::Range<usize> {
    let start = ptr.cast_unsigned() as usize;
    start..start + len.cast_unsigned() as usize
}

/// `len` bytes at `ptr`.
pub(crate) fn slice(memory: &[u8], ptr: i32, len: i32) -> Option<&[u8]> {
    memory.get(range(ptr, len))
}

/// `len` bytes at `ptr`, to write to.
pub(crate) fn slice_mut(memory: &mut [u8], ptr: i32, len: i32) -> Option<&mut [u8]> {
    memory.get_mut(range(ptr, len))
}

/// Writes `bytes` at `ptr`.
pub(crate) fn write(memory: &mut [u8], ptr: i32, bytes: &[u8]) -> Option<()> {
    let len = i32::try_from(bytes.len()).ok()?;
    slice_mut(memory, ptr, len)?.copy_from_slice(bytes);
    Some(())
}

/// Reads a little-endian number at `ptr`, `offset` bytes further.
pub(crate) fn read_u32(memory: &[u8], ptr: i32, offset: u32) -> Option<u32> {
    let at = ptr.cast_unsigned().checked_add(offset)?.cast_signed();
    slice(memory, at, 4)?
        .try_into()
        .ok()
        .map(u32::from_le_bytes)
}

/// Reads a little-endian number at `ptr`, `offset` bytes further.
pub(crate) fn read_u64(memory: &[u8], ptr: i32, offset: u32) -> Option<u64> {
    let at = ptr.cast_unsigned().checked_add(offset)?.cast_signed();
    slice(memory, at, 8)?
        .try_into()
        .ok()
        .map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_outside_are_refused() {
        let mut memory = vec![0; 16];
        assert!(slice(&memory, 0, 16).is_some());
        assert!(slice(&memory, 16, 0).is_some());
        for (ptr, len) in [
            (0, 17),
            (17, 0),
            (-1, 1),
            (1, -1),
            (-1, -1),
            (i32::MAX, i32::MAX),
        ] {
            assert!(slice(&memory, ptr, len).is_none(), "{ptr} {len}");
            assert!(slice_mut(&mut memory, ptr, len).is_none(), "{ptr} {len}");
        }
        assert!(read_u32(&memory, 12, 0).is_some());
        assert!(read_u32(&memory, 12, 1).is_none());
        assert!(read_u64(&memory, -1, 9).is_none());
    }
}
