//! Our certificate authorities, the leaves they sign, their rotation, and the checks of both.
//!
//! - An [`Authority`] signs server and client leaves.
//! - A [`Certificate`] is any certificate, parsed once.
//! - A [`TokenKey`] signs service-account tokens.
//! - A [`BlobSigner`] signs files in locations that others can write to, and a [`BlobTrust`] verifies them.
//! - An [`Order`] is a certificate with any names, any lifetime and any signer.
//!
//! Time is always an argument. `Debug` output never contains private keys.
//!
//! ```
//! use std::time::Duration;
//! use polity_pki::{Authority, ClientIdentity, ServerNames};
//!
//! let now = "2026-11-15T12:00:00Z".parse()?;
//! let year = Duration::from_hours(365 * 24);
//! let ca = Authority::create("polity", 10 * year, now)?;
//!
//! let names = ServerNames::new("polity").dns("localhost").ip([127, 0, 0, 1]);
//! let serving = ca.issue_server(&names, year, now)?;
//! assert!(serving.certificate.check_signed_by(ca.certificate(), now).is_ok());
//!
//! let admin = ClientIdentity::new("admin", ["system:masters"]);
//! let leaf = ca.issue_client(&admin, year, now)?;
//! assert_eq!(leaf.certificate.client_identity(), Some(admin));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod authority;
mod blob;
mod certificate;
mod der;
mod key;
mod order;
mod pem;
mod token;

pub use authority::{Authority, AuthorityError, Issued, ServerNames};
pub use blob::{
    BlobKind, BlobPredicate, BlobRefusal, BlobSigner, BlobTrust, SignError, SignedBlob, SignerError,
};
pub use certificate::{Certificate, CheckError, ClientIdentity, ParseError};
pub use key::{KeyError, KeyKind, PrivateKey};
pub use order::{Order, Signer};
pub use token::{TokenKey, key_id};
