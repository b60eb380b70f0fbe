//! Short hashes that can be part of names, labels and annotations.

use sha2::{Digest as _, Sha256};

/// No vowels and nothing that looks like them, so that no word comes out by chance.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// `n` characters that follow from a text, at most 32. The same in every process and every release: names of stored
/// objects contain them.
///
/// ```
/// assert_eq!(polity_reconcile::name_hash("a text", 10), polity_reconcile::name_hash("a text", 10));
/// ```
pub fn name_hash(text: &str, n: usize) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let bytes = digest.iter().take(n);
    bytes
        .map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_stay_the_same_and_fit_into_names() {
        assert_eq!(name_hash("a text", 10), name_hash("a text", 32)[..10]);
        assert_ne!(name_hash("a text", 10), name_hash("another text", 10));
        let hash = name_hash("", 40);
        assert_eq!(hash.len(), 32);
        assert!(hash.bytes().all(|byte| ALPHABET.contains(&byte)));
    }
}
