//! Turns verdicts into policy reports.
//!
//! There are two layers. A *resource report* holds the results of all policies for one object; the process that
//! evaluated the object writes it, and it is deleted with the object. *Public reports* are aggregated from them, one for
//! each namespace and policy, in the form that kubectl and dashboards read. The modules in the order in which a verdict
//! passes through them:
//!
//! - [`source`]: which policies write reports, and the names of their reports and labels;
//! - [`hash`], [`version`], [`applies`], [`kinds`]: what was evaluated, by what, and whether it is reported at all;
//! - [`verdict`]: a verdict becomes an entry; [`resource_report`]: entries become a resource report, or a patch of it;
//! - [`decide`]: what a background pass has to do about one object;
//! - [`policy_set`], [`dress`], [`fold`]: entries of many objects become the entries of one policy;
//! - [`split`], [`public`], [`plan`]: these become named objects, and the difference to what is stored;
//! - [`read`]: stored reports of any producer; [`shard`]: which process aggregates which namespace.
//!
//! Nothing here calls an API server, reads a clock or keeps state between two calls. When nothing changed, the plan of
//! writes is empty.

pub mod applies;
pub mod decide;
pub mod dress;
pub mod entry;
pub mod fold;
pub mod hash;
pub mod kinds;
pub mod plan;
pub mod policy_set;
pub mod public;
pub mod read;
pub mod resource_report;
pub mod shard;
pub mod source;
pub mod split;
pub mod verdict;
pub mod version;

pub use entry::{Entry, Outcome, PublicEntry, ResourceRef, Severity, Stamp, Summary};
pub use polity_core::PolicyKind;
pub use polity_core::policy::ReportingKind;
pub use source::{ReportKey, ReportingPolicy};

/// Label on every object that Polity writes: the component that manages it.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Label on a policy, with any value: no reports about it.
pub const REPORTING_DISABLED: &str = "reports.kyverno.io/disabled";

/// The first `n` hexadecimal digits of the SHA-256 of a text.
fn sha256_hex(text: &[u8], n: usize) -> String {
    use sha2::Digest as _;
    let mut hex = hex(&sha2::Sha256::digest(text));
    hex.truncate(n);
    hex
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}
