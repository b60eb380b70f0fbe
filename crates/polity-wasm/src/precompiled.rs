//! Compiled code as bytes that can be stored and loaded again. The only unsafe line of Polity is here.
//!
//! The bytes are a JSON header line with the inspection, then the format of the Wasm runtime. They are native code,
//! so stored bytes must be signed with a key that only the user can read.

use serde::{Deserialize, Serialize};

use crate::{Engine, Inspection, LoadError, inspect::Kind};

/// Compiled code whose caller vouches for its origin.
#[derive(Clone)]
pub struct CompiledCode(Vec<u8>);

#[derive(Serialize, Deserialize)]
struct Header {
    compatibility: String,
    kind: Kind,
    inspection: Inspection,
}

impl CompiledCode {
    /// Compiled code from stored bytes.
    ///
    /// The caller guarantees that exactly these bytes came from [`as_bytes`](Self::as_bytes), by checking a MAC or a
    /// signature over them *after* reading them into memory. Other code would run with all rights of this process.
    pub fn vouched_for(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn of(
        inspection: &Inspection,
        kind: Kind,
        module: &wasmtime::Module,
        engine: &Engine,
    ) -> Result<Self, LoadError> {
        let header = Header {
            compatibility: engine.compatibility().to_owned(),
            kind,
            inspection: inspection.clone(),
        };
        let mut bytes =
            serde_json::to_vec(&header).map_err(|error| LoadError::Compile(error.to_string()))?;
        bytes.push(b'\n');
        bytes.extend(
            module
                .serialize()
                .map_err(|error| LoadError::Compile(format!("{error:#}")))?,
        );
        Ok(Self(bytes))
    }

    /// Opens the code, if this engine could have made it.
    pub(crate) fn open(
        &self,
        engine: &Engine,
    ) -> Result<(Inspection, Kind, wasmtime::Module), LoadError> {
        let incompatible = |what: &str| LoadError::Incompatible(what.to_owned());
        let end = self
            .0
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or_else(|| incompatible("no header"))?;
        let header: Header =
            serde_json::from_slice(&self.0[..end]).map_err(|_| incompatible("unknown header"))?;
        if header.compatibility != engine.compatibility() {
            return Err(incompatible(
                "made by another version or with other settings",
            ));
        }
        // The limits at compile time may have been larger than the current ones.
        header
            .inspection
            .check(Some(header.kind.mode()), engine.limits())?;
        #[expect(
            unsafe_code,
            reason = "native code is loaded unchecked; the caller has verified its origin"
        )]
        // SAFETY: `vouched_for` makes its caller check that these bytes were written by `of`, which took
        // them from `Module::serialize`; the header says that the engine had the same version and settings.
        let module =
            unsafe { wasmtime::Module::deserialize(engine.wasmtime(), &self.0[end + 1..]) };
        let module = module.map_err(|error| LoadError::Incompatible(format!("{error:#}")))?;
        Ok((header.inspection, header.kind, module))
    }
}

impl std::fmt::Debug for CompiledCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CompiledCode({} bytes)", self.0.len())
    }
}
