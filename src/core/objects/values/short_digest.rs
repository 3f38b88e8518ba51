//! Shortened digests: for names and labels, and for comparisons within the process.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use sha2::{Digest as _, Sha256};

/// Returns the first bytes of a text's SHA-256, in hexadecimal: two characters each, at most 64.
pub fn short_digest(text: impl AsRef<[u8]>, bytes: usize) -> String {
    short_hex(&Sha256::digest(text), bytes)
}

/// Returns the first `bytes` bytes of a digest, in hexadecimal.
pub fn short_hex(digest: &[u8], bytes: usize) -> String {
    digest
        .iter()
        .take(bytes)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns a number that stands for a value until the process ends.
pub(crate) fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digests must not change: they are in the names of objects that earlier versions have
    /// made.
    #[test]
    fn it_is_the_beginning_of_the_sha_256() {
        assert_eq!(short_digest("", 4), "e3b0c442");
        assert_eq!(short_digest("abc", 5), "ba7816bf8f");
        assert_eq!(short_digest("abc", 99).len(), 64);
    }
}
