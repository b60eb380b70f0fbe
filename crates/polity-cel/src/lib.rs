//! CEL with the Kubernetes libraries: compile once, check, evaluate within bounds of time and size.
