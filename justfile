# Shortcuts for `cargo xtask`, which contains the logic.

_default:
    @just --list --unsorted

# Build Polity and run it
up *args:
    cargo xtask up {{args}}

# Run every test that the tools on this machine allow
test *args:
    cargo xtask test {{args}}

# Run every check that a change must pass before it is merged
ci *args:
    cargo xtask ci {{args}}

# Compare the responses of the embedded API server with those of a real one
differential *args:
    cargo xtask differential {{args}}

# Check repository rules beyond the compiler
tidy:
    cargo xtask tidy

# Write config/crd and docs/reference from code
generate:
    cargo xtask generate

# Write crates/workspace-hack, after a change of dependencies
features:
    cargo xtask features

# Build or run the real Kubernetes: build, kubectl VERSION, up, down, env
kube *args:
    cargo xtask kube {{args}}

# Run benchmarks
bench *args:
    cargo xtask bench {{args}}

# Kill writing processes repeatedly and verify that no data is lost
chaos *args:
    cargo xtask chaos {{args}}

# Licences, banned crates and sources (needs cargo-deny; advisories need a network)
deny:
    cargo deny check bans licenses sources
