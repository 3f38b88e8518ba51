//! The errors of registries, in words that say what to do.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::registry::json_in;

/// A request that a registry did not grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryError {
    /// The operation that has failed, such as `reading registry.example/app:v1`.
    operation: String,
    /// The kind of the error.
    problem: Problem,
    /// The message of the registry or the network.
    detail: String,
    /// The time that the registry asks to wait.
    retry_after: Option<Duration>,
}

/// The kinds of errors that callers distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// 401: no or wrong credentials.
    Unauthorized,
    /// 403: these credentials may not do it.
    Forbidden,
    /// 404: no such repository, tag or blob.
    NotFound,
    /// 400: the registry has no repositories or tags of such names.
    InvalidName,
    /// 429: too many requests.
    TooManyRequests,
    /// 5xx: the registry is in trouble.
    Server(u16),
    /// Any other status, or an answer that breaks the protocol.
    Rejected,
    /// No answer in time.
    Timeout(Duration),
    /// No connection: name, address, port or TLS.
    Unreachable,
    /// The registry holds or sent other bytes than those requested.
    DigestMismatch,
    /// The answer has more bytes than are ever read.
    TooLarge,
    /// The address or the options make no sense; nothing was sent.
    Refused,
}

impl Problem {
    /// Returns true if the same request may succeed a little later.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::TooManyRequests | Self::Server(_))
    }

    /// Returns the kind of the error that an answer reports.
    pub fn from_answer(status: u16, body: &[u8]) -> Self {
        let names = |codes: &[&str]| {
            let mut named = errors_in(body, "code").into_iter();
            named.any(|code| codes.contains(&&*code))
        };
        match status {
            400 if names(&["NAME_INVALID", "TAG_INVALID"]) => Self::InvalidName,
            400 if names(&["DIGEST_INVALID"]) => Self::DigestMismatch,
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            429 => Self::TooManyRequests,
            500..=599 => Self::Server(status),
            _ => Self::Rejected,
        }
    }
}

impl RegistryError {
    /// Returns an error; `detail` is cut to one line.
    pub fn new(operation: &str, problem: Problem, detail: impl Into<String>) -> Self {
        Self {
            operation: operation.to_owned(),
            problem,
            detail: one_line(&detail.into()),
            retry_after: None,
        }
    }

    /// Returns the error of a request that got no answer.
    pub fn from_http(operation: &str, timeout: Duration, error: &reqwest::Error) -> Self {
        let (problem, detail) = match error.status() {
            _ if error.is_timeout() => (Problem::Timeout(timeout), String::new()),
            _ if error.is_redirect() => (Problem::Refused, innermost(error)),
            Some(status) => (Problem::from_answer(status.as_u16(), &[]), String::new()),
            None => (Problem::Unreachable, innermost(error)),
        };
        Self::new(operation, problem, detail)
    }

    /// Returns the same error, with the time that the registry asks to wait.
    #[must_use]
    pub fn retry_after(self, retry_after: Option<Duration>) -> Self {
        Self {
            retry_after,
            ..self
        }
    }

    /// Returns the same error, with a hint behind what the registry says.
    #[must_use]
    pub fn with_hint(self, hint: &str) -> Self {
        let detail = format!("{} {hint}", self.detail).trim_start().to_owned();
        Self { detail, ..self }
    }

    /// Returns how long the registry asks to wait; `None` if it does not ask.
    pub fn wait(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the kind of the error.
    pub fn problem(&self) -> Problem {
        self.problem
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.operation, advice(self.problem))?;
        if let Some(wait) = self.retry_after {
            write!(out, "; it asks to retry in {} s", wait.as_secs())?;
        }
        if self.detail.is_empty() {
            Ok(())
        } else {
            write!(out, " [{}]", self.detail)
        }
    }
}

impl Error for RegistryError {}

fn advice(problem: Problem) -> String {
    match problem {
        Problem::Unauthorized => "401, the registry does not accept the credentials; run `docker login` for it, or point DOCKER_CONFIG at a directory whose config.json holds them".to_owned(),
        Problem::Forbidden => "403, these credentials may not do that; ask for the right to push to the repository".to_owned(),
        Problem::NotFound => "404, not found; check the name, and create the repository first if the registry does not do so by itself".to_owned(),
        Problem::InvalidName => "400, the registry accepts no such name; check how many parts a repository may have there, and its spelling".to_owned(),
        Problem::TooManyRequests => "429, the registry asks for fewer requests; try again later".to_owned(),
        Problem::Server(status) => format!("{status}, the registry is in trouble; try again later"),
        Problem::Rejected => "the registry refused the request or answered in a way that is not the OCI protocol".to_owned(),
        Problem::Timeout(limit) => format!("no answer within {} s; check the host and the network", limit.as_secs()),
        Problem::Unreachable => "no connection; check the host and the port, and use --plain-http HOST for a registry without TLS".to_owned(),
        Problem::DigestMismatch => "the registry has other bytes than those of the digest; a proxy changes them, or somebody else pushes to the same tag".to_owned(),
        Problem::TooLarge => "the answer is larger than swaplet ever reads".to_owned(),
        Problem::Refused => "not tried".to_owned(),
    }
}

/// Returns this field of each error that an answer names in the specification's form.
pub(crate) fn errors_in(body: &[u8], field: &str) -> Vec<String> {
    let parsed = json_in(body);
    let errors = parsed["errors"].as_array().into_iter().flatten();
    let texts = errors.filter_map(|error| error[field].as_str());
    texts.map(str::to_owned).collect()
}

/// Returns the last cause in the chain, which is the clearest ("Connection refused", "dns error");
/// the outer ones repeat the URL.
pub(crate) fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// Cuts a text to one line: registries answer with JSON or whole HTML pages.
fn one_line(text: &str) -> String {
    const SHOWN: usize = 200; // two terminal lines
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_says_what_to_do() {
        for (status, word) in [
            (401, "docker login"),
            (403, "right to push"),
            (404, "create the repository"),
            (429, "later"),
            (503, "later"),
            (418, "refused"),
        ] {
            let error = RegistryError::new(
                "pushing r.example/a:v1",
                Problem::from_answer(status, b""),
                "<html>\n  tea </html>",
            );
            let text = error.to_string();
            assert!(
                text.starts_with("pushing r.example/a:v1: ")
                    && text.contains(word)
                    && text.ends_with("[<html> tea </html>]"),
                "{text}"
            );
        }
    }

    #[test]
    fn u63_a_flag_of_one_command_is_no_advice_for_all() {
        let problem = Problem::Timeout(Duration::from_secs(2));
        let text = RegistryError::new("pushing", problem, "").to_string();
        assert!(
            text.contains("within 2 s") && !text.contains("--"),
            "{text}"
        );
    }

    #[test]
    fn names_and_digests_that_a_registry_refuses_are_told_apart() {
        let body = |code: &str| format!(r#"{{"errors": [{{"code": "{code}", "message": "x"}}]}}"#);
        for (code, problem) in [
            ("NAME_INVALID", Problem::InvalidName),
            ("DIGEST_INVALID", Problem::DigestMismatch),
            ("MANIFEST_INVALID", Problem::Rejected),
        ] {
            assert_eq!(
                Problem::from_answer(400, body(code).as_bytes()),
                problem,
                "{code}"
            );
        }
    }

    #[test]
    fn only_429_and_5xx_are_tried_again() {
        for (status, transient) in [
            (401, false),
            (403, false),
            (404, false),
            (429, true),
            (500, true),
            (503, true),
            (400, false),
        ] {
            assert_eq!(
                Problem::from_answer(status, b"").is_transient(),
                transient,
                "{status}"
            );
        }
    }
}
