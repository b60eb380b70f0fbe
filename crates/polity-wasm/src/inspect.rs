//! Inspects a module without compiling it, and checks that it can be run.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use wasmparser::{Encoding, Parser, Payload, TypeRef};

use crate::{
    ExecutionMode, KUBEWARDEN_VERSION, Limits, LoadError, Metadata, ProtocolVersion, SECTION,
    command, wapc, wasi,
};

/// The most tables of a module: each takes memory in every instance slot.
pub(crate) const MAX_TABLES: u32 = 4;
/// Beyond this, instances no longer fit their slots.
const MAX_GLOBALS: u64 = 10_000;
const MAX_FUNCTIONS: u64 = 200_000;

/// The facts about a module file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// SHA-256 of the file, in hexadecimal.
    pub digest: String,
    /// The file's size in bytes.
    pub size: usize,
    /// The policy metadata, if the module has any.
    pub metadata: Option<Metadata>,
    /// The imports, as module and name, in order.
    pub imports: Vec<(String, String)>,
    /// The names of the exports, in order.
    pub exports: Vec<String>,
    /// The number of functions that it defines.
    pub n_functions: u64,
    /// The initial size of its memory in bytes.
    pub initial_memory: u64,
    n_memories: u64,
    n_tables: u64,
    n_table_elements: u64,
    n_globals: u64,
}

/// Inspects a module. It takes no longer than reading the file: function bodies are skipped, so the compiler may
/// still refuse the module.
pub fn inspect(wasm: &[u8], limits: &Limits) -> Result<Inspection, LoadError> {
    if wasm.len() > limits.module_size {
        return Err(LoadError::TooLarge {
            size: wasm.len(),
            limit: limits.module_size,
        });
    }
    let mut seen = Inspection {
        digest: hex(&Sha256::digest(wasm)),
        size: wasm.len(),
        metadata: None,
        imports: Vec::new(),
        exports: Vec::new(),
        n_functions: 0,
        initial_memory: 0,
        n_memories: 0,
        n_tables: 0,
        n_table_elements: 0,
        n_globals: 0,
    };
    for payload in Parser::new(0).parse_all(wasm) {
        seen.take(payload.map_err(malformed)?)?;
    }
    Ok(seen)
}

impl Inspection {
    fn take(&mut self, payload: Payload<'_>) -> Result<(), LoadError> {
        match payload {
            Payload::Version {
                encoding: Encoding::Component,
                ..
            } => return Err(LoadError::Component),
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import.map_err(malformed)?;
                    if let TypeRef::Memory(_) = import.ty {
                        self.n_memories += 1;
                    }
                    self.imports
                        .push((import.module.to_owned(), import.name.to_owned()));
                }
            }
            Payload::FunctionSection(functions) => self.n_functions += u64::from(functions.count()),
            Payload::TableSection(tables) => {
                for table in tables {
                    self.n_tables += 1;
                    self.n_table_elements += table.map_err(malformed)?.ty.initial;
                }
            }
            Payload::MemorySection(memories) => {
                for memory in memories {
                    self.n_memories += 1;
                    let pages = memory.map_err(malformed)?.initial;
                    self.initial_memory = self
                        .initial_memory
                        .saturating_add(pages.saturating_mul(65536));
                }
            }
            Payload::GlobalSection(globals) => self.n_globals += u64::from(globals.count()),
            Payload::ExportSection(exports) => {
                for export in exports {
                    self.exports
                        .push(export.map_err(malformed)?.name.to_owned());
                }
            }
            Payload::CustomSection(section)
                if section.name() == SECTION && self.metadata.is_none() =>
            {
                self.metadata = Some(Metadata::parse(section.data())?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether it has an export of that name.
    pub fn has_export(&self, name: &str) -> bool {
        self.exports.iter().any(|export| export == name)
    }

    /// The execution mode in its metadata, or the one that its exports suggest.
    pub fn execution_mode(&self) -> ExecutionMode {
        match &self.metadata {
            Some(metadata) => metadata.execution_mode,
            None if self.exports.iter().any(|name| name.starts_with("opa_")) => ExecutionMode::Opa,
            None => ExecutionMode::Wapc,
        }
    }

    /// Checks that the module can be run, and returns its execution mode. A given mode replaces that of the metadata,
    /// and then the protocol version is not checked.
    pub(crate) fn check(
        &self,
        by_hand: Option<ExecutionMode>,
        limits: &Limits,
    ) -> Result<Kind, LoadError> {
        let mode = by_hand.unwrap_or_else(|| self.execution_mode());
        let kind = match mode {
            ExecutionMode::Wapc => Kind::Wapc,
            ExecutionMode::Wasi => Kind::Wasi,
            ExecutionMode::Opa | ExecutionMode::Gatekeeper | ExecutionMode::Ferricel => {
                return Err(LoadError::UnsupportedMode { mode });
            }
        };
        if kind == Kind::Wapc && by_hand.is_none() {
            self.check_protocol()?;
        }
        self.check_minimum_version()?;
        self.check_shape(limits)?;
        self.check_imports(kind)?;
        self.check_exports(kind)?;
        Ok(kind)
    }

    fn check_protocol(&self) -> Result<(), LoadError> {
        match self
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.protocol_version)
        {
            Some(ProtocolVersion::V1) => Ok(()),
            Some(ProtocolVersion::Unknown) => Err(LoadError::UnknownProtocolVersion),
            None => Err(LoadError::NoProtocolVersion),
        }
    }

    /// Patch releases do not matter.
    fn check_minimum_version(&self) -> Result<(), LoadError> {
        let running = KUBEWARDEN_VERSION;
        match self
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.minimum_kubewarden_version.clone())
        {
            Some(required) if (required.major, required.minor) > (running.major, running.minor) => {
                Err(LoadError::TooNew { required, running })
            }
            _ => Ok(()),
        }
    }

    fn check_shape(&self, limits: &Limits) -> Result<(), LoadError> {
        let bounds = [
            ("functions", self.n_functions, MAX_FUNCTIONS),
            ("globals", self.n_globals, MAX_GLOBALS),
            ("memories", self.n_memories, 1),
            ("tables", self.n_tables, u64::from(MAX_TABLES)),
            (
                "table elements",
                self.n_table_elements,
                limits.table_elements as u64,
            ),
            (
                "bytes of initial memory",
                self.initial_memory,
                limits.memory as u64,
            ),
        ];
        match bounds.into_iter().find(|(_, n, limit)| n > limit) {
            Some((what, n, limit)) => Err(LoadError::Shape { what, n, limit }),
            None => Ok(()),
        }
    }

    fn check_imports(&self, kind: Kind) -> Result<(), LoadError> {
        let known = |module: &str, name: &str| match module {
            wasi::MODULE => wasi::is_known(name),
            _ => match kind {
                Kind::Wapc => wapc::is_known(module, name),
                Kind::Wasi => command::is_known(module, name),
            },
        };
        match self
            .imports
            .iter()
            .find(|(module, name)| !known(module, name))
        {
            Some((module, name)) => Err(LoadError::UnknownImport {
                module: module.clone(),
                name: name.clone(),
            }),
            None => Ok(()),
        }
    }

    fn check_exports(&self, kind: Kind) -> Result<(), LoadError> {
        let wanted: &[&'static str] = match kind {
            Kind::Wapc => &["memory", "__guest_call"],
            Kind::Wasi => &["memory", "_start"],
        };
        match wanted.iter().find(|name| !self.has_export(name)) {
            Some(name) => Err(LoadError::MissingExport { name }),
            None => Ok(()),
        }
    }
}

/// The kinds of guests that can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Wapc,
    Wasi,
}

impl Kind {
    pub(crate) fn mode(self) -> ExecutionMode {
        match self {
            Self::Wapc => ExecutionMode::Wapc,
            Self::Wasi => ExecutionMode::Wasi,
        }
    }
}

fn malformed(error: wasmparser::BinaryReaderError) -> LoadError {
    LoadError::Malformed(error.to_string())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 0xf)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}
