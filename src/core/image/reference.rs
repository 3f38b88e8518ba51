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
/// Two references are equal (`==`) when they were written alike; whether they name the same image
/// is asked with [`same_repository`](Self::same_repository), [`same_target`](Self::same_target) and
/// [`is_alias_of`](Self::is_alias_of).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageReference {
    written: String,
    parsed: Parsed,
}

/// Whether two references name the same bytes, as far as the strings alone can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The same bytes: the digests are equal.
    Same,
    /// Perhaps the same bytes: nothing contradicts it, but at least one side has no digest, so that
    /// a tag decides, and a tag can be moved.
    Maybe,
    /// Different bytes, or different repositories.
    Different,
}

impl ImageReference {
    /// Reads a reference.
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

    /// The reference exactly as it was written: what a pod's spec holds, and what a patch tests.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// The full form: registry, repository, tag (`latest` if neither tag nor digest was written)
    /// and digest.
    #[must_use]
    pub fn normalized(&self) -> String {
        self.parsed.to_string()
    }

    /// The registry's host, with its port if one was written; `docker.io` if none was written.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.parsed.registry
    }

    /// The repository inside the registry, such as `library/busybox`.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.parsed.repository
    }

    /// The tag: as written, or `latest` if neither tag nor digest was written.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.parsed.tag.as_deref()
    }

    /// The digest, if one was written.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        self.parsed.digest.as_deref()
    }

    /// The same repository with this tag and no digest.
    ///
    /// # Errors
    /// [`ReferenceError`] if the tag is not a tag.
    pub fn with_tag(&self, tag: &str) -> Result<Self, ReferenceError> {
        Self::parse(&format!("{}/{}:{tag}", self.registry(), self.repository()))
    }

    /// Whether both name the same repository of the same registry, however they are written.
    #[must_use]
    pub fn same_repository(&self, other: &Self) -> bool {
        self.registry() == other.registry() && self.repository() == other.repository()
    }

    /// Whether both name the same bytes, as far as the strings tell. Digests decide where both
    /// sides have one; tags are only compared where neither side has a digest, for a tag beside a
    /// digest is decoration that no runtime reads.
    ///
    /// | self | other | answer |
    /// |---|---|---|
    /// | `r@A`, `r:t@A` | `r@A`, `r:u@A` | `Same` |
    /// | `r@A` | `r@B` | `Different` (of one algorithm), `Maybe` (of two) |
    /// | `r:t` | `r@A`, `r:t@A` | `Maybe` |
    /// | `r:t` | `r:u@A` | `Maybe`: both tags may point at `A` |
    /// | `r:t` | `r:t` | `Maybe`: one string, but the tag may have moved between two pulls |
    /// | `r:t` | `r:u` | `Maybe`: two tags may point at one image |
    #[must_use]
    pub fn same_target(&self, other: &Self) -> Target {
        if !self.same_repository(other) {
            return Target::Different;
        }
        match (self.digest(), other.digest()) {
            (Some(mine), Some(theirs)) => compare_digests(mine, theirs),
            _ => Target::Maybe,
        }
    }

    /// Whether one can be written in place of the other without changing what runs, if the tag has
    /// not moved: the same repository, and either equal digests, or at least one side without a
    /// digest and no two different tags.
    ///
    /// `r:t`, `r:t@A` and `r@A` are aliases of each other; `r:t` and `r:u` are not, and neither are
    /// `r@A` and `r@B`. Where the digest that the tag stands for is known (the node reports it),
    /// use [`pinned`](Self::pinned) first: then the answer is exact.
    #[must_use]
    pub fn is_alias_of(&self, other: &Self) -> bool {
        match self.same_target(other) {
            Target::Same => true,
            Target::Different => false,
            Target::Maybe if self.digest().is_some() && other.digest().is_some() => false,
            Target::Maybe => !differ(self.tag(), other.tag()),
        }
    }

    /// This reference pinned to a digest: `r:t` becomes `r:t@digest`. A digest that is already
    /// written is replaced.
    ///
    /// # Errors
    /// [`ReferenceError`] if the digest is not one.
    pub fn pinned(&self, digest: &str) -> Result<Self, ReferenceError> {
        let tag = self.tag().map(|tag| format!(":{tag}")).unwrap_or_default();
        Self::parse(&format!(
            "{}/{}{tag}@{digest}",
            self.registry(),
            self.repository()
        ))
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

fn differ(mine: Option<&str>, theirs: Option<&str>) -> bool {
    matches!((mine, theirs), (Some(mine), Some(theirs)) if mine != theirs)
}

/// Digests of two algorithms say nothing about each other.
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

/// What the parser behind would only call "invalid reference format".
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

/// Upper case in the path, not in the tag and not in the host.
fn has_upper_case_name(written: &str) -> bool {
    let name = written.split('@').next().unwrap_or_default();
    let path = name.split_once('/').map_or(name, |(_, path)| path);
    let repository = path.split(':').next().unwrap_or_default();
    repository.chars().any(char::is_uppercase)
}

/// Enough of a bad input to recognise it: errors end up in events and logs.
fn shorten(written: &str) -> String {
    const SHOWN: usize = 80; // one terminal line
    if written.chars().count() <= SHOWN {
        return written.to_owned();
    }
    let start: String = written.chars().take(SHOWN).collect();
    format!("{start}...")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn read(written: &str) -> ImageReference {
        ImageReference::parse(written).unwrap()
    }

    fn problem(written: &str) -> String {
        ImageReference::parse(written).unwrap_err().to_string()
    }

    #[test]
    fn short_names_are_normalised_and_the_written_form_is_kept() {
        let short = read("busybox");
        assert_eq!(short.as_str(), "busybox");
        assert_eq!(short.normalized(), "docker.io/library/busybox:latest");
        assert_eq!(
            read("index.docker.io/library/busybox:1").normalized(),
            "docker.io/library/busybox:1"
        );
        assert_eq!(read("127.0.0.1:5000/a/b:v1").registry(), "127.0.0.1:5000");
        assert_eq!(read(&format!("r.example/a@{A}")).tag(), None);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        assert!(problem("").contains("empty"));
        assert!(problem("a b").contains("white space"));
        assert!(problem("busybox:1\n").contains("white space"));
        assert!(problem("https://r.example/a").contains("scheme"));
        assert!(problem("r.example/App:v1").contains("upper-case"));
        assert!(problem("r.example/a@sha256:12").contains("REGISTRY"));
        assert!(problem(&format!("a@{}", &A[..70])).contains("digest length"));
        assert!(problem(&"a".repeat(5000)).len() < 300);
    }

    #[test]
    fn one_repository_however_written() {
        assert!(read("busybox:1").same_repository(&read("docker.io/library/busybox:2")));
        assert!(!read("busybox").same_repository(&read("quay.io/library/busybox")));
        assert!(
            !read("r.example/a").same_repository(&read("r.example:443/a")),
            "a written port is another host to every runtime"
        );
    }

    #[test]
    fn digests_decide_what_is_the_same() {
        let (tag, tag_a, a, b) = (
            read("r.example/x:t"),
            read(&format!("r.example/x:t@{A}")),
            read(&format!("r.example/x@{A}")),
            read(&format!("r.example/x@{B}")),
        );
        assert_eq!(tag_a.same_target(&a), Target::Same);
        assert_eq!(a.same_target(&b), Target::Different);
        assert_eq!(tag.same_target(&a), Target::Maybe);
        assert_eq!(tag.same_target(&tag), Target::Maybe);
        assert_eq!(tag.same_target(&read("r.example/y:t")), Target::Different);
    }

    #[test]
    fn aliases() {
        let tag_a = format!("r.example/x:t@{A}");
        let only_a = format!("r.example/x@{A}");
        for (one, other, alias) in [
            ("r.example/x:t", "r.example/x:t", true),
            ("r.example/x:t", tag_a.as_str(), true),
            ("r.example/x:t", only_a.as_str(), true),
            (tag_a.as_str(), only_a.as_str(), true),
            ("r.example/x", "r.example/x:latest", true),
            ("r.example/x:t", "r.example/x:u", false),
            ("r.example/x:u", tag_a.as_str(), false),
            ("r.example/x:t", "r.example/y:t", false),
        ] {
            assert_eq!(read(one).is_alias_of(&read(other)), alias, "{one} {other}");
            assert_eq!(read(other).is_alias_of(&read(one)), alias, "{other} {one}");
        }
        assert!(!read(&only_a).is_alias_of(&read(&format!("r.example/x:t@{B}"))));
    }

    #[test]
    fn pinning_and_tagging() {
        assert_eq!(
            read("busybox:1").pinned(A).unwrap().as_str(),
            format!("docker.io/library/busybox:1@{A}")
        );
        assert_eq!(
            read(&format!("r.example/x@{A}"))
                .pinned(B)
                .unwrap()
                .as_str(),
            format!("r.example/x@{B}")
        );
        assert!(read("busybox").pinned("latest").is_err());
        assert_eq!(
            read("r.example/x:t").with_tag("t-amd64").unwrap().as_str(),
            "r.example/x:t-amd64"
        );
        assert!(read("r.example/x").with_tag("a b").is_err());
    }

    fn valid() -> impl Strategy<Value = String> {
        (
            "([a-z]{1,5}\\.example(:[1-9][0-9]{0,3})?/)?[a-z]{1,8}(/[a-z0-9]{1,8}){0,2}",
            prop::option::of("[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}"),
            any::<bool>(),
        )
            .prop_map(|(name, tag, digest)| {
                let tag = tag.map(|tag| format!(":{tag}")).unwrap_or_default();
                format!(
                    "{name}{tag}{}",
                    if digest {
                        format!("@{A}")
                    } else {
                        String::new()
                    }
                )
            })
    }

    proptest! {
        #[test]
        fn reading_is_total(written in ".{0,200}") {
            if let Err(error) = ImageReference::parse(&written) {
                prop_assert!(!error.to_string().is_empty());
            }
        }

        #[test]
        fn the_normalised_form_is_a_fixed_point_and_the_same_image(written in valid()) {
            let first = read(&written);
            let second = read(&first.normalized());
            prop_assert_eq!(second.normalized(), first.normalized());
            prop_assert!(first.is_alias_of(&second));
        }

        #[test]
        fn alias_is_symmetric_and_needs_one_repository(one in valid(), other in valid()) {
            let (one, other) = (read(&one), read(&other));
            prop_assert_eq!(one.is_alias_of(&other), other.is_alias_of(&one));
            prop_assert_eq!(one.same_target(&other), other.same_target(&one));
            prop_assert!(!one.is_alias_of(&other) || one.same_repository(&other));
        }
    }
}
