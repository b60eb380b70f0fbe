//! Modules made from one of our own policies: others that do the same, and large ones, which take long to compile.

use std::fs;
use std::path::{Path, PathBuf};

use peers::Tool;

/// Sections of a Wasm module that say which functions there are, and what they do.
const FUNCTIONS: u8 = 3;
const CODE: u8 = 10;
/// The magic number and the version.
const HEAD: usize = 8;

/// The policy that others are made from, as it is built.
///
/// # Panics
/// When the policies are not built.
pub fn policy() -> Vec<u8> {
    let folder = Tool::Policies
        .find()
        .unwrap_or_else(|missing| panic!("run: {}", missing.mend));
    fs::read(folder.join("pod-privileged.wasm")).expect("the policies are built")
}

/// A supply of modules that differ: the same code, each with another custom section.
#[derive(Debug)]
pub struct Supply {
    folder: PathBuf,
    code: Vec<u8>,
    n_made: usize,
}

impl Supply {
    /// Modules with this code, as files in a folder.
    pub fn new(folder: &Path, code: Vec<u8>) -> Self {
        fs::create_dir_all(folder).expect("room for a folder");
        Self {
            folder: folder.to_owned(),
            code,
            n_made: 0,
        }
    }

    /// Bytes of a module.
    pub fn size(&self) -> usize {
        self.code.len()
    }

    /// The URIs of modules that nobody has seen.
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

/// Appends a custom section that makes the module another one.
fn with_section(code: &[u8], n: usize) -> Vec<u8> {
    let content = format!("\u{5}bench{n:08}");
    let mut module = code.to_vec();
    section(&mut module, 0, content.as_bytes());
    module
}

/// The same module with its functions several times over, until it has so many bytes. Nobody calls the copies, but
/// they are compiled, stored and loaded like all others: a large policy as far as its life is concerned.
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

/// The sections of a module by kind, from behind its head.
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

/// A number as Wasm writes it, and what follows it.
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
