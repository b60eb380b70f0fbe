//! The module cache that all replicas of a policy server share: modules and their native code, on a volume that other
//! processes may write to.
//!
//! Native code is loaded without further checks, so its author can run code in the server. Every file therefore has a
//! signature beside it, created with a key that only the replicas have. A file is used only if signer, time, statement
//! and the bytes in memory all match. Any other file counts as absent ([`AbsentReason`]) and is created again. Only a
//! failing disk is an error.
//!
//! All calls block.

mod absent;
mod collect;
mod disk;
mod facts;
mod layout;
mod signer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use polity_fetch::Digest;
use polity_pki::{BlobKind, BlobPredicate, BlobSigner, BlobTrust, SignedBlob};
use polity_wasm::CompiledCode;

pub use self::absent::{AbsentReason, Lookup};
pub use self::collect::{Collected, Demand, Reference};
pub use self::disk::CacheError;
use self::disk::{Disk, NotRead, Size};
pub use self::facts::{CacheBuild, CacheIdentity, ModuleFacts};
use self::layout::{Form, ModuleDirectory};
pub use self::signer::{SignerError, SignerFiles, SignerTexts};

/// The largest file: far more than the code of the largest module.
const MAX_BYTES: u64 = 1 << 30;
/// The largest signature: an encoded statement and certificate.
const MAX_SIGNATURE_BYTES: u64 = 64 << 10;

/// The module cache of one policy server. Clones share it.
#[derive(Debug, Clone)]
pub struct SharedCache(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    disk: Disk,
    uri: String,
    build: CacheBuild,
    signing: ArcSwap<Signing>,
}

/// The signer, and the certificates that are trusted. Both come from one read of the Secret.
#[derive(Debug)]
struct Signing {
    signer: BlobSigner,
    trust: BlobTrust,
}

impl SharedCache {
    /// A cache in a directory, which is created when needed.
    pub fn new(
        root: impl Into<PathBuf>,
        identity: &CacheIdentity,
        build: CacheBuild,
        signer: SignerFiles,
    ) -> Self {
        let uri = identity.uri();
        Self(Arc::new(Inner {
            disk: Disk::new(root.into()),
            signing: ArcSwap::from_pointee(Signing::new(&signer, &uri)),
            uri,
            build,
        }))
    }

    /// Replaces the signer and the trusted certificates.
    pub fn set_signer(&self, signer: SignerFiles) {
        let signing = Signing::new(&signer, &self.0.uri);
        self.0.signing.store(Arc::new(signing));
    }

    /// Reads a Wasm module.
    pub fn original(
        &self,
        facts: &ModuleFacts,
        now: Timestamp,
    ) -> Result<Lookup<Vec<u8>>, CacheError> {
        lookup(self.read(facts, Form::Original, now))
    }

    /// Reads the native code that a compatible build made of a module. Its signature is checked.
    pub fn optimized(
        &self,
        facts: &ModuleFacts,
        now: Timestamp,
    ) -> Result<Lookup<CompiledCode>, CacheError> {
        let form = self.0.build.optimized();
        let read = self.read(facts, form, now);
        lookup(read.map(CompiledCode::vouched_for))
    }

    /// Writes a Wasm module.
    pub fn store_original(&self, facts: &ModuleFacts, wasm: &[u8]) -> Result<(), CacheError> {
        if Digest::of(wasm) != facts.digest {
            return Err(CacheError::OtherContent {
                digest: facts.digest,
            });
        }
        self.store(facts, Form::Original, wasm)
    }

    /// Writes native code that this build made of a module.
    pub fn store_optimized(
        &self,
        facts: &ModuleFacts,
        code: &CompiledCode,
    ) -> Result<(), CacheError> {
        let form = self.0.build.optimized();
        self.store(facts, form, code.as_bytes())
    }

    /// Signs every valid file of these modules with the current certificate, including code of other builds. Returns
    /// how many had another signature. Without this all of them would expire on one day after a renewal.
    pub fn sign_anew(
        &self,
        referenced: &[ModuleFacts],
        now: Timestamp,
    ) -> Result<usize, CacheError> {
        let places: BTreeMap<ModuleDirectory, Digest> = referenced
            .iter()
            .map(|facts| (ModuleDirectory::of(&facts.uri, &facts.digest), facts.digest))
            .collect();
        let mut n_signed = 0;
        for (place, digest) in places {
            for name in self.0.disk.names(place.segments())? {
                match self.sign_file_anew(&place, &name, &digest, now) {
                    Ok(signed) => n_signed += usize::from(signed),
                    Err(NotRead::Absent(_)) => {}
                    Err(NotRead::Fault(error)) => return Err(error),
                }
            }
        }
        Ok(n_signed)
    }

    /// Removes unused files. Calls `may_go_on` before each removal.
    pub fn collect(
        &self,
        demand: &Demand,
        now: Timestamp,
        may_go_on: impl FnMut() -> bool,
    ) -> Result<Collected, CacheError> {
        let listing = self.0.disk.list()?;
        let plan = collect::plan(&listing, demand, self.0.build.server_version(), now);
        collect::carry_out(&plan, &self.0.disk, may_go_on)
    }

    /// Reads and checks a file. Returns exactly the bytes that were checked.
    fn read(
        &self,
        facts: &ModuleFacts,
        form: Form<'_>,
        now: Timestamp,
    ) -> Result<Vec<u8>, NotRead> {
        let place = ModuleDirectory::of(&facts.uri, &facts.digest);
        let signing = self.0.signing.load();
        let name = form.file_name();
        let signed = self.read_signature(&place, &name, &signing.trust, now)?;
        self.check_statement(&signed, facts, form)?;
        self.read_signed(&place, &name, &signed)
    }

    /// Checks that the statement is about this form of this module, and made by a compatible build.
    fn check_statement(
        &self,
        signed: &SignedBlob,
        facts: &ModuleFacts,
        form: Form<'_>,
    ) -> Result<(), AbsentReason> {
        let predicate = signed.predicate();
        if predicate.kind != kind(form) || predicate.original_digest != facts.digest.to_string() {
            return Err(AbsentReason::OtherModule);
        }
        match form {
            Form::Original if signed.sha256() != facts.digest.hex() => {
                Err(AbsentReason::OtherModule)
            }
            Form::Optimized { .. } if !self.0.build.made(predicate) => {
                Err(AbsentReason::OtherBuild)
            }
            _ if predicate.verification != facts.verification => {
                Err(AbsentReason::OtherVerification)
            }
            _ => Ok(()),
        }
    }

    /// The signature of a file, which is checked before the file is read.
    fn read_signature(
        &self,
        place: &ModuleDirectory,
        name: &str,
        trust: &BlobTrust,
        now: Timestamp,
    ) -> Result<SignedBlob, NotRead> {
        let disk = &self.0.disk;
        let beside = layout::signature_name(name);
        match disk.read(place.segments(), &beside, Size::AtMost(MAX_SIGNATURE_BYTES)) {
            Err(NotRead::Absent(AbsentReason::NotThere))
                if disk.names(place.segments())?.iter().any(|n| n == name) =>
            {
                Err(AbsentReason::Unsigned.into())
            }
            envelope => Ok(trust.open(&envelope?, now)?),
        }
    }

    fn read_signed(
        &self,
        place: &ModuleDirectory,
        name: &str,
        signed: &SignedBlob,
    ) -> Result<Vec<u8>, NotRead> {
        if signed.size() > MAX_BYTES {
            return Err(AbsentReason::TooLarge.into());
        }
        let size = Size::Exactly(signed.size());
        let bytes = self.0.disk.read(place.segments(), name, size)?;
        signed.check(name, &bytes)?;
        Ok(bytes)
    }

    fn store(&self, facts: &ModuleFacts, form: Form<'_>, bytes: &[u8]) -> Result<(), CacheError> {
        let place = ModuleDirectory::of(&facts.uri, &facts.digest);
        let name = form.file_name();
        let predicate = facts.predicate(kind(form), &self.0.build);
        let signature = self
            .0
            .signing
            .load()
            .signer
            .sign(&name, bytes, &predicate)?;
        let disk = &self.0.disk;
        // The signature is written first, so that no reader finds a complete file without one.
        disk.write(place.segments(), &layout::signature_name(&name), &signature)?;
        disk.write(place.segments(), &name, bytes)
    }

    /// Signs a valid file with the current certificate, if it has another signature. The statement stays the same.
    fn sign_file_anew(
        &self,
        place: &ModuleDirectory,
        name: &str,
        digest: &Digest,
        now: Timestamp,
    ) -> Result<bool, NotRead> {
        if Form::of_name(name).is_none() {
            return Ok(false);
        }
        let signing = self.0.signing.load();
        let Signing { signer, trust } = &**signing;
        let signed = self.read_signature(place, name, trust, now)?;
        let predicate = signed.predicate();
        if signed.signer() == signer.certificate()
            || predicate.original_digest != digest.to_string()
            || form_of(predicate).file_name() != name
        {
            return Ok(false);
        }
        let bytes = self.read_signed(place, name, &signed)?;
        let signature = signer
            .sign(name, &bytes, predicate)
            .map_err(CacheError::from)?;
        let beside = layout::signature_name(name);
        self.0.disk.write(place.segments(), &beside, &signature)?;
        Ok(true)
    }
}

impl Signing {
    fn new(files: &SignerFiles, uri: &str) -> Self {
        Self {
            signer: files.signer().clone(),
            trust: files.trust(uri.to_owned()),
        }
    }
}

fn kind(form: Form<'_>) -> BlobKind {
    match form {
        Form::Original => BlobKind::Original,
        Form::Optimized { .. } => BlobKind::Optimized,
    }
}

/// The form of the file that a statement is about.
fn form_of(predicate: &BlobPredicate) -> Form<'_> {
    match predicate.kind {
        BlobKind::Original => Form::Original,
        BlobKind::Optimized => Form::Optimized {
            server_version: &predicate.server_version,
            compat_hash: &predicate.compat_hash,
        },
    }
}

fn lookup<T>(read: Result<T, NotRead>) -> Result<Lookup<T>, CacheError> {
    match read {
        Ok(found) => Ok(Lookup::Found(found)),
        Err(NotRead::Absent(reason)) => Ok(Lookup::Absent(reason)),
        Err(NotRead::Fault(error)) => Err(error),
    }
}
