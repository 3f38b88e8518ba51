//! Image references: read, normalise, compare.

use std::fmt;
use std::str::FromStr;

use super::parsed::{Parsed, Problem};

/// The longest reference that is read: far beyond any real one (a repository has at most 255
/// characters, a tag 128, a digest 135).
const MAX_LENGTH: usize = 1024;

/// A reference to an image as a user wrote it, with its normalised parts: `busybox` is
/// `docker.io/library/busybox:latest`.
///
/// Two references are equal (`==`) if they were written alike. To check whether they name the same
/// image, use [`same_repository`](Self::same_repository), [`same_target`](Self::same_target) and
/// [`is_alias_of`](Self::is_alias_of).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageReference {
    written: String,
    parsed: Parsed,
}

/// The answer to whether two references name the same bytes, as far as the strings alone show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The same bytes: the digests are equal.
    Same,
    /// Perhaps the same bytes: nothing contradicts it, but at least one side has no digest, so that
    /// a tag decides, and a tag can be moved; or the digests are of two algorithms.
    Maybe,
    /// Different bytes, or different repositories.
    Different,
}

impl ImageReference {
    /// Reads a reference and fills in its defaults.
    ///
    /// # Errors
    /// [`ReferenceError`], which names the input and what is wrong with it.
    pub fn parse(written: &str) -> Result<Self, ReferenceError> {
        let fail = |problem| ReferenceError {
            written: shorten(written),
            problem,
        };
        check_characters(written).map_err(fail)?;
        let parsed = Parsed::read(written).map_err(|error| fail(problem_of(written, error)))?;
        Ok(Self {
            written: written.to_owned(),
            parsed,
        })
    }

    /// Reads two references; `None` if one of them cannot be read.
    pub fn both(one: &str, other: &str) -> Option<(Self, Self)> {
        Some((Self::parse(one).ok()?, Self::parse(other).ok()?))
    }

    /// Returns the reference as it was written: the value in a pod's spec, which a patch tests.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Returns the full form: registry, repository, tag (`latest` if neither tag nor digest was
    /// written) and digest.
    pub fn normalized(&self) -> String {
        self.parsed.to_string()
    }

    /// Returns the registry's host, with its port if one was written; `docker.io` if none was
    /// written.
    pub fn registry(&self) -> &str {
        &self.parsed.registry
    }

    /// Returns the repository inside the registry, such as `library/busybox`.
    pub fn repository(&self) -> &str {
        &self.parsed.repository
    }

    /// Returns the tag: as written, or `latest` if neither tag nor digest was written.
    pub fn tag(&self) -> Option<&str> {
        self.parsed.tag.as_deref()
    }

    /// Returns the digest, if one was written.
    pub fn digest(&self) -> Option<&str> {
        self.parsed.digest.as_deref()
    }

    /// Returns the same repository with this tag and no digest.
    ///
    /// # Errors
    /// [`ReferenceError`] if the tag is not a tag.
    pub fn with_tag(&self, tag: &str) -> Result<Self, ReferenceError> {
        Self::parse(&format!("{}/{}:{tag}", self.registry(), self.repository()))
    }

    /// Returns true if both name the same repository of the same registry, however they are
    /// written.
    pub fn same_repository(&self, other: &Self) -> bool {
        self.registry() == other.registry() && self.repository() == other.repository()
    }

    /// Compares the bytes that both name, as far as the strings show them. Digests decide if both
    /// sides have one; otherwise the answer is `Maybe`, because tags can be moved. No runtime reads
    /// a tag beside a digest.
    ///
    /// | self | other | answer |
    /// |---|---|---|
    /// | `r@A`, `r:t@A` | `r@A`, `r:u@A` | `Same` |
    /// | `r@A` | `r@B` | `Different` (of one algorithm), `Maybe` (of two) |
    /// | `r:t` | `r@A`, `r:t@A` | `Maybe` |
    /// | `r:t` | `r:u@A` | `Maybe`: both tags may point at `A` |
    /// | `r:t` | `r:t` | `Maybe`: one string, but the tag may have moved between two pulls |
    /// | `r:t` | `r:u` | `Maybe`: two tags may point at one image |
    pub fn same_target(&self, other: &Self) -> Target {
        if !self.same_repository(other) {
            return Target::Different;
        }
        match (self.digest(), other.digest()) {
            (Some(mine), Some(theirs)) => compare_digests(mine, theirs),
            _ => Target::Maybe,
        }
    }

    /// Returns true if one can be written in place of the other without changing what runs, if the
    /// tag has not moved: the same repository, and either equal digests, or at least one side
    /// without a digest and no two different tags.
    ///
    /// `r:t`, `r:t@A` and `r@A` are aliases of each other; `r:t` and `r:u` are not, and neither are
    /// `r@A` and `r@B`.
    pub fn is_alias_of(&self, other: &Self) -> bool {
        match self.same_target(other) {
            Target::Same => true,
            Target::Different => false,
            Target::Maybe if self.digest().is_some() && other.digest().is_some() => false,
            Target::Maybe => !differ(self.tag(), other.tag()),
        }
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.written)
    }
}

impl FromStr for ImageReference {
    type Err = ReferenceError;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        Self::parse(written)
    }
}

/// A reference that cannot be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("image reference {written:?}: {problem}")]
pub struct ReferenceError {
    written: String,
    problem: String,
}

pub(super) fn differ(mine: Option<&str>, theirs: Option<&str>) -> bool {
    matches!((mine, theirs), (Some(mine), Some(theirs)) if mine != theirs)
}

/// Compares digests; those of two algorithms are not comparable.
fn compare_digests(mine: &str, theirs: &str) -> Target {
    let algorithm = |digest: &str| digest.split_once(':').map(|(name, _)| name.to_owned());
    if mine.eq_ignore_ascii_case(theirs) {
        Target::Same
    } else if algorithm(mine) == algorithm(theirs) {
        Target::Different
    } else {
        Target::Maybe
    }
}

/// Checks for errors that the parser would only call "invalid reference format".
fn check_characters(written: &str) -> Result<(), String> {
    if written.is_empty() {
        return Err("it is empty".to_owned());
    }
    if written.len() > MAX_LENGTH {
        return Err(format!(
            "it has {} characters, more than {MAX_LENGTH}",
            written.len()
        ));
    }
    if let Some(space) = written
        .chars()
        .find(|c| c.is_whitespace() || c.is_control())
    {
        return Err(format!(
            "it contains {space:?}; a reference has no white space"
        ));
    }
    if written.contains("://") {
        return Err(
            "it starts with a URL scheme; write the host alone, such as registry.example/app:v1"
                .to_owned(),
        );
    }
    Ok(())
}

fn problem_of(written: &str, problem: Problem) -> String {
    match problem {
        Problem::Form if has_upper_case_name(written) => {
            "the repository has upper-case letters, which are only allowed in a tag".to_owned()
        }
        other => other.to_string(),
    }
}

/// Returns true for upper case in the path, but not in the tag or in the host.
fn has_upper_case_name(written: &str) -> bool {
    let name = written.split('@').next().unwrap_or_default();
    let path = name.split_once('/').map_or(name, |(_, path)| path);
    let repository = path.split(':').next().unwrap_or_default();
    repository.chars().any(char::is_uppercase)
}

/// Cuts a bad input, but leaves enough to recognise it: errors end up in Events and logs.
fn shorten(written: &str) -> String {
    const SHOWN: usize = 80; // one terminal line
    if written.chars().count() <= SHOWN {
        return written.to_owned();
    }
    let start: String = written.chars().take(SHOWN).collect();
    format!("{start}...")
}

#[cfg(test)]
mod tests;
