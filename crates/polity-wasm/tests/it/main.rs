//! Guests of every kind, good and hostile, in a real engine.

mod hostile;
mod load;
mod support;
mod wapc;
mod wasi;
