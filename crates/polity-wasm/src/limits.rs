//! The resource limits of guests.

/// Limits of every evaluation besides time, the same for all modules of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The size of a module file in bytes.
    pub module_size: usize,
    /// Linear memory of one instance in bytes; growing beyond fails in the guest.
    pub memory: usize,
    /// Elements of all tables of one instance.
    pub table_elements: usize,
    /// Native stack of the guest in bytes. The thread needs half a megabyte more than this.
    pub stack: usize,
    /// The result of the guest in bytes.
    pub output: usize,
    /// The payload and the response of one host call in bytes.
    pub host_payload: usize,
    /// The number of host calls of one evaluation, including log entries.
    pub host_calls: u32,
    /// One log entry in bytes; more is cut off.
    pub log_entry: usize,
    /// Log entries of one evaluation in bytes; what comes after is dropped.
    pub log_total: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: usize = 1 << 20;
        Self {
            module_size: 128 * MIB,
            memory: 512 * MIB,
            table_elements: 200_000,
            stack: MIB,
            output: 16 * MIB,
            host_payload: 16 * MIB,
            host_calls: 10_000,
            log_entry: 64 << 10,
            log_total: MIB,
        }
    }
}
