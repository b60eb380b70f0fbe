//! Compiled code as bytes that can be kept, and taken up again. The only unsafe line of Polity is here.
//!
//! The bytes are a header line of JSON with what was inspected, then the Wasm runtime's own format. A
//! key only the user can read must have signed them where they are kept: they are native code.

use serde::{Deserialize, Serialize};

use crate::{Engine, Inspection, LoadError, inspect::Kind};

/// Compiled code that somebody vouches for.
#[derive(Clone)]
pub struct CompiledCode(Vec<u8>);

#[derive(Serialize, Deserialize)]
struct Header {
    compatibility: String,
    kind: Kind,
    inspection: Inspection,
}

impl CompiledCode {
    /// Takes bytes that were stored.
    ///
    /// Whoever calls this states that these very bytes came out of [`as_bytes`](Self::as_bytes) and
    /// were not changed since, having checked a MAC or a signature over them *after* reading them into
    /// memory. Code that somebody else wrote would run with all our rights.
    pub fn vouched_for(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// What to store.
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
        // What was allowed then may be more than what is allowed now.
        header
            .inspection
            .check(Some(header.kind.mode()), engine.limits())?;
        #[expect(
            unsafe_code,
            reason = "native code can only be loaded on somebody's word"
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
