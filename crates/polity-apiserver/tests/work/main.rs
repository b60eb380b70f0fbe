//! The cost of processing untrusted input is proportional to its size.
//!
//! The cost is measured as allocated bytes: a path that is copied for each sibling shows as a sum that grows with the
//! square of the input. Input that is four times as large must not cost more than about four times as much. This is a
//! separate binary, because all tests of a process share the counter.

#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

mod input;
mod operations;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The smaller and the larger input differ by this factor.
const FACTOR: usize = 4;
const SMALL: usize = 2_000;
/// Tables double when they grow, so a count may be off by a factor of two at either end.
const SLACK: usize = 2;
/// The fixed cost of an operation, independent of its input.
const FIXED_BYTES: usize = 1 << 20;

fn allocated(operation: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    operation();
    let change = region.change();
    change.bytes_allocated + usize::try_from(change.bytes_reallocated.max(0)).unwrap()
}

#[test]
fn work_grows_with_the_size_of_the_input_and_not_with_its_square() {
    for (shape, make) in input::SHAPES {
        let (small, large) = (make(SMALL), make(SMALL * FACTOR));
        assert!(large.len() <= FACTOR * small.len() * 5 / 4, "{shape}");
        for (name, operation) in operations::OPERATIONS {
            // The first run also fills the caches of the process.
            operation(&small);
            let (of_small, of_large) = (
                allocated(|| operation(&small)),
                allocated(|| operation(&large)),
            );
            let limit = of_small * FACTOR * SLACK + FIXED_BYTES;
            assert!(
                of_large <= limit,
                "{name} of {shape}: {of_small} bytes, then {of_large} bytes for input {FACTOR} \
                 times as large"
            );
        }
    }
}
