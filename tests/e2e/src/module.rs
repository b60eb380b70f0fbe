//! Wasm modules derived from one of our policies: modules with a different digest, and large ones that take long to
//! compile.

use std::fs;
use std::path::{Path, PathBuf};

use peers::Tool;

/// Wasm section ids of the function signatures and the function bodies.
const FUNCTIONS: u8 = 3;
const CODE: u8 = 10;
/// Length of the magic number and the version.
const HEAD: usize = 8;

/// The bytes of the policy from which the other modules are derived.
///
/// # Panics
/// If the policies are not built.
pub fn policy() -> Vec<u8> {
    let folder = Tool::Policies
        .find()
        .unwrap_or_else(|missing| panic!("run: {}", missing.install_command));
    fs::read(folder.join("pod-privileged.wasm")).expect("the policies are built")
}

/// Produces modules with the same code and a different digest each, by adding a custom section.
#[derive(Debug)]
pub struct Supply {
    folder: PathBuf,
    code: Vec<u8>,
    n_made: usize,
}

impl Supply {
    /// Writes modules with this code into a folder.
    pub fn new(folder: &Path, code: Vec<u8>) -> Self {
        fs::create_dir_all(folder).expect("room for a folder");
        Self {
            folder: folder.to_owned(),
            code,
            n_made: 0,
        }
    }

    /// Size of a module in bytes.
    pub fn size(&self) -> usize {
        self.code.len()
    }

    /// Creates `n` modules that have not been used before, and returns their URIs.
    pub fn fresh(&mut self, n: usize) -> Vec<String> {
        let first = self.n_made;
        self.n_made += n;
        (first..self.n_made)
            .map(|n| {
                let path = self.folder.join(format!("{n}.wasm"));
                fs::write(&path, with_section(&self.code, n)).expect("room for a module");
                format!("file://{}", path.display())
            })
            .collect()
    }
}

/// Appends a custom section, which changes the digest of the module.
fn with_section(code: &[u8], n: usize) -> Vec<u8> {
    let content = format!("\u{5}bench{n:08}");
    let mut module = code.to_vec();
    section(&mut module, 0, content.as_bytes());
    module
}

/// Repeats the functions of a module until it has at least `size` bytes. The copies are never called, but they are
/// compiled, stored and loaded like all functions, so the module behaves like a large policy.
pub fn enlarged(code: &[u8], size: usize) -> Vec<u8> {
    let sections = sections(&code[HEAD..]);
    let repeated = |kind: u8| kind == FUNCTIONS || kind == CODE;
    let of_functions: usize = sections
        .iter()
        .filter(|(kind, _)| repeated(*kind))
        .map(|(_, content)| content.len())
        .sum();
    let copies = 1 + (size - code.len()).div_ceil(of_functions);
    let mut module = code[..HEAD].to_vec();
    for (kind, content) in sections {
        if repeated(kind) {
            let (count, entries) = number(content);
            let mut all = leb128(count * copies);
            all.extend(entries.repeat(copies));
            section(&mut module, kind, &all);
        } else {
            section(&mut module, kind, content);
        }
    }
    module
}

/// Splits a module without its header into sections by id.
fn sections(mut rest: &[u8]) -> Vec<(u8, &[u8])> {
    let mut sections = Vec::new();
    while let Some((&kind, after)) = rest.split_first() {
        let (length, after) = number(after);
        let (content, after) = after.split_at(length);
        sections.push((kind, content));
        rest = after;
    }
    sections
}

fn section(module: &mut Vec<u8>, kind: u8, content: &[u8]) {
    module.push(kind);
    module.extend(leb128(content.len()));
    module.extend_from_slice(content);
}

/// Decodes a LEB128 number. Returns it and the remaining bytes.
fn number(bytes: &[u8]) -> (usize, &[u8]) {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return (value, &bytes[at + 1..]);
        }
    }
    panic!("a module ends in the middle of a number")
}

fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
