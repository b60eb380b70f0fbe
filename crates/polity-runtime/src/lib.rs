//! The shell kit every process stands on: client, argument groups, admin port, logs, metrics, TLS reload, clock, leases, guarded writes, shutdown.
