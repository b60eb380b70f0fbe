//! Go templates as policies use them: the language of text/template, the functions of sprig, lookups in clusters, and
//! the rules by which the strings of an object are resolved.
//!
//! The engine is pure. Clusters, clock, randomness, key generation and DNS lookups are behind [`Host`]. Every run is
//! bounded in steps, output and depth ([`Limits`]). `docs/design/templates.md` describes the differences to Go.

#![expect(
    clippy::unnecessary_wraps,
    reason = "a function of the language answers with an Outcome, whether it can fail or not"
)]

mod arg;
mod builtins;
mod compare;
pub mod encryption;
mod exec;
mod function;
mod functions;
mod governance;
mod host;
pub mod lint;
mod methods;
pub mod policy;
mod print;
mod printf;
mod resolve;
mod rules;
mod run;
mod semver;
mod sprig;
mod syntax;
mod syntax_of;
mod template;
mod time;
mod value;

pub use exec::ExecuteError;
pub use functions::names as function_names;
pub use host::{CertificatePair, CertificateRequest, Host, KeyKind, LookupError, Query};
pub use resolve::{Context, PolicyMetadata, ResolveError, Resolved, Resolver, has_template};
pub use rules::{LookupScope, Rules, Side};
pub use run::{Limits, Noticed};
pub use semver::Version;
pub use syntax::lex::Delimiters;
pub use template::{Execution, ParseError, Template};
pub use value::{Elements, HoldsItself, IntType, List, Map, Struct, Value};
