//! Requests to a registry. Their answers are bounded in size and time, and redirects go to no place
//! that is refused. Registry libraries do neither, and drop the headers of failed requests.

use std::time::Duration;

use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, DATE, LOCATION, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Proxy, Url};

use super::RegistryOptions;
use super::hosts::{Hosts, is_loopback};
use crate::registry_error::{Problem, RegistryError, errors_in};

/// The most that is ever read of an answer: the limit that registries have for a manifest.
const MAX_READ: usize = 4 * 1024 * 1024;
/// The most that is read of an answer that refuses: registries say why in a few lines. It is parsed
/// as JSON, which takes up to thirty times its bytes in memory.
const MAX_REFUSAL: usize = 64 * 1024;

pub(super) const USER_AGENT: &str = concat!("swaplet/", env!("CARGO_PKG_VERSION"));

/// The longest wait that a registry can ask for; the header may have any number.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// How many times the deadline of a request one with a body may take: an uplink may be slow.
const TIMES_FOR_BODY: u32 = 6;
/// The most redirects: registries redirect blobs once, to their storage.
const MAX_REDIRECTS: usize = 5;

/// A sender of requests to one registry.
pub(super) struct Asker {
    http: reqwest::Client,
    /// The registry, and where it may send us.
    pub hosts: Hosts,
    limit: Duration,
}

/// A request.
pub(super) struct Request<'a> {
    pub method: Method,
    pub url: &'a str,
    /// What is stored, after its media type; `None` for a request that reads.
    pub content: Option<(&'a str, &'a [u8])>,
}

/// The answer to a request.
pub(super) struct Answer {
    /// The address that has answered, after redirects.
    url: Url,
    status: StatusCode,
    headers: HeaderMap,
    /// The body, at most [`MAX_READ`].
    pub body: Vec<u8>,
}

impl<'a> Request<'a> {
    pub(super) fn get(url: &'a str) -> Self {
        Self {
            method: Method::GET,
            url,
            content: None,
        }
    }
}

impl Asker {
    /// Returns an asker, whose options bound each request with its answer.
    pub(super) fn new(hosts: Hosts, options: &RegistryOptions) -> Result<Self, reqwest::Error> {
        let (limit, proxy) = (options.timeout, options.proxy);
        let builder = || {
            let trusted = hosts.clone();
            reqwest::Client::builder()
                .user_agent(USER_AGENT)
                .redirect(Policy::custom(move |attempt| follow(&trusted, attempt)))
                .proxy(Proxy::custom(move |url| proxy_for(url, proxy)))
                .timeout(limit)
                .connect_timeout(limit)
        };
        let http = match builder().build() {
            // Without TLS no authority is needed, and this machine may know none.
            Err(_) if hosts.is_plain() => builder().tls_certs_only([]).build(),
            built => built,
        }?;
        Ok(Self { http, hosts, limit })
    }

    /// Sends one request, with the credentials if there are any. One that stores something has more
    /// time, one that reads wants a type that it accepts.
    pub(super) async fn send(
        &self,
        operation: &str,
        request: &Request<'_>,
        accept: &str,
        credentials: Option<&HeaderValue>,
    ) -> Result<Answer, RegistryError> {
        let mut limit = self.limit;
        let mut sent = self.http.request(request.method.clone(), request.url);
        sent = match request.content {
            None => sent.header(ACCEPT, accept),
            Some((media_type, bytes)) => {
                limit *= TIMES_FOR_BODY;
                sent.header(CONTENT_TYPE, media_type)
                    // For an empty body reqwest sends none, and some registries refuse that (411).
                    .header(CONTENT_LENGTH, bytes.len())
                    .body(bytes.to_vec())
                    .timeout(limit)
            }
        };
        if let Some(credentials) = credentials {
            sent = sent.header(AUTHORIZATION, credentials);
        }
        let fail = |error: &reqwest::Error| RegistryError::from_http(operation, limit, error);
        let mut response = sent.send().await.map_err(|error| fail(&error))?;
        let body = read(&mut response)
            .await
            .map_err(|error| fail(&error))?
            .ok_or_else(|| RegistryError::new(operation, Problem::TooLarge, ""))?;
        Ok(Answer {
            url: response.url().clone(),
            status: response.status(),
            headers: response.headers().clone(),
            body,
        })
    }
}

/// Reads the body of an answer, and of a refusal only the beginning; `None` if the body is larger
/// than what is ever read.
async fn read(response: &mut reqwest::Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let is_granted = response.status().is_success();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if !is_granted && body.len() >= MAX_REFUSAL {
            body.truncate(MAX_REFUSAL);
            break;
        }
        if body.len() > MAX_READ {
            return Ok(None);
        }
    }
    Ok(Some(body))
}

/// Returns the proxy for a URL: its login and its storage may be elsewhere than the registry. What
/// stays on this machine, passwords included, is not for a proxy to know; one that cannot be used
/// is not left out either.
fn proxy_for(url: &Url, proxy: fn(&str) -> Result<Option<String>, String>) -> Option<String> {
    match proxy(url.as_str()) {
        _ if is_loopback(url) => None,
        Ok(proxy) => proxy,
        Err(_) => Some("http://proxy.invalid".to_owned()),
    }
}

/// Checks a redirect. reqwest itself drops the credentials for another host, port or scheme.
fn follow(hosts: &Hosts, attempt: Attempt<'_>) -> reqwest::redirect::Action {
    if attempt.previous().len() > MAX_REDIRECTS {
        return attempt.error("too many redirects");
    }
    match hosts.check(attempt.url()) {
        Ok(()) => attempt.follow(),
        Err(why) => attempt.error(why),
    }
}

impl Answer {
    /// Returns the answer if the request was granted; `None` if there is no such thing (404).
    pub(super) fn found(self, operation: &str) -> Result<Option<Self>, RegistryError> {
        match self.status {
            status if status.is_success() => Ok(Some(self)),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(self.error(operation)),
        }
    }

    /// Returns the answer if the request was granted.
    pub(super) fn granted(self, operation: &str) -> Result<Self, RegistryError> {
        if self.status.is_success() {
            Ok(self)
        } else {
            Err(self.error(operation))
        }
    }

    /// Returns the address where to go on, if the answer names one.
    pub(super) fn location(&self) -> Option<Url> {
        self.url.join(self.text(LOCATION)?).ok()
    }

    /// Returns the error that the answer reports.
    pub(super) fn error(&self, operation: &str) -> RegistryError {
        let problem = Problem::from_answer(self.status.as_u16(), &self.body);
        RegistryError::new(operation, problem, said(&self.body)).retry_after(self.retry_after())
    }

    /// Returns true if the registry is in trouble, or asks for fewer requests.
    pub(super) fn is_transient(&self) -> bool {
        Problem::from_answer(self.status.as_u16(), &self.body).is_transient()
    }

    /// Returns true if the place that was asked has answered, and no other to which it sent us.
    pub(super) fn is_of(&self, asked: &str) -> bool {
        Url::parse(asked).is_ok_and(|asked| asked.origin() == self.url.origin())
    }

    /// Returns true if the registry wants credentials, or others (401).
    pub(super) fn is_unauthorized(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    /// Returns the challenges of the answer, which say how to get credentials.
    pub(super) fn challenges(&self) -> impl Iterator<Item = &str> {
        self.headers
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| value.to_str().ok())
    }

    /// Returns the digest that a registry reports for what it sent.
    pub(super) fn digest(&self) -> Option<&str> {
        self.text(HeaderName::from_static("docker-content-digest"))
    }

    /// Returns how long the registry asks to wait, an hour at most. The header has seconds, or a
    /// date, which is read by the registry's own clock.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.asks_to_wait().map(|wait| wait.min(LONGEST_WAIT))
    }

    fn asks_to_wait(&self) -> Option<Duration> {
        let written = self.text(RETRY_AFTER)?.trim();
        if let Ok(seconds) = written.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let now = date(self.text(DATE)?)?;
        Duration::try_from(date(written)?.duration_since(now)).ok()
    }

    fn text(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

fn date(written: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(written)
        .ok()
        .map(|date| date.timestamp())
}

/// Returns the messages in the specification's form of an error, or the text as it is.
fn said(body: &[u8]) -> String {
    let messages = errors_in(body, "message");
    if messages.is_empty() {
        String::from_utf8_lossy(body).into_owned()
    } else {
        messages.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(headers: &[(&'static str, &str)]) -> Option<Duration> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        Answer {
            url: Url::parse("https://r.example/v2/").unwrap(),
            status: StatusCode::TOO_MANY_REQUESTS,
            headers,
            body: Vec::new(),
        }
        .retry_after()
    }

    #[test]
    fn a10_the_time_to_wait_is_seconds_or_a_date_and_an_hour_at_most() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:30 GMT");
        let later = ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(waits(&[("retry-after", "5")]), Some(Duration::from_secs(5)));
        assert_eq!(waits(&[date, later]), Some(Duration::from_secs(7)));
        let far = ("retry-after", "Wed, 29 Dec 9999 00:00:00 GMT");
        for long in [
            &[("retry-after", "18446744073709551615")][..],
            &[("retry-after", "3601")],
            &[date, far],
        ] {
            assert_eq!(waits(long), Some(LONGEST_WAIT), "a10: {long:?}");
        }
        for nothing in [
            &[later][..],
            &[("retry-after", "soon")],
            &[("retry-after", "-1")],
            &[],
        ] {
            assert_eq!(waits(nothing), None, "{nothing:?}");
        }
        assert_eq!(waits(&[("date", later.1), ("retry-after", date.1)]), None);
    }
}
