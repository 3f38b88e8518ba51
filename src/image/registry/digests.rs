//! Digests: what a registry sends is checked by the algorithm of the digest that is asked for.

use crate::build::digest_by;
use crate::registry_error::{Problem, RegistryError};

/// Checks bytes against a digest.
///
/// # Errors
/// [`RegistryError`] if they are others, or the algorithm is unknown.
pub(super) fn check_bytes(
    operation: &str,
    bytes: &[u8],
    expected: &str,
) -> Result<(), RegistryError> {
    let algorithm = algorithm(expected);
    let found = digest_by(algorithm, bytes).ok_or_else(|| {
        let words = format!("the digest algorithm {algorithm:?} is unknown, so nothing is checked");
        RegistryError::new(operation, Problem::DigestMismatch, words)
    })?;
    if found == expected {
        Ok(())
    } else {
        Err(mismatch(operation, expected, Some(&found)))
    }
}

/// Returns true if two digests are of one algorithm, so that different ones are of different bytes.
pub(super) fn are_comparable(one: &str, other: &str) -> bool {
    algorithm(one) == algorithm(other)
}

/// Returns true if bytes can be checked against a digest. What a registry says of its own answer
/// may have any form.
pub(super) fn is_known(digest: &str) -> bool {
    digest_by(algorithm(digest), &[]).is_some()
}

/// Returns the error that the registry has something else, or nothing.
pub(super) fn mismatch(operation: &str, expected: &str, found: Option<&str>) -> RegistryError {
    let found = found.unwrap_or("nothing");
    let words = format!("expected {expected}, the registry has {found}");
    RegistryError::new(operation, Problem::DigestMismatch, words)
}

fn algorithm(digest: &str) -> &str {
    digest.split(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As FIPS 180-4 has them: of these bytes, and of no others.
    #[test]
    fn bytes_are_checked_by_each_algorithm_that_a_reference_can_name() {
        for (algorithm, digits) in [
            (
                "sha256",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                "sha384",
                "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
            ),
            (
                "sha512",
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ),
        ] {
            let digest = format!("{algorithm}:{digits}");
            assert!(is_known(&digest));
            assert_eq!(check_bytes("reading", b"abc", &digest), Ok(()));
            let error = check_bytes("reading", b"abd", &digest).unwrap_err();
            assert_eq!(error.problem(), Problem::DigestMismatch, "{algorithm}");
        }
    }

    #[test]
    fn an_unknown_algorithm_is_named() {
        assert!(!is_known("md5:900150983cd24fb0d6963f7d28e17f72"));
        let error = check_bytes("reading", b"abc", "md5:900150983cd24fb0d6963f7d28e17f72");
        assert!(error.unwrap_err().to_string().contains("\"md5\""));
    }
}
