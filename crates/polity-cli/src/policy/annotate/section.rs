//! The custom section with the metadata: one in every module, whatever was there before.

use anyhow::{Context as _, bail};

/// The name of the section.
const NAME: &str = "io.kubewarden.metadata";
/// The magic and the version that a module begins with.
const HEADER: &[u8] = b"\0asm\x01\0\0\0";
/// The number of custom sections.
const CUSTOM: u8 = 0;

/// The module with this content as its metadata.
pub(super) fn replace(wasm: &[u8], content: &[u8]) -> anyhow::Result<Vec<u8>> {
    let Some(mut rest) = wasm.strip_prefix(HEADER) else {
        bail!("it does not begin like one");
    };
    let mut out = HEADER.to_vec();
    while let Some((&id, after_id)) = rest.split_first() {
        let (size, body) = number(after_id).context("it breaks off in the middle of a section")?;
        let (Some(section), Some(next)) = (body.get(..size), body.get(size..)) else {
            bail!("it breaks off in the middle of a section");
        };
        if id != CUSTOM || name(section) != Some(NAME.as_bytes()) {
            out.push(id);
            push_number(&mut out, size);
            out.extend_from_slice(section);
        }
        rest = next;
    }
    let mut section = Vec::new();
    push_number(&mut section, NAME.len());
    section.extend_from_slice(NAME.as_bytes());
    section.extend_from_slice(content);
    out.push(CUSTOM);
    push_number(&mut out, section.len());
    out.extend_from_slice(&section);
    Ok(out)
}

/// The name of a custom section.
fn name(section: &[u8]) -> Option<&[u8]> {
    let (length, rest) = number(section)?;
    rest.get(..length)
}

/// An unsigned number of at most 32 bits, seven of them in each byte, and what comes after it.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value: u64 = 0;
    for (n, byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            let value = usize::try_from(u32::try_from(value).ok()?).ok()?;
            return Some((value, &bytes[n + 1..]));
        }
    }
    None
}

fn push_number(out: &mut Vec<u8>, mut value: usize) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            out.push(byte);
            return;
        }
        out.push(byte | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module with a custom section `x` of 200 bytes.
    fn module() -> Vec<u8> {
        let mut module = HEADER.to_vec();
        module.push(CUSTOM);
        push_number(&mut module, 202);
        module.extend_from_slice(b"\x01x");
        module.extend_from_slice(&[7; 200]);
        module
    }

    #[test]
    fn the_section_is_there_once_and_the_rest_stays() {
        let once = replace(&module(), b"{\"a\":1}").unwrap();
        assert!(once.starts_with(&module()));
        assert!(once.ends_with(b"io.kubewarden.metadata{\"a\":1}"));
        let twice = replace(&once, b"{\"a\":1}").unwrap();
        assert_eq!(twice, once);
        let other = replace(&once, b"{}").unwrap();
        assert_eq!(other, replace(&module(), b"{}").unwrap());
    }

    #[test]
    fn what_is_no_module_is_refused() {
        let cut = &module()[..100];
        for wrong in [
            &b""[..],
            b"text",
            b"\0asm\x02\0\0\0",
            cut,
            b"\0asm\x01\0\0\0\0",
            b"\0asm\x01\0\0\0\0\xff\xff\xff\xff\xff\x01",
        ] {
            assert!(replace(wrong, b"{}").is_err(), "{wrong:?}");
        }
    }
}
