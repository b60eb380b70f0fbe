//! Controllers made with the kit, against an API server in this process.

mod copies;
mod watches;
mod writers;
