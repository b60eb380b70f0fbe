//! The admission chain: built-in plugins, then mutating and validating webhooks.
