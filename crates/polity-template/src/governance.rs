//! The functions that policies have besides sprig: lookups, secrets, claims, nodes, YAML.

pub(crate) mod lookups;
pub(crate) mod values;
pub(crate) mod yaml;

use crate::function::Function;

pub(crate) const TABLES: &[&[(&str, Function)]] = &[lookups::TABLE, values::TABLE];
