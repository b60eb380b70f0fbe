//! For tests: builders, a fake clock, an in-process API server, eventually(), a client that fails on demand.
