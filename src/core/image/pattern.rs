//! The administrator's list of images that may be used as an exit image (`--exit-images`).

use std::fmt;
use std::str::FromStr;

use super::parsed::parts;
use super::reference::ImageReference;

/// The word that stands for `*` while a pattern is read as a reference: letters that every part of
/// a reference allows.
const STAND_IN: &str = "swapletanyrun0";

/// One entry of the list: an exact reference, or one with `*`, which stands for any run of
/// characters except `/` and `@`.
///
/// Patterns and references are compared in their normalised forms, so `busybox:1` admits
/// `docker.io/library/busybox:1`. A `*` at the end leaves the tag open:
/// `registry.example/swaplet/*`. A digest is only admitted by a pattern that has one, such as
/// `registry.example/swaplet/exit:v1@*` or `registry.example/swaplet/*@*`: a digest outranks the
/// tag beside it, so whoever could add one to a listed tag could choose any image of the
/// repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImagePattern {
    written: String,
    normalized: String,
}

/// The error for an entry of the list that cannot be used, with how to write it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{written:?}: {problem}; write an image such as registry.example/swaplet/exit:v1, where * stands for any characters except / and @, and separate several with commas"
)]
pub struct PatternError {
    written: String,
    problem: String,
}

impl ImagePattern {
    /// Reads one entry of the list.
    ///
    /// # Errors
    /// [`PatternError`], which names the entry, what is wrong and how it is written.
    pub fn parse(written: &str) -> Result<Self, PatternError> {
        let fail = |problem: &str| PatternError {
            written: written.chars().take(80).collect(),
            problem: problem.to_owned(),
        };
        check(written).map_err(fail)?;
        Ok(Self {
            written: written.to_owned(),
            normalized: normalize(written).map_err(|problem| fail(&problem))?,
        })
    }

    /// Returns true if the pattern admits this reference.
    pub fn matches(&self, reference: &ImageReference) -> bool {
        matches_glob(
            self.normalized.as_bytes(),
            reference.normalized().as_bytes(),
        )
    }

    /// Returns true if the pattern, as it was written, admits this text: so the admission policies
    /// compare (`deploy/leash.yaml`), for CEL cannot normalise a reference.
    pub fn spells(&self, image: &str) -> bool {
        matches_glob(self.written.as_bytes(), image.as_bytes())
    }

    /// Returns the pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.written
    }
}

impl fmt::Display for ImagePattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.written)
    }
}

impl FromStr for ImagePattern {
    type Err = PatternError;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        Self::parse(written)
    }
}

fn check(written: &str) -> Result<(), &'static str> {
    if written.trim().is_empty() {
        return Err("an entry is empty");
    }
    if written.chars().any(char::is_whitespace) {
        return Err("an entry has no white space");
    }
    if written.contains("**") {
        return Err("** is not known: * never crosses a /");
    }
    let host = written.split_once('/').map_or("", |(host, _)| host);
    if written.chars().all(|c| matches!(c, '*' | '/' | ':' | '@')) {
        return Err("it would admit images of any registry");
    }
    // An administrator who lists `*.example/...` would admit hosts that somebody else can register,
    // and there has been no need for it.
    if host.contains('*') {
        return Err("the registry's host is written out, without *");
    }
    Ok(())
}

/// Returns the normalised form of a pattern: read as a reference in which every `*` is an ordinary
/// word. A digest part with `*` cannot be read that way (it must be hexadecimal), so it is split
/// off and added again.
fn normalize(written: &str) -> Result<String, String> {
    if written.contains(STAND_IN) {
        return Err(format!("it contains the reserved word {STAND_IN}"));
    }
    let (name, digest) = match written.split_once('@') {
        Some((name, digest)) if digest.contains('*') => (name, Some(digest)),
        _ => (written, None),
    };
    let reference = ImageReference::parse(&name.replace('*', STAND_IN))
        .map_err(|error| error.to_string().replace(STAND_IN, "*"))?;
    let form = without_invented_tag(name, digest.is_some(), reference.normalized());
    let digest = digest
        .map(|digest| format!("@{digest}"))
        .unwrap_or_default();
    Ok(format!("{}{digest}", form.replace(STAND_IN, "*")))
}

/// Removes a tag that normalising has added: `busybox@sha256:*` names no tag, and
/// `registry.example/swaplet/*` leaves it open, so neither must gain `:latest`.
fn without_invented_tag(name: &str, has_digest: bool, form: String) -> String {
    if parts(name).1.is_some() || !(has_digest || name.ends_with('*')) {
        return form;
    }
    form.strip_suffix(":latest")
        .map(str::to_owned)
        .unwrap_or(form)
}

/// Matches with two pointers: linear for the patterns that people write, which are those of an
/// administrator, and never recursive.
pub(crate) fn matches_glob(pattern: &[u8], text: &[u8]) -> bool {
    matches_runs(pattern, text, |byte| !matches!(byte, b'/' | b'@'))
}

/// Like `matches_glob`, where `*` stands for any run of characters. Linear for every pattern, as
/// [`str::find`] is: tenants write patterns and what is matched with them.
pub fn matches_any_run(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut left) = text.strip_prefix(first) else {
        return false;
    };
    // Each part is taken where it first comes, which leaves most for the others.
    for part in middle.split('*') {
        let Some(at) = left.find(part) else {
            return false;
        };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

fn matches_runs(pattern: &[u8], text: &[u8], in_run: impl Fn(u8) -> bool) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, t));
                p += 1;
            }
            Some(byte) if *byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((star, from)) if in_run(text[from]) => {
                    retry = Some((star, from + 1));
                    (p, t) = (star + 1, from + 1);
                }
                _ => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn admits(pattern: &str, reference: &str) -> bool {
        ImagePattern::parse(pattern)
            .unwrap()
            .matches(&ImageReference::parse(reference).unwrap())
    }

    #[test]
    fn exact_entries_are_compared_normalised() {
        assert!(admits("busybox:1", "docker.io/library/busybox:1"));
        assert!(admits("docker.io/library/busybox", "busybox:latest"));
        assert!(!admits("busybox:1", "busybox:2"));
        assert!(!admits("busybox:1", &format!("busybox:1@{A}")));
        assert!(!admits("busybox", "evil.example/library/busybox"));
    }

    #[test]
    fn a_star_is_any_run_without_a_slash() {
        assert!(admits("r.example/exit/*", "r.example/exit/a:v1"));
        assert!(!admits("r.example/exit/*:v1", "r.example/exit/a/b:v1"));
        assert!(admits("r.example/*/exit:v*", "r.example/team/exit:v12"));
        assert!(!admits(
            "r.example/*/exit:v*",
            "r.example/team/sub/exit:v12"
        ));
        assert!(!admits("r.example/exit:v*", "r.example/exit:w1"));
        assert!(
            !admits("busybox:1*", &format!("busybox:1@{A}")),
            "the digest would outrank the tag"
        );
        assert!(!admits("r.example/*", &format!("r.example/exit@{A}")));
        assert!(admits("r.example/*@*", &format!("r.example/exit:v1@{A}")));
        assert!(admits("busybox:1@*", &format!("busybox:1@{A}")));
        assert!(admits("busybox@sha256:*", &format!("busybox@{A}")));
        assert!(!admits("busybox@sha256:*", "busybox:latest"));
    }

    #[test]
    fn a_pattern_without_a_tag_means_latest_unless_the_star_ends_it() {
        assert!(admits("r.example/exit", "r.example/exit:latest"));
        assert!(!admits("r.example/exit", "r.example/exit:v1"));
        assert!(
            admits("r.example/ex*", "r.example/exit:v1"),
            "an open end also leaves the tag open"
        );
        assert!(!admits("r.example/*/exit", "r.example/team/exit:v1"));
    }

    #[test]
    fn errors_name_what_was_written_and_the_fix() {
        for bad in [
            "",
            " ",
            "a b",
            "**",
            "*",
            "r.example/**",
            "*/*:*",
            "*.example/a",
            "r.example/A",
            "a,b",
            "r.example/a:",
        ] {
            let error = ImagePattern::parse(bad).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{bad:?}: ")) && error.contains("registry.example"),
                "{bad}: {error}"
            );
            assert!(!error.contains(STAND_IN), "{error}");
        }
    }

    proptest! {
        #[test]
        fn reading_and_matching_are_total(pattern in ".{0,100}", reference in "[a-z./:*@0-9]{0,60}") {
            if let (Ok(pattern), Ok(reference)) = (ImagePattern::parse(&pattern), ImageReference::parse(&reference)) {
                let _ = pattern.matches(&reference);
            }
        }

        #[test]
        fn any_runs_are_those_of_two_pointers(pattern in "[ab*]{0,9}", text in "[ab]{0,12}") {
            let expected = matches_runs(pattern.as_bytes(), text.as_bytes(), |_| true);
            prop_assert_eq!(matches_any_run(&pattern, &text), expected);
        }

        #[test]
        fn every_reference_admits_itself(name in "[a-z]{1,8}(/[a-z]{1,8})?(:[a-z0-9]{1,6})?") {
            prop_assert!(admits(&name, &name));
        }

        #[test]
        fn a_star_never_crosses_a_slash(middle in "[a-z]{1,5}(/[a-z]{1,5}){1,3}") {
            let reference = format!("r.example/{middle}/exit:v1");
            prop_assert!(!admits("r.example/*/exit:v1", &reference));
        }
    }
}
