//! The grammar of image references, as container runtimes read them (distribution:
//! `reference/regexp.go`, `reference/normalize.go`).

use std::fmt;

/// The registry of a reference that names none.
const DEFAULT_REGISTRY: &str = "docker.io";
/// Another name of the default registry.
const LEGACY_REGISTRY: &str = "index.docker.io";
/// The path in the default registry of repositories that are named without one.
const OFFICIAL: &str = "library";
/// The tag of a reference without tag and digest.
const DEFAULT_TAG: &str = "latest";

const MAX_REPOSITORY: usize = 255;
const MAX_TAG: usize = 128;
/// The digits of the ID of an image, for which a name is taken that has as many and nothing else.
const IDENTIFIER: usize = 64;
/// The least digits that the form of a digest allows.
const MIN_DIGITS: usize = 32;

/// The parts of a reference, with defaults for those that are left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Parsed {
    pub registry: String,
    pub repository: String,
    pub tag: Option<String>,
    pub digest: Option<String>,
}

/// The problem with a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error(
        "it is not of the form [REGISTRY/]REPOSITORY[:TAG][@DIGEST] ({DEFAULT_REGISTRY} is the registry if none is written)"
    )]
    Form,
    #[error("repository name must not be more than {MAX_REPOSITORY} characters")]
    RepositoryLength,
    #[error("invalid checksum digest length")]
    DigestLength,
    #[error("invalid checksum digest format: write its digits in lower case")]
    DigestFormat,
    #[error("unsupported digest algorithm")]
    Algorithm,
    #[error("a name of {IDENTIFIER} hexadecimal digits is taken for the ID of an image")]
    Identifier,
}

impl Parsed {
    pub(super) fn read(written: &str) -> Result<Self, Problem> {
        let (name, tag, digest) = parts(written);
        if !is_name(name) || !tag.is_none_or(is_tag) || !digest.is_none_or(has_form_of_digest) {
            return Err(Problem::Form);
        }
        if written.len() == IDENTIFIER && is_digits(written, is_lower_hex) {
            return Err(Problem::Identifier);
        }
        let (registry, repository) = split(name);
        if repository.len() > MAX_REPOSITORY {
            return Err(Problem::RepositoryLength);
        }
        digest.map_or(Ok(()), check_digest)?;
        let tag = tag.or_else(|| digest.is_none().then_some(DEFAULT_TAG));
        Ok(Self {
            registry,
            repository,
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }
}

impl fmt::Display for Parsed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.registry, self.repository)?;
        self.tag.iter().try_for_each(|tag| write!(out, ":{tag}"))?;
        self.digest
            .iter()
            .try_for_each(|digest| write!(out, "@{digest}"))
    }
}

/// Splits into the name, the tag, and the digest without the `@`, of any text: a colon before a
/// slash belongs to a port.
pub(crate) fn parts(written: &str) -> (&str, Option<&str>, Option<&str>) {
    let (rest, digest) = written
        .split_once('@')
        .map_or((written, None), |(rest, digest)| (rest, Some(digest)));
    match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag), digest),
        _ => (rest, None, digest),
    }
}

/// Returns true for `[host[:port]/]part[/part]...`.
fn is_name(name: &str) -> bool {
    let is_path = |path: &str| path.split('/').all(is_part);
    is_path(name)
        || name
            .split_once('/')
            .is_some_and(|(host, path)| is_host(host) && is_path(path))
}

fn is_host(written: &str) -> bool {
    if let Some((address, port)) = written.split_once(']') {
        let is_ip = |c: char| c.is_ascii_hexdigit() || c == ':';
        return address
            .strip_prefix('[')
            .is_some_and(|address| is_digits(address, is_ip))
            && (port.is_empty() || port.starts_with(':') && is_host(&format!("a{port}")));
    }
    let (host, port) = written.split_once(':').unwrap_or((written, "0"));
    let is_label = |label: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
        !label.is_empty()
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.split('.').all(is_label) && is_digits(port, |c| c.is_ascii_digit())
}

/// Returns true for lower-case letters and digits, with one dot, one or two underscores or any
/// number of hyphens between them.
fn is_part(part: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let between = part
        .split(is_word)
        .all(|run| matches!(run, "" | "." | "_" | "__") || run.chars().all(|c| c == '-'));
    part.starts_with(is_word) && part.ends_with(is_word) && between
}

fn is_tag(tag: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tag.len() <= MAX_TAG
        && tag.starts_with(is_word)
        && tag.chars().all(|c| is_word(c) || c == '.' || c == '-')
}

/// Returns true for `algorithm:digits`, with any algorithm.
fn has_form_of_digest(digest: &str) -> bool {
    let Some((algorithm, digits)) = digest.split_once(':') else {
        return false;
    };
    let is_component = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.chars().all(|c| c.is_ascii_alphanumeric())
    };
    algorithm.split(['-', '_', '+', '.']).all(is_component)
        && digits.len() >= MIN_DIGITS
        && is_digits(digits, |c| c.is_ascii_hexdigit())
}

fn check_digest(digest: &str) -> Result<(), Problem> {
    let (algorithm, digits) = digest.split_once(':').ok_or(Problem::Form)?;
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return Err(Problem::Algorithm),
    };
    if digits.len() != length {
        return Err(Problem::DigestLength);
    }
    if !is_digits(digits, is_lower_hex) {
        return Err(Problem::DigestFormat);
    }
    Ok(())
}

const fn is_lower_hex(digit: char) -> bool {
    matches!(digit, '0'..='9' | 'a'..='f')
}

fn is_digits(text: &str, is_digit: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(is_digit)
}

/// Splits registry and repository: the first part is a registry only if it looks like a host. One
/// with a letter in upper case can be nothing else.
fn split(name: &str) -> (String, String) {
    let is_of_host = |c| matches!(c, '.' | ':' | 'A'..='Z');
    let is_registry = |first: &str| first.contains(is_of_host) || first == "localhost";
    let (registry, repository) = match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => (first, rest),
        _ => (DEFAULT_REGISTRY, name),
    };
    let registry = if registry == LEGACY_REGISTRY {
        DEFAULT_REGISTRY
    } else {
        registry
    };
    let is_official = registry == DEFAULT_REGISTRY && !repository.contains('/');
    let repository = if is_official {
        format!("{OFFICIAL}/{repository}")
    } else {
        repository.to_owned()
    };
    (registry.to_owned(), repository)
}
