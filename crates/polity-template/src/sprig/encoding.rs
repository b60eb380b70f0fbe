//! Base64 and base32. A text that cannot be decoded gives the error as text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::strings::made;
use crate::arg::text;
use crate::function::{Function, Type, function};

const T: Type = Type::Text;

pub(crate) const TABLE: &[(&str, Function)] = &[
    ("b64enc", BASE64_ENCODE),
    ("base64enc", BASE64_ENCODE),
    ("b64dec", BASE64_DECODE),
    ("base64dec", BASE64_DECODE),
    (
        "b32enc",
        function(&[T], None, |_, v| made(base32(text(&v[0]).as_bytes()))),
    ),
    (
        "b32dec",
        function(&[T], None, |_, v| {
            made(shown(decode(text(&v[0]), BASE32, 8), "base32"))
        }),
    ),
];

const BASE64_ENCODE: Function = function(&[T], None, |_, v| made(STANDARD.encode(text(&v[0]))));

const BASE64_DECODE: Function = function(&[T], None, |_, v| {
    made(shown(decode(text(&v[0]), BASE64, 4), "base64"))
});

const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn shown(decoded: Result<Vec<u8>, usize>, name: &str) -> String {
    match decoded {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(at) => format!("illegal {name} data at input byte {at}"),
    }
}

/// Decodes groups of `size` letters; the error is the place that Go would name.
pub(super) fn decode(text: &str, alphabet: &[u8], size: usize) -> Result<Vec<u8>, usize> {
    let bits_per_letter = alphabet.len().ilog2();
    let input = text.as_bytes();
    let mut out = Vec::with_capacity(input.len());
    let mut at = 0;
    loop {
        let mut group: Vec<u64> = Vec::with_capacity(size);
        let mut padded = false;
        while group.len() < size {
            let Some(byte) = input.get(at) else {
                if group.is_empty() {
                    return Ok(out);
                }
                return Err(at - group.len());
            };
            at += 1;
            if matches!(byte, b'\n' | b'\r') {
                continue;
            }
            if let Some(value) = alphabet.iter().position(|letter| letter == byte) {
                group.push(value as u64);
                continue;
            }
            if *byte != b'=' {
                return Err(at - 1);
            }
            padding(input, &mut at, group.len(), size)?;
            padded = true;
            break;
        }
        let n_bits = group.len() as u32 * bits_per_letter;
        let bits = group
            .iter()
            .fold(0u64, |bits, value| (bits << bits_per_letter) | value);
        let n_bytes = n_bits / 8;
        let bits = bits >> (n_bits % 8);
        out.extend((0..n_bytes).rev().map(|i| (bits >> (8 * i)) as u8));
        if padded {
            return Ok(out);
        }
    }
}

/// The first sign of a padding was read; the others must follow, and nothing after them.
fn padding(input: &[u8], at: &mut usize, n_letters: usize, size: usize) -> Result<(), usize> {
    let allowed: &[usize] = if size == 4 { &[2, 3] } else { &[2, 4, 5, 7] };
    if !allowed.contains(&n_letters) {
        return Err(*at - 1);
    }
    let skip_lines = |at: &mut usize| {
        while matches!(input.get(*at), Some(b'\n' | b'\r')) {
            *at += 1;
        }
    };
    for _ in n_letters + 1..size {
        skip_lines(at);
        match input.get(*at) {
            Some(b'=') => *at += 1,
            Some(_) => return Err(*at - 1),
            None => return Err(input.len()),
        }
    }
    skip_lines(at);
    if *at < input.len() {
        return Err(*at);
    }
    Ok(())
}

fn base32(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(5) {
        let mut padded = [0; 5];
        padded[..chunk.len()].copy_from_slice(chunk);
        let bits = padded
            .iter()
            .fold(0u64, |bits, byte| (bits << 8) | u64::from(*byte));
        let n_letters = (chunk.len() * 8).div_ceil(5);
        for i in 0..8 {
            let letter = BASE32[(bits >> (35 - 5 * i)) as usize & 31];
            out.push(if i < n_letters {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    out
}
