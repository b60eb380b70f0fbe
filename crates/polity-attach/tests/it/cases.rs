//! The worked cases of docs/spec/attachment.md#6, one test each, in the same order.

mod levels;
mod targets;
mod values;
