//! AES-CBC with PKCS#7 padding: the encryption of values from hub to managed cluster, and of sprig's `encryptAES`.

use aes::Aes256;
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The prefix of an encrypted value.
pub const PREFIX: &str = "$ocm_encrypted:";

const BLOCK: usize = 16;

/// A key of 256 bits. Its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Why a value could not be decrypted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecryptError {
    #[error("the AES key is invalid")]
    InvalidKey,
    #[error("the encrypted string is invalid base64")]
    InvalidBase64,
    #[error("invalid PCKS7 padding: {0}")]
    InvalidPadding(&'static str),
    #[error("the decrypted value is not text")]
    NotText,
}

impl Key {
    /// A key of 32 bytes; others are invalid.
    pub fn new(bytes: &[u8]) -> Result<Self, DecryptError> {
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| DecryptError::InvalidKey)
    }

    /// The blocks of a padded text.
    pub(crate) fn encrypt(&self, vector: [u8; BLOCK], plain: &[u8]) -> Vec<u8> {
        let cipher = Aes256::new(&Array::from(self.0));
        let padding = BLOCK - plain.len() % BLOCK;
        let mut bytes = plain.to_vec();
        bytes.extend(std::iter::repeat_n(padding as u8, padding));
        let mut previous = vector;
        for block in bytes.chunks_exact_mut(BLOCK) {
            for (byte, before) in block.iter_mut().zip(previous) {
                *byte ^= before;
            }
            let mut array = Array::from(to_block(block));
            cipher.encrypt_block(&mut array);
            block.copy_from_slice(&array);
            previous = array.into();
        }
        bytes
    }

    /// The blocks decrypted, with their padding.
    pub(crate) fn decrypt(&self, vector: [u8; BLOCK], encrypted: &[u8]) -> Vec<u8> {
        let cipher = Aes256::new(&Array::from(self.0));
        let mut previous = vector;
        let mut out = Vec::with_capacity(encrypted.len());
        for block in encrypted.chunks_exact(BLOCK) {
            let here = to_block(block);
            let mut array = Array::from(here);
            cipher.decrypt_block(&mut array);
            out.extend(
                array
                    .iter()
                    .zip(previous)
                    .map(|(byte, before)| byte ^ before),
            );
            previous = here;
        }
        out
    }
}

fn to_block(bytes: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block.copy_from_slice(bytes);
    block
}

/// The keys of one managed cluster, and the vector of one replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    pub key: Key,
    /// The key before the last rotation.
    pub previous: Option<Key>,
    pub vector: [u8; BLOCK],
}

impl Keys {
    /// The encrypted form of a value in a replica. An empty value stays empty.
    pub fn protect(&self, value: &str) -> String {
        if value.is_empty() {
            return String::new();
        }
        let encrypted = self.key.encrypt(self.vector, value.as_bytes());
        format!("{PREFIX}{}", STANDARD.encode(encrypted))
    }

    /// The value of an encrypted one, without its prefix: by the key, then by the previous one.
    pub fn reveal(&self, encoded: &str) -> Result<String, DecryptError> {
        let encrypted = STANDARD
            .decode(encoded)
            .map_err(|_| DecryptError::InvalidBase64)?;
        let first = self.reveal_with(&self.key, &encrypted);
        match (&first, &self.previous) {
            (Err(_), Some(previous)) => self.reveal_with(previous, &encrypted).or(first),
            _ => first,
        }
    }

    fn reveal_with(&self, key: &Key, encrypted: &[u8]) -> Result<String, DecryptError> {
        if encrypted.is_empty() || !encrypted.len().is_multiple_of(BLOCK) {
            return Err(DecryptError::InvalidPadding(
                "the length is no whole number of blocks",
            ));
        }
        let mut bytes = key.decrypt(self.vector, encrypted);
        let padding = usize::from(bytes.last().copied().unwrap_or(0));
        if padding == 0 || padding > BLOCK {
            return Err(DecryptError::InvalidPadding(
                "the padding length is invalid",
            ));
        }
        let start = bytes.len() - padding;
        if bytes[start..]
            .iter()
            .any(|byte| usize::from(*byte) != padding)
        {
            return Err(DecryptError::InvalidPadding(
                "not all the padding bytes match",
            ));
        }
        bytes.truncate(start);
        String::from_utf8(bytes).map_err(|_| DecryptError::NotText)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys {
            key: Key::new(&[b'P'; 32]).unwrap(),
            previous: None,
            vector: [b'V'; 16],
        }
    }

    /// Test vectors of the encryption format.
    #[test]
    fn values_are_encrypted_as_in_the_reference() {
        for (plain, encrypted) in [
            ("polity", "sopHvYwbo9snpkXHI/8g5g=="),
            (
                "sixteen byte str",
                "/qk2WRjW4ZGqmzi7l+dvQ4zdpLs8kI89vov+wAIe9Ls=",
            ),
        ] {
            assert_eq!(keys().protect(plain), format!("{PREFIX}{encrypted}"));
            assert_eq!(keys().reveal(encrypted).as_deref(), Ok(plain));
        }
        assert_eq!(keys().protect(""), "");
    }

    #[test]
    fn the_previous_key_is_tried_after_the_key() {
        let old = keys();
        let rotated = Keys {
            key: Key::new(&[b'Q'; 32]).unwrap(),
            previous: Some(old.key.clone()),
            vector: old.vector,
        };
        let text = old.protect("polity");
        let encoded = text.strip_prefix(PREFIX).unwrap();
        assert_eq!(rotated.reveal(encoded).as_deref(), Ok("polity"));
        let alone = Keys {
            previous: None,
            ..rotated
        };
        assert!(alone.reveal(encoded).is_err());
        assert_eq!(old.reveal("%"), Err(DecryptError::InvalidBase64));
        assert!(old.reveal("").is_err());
        assert_eq!(Key::new(b"short"), Err(DecryptError::InvalidKey));
        assert_eq!(format!("{:?}", old.key), "Key(…)");
    }
}
