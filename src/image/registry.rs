//! The client of one registry: it reads and writes manifests and blobs, with timeouts, retries and
//! errors in words.
//!
//! Its requests are its own: registry libraries read without bounds, follow redirects and uploads
//! anywhere, and drop the header that says when to come back.

mod ask;
mod hosts;
mod login;

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::build::{Blob, digest_of, media_type};
use super::docker_config::Credentials;
use super::registry_error::{Problem, RegistryError, innermost};
use crate::build::digest_by;
use ask::{Answer, Asker, Request};
use hosts::Hosts;
use http::Method;
use login::Login;
use reqwest::Url;
use serde_json::Value;
use swaplet_core::image::reference::ImageReference;
use swaplet_core::objects::values::bounded_value::BoundedValue;

/// The longest wait that a registry is granted. The error reports a longer one, and the caller has
/// to come back.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The media type of blobs on their way.
const OCTETS: &str = "application/octet-stream";

/// The types of manifest that are understood, or at least recognised.
const ACCEPTED: [&str; 4] = [
    media_type::INDEX,
    media_type::MANIFEST,
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

/// Chooses the implementation of cryptography for TLS, once per process. Every connection needs it,
/// also those to the API server.
pub fn install_crypto() {
    // It fails only if a choice was made before, and then there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A connection to the registry of one repository.
pub struct Registry {
    asker: Asker,
    repository: String,
    /// The present login, and the credentials to renew it.
    login: Mutex<Login>,
    credentials: Credentials,
    options: RegistryOptions,
}

impl Registry {
    /// Logs in to the repository of `reference`, for the access that `options` name.
    ///
    /// # Errors
    /// [`RegistryError`] if the address is refused, the registry cannot be reached, or it does not
    /// accept the credentials.
    pub async fn connect(
        reference: &ImageReference,
        credentials: &Credentials,
        options: RegistryOptions,
    ) -> Result<Self, RegistryError> {
        install_crypto();
        let operation = format!("connecting to {}", reference.registry());
        let asker = asker(reference, &options, &operation)?;
        let registry = Self {
            asker,
            repository: reference.repository().to_owned(),
            login: Mutex::new(Login::Own(Credentials::Anonymous)),
            credentials: credentials.clone(),
            options,
        };
        let login = || Login::get(&registry, &operation, None);
        let login = registry.again(login).await?;
        registry.keep(login);
        Ok(registry)
    }

    /// Returns the manifest or index under a reference, with its digest; `None` if there is none.
    ///
    /// # Errors
    /// [`RegistryError`], also for one that is larger than 4 MiB.
    pub async fn manifest(
        &self,
        reference: &ImageReference,
    ) -> Result<Option<(Vec<u8>, String)>, RegistryError> {
        let operation = format!("reading {reference}");
        let Some(answer) = self
            .read(&operation, Method::GET, &manifest_path(reference))
            .await?
        else {
            return Ok(None);
        };
        let reported = answer.digest().filter(|digest| is_known(digest));
        for expected in reported.into_iter().chain(reference.digest()) {
            check_bytes(&operation, &answer.body, expected)?;
        }
        let digest = digest_of(&answer.body);
        Ok(Some((answer.body, digest)))
    }

    /// Returns the digest of what a reference names; `None` if there is nothing.
    ///
    /// # Errors
    /// [`RegistryError`] if the registry fails, or the digest is another one.
    pub async fn digest(
        &self,
        reference: &ImageReference,
    ) -> Result<Option<String>, RegistryError> {
        Ok(self.found(reference).await?.map(|(digest, _)| digest))
    }

    /// Returns the digest of what a reference names, and the bytes if these were read.
    async fn found(
        &self,
        reference: &ImageReference,
    ) -> Result<Option<(String, Option<Vec<u8>>)>, RegistryError> {
        let operation = format!("reading the digest of {reference}");
        let Some(answer) = self
            .read(&operation, Method::HEAD, &manifest_path(reference))
            .await?
        else {
            return Ok(None);
        };
        match (answer.digest(), reference.digest()) {
            (Some(found), expected) if expected.is_none_or(|expected| found == expected) => {
                Ok(Some((found.to_owned(), None)))
            }
            // Different digests of one algorithm are of different bytes.
            (Some(found), Some(expected)) if algorithm(found) == algorithm(expected) => {
                Err(mismatch(&operation, expected, Some(found)))
            }
            // Only the bytes show it.
            _ => {
                let read = self.manifest(reference).await?;
                Ok(read.map(|(bytes, digest)| (digest, Some(bytes))))
            }
        }
    }

    /// Returns a blob of the repository, checked against its digest; `None` if there is none.
    ///
    /// # Errors
    /// [`RegistryError`], also for a blob that is larger than 4 MiB.
    pub async fn blob(
        &self,
        reference: &ImageReference,
        digest: &str,
    ) -> Result<Option<Vec<u8>>, RegistryError> {
        let operation = format!("reading {digest} of {reference}");
        let Some(answer) = self
            .read(&operation, Method::GET, &blob_path(reference, digest))
            .await?
        else {
            return Ok(None);
        };
        check_bytes(&operation, &answer.body, digest)?;
        Ok(Some(answer.body))
    }

    /// Uploads a blob, unless the repository has it. Returns true if it was uploaded.
    ///
    /// # Errors
    /// [`RegistryError`] if the registry fails.
    pub async fn push_blob(
        &self,
        reference: &ImageReference,
        blob: &Blob,
    ) -> Result<bool, RegistryError> {
        let operation = format!("pushing {} to {reference}", blob.digest);
        if self
            .read(
                &operation,
                Method::HEAD,
                &blob_path(reference, &blob.digest),
            )
            .await?
            .is_some()
        {
            return Ok(false);
        }
        let upload = async || self.upload(&operation, reference, blob).await;
        self.again(upload).await?;
        Ok(true)
    }

    /// Uploads a blob by two requests (`POST`, then `PUT`, in the specification of the OCI): the
    /// registry names the address of the second.
    async fn upload(
        &self,
        operation: &str,
        reference: &ImageReference,
        blob: &Blob,
    ) -> Result<(), RegistryError> {
        let start = self.asker.hosts.url(&blob_path(reference, "uploads/"));
        let begin = Request {
            method: Method::POST,
            url: &start,
            content: Some((OCTETS, &[])),
        };
        let begun = self.request(operation, &begin).await?.granted(operation)?;
        let mut address = self.upload_address(operation, &begun)?;
        // Storage elsewhere has an address that is signed, and must not learn the password.
        let is_own = Url::parse(&start).is_ok_and(|start| start.origin() == address.origin());
        address
            .query_pairs_mut()
            .append_pair("digest", &blob.digest);
        let put = Request {
            method: Method::PUT,
            url: address.as_str(),
            content: Some((OCTETS, &blob.bytes)),
        };
        let stored = if is_own {
            self.request(operation, &put).await?
        } else {
            self.send(operation, &put, &Login::Own(Credentials::Anonymous))
                .await?
        };
        stored.granted(operation).map(drop)
    }

    /// Returns the address to which an upload goes, which is trusted as little as a redirect.
    fn upload_address(&self, operation: &str, begun: &Answer) -> Result<Url, RegistryError> {
        let absent = "it returned no valid address for the upload";
        let address = begun
            .location()
            .ok_or_else(|| RegistryError::new(operation, Problem::Rejected, absent))?;
        let refuse = |why: String| RegistryError::new(operation, Problem::Refused, why);
        self.asker.hosts.check(&address).map_err(refuse)?;
        Ok(address)
    }

    /// Writes a manifest or index under the tag of `reference` and checks that the registry then
    /// names the same digest.
    ///
    /// # Errors
    /// [`RegistryError`] if the registry fails, or names another digest.
    pub async fn push_manifest(
        &self,
        reference: &ImageReference,
        manifest: &Blob,
    ) -> Result<(), RegistryError> {
        let operation = format!("pushing {reference}");
        let url = self.asker.hosts.url(&manifest_path(reference));
        let request = Request {
            method: Method::PUT,
            url: &url,
            content: Some((manifest.media_type, &manifest.bytes)),
        };
        let put = async || {
            self.request(&operation, &request)
                .await?
                .granted(&operation)
        };
        self.again(put).await?;
        match self.digest(reference).await? {
            Some(digest) if digest == manifest.digest => Ok(()),
            other => Err(mismatch(&operation, &manifest.digest, other.as_deref())),
        }
    }

    /// Requests something of the repository, and retries while the registry is in trouble.
    async fn read(
        &self,
        operation: &str,
        method: Method,
        path: &str,
    ) -> Result<Option<Answer>, RegistryError> {
        let url = self.asker.hosts.url(path);
        let request = Request {
            method,
            url: &url,
            content: None,
        };
        let ask = async || self.request(operation, &request).await?.found(operation);
        self.again(ask).await
    }
}

fn is_manifest(bytes: &[u8]) -> bool {
    json_in(bytes)["schemaVersion"] == 2
}

/// Returns the JSON that a registry has sent: null if it is none, and an empty object if it would
/// take much more memory than what a registry has to say.
pub(crate) fn json_in(bytes: &[u8]) -> Value {
    let read: BoundedValue = serde_json::from_slice(bytes).unwrap_or_default();
    read.0
}

/// Returns the sender of requests to the registry of an image.
fn asker(
    reference: &ImageReference,
    options: &RegistryOptions,
    operation: &str,
) -> Result<Asker, RegistryError> {
    let hosts = Hosts {
        plain_http: options.plain_http.clone(),
        registry: host_of(reference).to_owned(),
    };
    let refuse = |why: String| RegistryError::new(operation, Problem::Refused, why);
    let Some(address) = hosts.address() else {
        return Err(refuse(format!("{} is not a host", hosts.registry)));
    };
    (options.proxy)(address.as_str()).map_err(refuse)?;
    Asker::new(hosts, options).map_err(|error| {
        refuse(format!("this machine has no certificates of authorities; install ca-certificates or set SSL_CERT_FILE: {}", innermost(&error)))
    })
}

/// Returns the host that has the images of a registry: that of Docker Hub is not named like it.
fn host_of(reference: &ImageReference) -> &str {
    match reference.registry() {
        "docker.io" => "index.docker.io",
        registry => registry,
    }
}

fn manifest_path(reference: &ImageReference) -> String {
    let name = reference.digest().or(reference.tag()).unwrap_or_default();
    format!("/v2/{}/manifests/{name}", reference.repository())
}

/// Returns the path of a blob by its digest, or that of `uploads/`.
fn blob_path(reference: &ImageReference, blob: &str) -> String {
    format!("/v2/{}/blobs/{blob}", reference.repository())
}

// Retries of requests after transient errors.

impl Registry {
    async fn again<T, F>(&self, request: impl Fn() -> F) -> Result<T, RegistryError>
    where
        F: Future<Output = Result<T, RegistryError>>,
    {
        let mut pauses = self.options.pauses.iter();
        loop {
            let error = match request().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let asked = error.wait().unwrap_or_default();
            match pauses.next() {
                Some(pause) if error.problem().is_transient() && asked <= LONGEST_WAIT => {
                    let pause = asked.max(*pause);
                    (self.options.note)(&format!(
                        "{error}; trying again in {:.1} s",
                        pause.as_secs_f32()
                    ));
                    tokio::time::sleep(pause).await;
                }
                _ => match (&self.credentials, error.problem()) {
                    (Credentials::Unread(hint), Problem::Unauthorized | Problem::Forbidden) => {
                        return Err(error.with_hint(hint));
                    }
                    _ => return Err(error),
                },
            }
        }
    }
}

// Whether an image can be pulled without credentials.

/// Asks the registry of an image whether it can be pulled without credentials. None are sent, and
/// it is asked once: whoever wants a clear answer asks again later.
///
/// # Errors
/// [`RegistryError`] if that is not clear: the registry cannot be reached, or does not have the
/// image. Some say so of every image that the credentials do not open.
pub async fn is_public(
    image: &ImageReference,
    options: RegistryOptions,
) -> Result<bool, RegistryError> {
    let options = RegistryOptions {
        access: Access::Pull,
        pauses: Vec::new(),
        ..options
    };
    let found = async {
        let registry = Registry::connect(image, &Credentials::Anonymous, options).await?;
        registry.found(image).await
    };
    match found.await {
        // The page of a login is answered with 200 as well.
        Ok(Some((_, Some(bytes)))) if !is_manifest(&bytes) => Err(RegistryError::new(
            &format!("reading {image} without credentials"),
            Problem::Rejected,
            "it answered with something that is no manifest",
        )),
        Ok(Some(_)) => Ok(true),
        Ok(None) => Err(RegistryError::new(
            &format!("reading {image} without credentials"),
            Problem::NotFound,
            "",
        )),
        Err(error) if matches!(error.problem(), Problem::Unauthorized | Problem::Forbidden) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

// The options of connections to registries.

/// The deadline of one request: a registry that needs longer for a few kilobytes is not there.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The waits before the second, third and fourth try: together under four seconds, so that a person
/// at a terminal does not give up first.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// The access to a repository. Some registries refuse a login that asks for more than the
/// credentials may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only reading is allowed.
    Pull,
    /// Reading and writing are allowed.
    PullAndPush,
}

/// The options of a connection to a registry.
#[derive(Debug, Clone)]
pub struct RegistryOptions {
    /// The access to log in for.
    pub access: Access,
    /// Hosts, with or without port, that are used without TLS. Loopback addresses need not be
    /// listed.
    pub plain_http: Vec<String>,
    /// The deadline of one request.
    pub timeout: Duration,
    /// The waits between tries of a request that failed with 429 or 5xx; their number is the number
    /// of further tries. A registry that asks for a longer wait gets it.
    pub pauses: Vec<Duration>,
    /// Receives a message about each retry.
    pub note: fn(&str),
    /// Returns the proxy for a URL, or what is wrong with the one that is set. Nobody is asked for
    /// what is on this machine, which is connected to directly.
    pub proxy: fn(&str) -> Result<Option<String>, String>,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            access: Access::PullAndPush,
            plain_http: Vec::new(),
            timeout: TIMEOUT,
            pauses: PAUSES.to_vec(),
            note: |text| tracing::warn!("{text}"),
            proxy: |_| Ok(None),
        }
    }
}

// Requests with the login, which is renewed when its token has expired.

impl Registry {
    /// Sends a request with the login. If it is refused (401) with a token that the registry has
    /// issued, which may be valid for a minute only, it is sent once more with another one; and so
    /// with a first login, where a registry lets everybody read and requires one to write.
    async fn request(
        &self,
        operation: &str,
        request: &Request<'_>,
    ) -> Result<Answer, RegistryError> {
        let login = self.login().clone();
        let answer = self.send(operation, request, &login).await?;
        if !answer.is_unauthorized() {
            return Ok(answer);
        }
        let renewed = match (&login, &self.credentials) {
            (Login::Own(Credentials::Anonymous), Credentials::Basic { .. })
                if answer.is_of(request.url) =>
            {
                Some(Login::get(self, operation, Some(&answer)).await?)
            }
            (login, credentials) => login.renewed(&self.asker, operation, credentials).await?,
        };
        let Some(renewed) = renewed else {
            return Ok(answer);
        };
        self.keep(renewed.clone());
        self.send(operation, request, &renewed).await
    }

    /// Sends a request with this login, once.
    async fn send(
        &self,
        operation: &str,
        request: &Request<'_>,
        login: &Login,
    ) -> Result<Answer, RegistryError> {
        let (accept, login) = (ACCEPTED.join(", "), login.header());
        self.asker
            .send(operation, request, &accept, login.as_ref())
            .await
    }

    /// Keeps a login for the next requests.
    fn keep(&self, login: Login) {
        *self.login() = login;
    }

    fn login(&self) -> MutexGuard<'_, Login> {
        self.login.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// Digests: what a registry sends is checked by the algorithm of the digest that is asked for.

/// Checks bytes against a digest.
///
/// # Errors
/// [`RegistryError`] if they are others, or the algorithm is unknown.
fn check_bytes(operation: &str, bytes: &[u8], expected: &str) -> Result<(), RegistryError> {
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

/// Returns true if bytes can be checked against a digest. What a registry says of its own answer
/// may have any form.
fn is_known(digest: &str) -> bool {
    digest_by(algorithm(digest), &[]).is_some()
}

/// Returns the error that the registry has something else, or nothing.
fn mismatch(operation: &str, expected: &str, found: Option<&str>) -> RegistryError {
    let found = found.unwrap_or("nothing");
    let words = format!("expected {expected}, the registry has {found}");
    RegistryError::new(operation, Problem::DigestMismatch, words)
}

fn algorithm(digest: &str) -> &str {
    digest.split(':').next().unwrap_or_default()
}

#[cfg(test)]
mod digests_tests {
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

#[cfg(test)]
mod tests;
