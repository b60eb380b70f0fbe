//! Templates against the real ones, at their limits, and in objects.

mod differential;
mod host;
mod limits;
mod oracle;
mod random;
mod resolving;
