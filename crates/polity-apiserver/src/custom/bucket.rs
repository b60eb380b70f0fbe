//! Where custom resources are stored. Their buckets are never those of built-in kinds.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use polity_kinds::builtin::builtin_resources;

/// Marks the bucket of a definition that is called like the bucket of a built-in kind. The name of
/// a definition is a DNS subdomain, so it does not contain a colon.
const PREFIX: &str = "custom:";

static BUILTIN_BUCKETS: LazyLock<BTreeSet<&'static str>> =
    LazyLock::new(|| builtin_resources().iter().map(|def| &*def.bucket).collect());

/// The bucket of the objects of a definition.
///
/// It is called like the definition (`{plural}.{group}`), as in all data directories so far, except
/// where a built-in kind has that name.
pub fn bucket_of(definition: &str) -> Cow<'_, str> {
    if BUILTIN_BUCKETS.contains(definition) {
        Cow::Owned(format!("{PREFIX}{definition}"))
    } else {
        Cow::Borrowed(definition)
    }
}

/// The definition of the objects in a bucket. `None` for the bucket of a built-in kind.
pub fn definition_of(bucket: &str) -> Option<&str> {
    match bucket.strip_prefix(PREFIX) {
        Some(definition) => Some(definition),
        None => (!BUILTIN_BUCKETS.contains(bucket)).then_some(bucket),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_definition_shares_a_bucket_with_a_built_in_kind() {
        for def in builtin_resources() {
            let names = [
                def.bucket.to_string(),
                format!("{}.{}", def.plural, def.gvk.group),
            ];
            for definition in names {
                let bucket = bucket_of(&definition);
                assert!(!BUILTIN_BUCKETS.contains(&*bucket), "{definition}");
                assert_eq!(definition_of(&bucket), Some(&*definition));
            }
            assert_eq!(definition_of(&def.bucket), None);
        }
    }

    #[test]
    fn other_definitions_keep_the_bucket_they_always_had() {
        assert_eq!(bucket_of("gears.example.com"), "gears.example.com");
        assert_eq!(
            definition_of("gears.example.com"),
            Some("gears.example.com")
        );
    }
}
